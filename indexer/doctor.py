"""`doctor`: whether what the indexer leans on is in order, and what to do where it is not.

Each check answers for itself and is bounded in time; one that can not be made because another failed is left
out. Nothing is changed, but that an embedded PostgreSQL is started where none runs.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from indexer.app import make_peers, open_database, open_store, utc_now
from indexer.concrnt.client import PeerError
from indexer.engines.base import EngineUnavailable
from indexer.engines.postgres import PostgresEngine
from indexer.errors import ExpectedError
from indexer.mirror.database import StoreUnavailable
from indexer.mirror.migrate import missing_migrations
from indexer.mirror.statistics import server_reports, totals
from indexer.replication.feeds import Feeds

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from indexer.config import Settings
    from indexer.mirror.database import Database

CHECK_SECONDS = 35.0
MINIMUM_FREE_BYTES = 2**30
MAXIMUM_QUEUE_SECONDS = 600.0
MAXIMUM_CLOCK_SECONDS = 5.0
_AWAY = (StoreUnavailable, EngineUnavailable, PeerError, ExpectedError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: whether all is well, what was seen, and what to do where it is not."""

    name: str
    ok: bool
    detail: str
    advice: str = ""


async def diagnose(settings: Settings) -> dict[str, Any]:
    """Make every check: `ok`, and `checks` as `doctor --json` prints them."""
    findings = [
        Finding("settings", ok=True, detail="the configuration is right"),
        _disk(settings.backends.data_dir),
    ]
    async with AsyncExitStack() as stack:
        database = None
        try:
            dsn = await stack.enter_async_context(open_store(settings))
            database = await stack.enter_async_context(
                open_database(dsn, size=2, application="indexer doctor")
            )
        except ExpectedError as error:
            advice = "start PostgreSQL, or set backends.postgresDsn to where it is"
            findings.append(Finding("database", ok=False, detail=error.message, advice=advice))
        if database is not None:
            findings += await _of_database(settings, database)
        findings.append(
            await _within("seed", _seed(settings), "check crawl.seed, and the way to the internet")
        )
    return {"ok": all(found.ok for found in findings), "checks": [asdict(found) for found in findings]}


async def _of_database(settings: Settings, database: Database) -> list[Finding]:
    advice = "see the log of PostgreSQL"
    findings = [
        await _within("database", _database(database), advice),
        await _within("migrations", _migrations(database), advice),
        await _within("clock", _clock(database), advice),
    ]
    if not all(found.ok for found in findings[:2]):
        return findings
    engine = PostgresEngine(database.pool, settings.search.max_total_hits)
    return [
        *findings,
        await _within("engine", _engine(engine), "see the log of the search engine"),
        await _within("queue", _queue(settings, database), advice),
        await _within("servers", _servers(settings, database), advice),
    ]


async def _within(name: str, check: Awaitable[Finding], advice: str) -> Finding:
    """A check that fails, or does not end, is a finding."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check
    except _AWAY as error:
        return Finding(name, ok=False, detail=str(error) or "no answer in time", advice=advice)


def _disk(folder: Path) -> Finding:
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    advice = "" if free >= MINIMUM_FREE_BYTES else "free some space, or set backends.dataDir to another disk"
    return Finding("disk", free >= MINIMUM_FREE_BYTES, f"{free // 2**20} MiB free at {existing}", advice)


async def _database(database: Database) -> Finding:
    row = await database.fetchrow("select current_setting('server_version') as version")
    return Finding("database", ok=True, detail=f"PostgreSQL {row['version'] if row else ''}")


async def _migrations(database: Database) -> Finding:
    missing = await missing_migrations(database)
    detail = f"{len(missing)} migrations are missing" if missing else "the schema is up to date"
    return Finding("migrations", not missing, detail, "run `concrnt-indexer migrate`" if missing else "")


async def _clock(database: Database) -> Finding:
    row = await database.fetchrow("select clock_timestamp() as now")
    apart = abs((row["now"] - utc_now()).total_seconds()) if row else 0.0
    ok = apart <= MAXIMUM_CLOCK_SECONDS
    advice = "" if ok else "let both machines follow a time server"
    return Finding("clock", ok, f"{apart:.1f} s apart from the clock of PostgreSQL", advice)


async def _engine(engine: PostgresEngine) -> Finding:
    await engine.ping()
    return Finding("engine", ok=True, detail=f"{engine.name} answers")


async def _queue(settings: Settings, database: Database) -> Finding:
    counted = await totals(database, layer=settings.crawl.layer)
    oldest = counted.oldest_mark
    age = 0.0 if oldest is None else (utc_now() - oldest).total_seconds()
    ok = age <= MAXIMUM_QUEUE_SECONDS
    advice = "" if ok else "see that a process with the role `project` runs, and its log"
    return Finding("queue", ok, f"{counted.queue_depth} changes wait, the oldest for {age:.0f} s", advice)


async def _servers(settings: Settings, database: Database) -> Finding:
    reports = await server_reports(database, layer=settings.crawl.layer)
    failing = [report.domain for report in reports if report.state in ("stale", "backing_off")]
    ok = len(failing) * 2 <= len(reports)
    detail = f"{len(failing)} of {len(reports)} servers do not answer"
    advice = "" if ok else "`concrnt-indexer servers` tells why; many at once: check the way to the internet"
    return Finding("servers", ok, detail, advice)


async def _seed(settings: Settings) -> Finding:
    seed, layer = settings.crawl.seed, settings.crawl.layer
    async with make_peers(settings) as peers:
        said = await Feeds(peers).well_known(seed)
    ok = layer in ("", said.layer)
    detail = f"{seed} answers; its layer is {said.layer!r:.100}"
    return Finding(
        "seed", ok, detail, "" if ok else f"set crawl.layer, or another crawl.seed: {layer!r} is asked for"
    )
