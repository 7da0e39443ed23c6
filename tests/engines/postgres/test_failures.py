"""What a lost or slow PostgreSQL looks like from outside the engine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest

from indexer.engines.base import EngineUnavailable, SearchRequest
from indexer.engines.indexes import INDEXES, POSTS
from indexer.engines.postgres import PostgresEngine
from indexer.engines.postgres import engine as engine_module
from indexer.engines.postgres.errors import refusal, unavailable_when_away
from tests.engines.conftest import postgres_engine
from tests.engines.samples import found, post, put

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(database_url: str, anyio_backend: str) -> AsyncIterator[PostgresEngine]:
    """A prepared engine with one document."""
    async with postgres_engine(database_url) as opened:
        await opened.prepare(INDEXES)
        await put(opened, post("a", "ねこ"))
        yield opened


async def test_cut_connections_are_unavailable(engine: PostgresEngine, database_url: str) -> None:
    """When the server ends our connections, the call under way says so and the next one works."""
    connection = await asyncpg.connect(database_url)
    writing = asyncio.create_task(put(engine, *(post(f"{number}", "ねこ" * 200) for number in range(3_000))))
    cut = 0
    while not cut:
        cut = await connection.fetchval(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity "
            "where pid <> pg_backend_pid() and datname = current_database() and state = 'active'"
        )
    with pytest.raises(EngineUnavailable):
        await writing
    await connection.close()
    assert await found(engine, "ねこ") == ["a"]


async def test_a_waiting_lock_is_unavailable(
    engine: PostgresEngine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that hangs makes the engine unavailable within its time, not for ever."""
    monkeypatch.setattr(engine_module, "SEARCH_SECONDS", 0.05)
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        await connection.execute("lock table search.concrnt_posts in access exclusive mode")
        with pytest.raises(EngineUnavailable):
            await engine.search(SearchRequest(POSTS, "ねこ"))
    await connection.close()
    assert await found(engine, "ねこ") == ["a"]


async def test_an_exhausted_pool_is_unavailable(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a connection without end (C40)."""
    monkeypatch.setattr(engine_module, "ACQUIRE_SECONDS", 0.05)
    pool = engine._pool
    connections = [await pool.acquire() for _ in range(pool.get_max_size())]
    with pytest.raises(EngineUnavailable):
        await engine.ping()
    for connection in connections:
        await pool.release(connection)
    await engine.ping()


async def test_a_closed_pool_is_unavailable(engine: PostgresEngine) -> None:
    """At the end of the process, late calls are told that the engine is away."""
    await engine._pool.close()
    for call in (
        engine.ping(),
        engine.search(SearchRequest(POSTS)),
        engine.statistics(),
        put(engine, post("b")),
    ):
        with pytest.raises(EngineUnavailable):
            await call


async def test_mistakes_of_ours_are_not_hidden(database_url: str) -> None:
    """A statement that is wrong crashes loudly."""
    connection = await asyncpg.connect(database_url)
    with pytest.raises(asyncpg.PostgresSyntaxError), unavailable_when_away():
        await connection.execute("selekt")
    with pytest.raises(asyncpg.InterfaceError), unavailable_when_away():
        await connection.execute("select $1::int", "too", "many")
    await connection.close()


def test_reasons_quote_nothing() -> None:
    """The reason for a refusal names the error and none of the document."""
    error = asyncpg.StringDataRightTruncationError("value too long: ひみつ")
    reason = refusal(error)
    assert reason is not None
    assert "ひみつ" not in reason
    assert refusal(asyncpg.UndefinedColumnError("x")) is None
