"""Meilisearch as the search engine: chosen when `backends.meiliHost` is set."""

from indexer.engines.meilisearch.engine import MeilisearchEngine

__all__ = ["MeilisearchEngine"]
