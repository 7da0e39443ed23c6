"""One search over one index: levels, pages, and going on behind a cursor.

*Levels.* A query whose parts do not all match goes on without its last part, and so on. Meilisearch can do
so for single words alone, so each level is asked for by itself, and what a better level has found is left
out.

*Cursors.* Meilisearch knows offsets only, and a deep offset is slow. Behind a position come, within its
level: hits of equal scores that are later in the asked order, which a filter tells; then those of worse
scores, whose beginning is looked for by halving; then the next levels. So a page costs the same however deep
it is, as long as scores are equal, which they are wherever very much matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from indexer.engines.meilisearch.documents import SHOWN, filter_of
from indexer.engines.meilisearch.letters import write_levels
from indexer.engines.meilisearch.positions import (
    KEY_ASCENDING,
    behind,
    position_of,
    ranks_of,
    sort_expression,
    sort_positions,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

    from indexer.engines.base import SearchRequest
    from indexer.engines.meilisearch.positions import Position
    from indexer.engines.text import Query

    Ask = Callable[[dict[str, Any]], Awaitable[Any]]

IDS_AT_ONCE: Final = 1_000
Filters = list["str | list[str]"]


@dataclass(frozen=True, slots=True)
class Found:
    """A hit as the server gave it, and where it stands."""

    hit: dict[str, Any]
    position: Position

    @property
    def id(self) -> str:
        """The document's id."""
        identifier: str = self.hit["id"]
        return identifier


@dataclass(frozen=True, slots=True)
class Page:
    """The hits of a page, how many match in all, and whether more follow."""

    hits: list[Found]
    total: int
    is_last: bool


class IndexSearch:
    """A search.

    Args:
        ask: sends the body of a search.
        request: what is asked for.
        query: its query, cut; something must be able to match.
        max_total_hits: how deep offsets go, and how far totals count.
        fields: the stored fields that hits are answered with, besides the id.

    """

    def __init__(
        self,
        ask: Ask,
        request: SearchRequest,
        query: Query,
        max_total_hits: int,
        fields: Sequence[str] = SHOWN,
    ) -> None:
        self._fields = ["id", *fields]
        self._ask_for = ask
        self._request = request
        self._levels = write_levels(query)
        self._is_ranked = bool(query.terms)
        self._max_total_hits = max_total_hits
        self._first_chunk = min(max(request.limit + 1, 1), IDS_AT_ONCE)

    async def page(self, after: Position | None) -> Page:
        """Return the page at the request's offset, or behind a position."""
        if after is not None:
            limit = max(self._request.limit, 0)
            hits = await _first_of(self._behind(after), limit + 1)
            return Page(hits[:limit], await self._total(), len(hits) <= limit)
        offset = min(max(self._request.offset, 0), self._max_total_hits)
        limit = min(max(self._request.limit, 0), self._max_total_hits - offset)
        # One more tells whether any follow.
        hits, total = await self._part(0, offset, limit + 1)
        if len(self._levels) > 1:
            rest, skipped = limit + 1 - len(hits), max(offset - total, 0)
            if rest:
                hits += (await _first_of(self._lower(1), skipped + rest))[skipped:]
            total = await self._total()
        return Page(hits[:limit], min(total, self._max_total_hits), len(hits) <= limit)

    async def among(self, ids: Collection[str]) -> list[str]:
        """Return all of these documents that match, in the order of the search."""
        places: list[tuple[Position, str]] = []
        wanted = sorted(ids)
        for start in range(0, len(wanted), IDS_AT_ONCE):
            left = wanted[start : start + IDS_AT_ONCE]
            for level in range(len(self._levels)):
                found, _ = await self._part(level, 0, len(left), self._filters(left), fields=["id"])
                places += [(one.position, one.id) for one in found]
                matched = {one.id for one in found}
                left = [identifier for identifier in left if identifier not in matched]
                if not left:
                    break
        sort = self._request.sort
        return sort_positions(places, descending=sort is not None and sort.descending)

    # --- going on ---------------------------------------------------------------------------------------

    async def _behind(self, after: Position) -> AsyncIterator[Found]:
        if after.level >= len(self._levels):
            return
        later = [*self._filters(), behind(after, self._request)]
        start = await self._first_at_most(after, later)
        passed = after.passed
        async for found in self._level(after.level, later, start, passed=passed - start):
            if found.position.ranks != after.ranks:
                break
            passed = found.position.passed
            yield found
        if after.ranks:
            worse = await self._first_below(after, passed)
            if worse is not None:
                async for found in self._level(after.level, self._filters(), worse):
                    yield found
        async for found in self._lower(after.level + 1):
            yield found

    async def _lower(self, first: int) -> AsyncIterator[Found]:
        for level in range(first, len(self._levels)):
            async for found in self._level(level, self._filters(), 0):
                yield found

    async def _level(
        self, level: int, filters: Filters, start: int, *, passed: int = 0
    ) -> AsyncIterator[Found]:
        """Yield the hits of a level that no better level has; ``passed`` stands before the first."""
        chunk = self._first_chunk
        while True:
            found, _ = await self._part(level, start, chunk, filters, passed=passed)
            better = await self._matching(level - 1, [one.id for one in found]) if level else frozenset()
            for one in found:
                if one.id not in better:
                    yield one
            start += len(found)
            if len(found) < chunk:
                return
            chunk = min(2 * chunk, IDS_AT_ONCE)

    async def _first_at_most(self, after: Position, filters: Filters) -> int:
        """Return where hits begin that are not better than a position, of those that are later in order."""
        low, step = 0, 1
        while (ranks := await self._ranks(after.level, low + step - 1, filters)) is not None:
            if ranks <= after.ranks:
                break
            low, step = low + step, step * 2
        return await self._halve(after.level, filters, low, low + step - 1, lambda at: at <= after.ranks)

    async def _first_below(self, after: Position, hint: int) -> int | None:
        """Return where hits begin that are worse than a position, if any are.

        It is near the hint, unless much has changed.
        """
        filters = self._filters()
        _, total = await self._part(after.level, 0, 0)
        if not total:
            return None
        last = await self._ranks(after.level, total - 1, filters)
        if last is None or last >= after.ranks:
            return None

        async def is_below(offset: int) -> bool:
            ranks = await self._ranks(after.level, offset, filters)
            return ranks is None or ranks < after.ranks

        low, high, step = 0, total - 1, 1
        near = min(hint, high)
        if await is_below(near):
            high = near
            while low < high and await is_below(max(high - step, 0)):
                high, step = max(high - step, 0), step * 2
            low = max(high - step + 1, 0)
        else:
            low = near + 1
            while low < high and not await is_below(min(low + step - 1, high)):
                low, step = min(low + step, high), step * 2
            high = min(low + step - 1, high)
        return await self._halve(after.level, filters, low, high, lambda at: at < after.ranks)

    async def _halve(
        self,
        level: int,
        filters: Filters,
        low: int,
        high: int,
        holds: Callable[[tuple[float, ...]], bool],
    ) -> int:
        """Return the first offset from ``low`` on where it holds; ``high`` is one, or the end."""
        while low < high:
            middle = (low + high) // 2
            ranks = await self._ranks(level, middle, filters)
            if ranks is None or holds(ranks):
                high = middle
            else:
                low = middle + 1
        return low

    # --- asking -------------------------------------------------------------------------------------------

    def _filters(self, among: Sequence[str] = ()) -> Filters:
        return [*filter_of(self._request.filters, among)]

    async def _ranks(self, level: int, offset: int, filters: Filters) -> tuple[float, ...] | None:
        """Return the scores at an offset. Without an order, which is what makes deep offsets slow."""
        body = {
            "q": self._levels[level],
            "offset": offset,
            "limit": 1,
            "attributesToRetrieve": ["id"],
            "matchingStrategy": "all",
            "filter": filters,
            "showRankingScoreDetails": True,
        }
        hits = (await self._ask_for(body))["hits"]
        return ranks_of(hits[0]) if hits else None

    async def _matching(self, level: int, ids: Sequence[str]) -> frozenset[str]:
        """Tell which of these documents a level finds."""
        if not ids:
            return frozenset()
        answer = await self._ask(level, 0, len(ids), self._filters(ids), ["id"], details=False)
        return frozenset(hit["id"] for hit in answer["hits"])

    async def _total(self) -> int:
        """Count what matches at all: the last level finds it."""
        answer = await self._ask(len(self._levels) - 1, 0, 0, self._filters(), ["id"], details=False)
        total: int = answer["estimatedTotalHits"]
        return min(total, self._max_total_hits)

    async def _part(
        self,
        level: int,
        offset: int,
        limit: int,
        filters: Filters | None = None,
        *,
        fields: Sequence[str] | None = None,
        passed: int = 0,
    ) -> tuple[list[Found], int]:
        """Return hits of a level, and how many it has."""
        if filters is None:
            filters = self._filters()
        answer = await self._ask(level, offset, limit, filters, fields or self._fields, details=True)
        first = passed + offset + 1
        total: int = answer["estimatedTotalHits"]
        return [
            Found(hit, position_of(hit, level, number, self._request, ranked=self._is_ranked))
            for number, hit in enumerate(answer["hits"], start=first)
        ], total

    async def _ask(
        self, level: int, offset: int, limit: int, filters: Filters, fields: Sequence[str], *, details: bool
    ) -> Any:
        body: dict[str, Any] = {
            "q": self._levels[level],
            "offset": offset,
            "limit": limit,
            "attributesToRetrieve": list(fields),
            "matchingStrategy": "all",
            "filter": filters,
        }
        if details:
            body["showRankingScoreDetails"] = True
            sort = self._request.sort
            body["sort"] = [*([sort_expression(sort)] if sort is not None else []), *KEY_ASCENDING]
        return await self._ask_for(body)


async def _first_of(found: AsyncIterator[Found], count: int) -> list[Found]:
    hits: list[Found] = []
    if count > 0:
        async for one in found:
            hits.append(one)
            if len(hits) == count:
                break
    return hits
