"""Running a planned search: which way leads to the page, and how steps and absent fields follow each other.

Few matches are fetched, ranked and sorted whole. Of many, only a page is looked for, span by span, best
first; within a step the documents that have the sort field come first, then those that lack it, both by key
in the end. That a span matches more than the bound is remembered for a while (:class:`Exceeding`): to count
up to the bound is what a search of a common word would take longest for.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from indexer.engines.postgres.cursors import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import asyncpg

    from indexer.engines.postgres.searching import Statement, TablePlan
    from indexer.engines.postgres.steps import Span
    from indexer.engines.postgres.writing import Connection


REMEMBERED_SECONDS: Final = 30.0
REMEMBERED_SPANS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Found:
    """A hit: the JSON text of its document, or its id (as the plan says), and where it stands."""

    position: Position
    shown: str


@dataclass(frozen=True, slots=True)
class Page:
    """The hits of a page, how many match in all (up to the bound), and whether more follow."""

    hits: list[Found]
    total: int
    is_last: bool


@dataclass(slots=True)
class Exceeding:
    """The spans that lately matched more than the bound. ``monotonic`` is in seconds."""

    monotonic: Callable[[], float]
    _until: OrderedDict[Hashable, float] = field(default_factory=OrderedDict)

    def note(self, plan: TablePlan, span: Span) -> None:
        """Remember a span."""
        key = plan.identity(span)
        self._until[key] = self.monotonic() + REMEMBERED_SECONDS
        self._until.move_to_end(key)
        if len(self._until) > REMEMBERED_SPANS:
            self._until.popitem(last=False)

    def knows(self, plan: TablePlan, span: Span) -> bool:
        """Tell whether a span is remembered."""
        return self._until.get(plan.identity(span), 0.0) > self.monotonic()


async def find_page(
    connection: Connection, plan: TablePlan, after: Position | None, bound: int, exceeding: Exceeding
) -> Page:
    """Find the page that a plan asks for, in one snapshot.

    Without ``after``, among the first ``bound`` matches; with it, right behind that position, however deep.
    """
    return await _Finder(connection, plan, after, bound, exceeding).find()


class _Finder:
    def __init__(
        self,
        connection: Connection,
        plan: TablePlan,
        after: Position | None,
        bound: int,
        exceeding: Exceeding,
    ) -> None:
        self._connection = connection
        self._plan = plan
        self._after = after
        self._bound = bound
        self._exceeding = exceeding

    async def find(self) -> Page:
        offset = min(max(self._plan.request.offset, 0), self._bound) if self._after is None else 0
        room = self._bound - offset if self._after is None else self._plan.request.limit
        limit = min(max(self._plan.request.limit, 0), room)
        hits, total = await self._first(offset, limit + 1)  # one more tells whether any follow
        return Page(hits[:limit], total, is_last=len(hits) <= limit)

    async def _first(self, offset: int, limit: int) -> tuple[list[Found], int]:
        root = self._plan.root
        if self._plan.is_unconditional:
            total = await self._count(self._plan.counted(root, bound=self._bound))
            return await self._walk(root, offset, limit), total
        hits, total = await self._ranked(root, offset, limit)
        if total <= self._bound:
            return hits, total
        step = self._first_step(root)
        hits = await self._peek(step, limit) if step is not None and not offset else []
        if len(hits) < limit:
            hits = await self._among_many(root, offset, limit)
        return hits, self._bound

    def _first_step(self, span: Span) -> Span | None:
        """Return the best step of a span that is not behind the position to go on from, where it is plain."""
        while span.parts:
            ahead = [part for part in span.parts if not self._is_behind(part)]
            if not ahead:
                return None
            span = ahead[0]
        return span

    def _is_behind(self, span: Span) -> bool:
        """Tell whether all of a span was shown before the position to go on from."""
        return self._after is not None and self._after.rank >= span.end

    async def _peek(self, step: Span, limit: int) -> list[Found]:
        after = self._after if self._after is not None and self._after.rank >= step.first else None
        if self._plan.request.sort is None or (after is not None and after.value is None):
            return []
        return [_found(row) for row in await self._fetch(self._plan.peeked(step, after, limit))]

    async def _among_many(self, span: Span, offset: int, limit: int) -> list[Found]:
        """Look into a span that matches more than the bound, part by part."""
        if not span.parts:
            return await self._walk(span, offset, limit)
        hits: list[Found] = []
        for part in span.parts:
            if self._is_behind(part):
                continue
            found, total = await self._ranked(part, offset, limit - len(hits))
            if total > self._bound:
                found = await self._among_many(part, offset, limit - len(hits))
                # More than the bound were passed over or found here, and no page goes on behind it.
                total = offset + len(found)
            hits += found
            if len(hits) == limit:
                break
            offset = max(offset - total, 0)
        return hits

    async def _ranked(self, span: Span, offset: int, limit: int) -> tuple[list[Found], int]:
        # One more than the bound tells "more than the bound" from "exactly the bound".
        more = self._bound + 1
        if self._exceeding.knows(self._plan, span):
            return [], more
        rows = await self._fetch(self._plan.ranked(span, self._after, offset, limit, more))
        if rows[0]["total"] == more:
            self._exceeding.note(self._plan, span)
        return [_found(row) for row in rows if row["shown"] is not None], rows[0]["total"]

    async def _walk(self, span: Span, offset: int, limit: int) -> list[Found]:
        after = self._after if self._after is not None and self._after.rank >= span.first else None
        has_order = self._plan.request.sort is not None
        if after is not None and has_order and after.value is None:
            return await self._walk_part(span, after, offset, limit, missing=True)
        present = await self._walk_part(span, after, offset, limit, missing=False)
        if len(present) == limit or not has_order:
            return present
        if present:
            offset = 0
        elif offset:
            offset -= await self._count(self._plan.counted(span, bound=offset, present_only=True))
        return present + await self._walk_part(span, None, offset, limit - len(present), missing=True)

    async def _walk_part(
        self, span: Span, after: Position | None, offset: int, limit: int, *, missing: bool
    ) -> list[Found]:
        statement = self._plan.walked(span, after, missing=missing, offset=offset, limit=limit)
        return [_found(row) for row in await self._fetch(statement)]

    async def _count(self, statement: Statement) -> int:
        rows = await self._fetch(statement)
        count: int = rows[0]["count"]
        return count

    async def _fetch(self, statement: Statement) -> list[asyncpg.Record]:
        return await self._connection.fetch(statement.sql, *statement.arguments)


def _found(row: asyncpg.Record) -> Found:
    return Found(Position(row["rank"], row["value"], row["key"]), row["shown"])
