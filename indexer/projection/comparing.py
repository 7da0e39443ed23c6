"""Comparing an index with the mirror, document by document, and having what differs projected again (C30).

What it owns: the judgement "missing", "extra" or "different", and nothing else. It writes to no index: what
differs is marked, and the projector puts it right from the state as it is then. So a comparison may run
beside everything else, and a wrong judgement would cost one needless write.

Changes that are under way are no differences: a key counts only when it is not marked, and when the mirror
still holds what was compared. Figures and times of indexing, seeing and crawling are not compared: they are
written apart, or late on purpose.

An id from which no key can be read (what another program wrote) is told, and removed by `repair` directly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from indexer.engines.base import WriteBatch
from indexer.engines.ids import document_id, key_of_document, key_of_id
from indexer.engines.indexes import SERVERS
from indexer.projection.building import KEYS_AT_ONCE, document_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from datetime import datetime

    from indexer.engines.base import BuildingEngine, Document
    from indexer.mirror.builds import FilledKey
    from indexer.projection.kinds import Kinds

_BYTES_AT_ONCE: Final = 8 * 1024 * 1024
_NOT_COMPARED: Final = frozenset({"indexedAt", "lastSeenAt", "lastCrawledAt"})


class ComparedStore(Protocol):
    """What the mirror holds (`mirror/builds.py`)."""

    async def page_records(self, schema: str, after: str, limit: int, max_bytes: int) -> list[FilledKey]:
        """Return the next records of a schema by key."""

    async def page_servers(self, after: str, limit: int) -> list[FilledKey]:
        """Return the next servers by name."""

    async def read_records(self, keys: Sequence[str]) -> list[FilledKey]:
        """Return the records under keys."""

    async def read_servers(self, names: Sequence[str]) -> list[FilledKey]:
        """Return servers."""

    async def marked(self, keys: Sequence[str]) -> set[str]:
        """Tell which keys wait to be projected."""

    async def mark(self, keys: Sequence[str], schemas: Sequence[str], *, now: datetime) -> None:
        """Have keys projected again."""


@dataclass(slots=True)
class Comparison:
    """What differs between one index and the mirror: keys, and ids that are no key's."""

    index: str
    documents: int = 0
    missing: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.missing or self.different or self.extra or self.foreign)


@dataclass(frozen=True, slots=True)
class IndexComparer:
    """Compares the indexes of one engine with one mirror. Raises what these raise when they are away."""

    engine: BuildingEngine
    store: ComparedStore
    kinds: Kinds
    clock: Callable[[], datetime]

    async def compare(self, uid: str) -> Comparison:
        """Compare one index."""
        found = Comparison(uid)
        expected: set[int] = set()  # hashes: a million ids would take too much
        async for page in self._pages(uid):
            documents = self._documents(uid, page)
            found.documents += len(documents)
            expected.update(hash(identifier) for identifier in documents)
            await self._compare_page(found, documents)
        async for ids in self.engine.list_ids(uid):
            strange = [identifier for identifier in ids if hash(identifier) not in expected]
            await self._look_at_strange(found, strange)
        return found

    async def repair(self, found: Comparison) -> None:
        """Have everything that differs projected again; what is no key's goes at once."""
        keys = [*found.missing, *found.different, *found.extra]
        schemas = sorted(self.kinds.schemas_of(found.index))
        for start in range(0, len(keys), KEYS_AT_ONCE):
            await self.store.mark(keys[start : start + KEYS_AT_ONCE], schemas, now=self.clock())
        if found.foreign:
            await self.engine.write(WriteBatch(deletes={found.index: found.foreign}))

    async def _compare_page(self, found: Comparison, documents: dict[str, Document]) -> None:
        differing = await self._differing(found.index, documents)
        if not differing:
            return
        for identifier, is_missing in (await self._confirmed(found.index, differing)).items():
            key = key_of_document(documents[identifier])
            (found.missing if is_missing else found.different).append(key)

    async def _differing(self, uid: str, documents: dict[str, Document]) -> dict[str, Document]:
        stored = await self.engine.fetch_documents(uid, list(documents))
        return {
            identifier: document
            for identifier, document in documents.items()
            if not _agrees(stored.get(identifier), document)
        }

    async def _confirmed(self, uid: str, differing: dict[str, Document]) -> dict[str, bool]:
        """Tell which still differ while nothing of them is under way, and whether each is missing."""
        keys = {identifier: key_of_document(document) for identifier, document in differing.items()}
        stored = await self.engine.fetch_documents(uid, list(differing))
        marked = await self.store.marked(list(keys.values()))
        now = self._documents(uid, await self._read(uid, list(keys.values())))
        return {
            identifier: identifier not in stored
            for identifier, document in differing.items()
            if keys[identifier] not in marked
            and _agrees(now.get(identifier), document)
            and not _agrees(stored.get(identifier), document)
        }

    async def _look_at_strange(self, found: Comparison, ids: Sequence[str]) -> None:
        """Look at ids that no document of the mirror had when it was read."""
        if not ids:
            return
        stored = await self.engine.fetch_documents(found.index, ids)
        keys: dict[str, str] = {}
        for identifier in ids:
            key = key_of_document(stored[identifier]) if identifier in stored else key_of_id(identifier)
            if key is None or document_id(key) != identifier:
                found.foreign.append(identifier)
            else:
                keys[identifier] = key
        marked = await self.store.marked(list(keys.values()))
        now = self._documents(found.index, await self._read(found.index, list(keys.values())))
        found.extra += [
            key for identifier, key in keys.items() if key not in marked and identifier not in now
        ]

    async def _read(self, uid: str, keys: Sequence[str]) -> list[FilledKey]:
        return await (self.store.read_servers(keys) if uid == SERVERS else self.store.read_records(keys))

    def _documents(self, uid: str, keys: Sequence[FilledKey]) -> dict[str, Document]:
        """Make the documents of keys, as far as they belong into an index."""
        schemas = self.kinds.schemas_of(uid)
        made = (
            document_of(uid, key, self.clock())
            for key in keys
            if key.state.record is None or key.state.record.schema in schemas
        )
        return {document["id"]: document for document in made if document is not None}

    async def _pages(self, uid: str) -> AsyncIterator[Sequence[FilledKey]]:
        for schema in [None] if uid == SERVERS else sorted(self.kinds.schemas_of(uid)):
            after = ""
            while page := (
                await self.store.page_servers(after, KEYS_AT_ONCE)
                if schema is None
                else await self.store.page_records(schema, after, KEYS_AT_ONCE, _BYTES_AT_ONCE)
            ):
                after = page[-1].state.key
                yield page


def _agrees(stored: Document | None, document: Document) -> bool:
    return stored is not None and all(
        name in stored and stored[name] == value
        for name, value in document.items()
        if name not in _NOT_COMPARED
    )
