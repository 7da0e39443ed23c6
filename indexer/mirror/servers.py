"""Servers and their cursors: what discovery found, where each feed stands, how the last run went.

A cursor moves only inside the transaction that applies its page (`advance_cursor`), and never back; the one
exception is `read_again`, for a log that went back. Servers are never deleted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from indexer.mirror.database import Connection, Database

_SQL = load("indexer.mirror", "queries/servers.sql")
RECENT_COMMITS = 1000.0
"""By about so many commits, the newest, a feed is judged for how it has been of late."""


class ServerState(StrEnum):
    """The states of a server (section 2)."""

    DISCOVERED = "discovered"
    BACKFILLING = "backfilling"
    FOLLOWING = "following"
    WAITING = "waiting"
    BACKING_OFF = "backing_off"
    STALE = "stale"
    PAUSED = "paused"
    NO_ENDPOINT = "no_endpoint"
    WRONG_LAYER = "wrong_layer"
    LOG_WENT_BACK = "log_went_back"
    CLOCK_AHEAD = "clock_ahead"


@dataclass(frozen=True, slots=True)
class FeedState:
    """Where a server's feed stands. `cursor` is the server's own text, `cursor_ns` its nanoseconds."""

    domain: str
    state: ServerState
    csid: str | None
    layer: str | None
    endpoints: Mapping[str, str]
    last_seen_at: datetime | None
    consecutive_failures: int
    failing_since: datetime | None
    poll_seconds: float | None
    cursor: str | None
    cursor_ns: int | None
    seen: tuple[int, ...]
    replay_until_ns: int | None
    replayed_at: datetime | None
    replay_owed: bool


@dataclass(frozen=True, slots=True)
class WellKnownNote:
    """What a server says of itself, as stored. `meta` is JSON text."""

    csid: str | None
    layer: str | None
    version: str | None
    software_version: str | None
    software_build_time: str | None
    meta: str | None
    endpoints: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to follow one server, until it runs out or is claimed again: then `epoch` is old."""

    domain: str
    epoch: int


class LeaseLostError(Exception):
    """Another process has claimed the server meanwhile; nothing of the transaction was applied."""


@dataclass(frozen=True, slots=True)
class CursorAdvance:
    """How a page moves its feed's cursor.

    `cursor` None: it stays. `seen` are digests of the rows read last, None leaves the stored ones.
    """

    domain: str
    cursor: str | None
    cursor_ns: int | None
    seen: Sequence[int] | None
    latest_post_at: datetime | None = None
    partial_instants: int = 0
    lease: Lease | None = None
    """Checked in the page's transaction; None where nobody else can be at work."""
    commits: int = 0
    malformed: int = 0
    rejected: int = 0


async def check_lease(connection: Connection, lease: Lease | None) -> None:
    """Raise `LeaseLostError` unless the lease is the newest one; it stays so until the transaction ends."""
    if (
        lease is not None
        and await connection.fetchval(_SQL["check_lease"], lease.domain, lease.epoch) is None
    ):
        raise LeaseLostError(lease.domain)


async def advance_cursor(connection: Connection, advance: CursorAdvance) -> None:
    """Move a cursor and count, in the transaction that applies the page."""
    await connection.execute(
        _SQL["advance_cursor"],
        advance.domain,
        advance.cursor,
        advance.cursor_ns,
        None if advance.seen is None else list(advance.seen),
        advance.latest_post_at,
        advance.partial_instants,
    )
    if advance.commits or advance.malformed or advance.rejected:
        await connection.execute(
            _SQL["count_commits"],
            advance.domain,
            advance.commits,
            advance.malformed,
            advance.rejected,
            RECENT_COMMITS,
        )


class Servers:
    """The servers and cursors of one mirror."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def discover(
        self,
        names: Sequence[str],
        *,
        now: datetime,
        aliases_since: datetime,
        at_most: int,
        per_parent: int,
        recent_since: datetime | None = None,
    ) -> list[str]:
        """Add canonical names that are not known yet and return the new ones.

        Aliases seen after `aliases_since` are left out; at most `at_most` in all and `per_parent` below one
        parent domain, the first in the list's order; those found since `recent_since` count.
        """
        rows = await self._database.fetch(
            _SQL["discover"], list(names), now, aliases_since, at_most, per_parent, recent_since or now
        )
        return [row["domain"] for row in rows]

    async def domains(self, layer: str) -> list[str]:
        """The servers of a layer ("" = any), those not asked yet included."""
        return [row["domain"] for row in await self._database.fetch(_SQL["domains"], layer)]

    async def count(self) -> int:
        """How many servers are known."""
        rows = await self._database.fetch(_SQL["count_servers"])
        return int(rows[0]["count"])

    async def ask_again(self, *, now: datetime, aliases_until: datetime) -> None:
        """Make servers without an endpoint, or of another layer, due; forget aliases seen until then."""
        await self._database.execute(_SQL["ask_again"], now)
        await self._database.execute(_SQL["purge_aliases"], aliases_until)

    async def note_well_known(self, domain: str, note: WellKnownNote, *, now: datetime) -> None:
        """Store what the server says of itself."""

        async def work(connection: Connection) -> None:
            await connection.execute(
                _SQL["note_well_known"],
                domain,
                note.csid,
                note.layer,
                note.version,
                note.software_version,
                note.software_build_time,
                note.meta,
                json.dumps(dict(note.endpoints)),
                now,
            )
            await connection.execute(_SQL["mark_server"], domain, now)

        await self._database.transaction("note_well_known", work)

    async def note_alias(self, alias: str, domain: str, *, now: datetime) -> None:
        """`alias` answered with another domain's well-known: it is not followed, the domain is discovered."""

        async def work(connection: Connection) -> None:
            await connection.execute(_SQL["note_alias"], alias, domain, now)
            await connection.execute(_SQL["forget_empty_cursor"], alias)
            await connection.execute(_SQL["forget_alias_row"], alias)
            await connection.execute(_SQL["mark_server"], alias, now)

        await self._database.transaction("note_alias", work)

    async def claim_due(self, *, now: datetime, limit: int, holder: str, lease_seconds: float) -> list[Lease]:
        """Lease up to `limit` servers whose time has come, the longest waiting first."""

        async def work(connection: Connection) -> list[Lease]:
            rows = await connection.fetch(_SQL["claim_due"], now, limit, holder, lease_seconds)
            return [Lease(row["domain"], row["epoch"]) for row in rows]

        return await self._database.transaction("claim_due", work)

    async def claim(self, domain: str, *, holder: str, lease_seconds: float) -> Lease | None:
        """Lease one server, whoever holds it; None when it is not known."""
        row = await self._database.fetchrow(_SQL["claim_one"], domain, holder, lease_seconds)
        return Lease(row["domain"], row["epoch"]) if row else None

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> set[str]:
        """Keep leases; returns the domains of those that are still held."""
        rows = await self._database.fetch(
            _SQL["renew_leases"],
            [held.domain for held in leases],
            [held.epoch for held in leases],
            lease_seconds,
        )
        return {row["domain"] for row in rows}

    async def release(self, lease: Lease) -> None:
        """Give a lease up; one that was lost is left alone."""
        await self._database.execute(_SQL["release_lease"], lease.domain, lease.epoch)

    async def next_due(self, *, at_work: Collection[str]) -> datetime | None:
        """When the next server is due; None when there is none."""
        row = await self._database.fetchrow(_SQL["next_due"], list(at_work))
        return row["min"] if row else None

    async def begin(self, domain: str) -> FeedState | None:
        """Where the feed stands, as a run begins; None when the server is not known."""
        await self._database.execute(_SQL["begin_feed"], domain)
        row = await self._database.fetchrow(_SQL["feed_state"], domain)
        return _feed_state(row) if row else None

    async def state_of(self, domain: str) -> FeedState | None:
        """Where the feed stands; None when the server is not known."""
        row = await self._database.fetchrow(_SQL["feed_state"], domain)
        return _feed_state(row) if row else None

    async def enter_state(self, domain: str, state: ServerState) -> None:
        """A state that begins while a run is under way."""
        await self._database.execute(_SQL["enter_state"], domain, state.value)

    async def set_aside(
        self, lease: Lease, state: ServerState, *, next_poll_at: datetime, now: datetime, why: str
    ) -> None:
        """The server is not followed for now (no endpoint, another layer)."""
        await self._end("set_aside", lease, now, ("set_state", state.value, next_poll_at, now, why))

    async def finish(
        self,
        lease: Lease,
        *,
        drained: bool,
        state: ServerState,
        next_poll_at: datetime,
        poll_seconds: float,
        now: datetime,
        changed: bool = True,
    ) -> None:
        """A run went well: it drained the feed, or was ended by its page limit.

        `changed` when the server showed another state before: then it is projected at once.
        """
        await self._end(
            "finish_run",
            lease,
            now,
            ("finish_drained" if drained else "finish_yielded", now),
            ("succeed", state.value, next_poll_at, now, poll_seconds),
            changed=changed,
        )

    async def wait(self, lease: Lease, *, until: datetime, now: datetime, why: str) -> None:
        """The server asked for quiet: no failure."""
        await self._end("wait_as_told", lease, now, ("wait_as_told", until, now, why))

    async def fail(
        self,
        lease: Lease,
        failure_class: str,
        *,
        state: ServerState,
        next_poll_at: datetime,
        now: datetime,
        why: str,
    ) -> None:
        """A run failed."""
        await self._end(
            "fail_run",
            lease,
            now,
            ("finish_failed", now),
            ("fail", failure_class, next_poll_at, now, why, state.value),
        )

    async def _end(
        self, name: str, lease: Lease, now: datetime, *steps: tuple[object, ...], changed: bool = True
    ) -> None:
        """Store how a run ended and give its lease up, in one transaction. Raises `LeaseLostError`."""

        async def work(connection: Connection) -> None:
            await check_lease(connection, lease)
            for statement, *arguments in steps:
                await connection.execute(_SQL[str(statement)], lease.domain, *arguments)
            await connection.execute(_SQL["mark_server_now_and_then"], lease.domain, now, not changed)
            await connection.execute(_SQL["release_lease"], lease.domain, lease.epoch)

        await self._database.transaction(name, work, durable=False)

    async def read_again(self, domain: str, *, now: datetime) -> None:
        """The log went back: forget the cursor, remember that rows up to it are known."""
        await self._database.execute(_SQL["read_again"], domain, now)

    async def owe_replay(self, domain: str) -> None:
        """The log went back again too soon: it is read anew when the day is over."""
        await self._database.execute(_SQL["owe_replay"], domain)


def _feed_state(row: asyncpg.Record) -> FeedState:
    return FeedState(
        domain=row["domain"],
        state=ServerState(row["state"]),
        csid=row["csid"],
        layer=row["layer"],
        endpoints=json.loads(row["endpoints"]),
        last_seen_at=row["last_seen_at"],
        consecutive_failures=row["consecutive_failures"],
        failing_since=row["failing_since"],
        poll_seconds=row["poll_seconds"],
        cursor=row["cursor"],
        cursor_ns=None if row["cursor_ns"] is None else int(row["cursor_ns"]),
        seen=tuple(row["seen"]),
        replay_until_ns=None if row["replay_until_ns"] is None else int(row["replay_until_ns"]),
        replayed_at=row["replayed_at"],
        replay_owed=row["replay_owed"],
    )
