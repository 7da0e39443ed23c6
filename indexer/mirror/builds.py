"""Indexes of search engines, as the mirror remembers them: what they were filled from, and builds.

A build is asked for by a row, and the row goes when the new index stands in the live one's place. So any
process may ask, whoever projects builds, and everybody can see how far it is. Nothing here knows an engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.mirror.queue import queued_key
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from indexer.mirror.database import Connection, Database
    from indexer.mirror.queue import QueuedKey

_SQL = load("indexer.mirror", "queries/builds.sql")


@dataclass(frozen=True, slots=True)
class FilledIndex:
    """What an index was last filled from."""

    identity: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Build:
    """A build that is asked for; with an identity, one that has begun."""

    index_uid: str
    reason: str
    requested_at: datetime
    started_at: datetime | None
    identity: str | None
    filled: int
    total: int | None


@dataclass(frozen=True, slots=True)
class FilledKey:
    """A key with its current state, and when it was last indexed."""

    state: QueuedKey
    indexed_at: datetime | None


class Builds:
    """The indexes and builds of one engine on one mirror. Every method may raise `StoreUnavailable`."""

    def __init__(self, database: Database, engine: str) -> None:
        self._database = database
        self._engine = engine

    async def filled(self) -> dict[str, FilledIndex]:
        """What each index was last filled from."""
        rows = await self._database.fetch(_SQL["indexes"], self._engine)
        return {row["index_uid"]: FilledIndex(row["identity"], row["fingerprint"]) for row in rows}

    async def note_filled(self, uid: str, index: FilledIndex, *, now: datetime) -> None:
        """An index holds all of the mirror; a build of it is over, unless it is another process's."""

        async def work(connection: Connection) -> None:
            await connection.execute(
                _SQL["note_filled"], self._engine, uid, index.identity, index.fingerprint, now
            )
            await connection.execute(_SQL["end_build"], self._engine, uid, index.identity)

        await self._database.transaction("note_filled", work)

    async def request(self, uids: Sequence[str], reason: str, *, now: datetime) -> None:
        """Ask for builds; what is asked for already stays as it is."""
        await self._database.execute(_SQL["request"], self._engine, list(uids), reason, now)

    async def is_read_in(self, *, silent_since: datetime) -> bool:
        """Whether every server was read to its end once, save those silent since then; and there is any."""
        row = await self._database.fetchrow(_SQL["is_read_in"], silent_since)
        return row is not None and bool(row["is_read_in"])

    async def builds(self) -> list[Build]:
        """Builds that are asked for or under way, oldest first."""
        return [Build(**dict(row)) for row in await self._database.fetch(_SQL["builds"], self._engine)]

    async def begin(self, uid: str, identity: str, total: int, *, now: datetime) -> None:
        """A build begins with an empty index."""
        await self._database.execute(_SQL["begin"], self._engine, uid, identity, total, now)

    async def progress(self, uid: str, filled: int) -> None:
        """So many keys have been written."""
        await self._database.execute(_SQL["progress"], self._engine, uid, filled)

    async def count_records(self, schemas: Sequence[str]) -> int:
        """How many records have one of these schemas."""
        return await self._count("count_records", list(schemas))

    async def count_servers(self) -> int:
        """How many servers are shown."""
        return await self._count("count_servers")

    async def page_records(self, schema: str, after: str, limit: int, max_bytes: int) -> list[FilledKey]:
        """The next records of a schema by key, with their state now."""
        rows = await self._database.fetch(_SQL["page_records"], schema, after, limit, max_bytes)
        return [FilledKey(queued_key(row), row["indexed_at"]) for row in rows]

    async def page_servers(self, after: str, limit: int) -> list[FilledKey]:
        """The next servers by name."""
        rows = await self._database.fetch(_SQL["page_servers"], after, limit)
        return [FilledKey(queued_key(row), None) for row in rows]

    async def read_records(self, keys: Sequence[str]) -> list[FilledKey]:
        """The records under keys, as they are now."""
        rows = await self._database.fetch(_SQL["read_records"], list(keys))
        return [FilledKey(queued_key(row), row["indexed_at"]) for row in rows]

    async def read_servers(self, names: Sequence[str]) -> list[FilledKey]:
        """Servers, as they are now."""
        rows = await self._database.fetch(_SQL["read_servers"], list(names))
        return [FilledKey(queued_key(row), None) for row in rows]

    async def marked(self, keys: Sequence[str]) -> set[str]:
        """Which keys wait to be projected."""
        return {row["key"] for row in await self._database.fetch(_SQL["marked"], list(keys))}

    async def mark(self, keys: Sequence[str], schemas: Sequence[str], *, now: datetime) -> None:
        """Have keys projected again, which may stand in the index of these schemas."""
        await self._database.execute(_SQL["mark"], list(keys), list(schemas), now)

    async def _count(self, name: str, *arguments: object) -> int:
        row = await self._database.fetchrow(_SQL[name], *arguments)
        return int(row[0]) if row is not None else 0
