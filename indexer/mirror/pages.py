"""Carrying out a planned page, in the caller's transaction.

Rows, tombstones, queue marks, counters and the cursor move together: the caller puts `apply_changes` and
`advance_cursor` into one transaction, so that a crash leaves all of them or none. Ranges go first, then the
page's own keys, as planning has worked them out; every array is sorted by key, so that two transactions
that meet wait for each other in one order.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from indexer.concrnt.uri import owner_of
from indexer.mirror.letters import keep_dead_letters
from indexer.mirror.trust import keep_open_questions, note_left_homes
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from indexer.mirror.changes import Changes, RangeSweep
    from indexer.mirror.database import Connection

_SQL = load("indexer.mirror", "queries/pages.sql")
_RECORD_COLUMNS = (
    *("key", "owner", "author", "schema", "parent", "href", "source", "cdid"),
    *("created_at", "first_created_at", "signed"),
)


async def apply_changes(
    connection: Connection, changes: Changes, *, indexed_schemas: Sequence[str], now: datetime
) -> None:
    """Carry out `changes`. The owners' locks are held and the context was read in this transaction."""
    # First, while all that was said there still stands.
    await note_left_homes(connection, changes.left_homes, changes.source)
    await _sweep(connection, changes, indexed_schemas, now)
    if changes.removed_keys:
        await connection.execute(_SQL["remove_keys"], sorted(changes.removed_keys))
    await _put_records(connection, changes)
    await _keep_memory(connection, changes)
    await _put_people(connection, changes)
    if changes.marks:
        marks = sorted(changes.marks, key=attrgetter("key"))
        await connection.execute(
            _SQL["mark_keys"], [m.key for m in marks], now, [m.former_schema for m in marks]
        )
    await keep_open_questions(connection, changes, now=now)
    await keep_dead_letters(connection, changes.source, changes.dead_letters, now=now)


async def _sweep(
    connection: Connection, changes: Changes, indexed_schemas: Sequence[str], now: datetime
) -> None:
    keys = list(changes.page_keys)
    for sweep in changes.sweeps:
        low, high = _bounds(sweep)
        await connection.execute(
            _SQL["sweep_range"],
            low,
            high,
            sweep.target,
            sweep.include_target,
            keys,
            changes.source,
            sweep.in_log_order,
            sweep.created_at,
            sweep.cdid,
            indexed_schemas,
            now,
            sweep.provisional,
            sweep.only_author,
        )
    if changes.referred:
        await connection.execute(
            _SQL["sweep_references"],
            [r.href for r in changes.referred],
            [r.in_log_order for r in changes.referred],
            [r.created_at for r in changes.referred],
            [r.cdid for r in changes.referred],
            keys,
            changes.source,
            indexed_schemas,
            now,
            [r.provisional for r in changes.referred],
            [r.only_author for r in changes.referred],
        )


def _bounds(sweep: RangeSweep) -> tuple[str, str]:
    """The index range that holds a target's descendants: "0" is the byte after "/"."""
    low = sweep.target if sweep.include_target else sweep.target + "/"
    return low, sweep.target + "0"


async def _put_records(connection: Connection, changes: Changes) -> None:
    if changes.puts:
        puts = sorted(changes.puts, key=attrgetter("key"))
        await connection.execute(
            _SQL["put_records"],
            *_columns(puts, _RECORD_COLUMNS),
            list(changes.known_keys),
            [put.provisional for put in puts],
            [put.ahead for put in puts],
        )
    if changes.first_created:
        lowered = sorted(changes.first_created.items())
        await connection.execute(
            _SQL["lower_first_created"], [key for key, _ in lowered], [at for _, at in lowered]
        )
    if changes.restarted:
        restarted = sorted(changes.restarted.items())
        await connection.execute(
            _SQL["restart_first_created"], [key for key, _ in restarted], [at for _, at in restarted]
        )


async def _keep_memory(connection: Connection, changes: Changes) -> None:
    if changes.retirements:
        retirements = sorted(changes.retirements, key=attrgetter("cdid", "key"))
        await connection.execute(
            _SQL["retire"], *_columns(retirements, ("key", "cdid", "deleted_at", "deleted_by"))
        )
    if changes.tombstones:
        stones = changes.tombstones
        await connection.execute(
            _SQL["keep_tombstones"],
            [owner_of(s.target) for s in stones],
            [s.target for s in stones],
            [s.scope.value for s in stones],
            *_columns(
                stones, ("created_at", "cdid", "author", "source", "provisional", "only_author", "signed")
            ),
        )


async def _put_people(connection: Connection, changes: Changes) -> None:
    if changes.acks:
        acks = sorted(changes.acks, key=attrgetter("acker", "ackee", "schema"))
        columns = ("acker", "ackee", "schema", "valid", "created_at", "cdid")
        values = _columns(acks, columns)
        values += [[changes.source] * len(acks), *_columns(acks, ("provisional", "signed"))]
        await connection.execute(_SQL["put_acks"], *values)
        if any(ack.provisional for ack in acks):
            await connection.execute(_SQL["keep_provisional_acks"], *values)
    if changes.entities:
        entities = sorted(changes.entities, key=attrgetter("ccid"))
        await connection.execute(
            _SQL["put_entities"],
            *_columns(entities, ("ccid", "domain", "created_at", "cdid")),
            [changes.source] * len(entities),
            [e.signed for e in entities],
            [e.standing.value for e in entities],
        )


def _columns(rows: Sequence[object], names: Sequence[str]) -> list[list[object]]:
    return [[getattr(row, name) for row in rows] for name in names]
