"""The projection queue: which keys changed since they were last written to the search engine.

Level-triggered: a row says "this key changed", with a generation that every change raises. What is projected
is the state as it is when the row is read, so lost, repeated or reordered wake-ups are harmless. A row goes
only at the generation that was read, after the engine has the state. Rows that a follower is changing right
now are left alone (`skip locked`): they have changed again, and nobody waits for anybody.
A projector that finds its marks gone was not alone: it marks them again, so that two that meet end in the
right state.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from indexer.concrnt.rows import Row, read_row
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    import asyncpg

    from indexer.mirror.database import Connection, Database

_SQL = load("indexer.mirror", "queries/queue.sql")
_POLL_SECONDS = 1.0
DEAD_LETTER_CHARACTERS = 16 * 1024


class _Signed(msgspec.Struct):
    document: str


_SIGNED = msgspec.json.Decoder(_Signed)


@dataclass(frozen=True, slots=True)
class QueuedRecord:
    """A live record, as projecting needs it. `document` is the document's JSON text."""

    key: str
    owner: str
    author: str
    schema: str
    source: str
    cdid: str
    created_at: datetime
    first_created_at: datetime
    document: str


@dataclass(frozen=True, slots=True)
class QueuedServer:
    """A server, as projecting needs it. `meta` is JSON text."""

    fqdn: str
    csid: str
    version: str
    software_version: str
    software_build_time: str
    meta: str | None
    last_seen_at: datetime
    last_crawled_at: datetime | None
    status: str


@dataclass(frozen=True, slots=True)
class QueuedKey:
    """A changed key with its current state; with neither record nor server, what it stood for is gone."""

    key: str
    generation: int
    marked_at: datetime
    former_schemas: Sequence[str]
    record: QueuedRecord | None
    server: QueuedServer | None


class ProjectionQueue:
    """The queue of one mirror. One projector at a time reads it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._marked = asyncio.Event()

    def notify(self) -> None:
        """Something in this process was marked: wake the projector."""
        self._marked.set()

    async def wait(self) -> None:
        """Return when something may have been marked: told by this process, or after a second for others'."""
        try:
            # Not `wait_for`: before Python 3.12 it loses a cancellation that meets the wake-up.
            async with asyncio.timeout(_POLL_SECONDS):
                await self._marked.wait()
        except TimeoutError:
            return

    async def take(self, limit: int, max_bytes: int, excluding: Collection[str]) -> list[QueuedKey]:
        """The oldest marks with the current state of their keys, in one snapshot. Claims nothing."""
        self._marked.clear()
        rows = await self._database.fetch(_SQL["take_marks"], limit, max_bytes, list(excluding))
        return [queued_key(row) for row in rows]

    async def done(self, marks: Sequence[tuple[str, int]], indexed_at: datetime) -> None:
        """Clear marks, each a (key, generation), and note when their records were indexed."""
        keys = [key for key, _ in marks]

        async def work(connection: Connection) -> set[str]:
            generations = [generation for _, generation in marks]
            cleared = await connection.fetch(_SQL["clear_marks"], keys, generations)
            await connection.execute(_SQL["note_indexed"], keys, indexed_at)
            return {row["key"] for row in cleared}

        cleared = await self._database.transaction("clear_marks", work, durable=False)
        if uncleared := [key for key in keys if key not in cleared]:
            await self._database.execute(_SQL["mark_uncleared"], uncleared, indexed_at)

    async def bury(self, key: str, reason: str) -> None:
        """Keep a record whose document the engine refuses with the dead letters of its source."""
        await self._database.execute(_SQL["bury_refused"], key, reason, DEAD_LETTER_CHARACTERS)

    async def mark_schemas(self, schemas: Sequence[str], *, now: datetime) -> None:
        """Mark every record of these schemas, to be projected again."""
        await self._database.execute(_SQL["mark_schemas"], list(schemas), now)
        self.notify()


def queued_key(row: asyncpg.Record) -> QueuedKey:
    """A row of a key with its state."""
    return QueuedKey(
        key=row["key"],
        generation=row["generation"],
        marked_at=row["marked_at"],
        former_schemas=row["former_schemas"],
        record=None if row["signed"] is None else _record(row),
        server=None if row["domain"] is None else _server(row),
    )


def _record(row: asyncpg.Record) -> QueuedRecord:
    return QueuedRecord(
        key=row["key"],
        owner=row["owner"],
        author=row["author"],
        schema=row["schema"],
        source=row["source"],
        cdid=row["cdid"],
        created_at=row["created_at"],
        first_created_at=row["first_created_at"],
        document=_document_of(row["signed"]),
    )


def _document_of(signed: str) -> str:
    """The document string within a signed document; almost always the fast decoder reads it."""
    try:
        return _SIGNED.decode(signed).document
    except msgspec.MsgspecError:
        row = read_row(signed)
        return row.document if isinstance(row, Row) else ""


def _server(row: asyncpg.Record) -> QueuedServer:
    return QueuedServer(
        fqdn=row["domain"],
        csid=row["csid"] or "",
        version=row["version"] or "",
        software_version=row["software_version"] or "",
        software_build_time=row["software_build_time"] or "",
        meta=row["meta"],
        last_seen_at=row["last_seen_at"],
        last_crawled_at=row["last_crawled_at"],
        status={"stale": "stale", "paused": "disabled"}.get(row["state"], "active"),
    )
