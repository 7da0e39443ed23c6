"""Taking out what a server said of a person who left it. Every statement of `leaving.sql`.

The functions that take out work in the caller's transaction, under the person's exclusive lock. They go on
past the last place of the batch before, for what is said again comes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from indexer.mirror.database import Connection, Database

_SQL = load("indexer.mirror", "queries/leaving.sql")


@dataclass(frozen=True, slots=True)
class Leaving:
    """A person left a server, noted by a name (`domain`) that may have moved since (`known_as`)."""

    owner: str
    domain: str
    known_as: str
    generation: int


@dataclass(frozen=True, slots=True)
class TakenOut:
    """Documents that were taken out (JSON, where they were kept), and the last place; None: no more.

    `followed` are the people whose being followed was taken out.
    """

    signed: Sequence[str]
    last: tuple[str, ...] | None
    followed: Sequence[str] = ()


async def next_leavings(database: Database, *, of_each: int) -> list[Leaving]:
    """What is to be judged again: the oldest few of each server."""
    return [Leaving(**dict(row)) for row in await database.fetch(_SQL["next_left_homes"], of_each)]


async def forget_leaving(database: Database, leaving: Leaving) -> None:
    """All of it was judged again; one that was noted once more meanwhile stays."""
    await database.execute(_SQL["forget_left_home"], leaving.owner, leaving.domain, leaving.generation)


async def forget_what_went(connection: Connection, owner: str) -> None:
    """What was replaced or removed of a person's may come back."""
    await connection.execute(_SQL["forget_what_went"], owner)


async def restart_first_created(
    connection: Connection, owner: str, *, indexed_schemas: Sequence[str], now: datetime
) -> None:
    """Since when a person's keys had a document is found out again; the projection is told."""
    await connection.execute(_SQL["restart_first_created"], owner, list(indexed_schemas), now)


async def take_out_records(
    connection: Connection,
    owner: str,
    source: str,
    after: tuple[str, ...],
    *,
    limit: int,
    indexed_schemas: Sequence[str],
    now: datetime,
) -> TakenOut:
    """The next records of a person that came from a server, past a key; the projection is told."""
    rows = await connection.fetch(
        _SQL["take_out_records"], owner, source, *after, list(indexed_schemas), limit, now
    )
    return TakenOut([row["signed"] for row in rows], (rows[-1]["place"],) if rows else None)


async def take_out_deletes(
    connection: Connection, owner: str, source: str, after: tuple[str, ...], *, limit: int
) -> TakenOut:
    """The next deletes in a person's name that came from a server, past a CDID."""
    rows = await connection.fetch(_SQL["take_out_deletes"], owner, source, *after, limit)
    return TakenOut([row["signed"] for row in rows if row["signed"]], (rows[-1]["place"],) if rows else None)


async def take_out_follows(
    connection: Connection, owner: str, source: str, after: tuple[str, ...], *, limit: int
) -> TakenOut:
    """The next follows of a person that came from a server, past (ackee, schema)."""
    rows = await connection.fetch(_SQL["take_out_follows"], owner, source, *after, limit)
    last = (rows[-1]["ackee"], rows[-1]["schema"]) if rows else None
    return TakenOut([row["signed"] for row in rows if row["signed"]], last, [row["ackee"] for row in rows])
