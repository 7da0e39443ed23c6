"""Every engine, prepared and empty. A test that takes ``engine`` is part of the contract of all of them.

Meilisearch is a double that the tests own, and besides a real server when ``INDEXER_TEST_MEILI_URL`` (and
``INDEXER_TEST_MEILI_KEY``) say where one is.
"""

from __future__ import annotations

import os
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import httpx
import pytest

from indexer.engines.indexes import INDEXES
from indexer.engines.meilisearch import MeilisearchEngine
from indexer.engines.postgres import PostgresEngine
from tests.engines.meili_double import serve_double

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from indexer.engines.base import BuildingEngine

MAX_TOTAL_HITS = 2_000
MEILI_URL = os.environ.get("INDEXER_TEST_MEILI_URL", "")
MEILI_KEY = os.environ.get("INDEXER_TEST_MEILI_KEY", "")


@asynccontextmanager
async def postgres_engine(
    database_url: str, max_total_hits: int = MAX_TOTAL_HITS
) -> AsyncIterator[PostgresEngine]:
    """An engine in a database, not prepared."""
    async with asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool:
        yield PostgresEngine(pool, max_total_hits)


@asynccontextmanager
async def real_meilisearch(
    database_url: str, max_total_hits: int = MAX_TOTAL_HITS
) -> AsyncIterator[MeilisearchEngine]:
    """An engine in a real server, under a prefix of its own; its indexes are removed in the end."""
    prefix = f"test_{uuid.uuid4().hex[:12]}_"
    engine = MeilisearchEngine(MEILI_URL, MEILI_KEY, max_total_hits, prefix=prefix)
    try:
        yield engine
    finally:
        await engine.close()
        headers = {"authorization": f"Bearer {MEILI_KEY}"}
        async with httpx.AsyncClient(base_url=MEILI_URL, headers=headers) as client:
            for index in (await client.get("/indexes?limit=1000")).json()["results"]:
                if index["uid"].startswith(prefix):
                    await client.delete(f"/indexes/{index['uid']}")


@asynccontextmanager
async def doubled_meilisearch(
    database_url: str, max_total_hits: int = MAX_TOTAL_HITS
) -> AsyncIterator[MeilisearchEngine]:
    """An engine over a double of the server's routes."""
    async with serve_double() as double:
        engine = MeilisearchEngine(double.url, double.key, max_total_hits)
        yield engine
        await engine.close()


OPENERS: dict[str, Callable[[str], AbstractAsyncContextManager[BuildingEngine]]] = {
    "postgres": postgres_engine,
    "meilisearch double": doubled_meilisearch,
    **({"meilisearch": real_meilisearch} if MEILI_URL else {}),
}


@pytest.fixture(params=OPENERS)
async def engine(
    request: pytest.FixtureRequest, database_url: str, anyio_backend: str
) -> AsyncIterator[BuildingEngine]:
    """An engine with its indexes in place."""
    async with OPENERS[request.param](database_url) as opened:
        await opened.prepare(INDEXES)
        yield opened
        await opened.close()
