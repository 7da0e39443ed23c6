"""Records, a queue and an engine for the projection's tests: small, and honest about generations."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from indexer.engines.base import EngineStatistics, RejectedDocument, SearchResult, WriteBatch, WriteResult
from indexer.projection.kinds import Kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from indexer.engines.base import Document, FoundIds, IndexDefinition, SearchRequest

ALICE = "con" + "1".rjust(39, "0")
PROFILE = "https://schema.concrnt.world/p/main.json"
COMMUNITY = "https://schema.concrnt.world/t/community.json"
POST = "https://schema.concrnt.world/m/markdown.json"
KINDS = Kinds(profile_schemas=[PROFILE], community_schemas=[COMMUNITY], post_schemas=[POST])
NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Record:
    """A live record."""

    key: str
    document: str
    schema: str = POST
    author: str = ALICE
    owner: str = ALICE
    source: str = "alpha.example"
    cdid: str = "06a0f1m2n3p4q5r6s7t8v9wxyz"
    created_at: datetime = NOON
    first_created_at: datetime = NOON


@dataclass(frozen=True, slots=True)
class Server:
    """A known server."""

    fqdn: str = "alpha.example"
    csid: str = "ccs" + "1".rjust(39, "0")
    version: str = "2.0"
    software_version: str = "v2.0.1"
    software_build_time: str = "2025-02-28T10:00:00Z"
    meta: str | None = None
    last_seen_at: datetime = NOON
    last_crawled_at: datetime | None = None
    status: str = "active"


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark with its current state."""

    key: str
    generation: int = 1
    marked_at: datetime = NOON
    former_schemas: tuple[str, ...] = ()
    record: Record | None = None
    server: Server | None = None


def record(key: str, value: Any, **fields: Any) -> Record:
    """A record whose document holds this value; a str is taken for JSON text."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return Record(key, f'{{"key":"{key}","value":{text}}}', **fields)


def post(name: str, body: str = "") -> Record:
    """A post by ALICE."""
    return record(f"cckv://{ALICE}/concrnt.world/profiles/main/posts/{name}", {"body": body})


def once(action: Callable[[], None]) -> Callable[[], None]:
    """Do something the first time only."""
    left = [action]
    return lambda: left.pop()() if left else None


class Away(Exception):  # noqa: N818 - a state of the queue
    """The queue is away."""


@dataclass
class Queue:
    """A mirror's records with their queue of marks."""

    records: dict[str, Record] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    taken: list[list[str]] = field(default_factory=list)
    failures: int = 0
    before_done: Callable[[], None] = lambda: None
    _generation: int = 0
    _marked: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, new: Record) -> None:
        """Store a record and mark its key."""
        former = self.records.get(new.key)
        self.records[new.key] = new
        self._mark(new.key, former)

    def remove(self, key: str) -> None:
        """Remove a record and mark its key."""
        self._mark(key, self.records.pop(key))

    def _mark(self, key: str, former: Record | None) -> None:
        self._generation += 1
        marked = self.marks.get(key)
        schemas = {*(marked.former_schemas if marked else ()), *([former.schema] if former else [])}
        self.marks[key] = Mark(key, self._generation, former_schemas=tuple(sorted(schemas)))
        self._marked.set()

    async def take(self, limit: int, max_bytes: int, excluding: Collection[str]) -> Sequence[Mark]:
        """The oldest marks."""
        assert max_bytes > 0
        self._marked.clear()
        await self._may_fail()
        due = sorted(
            (mark for mark in self.marks.values() if mark.key not in excluding), key=lambda m: m.generation
        )
        taken = [replace(mark, record=self.records.get(mark.key)) for mark in due[:limit]]
        if taken:
            self.taken.append([mark.key for mark in taken])
        return taken

    async def done(self, marks: Sequence[tuple[str, int]], indexed_at: datetime) -> None:
        """Clear marks that did not change."""
        assert indexed_at.tzinfo is not None
        self.before_done()
        await self._may_fail()
        for key, generation in marks:
            if key in self.marks and self.marks[key].generation == generation:
                del self.marks[key]

    async def wait(self) -> None:
        """Return when something was marked."""
        await self._marked.wait()

    async def _may_fail(self) -> None:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise Away


@dataclass
class FakeEngine:
    """An engine that keeps documents in dicts, refuses what it is told to, and tells of what it does."""

    name: str = "fake"
    documents: dict[str, dict[str, Document]] = field(default_factory=dict)
    batches: list[WriteBatch] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    during_write: Callable[[], None] = lambda: None
    writing: set[str] = field(default_factory=set)

    async def prepare(self, indexes: Sequence[IndexDefinition]) -> None:
        """Nothing to do."""

    async def write(self, batch: WriteBatch) -> WriteResult:
        """Write, after a while, as networks do."""
        ids = {document["id"] for documents in batch.upserts.values() for document in documents}
        assert not ids & self.writing, "one key in two batches at once"
        self.writing |= ids
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            self.during_write()
            if self.errors:
                raise self.errors.pop(0)
            await asyncio.sleep(0)
        finally:
            self.writing -= ids
        self.batches.append(batch)
        rejected = []
        for index, identifiers in batch.deletes.items():
            for identifier in identifiers:
                self.documents.setdefault(index, {}).pop(identifier, None)
        for index, documents in batch.upserts.items():
            for document in documents:
                if document["id"] in self.refused:
                    rejected.append(RejectedDocument(index, document["id"], "refused"))
                else:
                    self.documents.setdefault(index, {})[document["id"]] = document
        return WriteResult(rejected)

    async def put_figures(self, index: str, figures: Mapping[str, Document]) -> Collection[str]:
        """Not asked for here."""
        raise NotImplementedError

    async def search(self, request: SearchRequest) -> SearchResult:
        """Not asked for here."""
        raise NotImplementedError

    async def find_ids(self, request: SearchRequest, among: Collection[str] | None = None) -> FoundIds:
        """Not asked for here."""
        raise NotImplementedError

    async def fetch_documents(self, index: str, ids: Collection[str]) -> Mapping[str, Document]:
        """Not asked for here."""
        raise NotImplementedError

    async def suggest(self, indexes: Sequence[str], text: str, limit: int) -> dict[str, list[Document]]:
        """Not asked for here."""
        raise NotImplementedError

    async def statistics(self) -> EngineStatistics:
        """Not asked for here."""
        raise NotImplementedError

    async def ping(self) -> None:
        """Always there."""

    async def close(self) -> None:
        """Nothing to close."""
