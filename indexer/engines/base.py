"""The one interface behind which search engines stand (behaviour.md, section 5).

An engine stores documents in indexes and answers searches over them. It knows nothing of feeds, of the
mirror's tables, or of where documents come from: what it holds can be thrown away and written again.

Contract, which ``tests/engines`` runs over every implementation:

* :meth:`Engine.write` returns when the batch is searchable, or raises :class:`EngineUnavailable`; then
  nothing is promised about the batch, and writing it again is harmless.
* A document that the engine refuses costs only itself: it is named in :attr:`WriteResult.rejected`, the rest
  of the batch is written.
* :meth:`Engine.search` never raises for what a query or a filter holds. Filters compare exactly. The first
  word of a query must match, further ones may fail from the last on. More words come before fewer, then exact
  matches before beginnings before typos, then earlier fields before later ones, then words that stand close
  together; equal ones in the asked order, then by key (bytes), so pages neither repeat nor skip. Documents
  that lack the sort field come last in both directions.
* An ``offset`` at or past the engine's ``max_total_hits`` answers no hits. A *cursor* goes on right behind
  the last hit of the page that gave it, whatever was written or removed meanwhile, to the very last match; it
  is good for the same index, query, filters and order only (:class:`InvalidCursor` otherwise).
  It is made of 24 to 4,096 letters, digits, ``-`` and ``_``.
* :meth:`Engine.suggest` finds names that begin with a text, or have a word that does; the most active first.
* *Figures* (:attr:`IndexDefinition.figures` and whatever comes with them) are written by
  :meth:`Engine.put_figures` alone: it never creates a document, and :meth:`Engine.write` leaves the figures
  of a document that is there as they are. They are shown like all other fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

Document = dict[str, Any]
"""What an answer shows, ready for JSON. ``id`` is the primary key."""


class EngineUnavailable(Exception):  # noqa: N818 - a state of the engine, not a mistake of the caller
    """The engine is away, or answers too late. Trying again later is right; nothing was lost."""


class IndexLost(EngineUnavailable):
    """An index is gone, or another stands in its place: it has to be filled from the mirror again."""


class IndexBusy(EngineUnavailable):
    """A build was not put in the live index's place: somebody reads the old one. It may be tried again."""


class InvalidCursor(ValueError):  # noqa: N818 - says what the cursor is
    """The cursor was not made by this engine for this request."""


_BUILD: Final = "__build"


def build_uid(uid: str) -> str:
    """Return the uid of the index that is built beside a live one, to take its place."""
    return f"{uid}{_BUILD}"


def is_build(uid: str) -> bool:
    """Tell whether a uid is one that :func:`build_uid` returns."""
    return uid.endswith(_BUILD)


class FieldType(Enum):
    """How the values of a sortable field compare."""

    TIME = "time"  # RFC 3339
    TEXT = "text"  # folded, then by bytes
    INTEGER = "integer"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """One index: which fields are searched (most important first), filtered and sorted by.

    ``texts`` are the searchable fields that people write: only in these does it count how close together
    words stand. ``names`` are what a document is called: a name that is the query, whole, is the best match
    there is, and suggestions are made of names. Other searchable fields (ids, keys) are found as they are or
    by their beginning, never by a typo.
    """

    uid: str
    searchable: tuple[str, ...]
    filterable: tuple[str, ...]
    sortable: Mapping[str, FieldType]
    texts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    """The sortable fields that `put_figures` writes."""

    @property
    def written(self) -> tuple[str, ...]:
        """The fields in which a typo may be, most important first."""
        return tuple(field for field in self.searchable if field in self.texts or field in self.names)


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """Documents to put and ids to remove, by index uid. An id appears at most once per index."""

    upserts: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    deletes: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RejectedDocument:
    """A document that the engine itself refuses. ``reason`` is short and holds nothing of the document."""

    index: str
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of a batch."""

    rejected: Sequence[RejectedDocument] = ()


@dataclass(frozen=True, slots=True)
class SortOrder:
    """An order by one sortable field."""

    field: str
    descending: bool = True


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search in one index. Filters are ANDed equalities on filterable fields (membership where a list).

    With a ``cursor`` (a ``next_cursor`` of the page before) the offset does not count.
    """

    index: str
    query: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)
    sort: SortOrder | None = None
    offset: int = 0
    limit: int = 20
    cursor: str | None = None


def check_fields(definition: IndexDefinition, request: SearchRequest) -> None:
    """Raise ValueError when a request filters or sorts by what its index does not."""
    for name in request.filters:
        if name not in definition.filterable:
            raise ValueError(f"{definition.uid} has no filter {name!r}")
    if request.sort is not None and request.sort.field not in definition.sortable:
        raise ValueError(f"{definition.uid} has no order {request.sort.field!r}")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A page of hits, and how many there are in all (exact, but never above ``max_total_hits``).

    ``next_cursor`` is opaque; None when this page ends the result.
    """

    hits: list[Document]
    estimated_total: int
    processing_ms: int
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class FoundIds:
    """The ids of a page of hits in order, and how many there are in all (as in SearchResult)."""

    ids: list[str]
    estimated_total: int


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """The size of one index."""

    number_of_documents: int
    is_indexing: bool


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """The sizes of all indexes by uid; ``raw`` is the engine's own account, where it has one."""

    indexes: Mapping[str, IndexStatistics]
    raw: Mapping[str, Any] | None = None


class Engine(Protocol):
    """A search engine. Every method may raise :class:`EngineUnavailable`."""

    name: str

    async def prepare(self, indexes: Sequence[IndexDefinition]) -> None:
        """Put indexes and their settings in place, awaited. Idempotent, safe in several processes at once."""

    async def write(self, batch: WriteBatch) -> WriteResult:
        """Write a batch; returns when it is searchable."""

    async def put_figures(self, index: str, figures: Mapping[str, Document]) -> Collection[str]:
        """Set the figures of documents that are there, by id, in place of those that they had.

        Creates nothing. Returns the ids that have no document; searchable when it returns.
        """

    async def search(self, request: SearchRequest) -> SearchResult:
        """Answer one page of a search. Raises :class:`InvalidCursor`."""

    async def suggest(self, indexes: Sequence[str], text: str, limit: int) -> dict[str, list[Document]]:
        """Return, by index, documents whose name, or a word of it, begins with a text: the most active first.

        Equal ones come by name, then by id. The indexes must have names. A blank text suggests nothing.
        """

    async def find_ids(self, request: SearchRequest, among: Collection[str] | None = None) -> FoundIds:
        """Answer which documents a page holds, by id alone: for long pages, up to ``max_total_hits``.

        With ``among``, of these documents only: all that match, in the same order; offset and limit count for
        nothing. However many they are, no filter of that length is made of them.
        """

    async def fetch_documents(self, index: str, ids: Collection[str]) -> Mapping[str, Document]:
        """Return the documents that are there, by id; for a page of them."""

    async def statistics(self) -> EngineStatistics:
        """Tell how large the indexes are."""

    async def ping(self) -> None:
        """Return when the engine answers."""

    async def close(self) -> None:
        """Give up what the engine itself opened."""


class Standing(Enum):
    """How an index stands, for who only looks."""

    READY = "ready"
    DIFFERS = "differs"  # prepare() would change it
    MISSING = "missing"


class BuildingEngine(Engine, Protocol):
    """An engine in which an index can be built beside the live one. Every engine here is one.

    An *identity* tells an index from every other that ever had its uid; it moves with the index when two are
    swapped. Who remembers it notices that an index was lost, and whether a swap has happened.
    """

    async def look(self, indexes: Sequence[IndexDefinition]) -> Mapping[str, Standing]:
        """Learn what is there, in place of :meth:`prepare`, and change nothing.

        Tells how every index stands. Afterwards those that are there can be asked for documents by id, and
        counted; what is missing is no index. Searching and writing need :meth:`prepare`.
        """

    @property
    def shape(self) -> str:
        """What the stored form of a document depends on; another shape means that all are written again."""

    def taken_over(self) -> Collection[str]:
        """Tell which live indexes another program has filled; they answer until a build takes their place."""

    def list_ids(self, uid: str) -> AsyncIterator[Sequence[str]]:
        """Yield the ids of every document of an index, in portions; what is written meanwhile may lack."""

    async def identities(self) -> Mapping[str, str]:
        """Tell the identity of every prepared index and of every build that is there."""

    async def begin_build(self, uid: str) -> str:
        """Make an empty index beside ``uid`` and return its identity; one left over from before goes.

        From now on :meth:`Engine.write` takes :func:`build_uid` as well, until this engine's build is gone:
        after another process has begun one, or when nothing is left of it, that is :class:`IndexLost`.
        """

    async def swap_build(self, uid: str) -> None:
        """Put the build in the live index's place, at one instant for searches. The old index goes.

        No write may be under way. Only the build that this engine began is ever put there: :class:`IndexLost`
        when another stands in its place. With :class:`IndexBusy` nothing has happened; with any other
        :class:`EngineUnavailable` it is not known, and asking again finds out.
        """

    async def drop_build(self, uid: str) -> None:
        """Remove what is left of a build; that nothing is there is no error."""
