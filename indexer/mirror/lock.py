"""One process at work on a database: a session lock that the connection's end gives up.

Until followers lease single servers, one process at a time follows and projects. The lock belongs to a
connection of its own; when that is lost, PostgreSQL has given the lock up, and so must its holder.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import asyncpg
import structlog

from indexer.mirror.database import describe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = structlog.get_logger(__name__)

_KEY = 0x636F6E63_726E7402  # "concrnt", 2
_RETRY_SECONDS = 3.0


@asynccontextmanager
async def sole_worker(dsn: str) -> AsyncIterator[asyncio.Event]:
    """Wait until this process is the only one at work; the event is set when it no longer is."""
    lost = asyncio.Event()
    connection = await _acquire(dsn)
    try:
        connection.add_termination_listener(lambda _: lost.set())
        yield lost
    finally:
        with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.close(timeout=2)


async def _acquire(dsn: str) -> asyncpg.Connection[asyncpg.Record]:
    told = False
    while True:
        try:
            connection = await asyncpg.connect(
                dsn, timeout=10, server_settings={"application_name": "indexer lock"}
            )
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            log.warning("PostgreSQL is away; trying again", why=describe(error))
        else:
            if await connection.fetchval("select pg_try_advisory_lock($1)", _KEY):
                return connection
            await connection.close()
            if not told:
                told = True
                log.warning("another process is at work on this database; waiting for it to end")
        await asyncio.sleep(_RETRY_SECONDS)
