"""Every engine, prepared and empty. A test that takes ``engine`` is part of the contract of all of them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import pytest

from indexer.engines.indexes import INDEXES
from indexer.engines.postgres import PostgresEngine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from indexer.engines.base import Engine

MAX_TOTAL_HITS = 2_000


@asynccontextmanager
async def postgres_engine(
    database_url: str, max_total_hits: int = MAX_TOTAL_HITS
) -> AsyncIterator[PostgresEngine]:
    """An engine in a database, not prepared."""
    async with asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool:
        yield PostgresEngine(pool, max_total_hits)


OPENERS: dict[str, Callable[[str], AbstractAsyncContextManager[Engine]]] = {"postgres": postgres_engine}


@pytest.fixture(params=OPENERS)
async def engine(
    request: pytest.FixtureRequest, database_url: str, anyio_backend: str
) -> AsyncIterator[Engine]:
    """An engine with its indexes in place."""
    async with OPENERS[request.param](database_url) as opened:
        await opened.prepare(INDEXES)
        yield opened
        await opened.close()
