"""`doctor`: what keeps an indexer from being whole and fresh, and what to do about it.

Every check is bounded in time and stands alone: one that can not be made says so and does not hide the
others. Nothing is changed, in the search engine neither, but that an embedded server is started for as long
as this takes.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from indexer.app import make_engine, make_peers, open_database, open_store, utc_now
from indexer.concrnt.failures import PeerError
from indexer.engines.base import EngineUnavailable, Standing
from indexer.engines.indexes import INDEXES
from indexer.errors import ExpectedError
from indexer.mirror.database import StoreUnavailable
from indexer.mirror.inspecting import Inspection
from indexer.mirror.migrate import missing_migrations
from indexer.replication.feeds import Feeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.config import Settings
    from indexer.mirror.database import Database
    from indexer.mirror.inspecting import Health

SECONDS: Final = 10.0
OLDEST_VERSION: Final = 180_000
LEAST_FREE_BYTES: Final = 1024**3
LONGEST_QUEUED: Final = timedelta(minutes=10)
FARTHEST_CLOCK: Final = timedelta(seconds=30)
_NAMES_SHOWN: Final = 5
_ROLES: Final = {"discovery": "follows", "projection": "projects", "activity": "counts"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check. `advice` is empty when all is well."""

    name: str
    ok: bool
    detail: str
    advice: str = ""


async def examine(settings: Settings) -> list[Finding]:
    """Make every check, in the order in which things depend on each other."""
    findings = [_disk(settings)]
    async with AsyncExitStack() as stack:
        try:
            dsn = await stack.enter_async_context(open_store(settings))
            database = await stack.enter_async_context(open_database(dsn, size=2, application="doctor"))
            async with asyncio.timeout(3 * SECONDS):
                findings += await _of_database(settings, database)
        except (ExpectedError, StoreUnavailable, TimeoutError) as error:
            advice = "start PostgreSQL, or correct backends.postgresDsn; nothing else can be told without it"
            findings.append(
                Finding("database", ok=False, detail=str(error) or "no answer in time", advice=advice)
            )
    findings.append(await _seed(settings))
    return findings


async def _of_database(settings: Settings, database: Database) -> list[Finding]:
    missing = await missing_migrations(database)
    if missing:
        names = ", ".join(f"{step.version:04} {step.name}" for step in missing)
        advice = "run `concrnt-indexer migrate`, or start `concrnt-indexer up`"
        return [Finding("migrations", ok=False, detail=f"missing: {names}", advice=advice)]
    now = utc_now()
    health = await Inspection(database).health(now=now)
    return [
        _version(health),
        Finding("migrations", ok=True, detail="all are in"),
        _clock(health),
        await _engine(settings, database),
        _processes(health),
        _queue(health),
        _followed(health),
        *_servers(health),
        _activity(settings, health),
    ]


def _disk(settings: Settings) -> Finding:
    folder = settings.backends.data_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1024**3:.1f} GiB free below backends.dataDir"
    if free >= LEAST_FREE_BYTES or settings.backends.postgres_dsn:
        return Finding("disk", ok=True, detail=detail)
    return Finding(
        "disk", ok=False, detail=detail, advice="free some space: PostgreSQL stops when there is none"
    )


def _version(health: Health) -> Finding:
    detail = f"PostgreSQL {health.version} answers"
    if health.version_number >= OLDEST_VERSION:
        return Finding("database", ok=True, detail=detail)
    return Finding("database", ok=False, detail=detail, advice="use PostgreSQL 18 or newer")


def _clock(health: Health) -> Finding:
    apart = abs(health.clock - utc_now())
    detail = f"the database's clock and this machine's are {apart.total_seconds():.1f} s apart"
    if apart <= FARTHEST_CLOCK:
        return Finding("clock", ok=True, detail=detail)
    return Finding("clock", ok=False, detail=detail, advice="have both machines keep time (NTP)")


async def _engine(settings: Settings, database: Database) -> Finding:
    engine = make_engine(settings, database)
    try:
        async with asyncio.timeout(SECONDS):
            standing = await engine.look(INDEXES)
            sizes = (await engine.statistics()).indexes
    except (EngineUnavailable, TimeoutError) as error:
        advice = (
            "start it, or correct backends.meiliHost and meiliAPIKey; what changes is kept for it meanwhile"
        )
        return Finding("engine", ok=False, detail=str(error) or "no answer in time", advice=advice)
    finally:
        await engine.close()
    missing = sorted(uid for uid, how in standing.items() if how is Standing.MISSING)
    if missing:
        detail = f"{engine.name} answers, but has no {', '.join(missing)}"
        advice = "`concrnt-indexer up` makes what is missing and fills it; where it runs, see what it logs"
        return Finding("engine", ok=False, detail=detail, advice=advice)
    differing = sorted(uid for uid, how in standing.items() if how is Standing.DIFFERS)
    told = f"; `concrnt-indexer up` of this version would change {', '.join(differing)}" if differing else ""
    total = sum(size.number_of_documents for size in sizes.values())
    return Finding("engine", ok=True, detail=f"{engine.name} answers, {total:,} documents{told}")


def _processes(health: Health) -> Finding:
    """Leases of roles: a process that ended without a word is missed after the length of one."""
    missing = [what for role, what in _ROLES.items() if role not in health.roles]
    if not missing:
        return Finding("processes", ok=True, detail="every role is held by a process")
    detail = "no process runs" if len(missing) == len(_ROLES) else f"no process {' or '.join(missing)}"
    advice = "start `concrnt-indexer up`, or the --role that is missing"
    return Finding("processes", ok=False, detail=detail, advice=advice)


def _queue(health: Health) -> Finding:
    are = "is" if health.queue_depth == 1 else "are"
    detail = f"{_changes(health.queue_depth)} {are} not yet searchable"
    if health.oldest_mark is None or utc_now() - health.oldest_mark <= LONGEST_QUEUED:
        return Finding("queue", ok=True, detail=detail)
    return Finding(
        "queue",
        ok=False,
        detail=f"{detail}, the oldest since {health.oldest_mark:%Y-%m-%d %H:%M} UTC",
        advice="see that a process projects (`concrnt-indexer up`, or --role project) and what it logs",
    )


def _followed(health: Health) -> Finding:
    if not health.servers:
        return Finding("following", ok=True, detail="no server is known yet: start `concrnt-indexer up`")
    if not health.overdue:
        return Finding("following", ok=True, detail=f"{health.servers} servers are known, none is overdue")
    return Finding(
        "following",
        ok=False,
        detail=f"{health.overdue} of {health.servers} servers are due for ten minutes or more",
        advice="start `concrnt-indexer up`, or more of it: no process comes to ask them",
    )


def _servers(health: Health) -> list[Finding]:
    failing = [*health.stale, *health.backing_off]
    advice = "`concrnt-indexer servers` tells why; `servers run-now DOMAIN` asks at once"
    too_many = len(failing) * 2 > health.servers
    detail = f"{len(failing)} of {health.servers} do not answer{_named(failing)}"
    odd = f"{len(health.odd)} went back or run ahead{_named(health.odd)}"
    return [
        Finding("servers", ok=not too_many, detail=detail, advice=advice if too_many else ""),
        Finding(
            "logs",
            ok=not health.odd,
            detail=odd,
            advice="tell their operators: a log was restored, or a clock is wrong" if health.odd else "",
        ),
    ]


def _named(domains: Sequence[str]) -> str:
    if not domains:
        return ""
    more = len(domains) - _NAMES_SHOWN
    return f": {', '.join(domains[:_NAMES_SHOWN])}" + (f" and {more} more" if more > 0 else "")


def _changes(count: int) -> str:
    return f"{count:,} {'change' if count == 1 else 'changes'}"


def _activity(settings: Settings, health: Health) -> Finding:
    if health.ticked_at is None:
        return Finding("activity", ok=True, detail="nothing was counted yet")
    age = utc_now() - health.ticked_at
    detail = f"last counted {health.ticked_at:%Y-%m-%d %H:%M} UTC, {_changes(health.activity_marks)} since"
    if not health.activity_marks or age <= 3 * settings.crawl.activity_interval + LONGEST_QUEUED:
        return Finding("activity", ok=True, detail=detail)
    advice = "see that a process counts (`concrnt-indexer up`, or --role activity) and what it logs"
    return Finding("activity", ok=False, detail=detail, advice=advice)


async def _seed(settings: Settings) -> Finding:
    seed, layer = settings.crawl.seed, settings.crawl.layer
    try:
        async with asyncio.timeout(SECONDS), make_peers(settings) as peers:
            said = await Feeds(peers).well_known(seed)
    except (PeerError, TimeoutError) as error:
        advice = "see whether crawl.seed is right and can be reached; known servers are followed all the same"
        return Finding("seed", ok=False, detail=f"{seed}: {str(error) or 'no answer in time'}", advice=advice)
    if layer and said.layer != layer:
        detail = f"{seed} is of layer {said.layer or '(none)'}, not {layer}"
        return Finding("seed", ok=False, detail=detail, advice="correct crawl.seed or crawl.layer")
    return Finding("seed", ok=True, detail=f"{seed} answers")
