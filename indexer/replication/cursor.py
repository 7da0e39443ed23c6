"""Where to read next, and which rows were read before. Pure (behaviour.md, section 2; CIP-16).

A cursor is the server's own text and is echoed as it came; its nanoseconds serve comparison only. Two texts
are ours: the start of the overlap, and the step past an instant that the feed can not leave by itself.
Neither is ever stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from indexer.concrnt.times import format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from indexer.concrnt.pages import Page
    from indexer.mirror.servers import FeedState

# Year 1 begins here: nothing can be asked for from before.
_BEGINNING_NS = -62_135_596_800 * 10**9
# Year 9999 ends here.
_END_NS = 253_402_300_800 * 10**9 - 1
STEPS_PAST_NS = (1, 1_000, 1_000_000)
"""How far to step past a stalled instant: by a nanosecond, a microsecond, a millisecond, until it moves."""
AHEAD_LIMIT_NS = 600 * 10**9
"""A cursor further than ten minutes ahead of our clock is not stored."""


class CursorWentBackError(Exception):
    """The feed's `next` is older than what was asked for."""


@dataclass(frozen=True, slots=True)
class Position:
    """An instant of a feed, as text to send and as nanoseconds."""

    text: str
    ns: int

    @classmethod
    def at(cls, ns: int) -> Position:
        """An instant of our own making."""
        ns = min(max(ns, _BEGINNING_NS), _END_NS)
        return cls(format_instant(ns), ns)


class Step(Enum):
    """What a page says about how to go on."""

    DRAINED = auto()
    FORWARD = auto()
    STALLED = auto()


def first_request(state: FeedState, *, overlap_ns: int) -> Position | None:
    """Where a run begins: `overlap` before the cursor, as the server wrote it where there is none."""
    if state.cursor is None or state.cursor_ns is None:
        return None
    if overlap_ns == 0:
        return Position(state.cursor, state.cursor_ns)
    return Position.at(state.cursor_ns - overlap_ns)


def judge(page: Page, asked: Position | None) -> Step:
    """How to go on after a page. Raises `CursorWentBackError`."""
    if page.next is None or page.next_ns is None:
        return Step.DRAINED
    if asked is None or page.next_ns > asked.ns:
        return Step.FORWARD
    if page.next_ns == asked.ns and page.prev_ns == asked.ns:
        return Step.STALLED
    if page.next_ns == asked.ns:
        raise CursorWentBackError(f"asked from {asked.text}, told to go on there, without a row there")
    raise CursorWentBackError(f"asked from {asked.text}, told to go on at {page.next}")


def moved_past(page: Page, instant: Position) -> bool:
    """Whether a page asked for from just past an instant begins past it: servers may cut our fraction."""
    return page.prev_ns is None or page.prev_ns > instant.ns


def storable(position: Position | None, *, now: datetime) -> Position | None:
    """A position that may become the stored cursor; None when there is none, or it is ahead of our clock."""
    now_ns = int(now.timestamp() * 1_000_000) * 1_000
    return None if position is None or position.ns > now_ns + AHEAD_LIMIT_NS else position


def shows_row_at(page: Page, cursor_ns: int) -> bool:
    """Whether an answer proves that the log still holds a row at the stored cursor or past it."""
    return any(ns is not None and ns >= cursor_ns for ns in (page.prev_ns, page.next_ns))


def rows_read_before(
    digests: Sequence[int], *, ends_ns: int | None, horizon_ns: int | None, seen: Sequence[int]
) -> tuple[int, int]:
    """How many rows at the head of a page were read before, and how many of `seen` they account for.

    All of them where the first row past the page (`ends_ns`) is not past the horizon, the cursor as the
    run began. Else `seen`, the rows of the page applied last, tells where they end: rows do not carry their
    receipt time. Rows that are alike (`null`, a commit sent twice) make a single row no proof, so the whole
    sequence is looked for, up to the end of the page; only where late or hidden rows part it, its rows in
    order.
    """
    if horizon_ns is not None and ends_ns is not None and ends_ns <= horizon_ns:
        return len(digests), 0
    for start, digest in enumerate(digests):
        if seen and digest == seen[0]:
            length = min(len(seen), len(digests) - start)
            if tuple(digests[start : start + length]) == tuple(seen[:length]):
                return start + length, length
    read, met = 0, 0
    places: dict[int, list[int]] = {}
    for place, digest in enumerate(seen):
        places.setdefault(digest, []).append(place)
    for position, digest in enumerate(digests):
        later = [place for place in places.get(digest, ()) if place >= met]
        if later:
            read, met = position + 1, later[0] + 1
    return read, met


def shared_rows(ascending: Sequence[int], descending: Sequence[int], *, distinct: AbstractSet[int]) -> int:
    """How many rows the end of one reading and the head of another have in common; 0 when they did not meet.

    For an instant: the digests as read forward and, put back into log order, as read backward. Rows without
    a document are alike and prove nothing: one of the `distinct` ones has to be among the common ones. An
    instant of exactly as many rows as two requests hold can not be told from a longer one: it counts as not
    met.
    """
    for shared in range(min(len(ascending), len(descending)), 0, -1):
        common = list(descending[:shared])
        if list(ascending[-shared:]) == common and not distinct.isdisjoint(common):
            return shared
    return 0
