"""The network's language: identifiers, CCURIs, documents, CDIDs, keys, pages, and the client for strangers.

Everything here is pure but :mod:`indexer.concrnt.client`. Nothing here knows a database, a search engine or
our settings, and nothing raises for what a stranger sent other than the errors that a function names.
"""
