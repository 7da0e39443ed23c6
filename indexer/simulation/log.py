"""A server's commit log and its pages, as CIP-16 describes the replication feed.

Rows are ordered by receipt time, rows of one instant by the order in which they were added. A row may be
added behind the end: the receipt time is stamped while a commit is under way, so it can surface late.
Pages are made of JSON that is already serialised; nothing is parsed or copied to make one.

Receipt times are integer nanoseconds since the epoch. Real servers keep theirs in PostgreSQL and know
microseconds only; `Precision.MICROSECONDS` cuts stored times and the bounds of a request alike.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from indexer.concrnt.times import format_instant

MOST_ROWS = 100
"""The most rows a server gives in one page, whatever `limit` asks for."""


class Precision(IntEnum):
    """The step of a server's receipt times, in nanoseconds."""

    NANOSECONDS = 1
    MICROSECONDS = 1_000


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """One row: when the server took the commit, its signed document as JSON, and who may read it."""

    receipt_ns: int
    signed: bytes
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a reader asks for; both bounds are inclusive."""

    since_ns: int | None = None
    until_ns: int | None = None
    limit: int = MOST_ROWS
    descending: bool = False


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page: the rows that an anonymous reader sees, and the cursors of all rows."""

    items: tuple[bytes, ...]
    prev_ns: int | None
    next_ns: int | None

    def encode(self) -> bytes:
        """Return the JSON text of the page."""
        return b'{"items":[%b],"prev":%b,"next":%b}' % (
            b",".join(self.items),
            _cursor(self.prev_ns),
            _cursor(self.next_ns),
        )


class CommitLog:
    """The rows of one server, in log order."""

    def __init__(
        self, rows: Iterable[LoggedCommit] = (), *, precision: Precision = Precision.NANOSECONDS
    ) -> None:
        self.precision = precision
        self.generation = 0
        """Grows whenever rows already given are no longer a prefix of the log."""
        self._receipts: list[int] = []
        self._signed: list[bytes] = []
        self._hidden = bytearray()
        for row in rows:
            self.add(row.receipt_ns, row.signed, hidden=row.hidden)

    def __len__(self) -> int:
        return len(self._signed)

    def __iter__(self) -> Iterator[LoggedCommit]:
        return self.rows_from(0)

    def __getitem__(self, position: int) -> LoggedCommit:
        return LoggedCommit(self._receipts[position], self._signed[position], bool(self._hidden[position]))

    def rows_from(self, position: int) -> Iterator[LoggedCommit]:
        """Yield the rows from `position` on."""
        for at in range(position, len(self._signed)):
            yield self[at]

    @property
    def last_receipt_ns(self) -> int | None:
        """The receipt time of the last row."""
        return self._receipts[-1] if self._receipts else None

    def add(self, receipt_ns: int, signed: bytes, *, hidden: bool = False) -> int:
        """Add a row after all rows of the same instant; return its position."""
        receipt_ns = self._cut(receipt_ns)
        position = bisect_right(self._receipts, receipt_ns)
        if position < len(self._receipts):
            self.generation += 1
        self._receipts.insert(position, receipt_ns)
        self._signed.insert(position, signed)
        self._hidden.insert(position, hidden)
        return position

    def hide(self, position: int, *, hidden: bool = True) -> None:
        """Make a row unreadable for anonymous readers; it still counts for cursors."""
        self._hidden[position] = hidden

    def cut_back(self, receipt_ns: int) -> None:
        """Forget every row received after `receipt_ns`, as a restore from a backup does."""
        keep = bisect_right(self._receipts, receipt_ns)
        del self._receipts[keep:], self._signed[keep:], self._hidden[keep:]
        self.generation += 1

    def wipe(self) -> None:
        """Forget everything."""
        del self._receipts[:], self._signed[:], self._hidden[:]
        self.generation += 1

    def page(self, request: PageRequest, *, only: Callable[[bytes], bool] | None = None) -> LogPage:
        """Return the page that `request` asks for.

        `only` narrows the log before the page is cut (the feed's `owner` parameter).
        """
        low, high = self._bounds(request)
        if only is None:
            return self._cut_page(range(low, high), request)
        chosen = [at for at in range(low, high) if only(self._signed[at])]
        return self._cut_page(chosen, request)

    def _bounds(self, request: PageRequest) -> tuple[int, int]:
        """Return the half-open range of positions between the bounds."""
        low, high = 0, len(self._receipts)
        if request.since_ns is not None:
            low = bisect_left(self._receipts, self._cut(request.since_ns))
        if request.until_ns is not None:
            high = bisect_right(self._receipts, self._cut(request.until_ns))
        return low, max(low, high)

    def _cut_page(self, positions: Sequence[int], request: PageRequest) -> LogPage:
        """Return the first `limit` of the positions as a page, in the direction of reading."""
        ordered = positions[::-1] if request.descending else positions
        taken = ordered[: request.limit]
        beyond = ordered[request.limit : request.limit + 1]
        return LogPage(
            items=tuple(self._signed[at] for at in taken if not self._hidden[at]),
            prev_ns=self._receipts[taken[0]] if taken else None,
            next_ns=self._receipts[beyond[0]] if beyond else None,
        )

    def _cut(self, instant_ns: int) -> int:
        return instant_ns - instant_ns % self.precision


def _cursor(instant_ns: int | None) -> bytes:
    return b"null" if instant_ns is None else b'"%b"' % format_instant(instant_ns).encode()
