"""A server moves to another domain: one transaction carries over what the old domain owned.

Records' source, deletes, follows, homes: afterwards they are the new domain's, and the old one is remembered
as a name of it (`mirror.moves`), never followed again, and never discovered again. By an operator's word the
cursor goes along, with counts, dead letters and waiting commits. A redirect is the old domain's word alone:
it says nothing of what the new one's log holds, which is read from where it stood, or from its start.
What was said provisionally is not carried: the new server has to say it in its own log.
Whoever is at work on either of the two loses its lease. A crash leaves all of it or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from indexer.mirror.servers import check_lease
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from indexer.mirror.database import Connection, Database
    from indexer.mirror.servers import Lease

_SQL = load("indexer.mirror", "queries/moves.sql")
_SERVERS_SQL = load("indexer.mirror", "queries/servers.sql")
_CARRIED = (
    *("carry_acks", "carry_tombstones", "carry_entities", "carry_questions", "carry_aliases"),
    *("carry_left_homes", "carry_moves"),
)
_HISTORY = ("carry_waiting", "carry_counts", "carry_rejected_later", "carry_dead_letters")
_DROPPED = (
    *("drop_set_aside", "drop_questions", "drop_waiting", "drop_dead_letters", "drop_rejected_later"),
    *("drop_left_homes", "drop_cursor", "drop_server"),
)
BETWEEN_REDIRECTS = timedelta(days=7)
"""How long a server stays where it moved to before a redirect lets it move on."""


class MoveRefusal(StrEnum):
    """Why a server does not move."""

    UNKNOWN = "unknown"
    """No server of the old name is followed."""
    MOVED_ALREADY = "moved_already"
    NEW_HAS_MOVED = "new_has_moved"
    """The new domain has itself moved away, somewhere else."""
    OTHER_LAYER = "other_layer"
    OTHER_KEY = "other_key"
    """The two are known by different server keys."""
    MOVED_LATELY = "moved_lately"
    """It came to its name by a move not long ago; only an operator lets it move on at once."""
    NO_ROOM = "no_room"
    """Discovery takes no more servers, or none below that parent domain, so neither does a redirect."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A move that was made: whether the new domain goes on from the old one's cursor."""

    cursor_carried: bool


class Moves:
    """Moves of servers in one mirror."""

    def __init__(self, database: Database, *, indexed_schemas: Collection[str]) -> None:
        self._database = database
        self._indexed = sorted(indexed_schemas)

    async def move(
        self,
        old: str,
        new: str,
        *,
        now: datetime,
        by_operator: bool,
        any_key: bool = False,
        lease: Lease | None = None,
    ) -> Moved | MoveRefusal:
        """Let a server move. Both names are canonical and differ.

        By an operator's word what was read goes with it: the cursor, where the new domain has none, counts,
        dead letters, and what waits. Not by a redirect: the new domain may be another's, whose key was
        copied. A redirect counts only for a new domain that discovery has taken, once in `BETWEEN_REDIRECTS`
        for a server whatever its names, and never back. `any_key` lets the two be known by different keys.
        Raises `LeaseLostError`, `StoreUnavailable`.
        """

        async def work(connection: Connection) -> Moved | MoveRefusal:
            await check_lease(connection, lease)
            rows = {row["domain"]: row for row in await connection.fetch(_SQL["lock_both"], old, new)}
            refusal = await self._refusal(connection, old, new, rows, any_key=any_key)
            if refusal is None and not by_operator:
                refusal = await _refusal_of_redirect(connection, old, new, now)
                if refusal is None and new not in rows:
                    refusal = MoveRefusal.NO_ROOM
            if refusal is not None:
                return refusal
            fresh = new not in rows or not rows[new]["has_cursor"]
            await self._carry(
                connection, old, new, now, by_operator=by_operator, cursor=by_operator and fresh
            )
            return Moved(cursor_carried=by_operator and fresh and rows[old]["has_cursor"])

        return await self._database.transaction("move_server", work)

    async def refusal_of_redirect(self, old: str, new: str, *, now: datetime) -> MoveRefusal | None:
        """Why a redirect does not count at present, whatever the new domain says of itself; None if it may.

        Raises `StoreUnavailable`.
        """

        async def work(connection: Connection) -> MoveRefusal | None:
            return await _refusal_of_redirect(connection, old, new, now)

        return await self._database.transaction("may_redirect", work)

    async def _refusal(
        self,
        connection: Connection,
        old: str,
        new: str,
        rows: Mapping[str, asyncpg.Record],
        *,
        any_key: bool,
    ) -> MoveRefusal | None:
        if old not in rows:
            moved = await connection.fetchval(_SQL["moved_to"], old)
            return MoveRefusal.MOVED_ALREADY if moved is not None else MoveRefusal.UNKNOWN
        if await connection.fetchval(_SQL["moved_to"], new) not in (None, old):
            return MoveRefusal.NEW_HAS_MOVED
        if new in rows:
            if _differ(rows, old, new, "layer"):
                return MoveRefusal.OTHER_LAYER
            if _differ(rows, old, new, "csid") and not any_key:
                return MoveRefusal.OTHER_KEY
        return None

    async def _carry(
        self, connection: Connection, old: str, new: str, now: datetime, *, by_operator: bool, cursor: bool
    ) -> None:
        run = connection.execute
        await run(_SQL["undo"], old, new)
        await run(_SQL["add_server"], old, new, now)
        await run(_SQL["wake"], new, now)
        await run(_SQL["carry_cursor" if cursor else "know_what_was_read"], old, new)
        await run(_SQL["carry_records"], old, new, self._indexed, now)
        await run(_SQL["withdraw_provisional"], old, new, self._indexed, now)
        await run(_SQL["withdraw_provisional_acks"], old)
        for name in (*_CARRIED, *(_HISTORY if by_operator else ())):
            await run(_SQL[name], old, new)
        await run(_SQL["remember"], old, new, now)
        for name in _DROPPED:
            await run(_SQL[name], old)
        for domain in (old, new):
            await run(_SERVERS_SQL["mark_server"], domain, now)


async def _refusal_of_redirect(
    connection: Connection, old: str, new: str, now: datetime
) -> MoveRefusal | None:
    if await connection.fetchval(_SQL["moved_to"], new) is not None:
        return MoveRefusal.NEW_HAS_MOVED
    if await connection.fetchval(_SQL["moved_lately"], old, now - BETWEEN_REDIRECTS):
        return MoveRefusal.MOVED_LATELY
    return None


def _differ(rows: Mapping[str, asyncpg.Record], old: str, new: str, what: str) -> bool:
    """Whether both servers have said something, and not the same."""
    said: Sequence[str | None] = [rows[old][what], rows[new][what]]
    return all(said) and said[0] != said[1]
