"""Answering a search: parameters in, bounded calls of the engine, the documents out as they are.

An ``offset`` at or past ``max_total_hits`` is answered with no hits and the honest total; a page that would
cross that line ends at it. Activity fields move with time: ``present`` makes them what they are now.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from indexer.api.kinds import SearchKind
from indexer.api.parameters import SearchParameters, read_search
from indexer.api.viewer import Ranking, ViewerSearch
from indexer.engines.base import Document, Engine, SearchRequest
from indexer.observability.tracing import span

Present = Callable[[Document, datetime], dict[str, Any]]
"""Makes a hit as it is shown from a document and the time now."""


def as_it_is(document: Document, _now: datetime) -> dict[str, Any]:
    """Show a document as the engine has it."""
    return document


def utc_now() -> datetime:
    """The time of the machine's clock, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class SearchService:
    """The searches of the public API over one engine."""

    engine: Engine
    ranking: Ranking
    max_total_hits: int = 10_000
    timeout_seconds: float = 10.0
    present: Present = as_it_is
    clock: Callable[[], datetime] = utc_now

    async def answer(self, kind: SearchKind, query_string: bytes) -> dict[str, Any]:
        """Answer one search.

        Raises ApiError (400), and what the engine or the ranking raises when it is away; TimeoutError when it
        takes longer than it may.
        """
        asked = read_search(query_string, kind)
        now = self.clock()
        with span("api.search", index=kind.index, offset=asked.offset, limit=asked.limit):
            async with asyncio.timeout(self.timeout_seconds):
                find = self._find if asked.viewer is None else self._find_for_viewer
                hits, total, milliseconds = await find(kind, asked, now)
        return {
            "hits": [self.present(hit, now) for hit in hits],
            "query": asked.query,
            "limit": asked.limit,
            "offset": asked.offset,
            "estimatedTotalHits": total,
            "processingTimeMs": milliseconds,
        }

    async def _find(
        self, kind: SearchKind, asked: SearchParameters, _now: datetime
    ) -> tuple[list[Document], int, int]:
        result = await self.engine.search(self._request(kind, asked))
        return result.hits[: self._room(asked)], result.estimated_total, result.processing_ms

    async def _find_for_viewer(
        self, kind: SearchKind, asked: SearchParameters, now: datetime
    ) -> tuple[list[Document], int, int]:
        started = time.monotonic()
        search = ViewerSearch(self.engine, self.ranking, self.max_total_hits, kind, asked, now)
        page = await search.page()
        return page.hits, page.total, round((time.monotonic() - started) * 1000)

    def _room(self, asked: SearchParameters) -> int:
        """How many hits may still be shown at this offset."""
        return min(asked.limit, max(self.max_total_hits - asked.offset, 0))

    def _request(self, kind: SearchKind, asked: SearchParameters) -> SearchRequest:
        return SearchRequest(
            index=kind.index,
            query=asked.text,
            filters=asked.filters,
            sort=asked.sort,
            offset=min(asked.offset, self.max_total_hits),
            limit=max(self._room(asked), 1),  # where no hit may be shown the total is still asked for
        )
