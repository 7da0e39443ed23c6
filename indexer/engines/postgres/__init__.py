"""PostgreSQL as a search engine: the embedded default."""

from indexer.engines.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
