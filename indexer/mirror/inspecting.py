"""What is known of one key, and how the mirror is. Reads only, one statement at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.concrnt.uri import ancestors_of
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

    from indexer.mirror.database import Database

_SQL = load("indexer.mirror", "queries/inspecting.sql")

ENTRIES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Entry:
    """A record directly below the key."""

    key: str
    author: str
    schema: str
    first_created_at: datetime


@dataclass(frozen=True, slots=True)
class Health:
    """How the mirror is.

    `clock` is the database's; `overdue` servers are due for ten minutes; `roles`: those that a process
    holds.
    """

    version: str
    version_number: int
    clock: datetime
    queue_depth: int
    oldest_mark: datetime | None
    servers: int
    overdue: int
    stale: Sequence[str]
    backing_off: Sequence[str]
    odd: Sequence[str]
    roles: Sequence[str]
    ticked_at: datetime | None
    activity_marks: int


class Inspection:
    """Looks into one mirror. Every method may raise `StoreUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, key: str) -> asyncpg.Record | None:
        """The live record under a key: the columns of `mirror.records`."""
        return await self._database.fetchrow(_SQL["record"], key)

    async def tombstone(self, key: str) -> asyncpg.Record | None:
        """The newest delete that reaches a key: columns of `mirror.tombstones`."""
        return await self._database.fetchrow(_SQL["tombstone"], key, list(ancestors_of(key)))

    async def entries(self, key: str) -> tuple[int, list[Entry]]:
        """How many records are directly below a key, and the newest of them."""
        rows = await self._database.fetch(_SQL["entries"], key, ENTRIES_SHOWN)
        entries = [Entry(row["key"], row["author"], row["schema"], row["first_created_at"]) for row in rows]
        return (rows[0]["total"] if rows else 0), entries

    async def queued(self, key: str) -> asyncpg.Record | None:
        """The mark of a key that waits for the projector: columns of `mirror.projection_queue`."""
        return await self._database.fetchrow(_SQL["queued"], key)

    async def health(self, *, now: datetime) -> Health:
        """How the mirror is."""
        row = await self._database.fetchrow(_SQL["health"], now)
        assert row is not None
        return Health(
            **{**dict(row), **{name: row[name] or () for name in ("stale", "backing_off", "odd", "roles")}}
        )
