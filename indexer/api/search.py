"""Answering a search: parameters in, one bounded call of the engine, the documents out as they are.

An ``offset`` at or past ``max_total_hits`` is answered with no hits and the honest total; a page that would
cross that line ends at it.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from indexer.api.errors import ApiError
from indexer.api.kinds import SearchKind
from indexer.api.parameters import SearchParameters, read_search
from indexer.engines.base import Engine, SearchRequest
from indexer.observability.tracing import span


@dataclass(frozen=True, slots=True)
class SearchService:
    """The searches of the public API over one engine."""

    engine: Engine
    max_total_hits: int = 10_000
    timeout_seconds: float = 10.0

    async def answer(self, kind: SearchKind, query_string: bytes) -> dict[str, Any]:
        """Answer one search.

        Raises ApiError (400, 501), and what the engine raises when it is away; TimeoutError when it takes
        longer than it may.
        """
        asked = read_search(query_string, kind)
        if asked.viewer is not None:
            raise ApiError(501, "ranking for a viewer is not built yet; leave viewer out")
        with span("api.search", index=kind.index, offset=asked.offset, limit=asked.limit):
            async with asyncio.timeout(self.timeout_seconds):
                result = await self.engine.search(self._request(kind, asked))
        return {
            "hits": result.hits[: self._room(asked)],
            "query": asked.query,
            "limit": asked.limit,
            "offset": asked.offset,
            "estimatedTotalHits": result.estimated_total,
            "processingTimeMs": result.processing_ms,
        }

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
