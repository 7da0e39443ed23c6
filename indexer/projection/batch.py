"""What a batch of changed keys asks of the engine. Pure: current states in, documents and ids out.

The current state alone decides. A live record of an indexed schema goes into its index and out of the indexes
of the schemas it had before (behaviour.md, section 3, rule 5); one that has no document, and what is gone,
goes out of every index where it may stand. Taking out what is not there is no error, so nothing has to be
known for sure: a former schema that is not indexed today may have been so before the settings changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from indexer.engines.base import WriteBatch
from indexer.engines.ids import document_id
from indexer.engines.indexes import COMMUNITIES, POSTS, SERVERS, USERS
from indexer.projection.documents import record_document, server_document

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from indexer.engines.base import Document
    from indexer.projection.documents import StoredRecord, StoredServer
    from indexer.projection.kinds import Kinds

_RECORD_INDEXES: Final = frozenset({USERS, COMMUNITIES, POSTS})


class Marked(Protocol):
    """A changed key with its current state. A frozen dataclass with these fields fits.

    With neither record nor server, what the key stood for is gone. A server's key is its FQDN.
    """

    @property
    def key(self) -> str:
        """The canonical key, or a server's FQDN."""

    @property
    def generation(self) -> int:
        """Raised by every change; a mark is cleared only at the generation that was read."""

    @property
    def marked_at(self) -> datetime:
        """When the oldest change that is not yet indexed was committed, aware."""

    @property
    def former_schemas(self) -> Sequence[str]:
        """The schemas under which the key may still stand in an index."""

    @property
    def record(self) -> StoredRecord | None:
        """The live record under the key."""

    @property
    def server(self) -> StoredServer | None:
        """The server of that name."""


class BatchPlan:
    """Gathers what marks ask for.

    Args:
        kinds: which schemas are indexed.
        indexed_at: what the documents say about when they were indexed, aware.

    """

    def __init__(self, kinds: Kinds, indexed_at: datetime) -> None:
        self._kinds = kinds
        self._indexed_at = indexed_at
        self._upserts: dict[str, list[Document]] = {}
        self._deletes: dict[str, list[str]] = {}
        self._key_of: dict[str, str] = {}

    def add(self, mark: Marked) -> None:
        """Add a mark; each key at most once."""
        identifier = document_id(mark.key)
        self._key_of[identifier] = mark.key
        if mark.server is not None:
            self._put(SERVERS, server_document(mark.server))
        elif mark.record is not None:
            self._add_record(mark.record, identifier, mark.former_schemas)
        elif "://" in mark.key:
            self._remove(identifier, self._indexes_of(mark.former_schemas))
        else:
            self._remove(identifier, {SERVERS})

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self._upserts and not self._deletes

    def batch(self) -> WriteBatch:
        """Return the whole as the engine takes it."""
        return WriteBatch(upserts=self._upserts, deletes=self._deletes)

    def key_of(self, identifier: str) -> str:
        """Return the key of a document in the batch."""
        return self._key_of[identifier]

    def _add_record(self, record: StoredRecord, identifier: str, former_schemas: Sequence[str]) -> None:
        leaves = self._indexes_of(former_schemas)
        index = self._kinds.index_of(record.schema)
        if index is not None:
            document = record_document(index, record, self._indexed_at)
            if document is None:
                leaves.add(index)
            else:
                leaves.discard(index)
                self._put(index, document)
        self._remove(identifier, leaves)

    def _indexes_of(self, schemas: Sequence[str]) -> set[str]:
        indexes: set[str] = set()
        for schema in schemas:
            index = self._kinds.index_of(schema)
            indexes |= _RECORD_INDEXES if index is None else {index}
        return indexes

    def _put(self, index: str, document: Document) -> None:
        self._upserts.setdefault(index, []).append(document)

    def _remove(self, identifier: str, indexes: set[str]) -> None:
        for index in indexes:
            self._deletes.setdefault(index, []).append(identifier)
