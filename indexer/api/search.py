"""Answering a search: parameters in, bounded calls of the engine, the documents out as they are.

An ``offset`` at or past ``max_total_hits`` is answered with no hits and the honest total; a page that would
cross that line ends at it. A ``cursor`` goes on to the end of any result. Activity fields move with time:
``present`` makes them what they are now.

``processingTimeMs`` is the last field of every answer (answers.py counts on it).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from indexer.api.errors import ApiError
from indexer.api.kinds import SEARCH_KINDS, SUGGESTED_KINDS, SearchKind
from indexer.api.parameters import (
    DEFAULT_EVERYWHERE_LIMIT,
    DEFAULT_SUGGESTIONS,
    MAX_LIMIT,
    MAX_SUGGESTIONS,
    LimitedParameters,
    SearchParameters,
    read_limited,
    read_search,
)
from indexer.api.patience import Patience
from indexer.api.viewer import Ranking, ViewerSearch
from indexer.engines.base import Document, Engine, InvalidCursor, SearchRequest
from indexer.engines.highlighting import Highlighter
from indexer.engines.indexes import BY_UID
from indexer.engines.text import parse_query
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
class _Found:
    """What was found: one page of documents, the total, where to go on, and how long it took."""

    hits: Sequence[Document]
    total: int
    next_cursor: str | None
    milliseconds: int


@dataclass(frozen=True, slots=True)
class SearchService:
    """The searches of the public API over one engine."""

    engine: Engine
    ranking: Ranking
    max_total_hits: int = 10_000
    patience: Patience = field(default_factory=lambda: Patience(10.0))
    present: Present = as_it_is
    clock: Callable[[], datetime] = utc_now

    async def answer(self, kind: SearchKind, query_string: bytes) -> dict[str, Any]:
        """Answer one search.

        Raises ApiError (400, 404 for a cursor of another search), and what the engine or the ranking raises
        when it is away; TimeoutError when it takes longer than it may.
        """
        asked = read_search(query_string, kind)
        now = self.clock()
        with span("api.search", index=kind.index, offset=asked.offset, limit=asked.limit):
            found, hits = await self.patience.wait(self._answer(kind, asked, now))
        return {
            "hits": hits,
            "query": asked.query,
            "limit": asked.limit,
            "offset": asked.offset,
            "estimatedTotalHits": found.total,
            "nextCursor": found.next_cursor,
            "processingTimeMs": found.milliseconds,
        }

    async def answer_everywhere(self, query_string: bytes) -> dict[str, Any]:
        """Answer a search of every kind at once: the best hits of each, in the order of its default."""
        asked = read_limited(query_string, DEFAULT_EVERYWHERE_LIMIT, MAX_LIMIT)
        now = self.clock()
        requests = [
            SearchRequest(kind.index, asked.text, sort=kind.default_sort, limit=asked.limit)
            for kind in SEARCH_KINDS
        ]
        with span("api.search_everywhere", limit=asked.limit):
            found, milliseconds = await self.patience.wait(self._answer_all(requests, asked, now))
        return {
            "query": asked.query,
            "limit": asked.limit,
            **found,
            "processingTimeMs": milliseconds,
        }

    async def suggest(self, query_string: bytes) -> dict[str, Any]:
        """Suggest people and communities whose names begin with what was typed."""
        asked = read_limited(query_string, DEFAULT_SUGGESTIONS, MAX_SUGGESTIONS)
        began = time.perf_counter()
        indexes = [kind.index for kind in SUGGESTED_KINDS]
        found = await self.patience.wait(self.engine.suggest(indexes, asked.text, asked.limit))
        now = self.clock()
        names = {
            kind.name: [kind.suggestion(self.present(document, now)) for document in found[kind.index]]
            for kind in SUGGESTED_KINDS
        }
        milliseconds = round((time.perf_counter() - began) * 1000)
        return {"query": asked.query, "limit": asked.limit, **names, "processingTimeMs": milliseconds}

    async def _answer(
        self, kind: SearchKind, asked: SearchParameters, now: datetime
    ) -> tuple[_Found, list[Document]]:
        find = self._find if asked.viewer is None else self._find_for_viewer
        try:
            found = await find(kind, asked, now)
        except InvalidCursor as error:
            raise ApiError(404, f"{error}; ask again without it") from error
        return found, await self._shown(kind, found.hits, asked, now)

    async def _answer_all(
        self, requests: Sequence[SearchRequest], asked: LimitedParameters, now: datetime
    ) -> tuple[dict[str, Any], int]:
        results = await asyncio.gather(*map(self.engine.search, requests))
        found = {
            kind.name: {
                "hits": await self._shown(kind, result.hits, asked, now),
                "estimatedTotalHits": result.estimated_total,
            }
            for kind, result in zip(SEARCH_KINDS, results, strict=True)
        }
        return found, max(result.processing_ms for result in results)

    async def _find(self, kind: SearchKind, asked: SearchParameters, _now: datetime) -> _Found:
        result = await self.engine.search(self._request(kind, asked))
        room = self._room(asked)
        next_cursor = result.next_cursor if room else None
        return _Found(result.hits[:room], result.estimated_total, next_cursor, result.processing_ms)

    async def _find_for_viewer(self, kind: SearchKind, asked: SearchParameters, now: datetime) -> _Found:
        began = time.perf_counter()
        search = ViewerSearch(self.engine, self.ranking, self.max_total_hits, kind, asked, now)
        page = await search.page()
        return _Found(page.hits, page.total, page.next_cursor, round((time.perf_counter() - began) * 1000))

    async def _shown(
        self,
        kind: SearchKind,
        hits: Sequence[Document],
        asked: SearchParameters | LimitedParameters,
        now: datetime,
    ) -> list[Document]:
        """The hits as they are now, or each with what matched marked as well."""
        shown = [self.present(hit, now) for hit in hits]
        if not asked.highlight:
            return shown
        highlighter = Highlighter(BY_UID[kind.index], parse_query(asked.text))
        for number, hit in enumerate(shown):
            shown[number] = {**hit, "_formatted": highlighter.formatted(hit)}
            await asyncio.sleep(0)  # a hundred long texts take a while
        return shown

    def _room(self, asked: SearchParameters) -> int:
        """How many hits may still be shown at this offset."""
        if asked.cursor is not None:
            return asked.limit
        return min(asked.limit, max(self.max_total_hits - asked.offset, 0))

    def _request(self, kind: SearchKind, asked: SearchParameters) -> SearchRequest:
        return SearchRequest(
            index=kind.index,
            query=asked.text,
            filters=asked.filters,
            sort=asked.sort,
            offset=min(asked.offset, self.max_total_hits),
            limit=max(self._room(asked), 1),  # where no hit may be shown the total is still asked for
            cursor=asked.cursor,
        )
