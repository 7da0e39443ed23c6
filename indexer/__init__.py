"""Search for the Concrnt network."""

from importlib.metadata import version

__version__ = version("concrnt-indexer")
