"""Waiting for a connection is bounded, whoever holds them all (C40)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from indexer.engines.base import EngineUnavailable
from indexer.engines.postgres.errors import unavailable_when_away
from indexer.mirror.database import Database, StoreUnavailable

if TYPE_CHECKING:
    from indexer.mirror.database import Connection

pytestmark = pytest.mark.anyio


async def test_a_pool_of_three_that_is_all_in_use_says_so_soon_and_loses_nothing(database_url: str) -> None:
    """C40: three slow transactions, fifty reads of which thirty are cancelled midway, again and again."""
    database = await Database.connect(database_url, size=3, acquire_timeout_seconds=0.2)
    try:
        for _ in range(20):
            gate, holding = asyncio.Event(), asyncio.Semaphore(0)

            async def slow(
                connection: Connection, gate: asyncio.Event = gate, holding: asyncio.Semaphore = holding
            ) -> None:
                await connection.execute("select 1")
                holding.release()
                await gate.wait()

            pages = [asyncio.ensure_future(database.transaction("slow", slow)) for _ in range(3)]
            for _ in pages:
                await holding.acquire()
            reads = [asyncio.ensure_future(database.fetch("select 1")) for _ in range(50)]
            await asyncio.sleep(0)
            for read in reads[:30]:
                read.cancel()
            ended = await asyncio.wait_for(asyncio.gather(*reads, return_exceptions=True), 5)
            assert {type(one) for one in ended[30:]} == {StoreUnavailable}
            gate.set()
            await asyncio.gather(*pages)
            assert await database.fetch("select 1")
            assert database.pool.get_idle_size() == database.pool.get_size() <= 3
    finally:
        await database.close()


async def test_a_transaction_that_is_cancelled_leaves_nothing_and_gives_its_connection_back(
    database_url: str,
) -> None:
    """At whichever statement the cancellation comes."""
    database = await Database.connect(database_url, size=1)
    try:
        await database.execute("create table t (a int)")
        for steps in range(12):

            async def work(connection: Connection) -> None:
                await connection.execute("insert into t values (1)")
                await connection.execute("select pg_sleep(0.01)")

            task = asyncio.ensure_future(database.transaction("cancelled", work))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await database.fetch("select * from t") == []
            assert database.pool.get_idle_size() == 1
    finally:
        await database.close()


_ENDED = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0"


async def test_a_connection_that_is_being_cut_is_away_too(database_url: str) -> None:
    """The server's last word came while it was idle, and the end of the stream not yet."""
    database = await Database.connect(database_url, size=1)
    told = b"E" + (len(_ENDED) + 4).to_bytes(4) + _ENDED

    async def of_engine() -> None:
        with unavailable_when_away():
            async with database.pool.acquire() as connection:
                await connection.execute("select 1")

    async def of_store() -> None:
        await database.execute("select 1")

    try:
        for kind, call in ((StoreUnavailable, of_store), (EngineUnavailable, of_engine)):
            connection: Any
            async with database.pool.acquire() as connection:
                protocol = connection._con._protocol
            protocol.data_received(told)
            with pytest.raises(kind):
                await call()
            assert await database.fetch("select 1"), "the next one works"
    finally:
        await database.close()
