"""The real command in a process of its own, and what its database holds."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec

from indexer.activity.keeper import ActivityKeeper
from indexer.app import counting_of
from indexer.instruments import Instruments
from indexer.mirror.activity import Activity
from indexer.mirror.database import Database
from indexer.observability.metrics import Metrics
from tests.integration.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from indexer.config import Settings

_OUR_VARIABLES = ("INDEXER_", "CONCRNT_")
COMMAND = Path(sys.executable).with_name("concrnt-indexer")

_TABLES = {
    "records": "select key, owner, author, schema, parent, href, cdid, created_at, first_created_at, signed"
    " from mirror.records order by key",
    "sources": "select key, source from mirror.records order by key",
    "acks": "select acker, ackee, schema, valid, created_at from mirror.acks order by 1, 2, 3",
    "entities": "select ccid, domain, created_at, cdid, signed from mirror.entities order by 1",
    "tombstones": "select target, scope, created_at, cdid, author from mirror.tombstones order by 1, 2, 3, 4",
    "dead letters": "select domain, digest, kind, reason, commit from mirror.dead_letters order by 1, 2",
    "retired": "select key, cdid from mirror.retired order by 1, 2",
    "counts": "select domain, commits, malformed from mirror.servers order by 1",
    "activity": "select subject, newest_at, held, posts_7d, posts_30d, authors_7d, last_at, profile"
    " from mirror.activity order by 1",
    "marks of activity": "select distinct subject from mirror.activity_marks order by 1",
}
_INDEXES = ("concrnt_users", "concrnt_communities", "concrnt_posts", "concrnt_servers")
_OF_THE_MOMENT = {
    *("indexedAt", "lastSeenAt", "lastCrawledAt"),
    # what a tick brought, whenever the last one was
    *("activityScore", "postCount7d", "postCount30d", "activeAuthors7d", "lastPostAt"),
    *("activityHistory", "activityBasis"),
}

Tables = dict[str, list[Any]]


@dataclass(frozen=True)
class Store:
    """A database, looked at from outside of any house."""

    dsn: str

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """A connection on which all statements see one state."""
        connection = await asyncpg.connect(self.dsn)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                yield connection
        finally:
            await connection.close()

    async def is_migrated(self) -> bool:
        """Whether a house was ever opened on it."""
        async with self.snapshot() as connection:
            return bool(await connection.fetchval("select to_regclass('mirror.cursors') is not null"))

    async def tables(self) -> Tables:
        """Everything in the mirror that matters, and the documents of the search engine."""
        async with self.snapshot() as connection:
            tables: Tables = {
                name: [tuple(row) for row in await connection.fetch(statement)]
                for name, statement in _TABLES.items()
            }
            for uid in _INDEXES:
                rows = await connection.fetch(f"select id, document from search.{uid} order by id")
                tables[uid] = [(row["id"], _lasting(row["document"])) for row in rows]
        return tables

    async def tick(self, settings: Settings) -> None:
        """Count the activity that no tick of the process has counted yet."""
        database = await Database.connect(self.dsn, size=1)
        try:
            keeper = ActivityKeeper(
                Activity(database, counting_of(settings)),
                deliver=_nothing,
                interval_seconds=600,
                metrics=Instruments(Metrics("test")),
                clock=lambda: datetime.now(UTC),
            )
            await keeper.tick(datetime.now(UTC))
        finally:
            await database.close()

    async def cursors(self) -> dict[str, int | None]:
        """Where each feed stands, in nanoseconds."""
        async with self.snapshot() as connection:
            rows = await connection.fetch("select domain, cursor_ns from mirror.cursors")
        return {row["domain"]: None if row["cursor_ns"] is None else int(row["cursor_ns"]) for row in rows}

    async def is_drained(self, domains: set[str]) -> bool:
        """Whether these feeds were read to their end and every record is searchable."""
        async with self.snapshot() as connection:
            if not await connection.fetchval("select to_regclass('mirror.cursors') is not null"):
                return False
            feeds = await connection.fetch("select domain from mirror.cursors where caught_up")
            queued = await connection.fetchval(
                "select count(*) from mirror.projection_queue where key like '%://%'"
            )
        return {row["domain"] for row in feeds} >= domains and queued == 0


async def _nothing() -> int:
    return 0


def _lasting(document: str) -> dict[str, Any]:
    """A document without the times at which we did something."""
    decoded: dict[str, Any] = msgspec.json.decode(document)
    return {name: value for name, value in decoded.items() if name not in _OF_THE_MOMENT}


@asynccontextmanager
async def indexer_process(
    folder: Path,
    seed: str,
    overrides: Mapping[str, str],
    dsn: str,
    *,
    role: str = "all",
    **environ: str,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`concrnt-indexer up` with its settings in the environment; killed at the end if it still runs.

    What it says is in `indexer.log` in `folder`.
    """
    settings = {name: value for name, value in os.environ.items() if not name.startswith(_OUR_VARIABLES)}
    settings |= {
        "INDEXER_SERVER__LISTEN": "127.0.0.1:0",
        "INDEXER_SERVER__INTERNAL_LISTEN": "127.0.0.1:0",
        "INDEXER_CRAWL__SEED": seed,
        "INDEXER_CRAWL__HOST_OVERRIDES": msgspec.json.encode(dict(overrides)).decode(),
        "INDEXER_CRAWL__MIN_POLL_INTERVAL": "200ms",
        "INDEXER_TRUST__MODE": "off",
        "INDEXER_BACKENDS__POSTGRES_DSN": dsn,
    }
    with (folder / "indexer.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            COMMAND, "up", "--role", role, cwd=folder, env=settings | environ, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def end_in_order(process: asyncio.subprocess.Process) -> int:
    """Send SIGTERM and return the exit code."""
    process.send_signal(signal.SIGTERM)
    return await asyncio.wait_for(process.wait(), 15)


async def run_until_drained(
    folder: Path, seed: str, overrides: Mapping[str, str], dsn: str, **environ: str
) -> int:
    """Let an indexer read everything, end it in order, and return its exit code."""
    store = Store(dsn)
    async with indexer_process(folder, seed, overrides, dsn, **environ) as process:

        async def is_done() -> bool:
            if process.returncode is not None:
                raise AssertionError((folder / "indexer.log").read_text()[-4000:])
            return await store.is_drained(set(overrides))

        await eventually(is_done, seconds=90)
        return await end_in_order(process)
