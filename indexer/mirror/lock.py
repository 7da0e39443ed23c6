"""What one process at a time does on a database: roles, held by a lease in a table.

A lease is kept by renewing it; who stops renewing, because it died or was stopped, loses it when it runs out,
by the database's clock. Leases survive poolers of transactions, which session locks do not. A holder that was
paused may go on for a moment after it lost its lease: what roles do is made so that this is harmless
(discovery only adds; the projector marks again what it could not clear; counts of activity take turns).
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import structlog

from indexer.mirror.database import StoreUnavailable
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.mirror.database import Database

log = structlog.get_logger(__name__)

_SQL = load("indexer.mirror", "queries/leases.sql")
LEASE_SECONDS = 24.0
"""How long a lease lasts without renewal: what a killed process held is taken over within this time."""
RENEWAL_SECONDS = 6.0
RELEASE_SECONDS = 2.0
"""How long giving a lease up may take; one that is not given up runs out."""
_RETRY_SECONDS = 3.0


@asynccontextmanager
async def role(database: Database, name: str, holder: str) -> AsyncIterator[asyncio.Event]:
    """Wait until this process holds the role; the event is set when it no longer does."""
    lost = asyncio.Event()
    await _acquire(database, name, holder)
    renewing = asyncio.create_task(_renew(database, name, holder, lost), name=f"renew {name}")
    try:
        yield lost
    finally:
        renewing.cancel()
        with suppress(StoreUnavailable, TimeoutError):
            giving_up = database.execute(_SQL["release"], name, holder)
            await asyncio.shield(asyncio.wait_for(giving_up, RELEASE_SECONDS))


async def _acquire(database: Database, name: str, holder: str) -> None:
    told = False
    while True:
        try:
            if await database.fetchrow(_SQL["acquire"], name, holder, LEASE_SECONDS) is not None:
                if told:
                    log.info("this process does it from now on", role=name)
                return
            if not told:
                told = True
                log.info("another process does this already; waiting", role=name)
        except StoreUnavailable as error:
            log.warning("PostgreSQL is away; trying again", role=name, why=str(error))
        await asyncio.sleep(_RETRY_SECONDS)


async def _renew(database: Database, name: str, holder: str, lost: asyncio.Event) -> None:
    held_until = time.monotonic() + LEASE_SECONDS
    while True:
        await asyncio.sleep(RENEWAL_SECONDS)
        began = time.monotonic()
        try:
            if await database.fetchrow(_SQL["renew"], name, holder, LEASE_SECONDS) is None:
                break
            held_until = began + LEASE_SECONDS
        except StoreUnavailable:
            if time.monotonic() > held_until:
                break
    lost.set()
