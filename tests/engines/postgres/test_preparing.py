"""Putting tables in place, again and again and from several processes (case C46)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import asyncpg
import pytest

from indexer.engines.base import EngineUnavailable, SearchRequest
from indexer.engines.indexes import INDEXES, POSTS
from indexer.engines.postgres import schema
from tests.engines.conftest import postgres_engine
from tests.engines.samples import found, post, put

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.engines.postgres import PostgresEngine

    Connection = asyncpg.Connection[asyncpg.Record]
from tests.integration.eventually import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(database_url: str, anyio_backend: str) -> AsyncIterator[PostgresEngine]:
    """An engine that is not prepared."""
    async with postgres_engine(database_url) as opened:
        yield opened


@pytest.fixture
async def connection(database_url: str, anyio_backend: str) -> AsyncIterator[Connection]:
    """A way to the same database beside the engine."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def _objects(connection: Connection) -> list[str]:
    rows = await connection.fetch(
        "select relname || ' ' || oid || ' ' || relfilenode as object from pg_class "
        "where relnamespace = to_regnamespace('search') order by 1"
    )
    return [row["object"] for row in rows]


async def test_an_unprepared_engine_is_unavailable(engine: PostgresEngine) -> None:
    """Before prepare() there is nothing to ask; that is no mistake of whoever asks."""
    with pytest.raises(EngineUnavailable):
        await engine.search(SearchRequest(POSTS))


async def test_processes_that_start_at_once_prepare_once(database_url: str, connection: Connection) -> None:
    """Several engines over one empty database all end up prepared."""
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(postgres_engine(database_url)) for _ in range(4)]
        await asyncio.gather(*(engine.prepare(INDEXES) for engine in engines))
        await put(engines[0], post("a", "ねこ"))
        assert await found(engines[3], "ねこ") == ["a"]
    assert sum(line.startswith("concrnt_posts ") for line in await _objects(connection)) == 1


async def test_who_waited_while_another_prepared_finds_it_done(
    database_url: str, engine: PostgresEngine, connection: Connection
) -> None:
    """Also when it had looked before: what a connection remembers of names is older than the lock."""
    async with connection.transaction():
        await connection.execute(
            "select pg_advisory_xact_lock(hashtextextended('concrnt-indexer:search:prepare', 0))"
        )
        waiting = asyncio.ensure_future(engine.prepare(INDEXES))
        waits = "select exists (select from pg_locks where not granted)"
        await eventually(lambda: connection.fetchval(waits))
        await connection.execute("create schema search")
    await waiting


async def test_preparing_again_changes_nothing(engine: PostgresEngine, connection: Connection) -> None:
    """A restart makes no table, no index and no row anew."""
    version = "select xmin::text from search.concrnt_posts"
    await engine.prepare(INDEXES)
    await put(engine, post("a", "ねこ"))
    before = await _objects(connection), await connection.fetchval(version)
    for _ in range(5):
        await engine.prepare(INDEXES)
    after = await _objects(connection), await connection.fetchval(version)
    assert before == after


async def test_drift_is_repaired(engine: PostgresEngine, connection: Connection) -> None:
    """An index, a column or a table that somebody dropped is back after the next start."""
    await engine.prepare(INDEXES)
    await put(engine, post("a", "ねこ"))
    before = {line.split()[0] for line in await _objects(connection)}
    await connection.execute(
        'drop index search.concrnt_posts_search; alter table search.concrnt_posts drop column "s_createdAt"; '
        "drop table search.concrnt_users"
    )
    await engine.prepare(INDEXES)
    assert {line.split()[0] for line in await _objects(connection)} == before
    assert await found(engine, "ねこ") == ["a"]


async def test_a_lost_table_is_unavailable_not_a_crash(
    engine: PostgresEngine, connection: Connection
) -> None:
    """When the tables go while the engine runs, it is away until it is prepared again."""
    await engine.prepare(INDEXES)
    await connection.execute("drop schema search cascade")
    with pytest.raises(EngineUnavailable):
        await engine.search(SearchRequest(POSTS, "ねこ"))
    with pytest.raises(EngineUnavailable):
        await put(engine, post("a"))
    await engine.prepare(INDEXES)
    assert await found(engine, "ねこ") == []


async def test_rows_are_derived_again_when_their_derivation_changed(
    engine: PostgresEngine, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new version of folding, or a new field, reaches documents that were written before."""
    await engine.prepare(INDEXES)
    await put(engine, *(post(f"{number:04}", f"ねこ{number}", extra="外") for number in range(1_200)))
    await connection.execute("update search.concrnt_posts set search = '', texts = ''")
    await engine.prepare(INDEXES)
    assert await found(engine, "ねこ7") == []

    monkeypatch.setattr(schema, "ROW_VERSION", schema.ROW_VERSION + 1)
    await engine.prepare(INDEXES)
    assert len(await found(engine, "ねこ7")) == 100
    monkeypatch.undo()

    wider = [
        replace(index, searchable=(*index.searchable, "extra"), filterable=(*index.filterable, "extra"))
        if index.uid == POSTS
        else index
        for index in INDEXES
    ]
    await engine.prepare(wider)
    assert await found(engine, "外 ねこ7", filters={"extra": "外"}, limit=1) == ["0007"]
