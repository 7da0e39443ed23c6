"""Viewer mode: people and communities ranked by what the people whom a viewer follows did (section 7).

Two lists follow each other: what the database ranks, then, with `q`, the other matches as the engine orders
them. The database alone ranks; the engine is only asked which documents match, and for the documents of one
page. No filter with thousands of values is sent to it:

* The engine is asked for as many ids as the page is deep, as in any search, which also tells how many match.
* Few matches (up to `WHOLE`) come whole, as ids, and the database ranks those among them.
* Of many, the whole ranking is made, and the engine is asked which of its ids are `among` the matches, in its
  own bounded way. To find all of very many would cost more than the answer.

A cursor (viewer_cursors.py) goes on behind the last hit, at the moment of the first page, to the end of both
lists; an `offset` ends at the bound of paging.

A page costs one ranking, at most three questions for ids, and its documents. What is ranked but not in the
engine (it is on its way, or just went) is no hit; until the next tick the total may count it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from indexer.api.viewer_cursors import (
    RankedPlace,
    RestPlace,
    ViewerCursor,
    read_viewer_cursor,
    write_viewer_cursor,
)
from indexer.concrnt.uri import owner_of
from indexer.engines.base import InvalidCursor, SearchRequest
from indexer.engines.ids import document_id, key_of_document, key_of_id
from indexer.engines.indexes import USERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from indexer.api.kinds import SearchKind
    from indexer.api.parameters import SearchParameters
    from indexer.engines.base import Engine
    from indexer.mirror.ranking import Ranked, RankedPage

WHOLE: Final = 2_000
_REST_AT_ONCE: Final = 100


class Ranking(Protocol):
    """Whoever can rank for a viewer: whole, a page of it, or those among some subjects."""

    async def people(
        self,
        viewer: str,
        now: datetime,
        *,
        among: Sequence[str] | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> RankedPage:
        """Followees with entries, best first."""
        ...

    async def communities(
        self,
        viewer: str,
        now: datetime,
        *,
        among: Sequence[str] | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> RankedPage:
        """Communities in which followees have entries, best first."""
        ...

    async def profiles_of(self, people: Sequence[str]) -> Sequence[tuple[str, str]]:
        """(CCID, key) of every profile of these people."""
        ...


@dataclass(frozen=True, slots=True)
class ViewerPage:
    """The hits of a page, how many there are in all, and where to go on; None at the end."""

    hits: list[dict[str, Any]]
    total: int
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class _Matches:
    """What matches a query: ids of those ranked, in rank order; their places; ids as the engine has them."""

    ranked: Sequence[str]
    places: Mapping[str, tuple[int, Ranked]]
    seen: Sequence[str]
    total: int


@dataclass(frozen=True, slots=True)
class ViewerSearch:
    """Answers one search for a viewer, whose parameters name one.

    `now` is the moment of the first page; a cursor brings its own.
    """

    engine: Engine
    ranking: Ranking
    max_total_hits: int
    kind: SearchKind
    asked: SearchParameters
    now: datetime

    async def page(self) -> ViewerPage:
        """Find the page.

        Raises `InvalidCursor`, and what the engine and the ranking raise when they are away.
        """
        cursor = read_viewer_cursor(self.kind, self.asked, self.now)
        if cursor is not None:
            return await replace(self, now=cursor.now)._behind(cursor.place)  # noqa: SLF001 - itself
        offset = min(self.asked.offset, self.max_total_hits)
        end = min(offset + self.asked.limit, self.max_total_hits)
        if self.asked.text.strip():
            return await self._matching(offset, end)
        # Where no hit may be shown the total is still asked for.
        page = await self._rank(offset=offset, limit=max(end - offset, 1))
        total = page.total or (await self._rank(limit=1)).total
        ranked = {document_id(each.shown): each for each in page.ranked[: end - offset]}
        return await self._page(list(ranked), ranked, total, has_more=end < total)

    async def _matching(self, offset: int, end: int) -> ViewerPage:
        request = self._request(end)
        found = await self._matches(request)
        others = [each for each in found.seen if each not in found.places]
        page = [*found.ranked, *others][offset:end]
        ranked = {each: ranked for each, (_, ranked) in found.places.items()}
        has_more = end < found.total
        if page and page[-1] not in found.places:
            place = found.seen.index(page[-1])
            last = await self.engine.search(replace(request, offset=place, limit=1))
            return await self._page(page, ranked, found.total, rest=last.next_cursor)
        return await self._page(page, ranked, found.total, has_more=has_more)

    async def _behind(self, place: RankedPlace | RestPlace) -> ViewerPage:
        if not self.asked.text.strip():
            if isinstance(place, RestPlace):
                raise InvalidCursor("the cursor is none that was given here")
            page = await self._rank()
            shown = {document_id(each.shown): each for each in page.ranked}
            at = _behind(place, list(shown), page.ranked)
            ids: Sequence[str] = list(shown)[at : at + self.asked.limit]
            return await self._page(ids, shown, page.total, has_more=at + len(ids) < len(shown))
        request = self._request(1)
        found = await self._matches(request)
        ranked = {each: ranked for each, (_, ranked) in found.places.items()}
        if isinstance(place, RestPlace):
            return await self._rest(found, request, place.cursor, [])
        at = _behind(place, found.ranked, [ranked[each] for each in found.ranked])
        ids = found.ranked[at : at + self.asked.limit]
        if len(ids) == self.asked.limit:
            return await self._page(ids, ranked, found.total, has_more=True)
        return await self._rest(found, request, None, await self._hits(ids, ranked))

    async def _rest(
        self, found: _Matches, request: SearchRequest, cursor: str | None, hits: list[dict[str, Any]]
    ) -> ViewerPage:
        """Fill a page with what matches and is not ranked, behind the engine's cursor."""
        while True:
            behind = replace(request, cursor=cursor, limit=_REST_AT_ONCE)
            result = await self.engine.search(behind)
            for number, hit in enumerate(result.hits, start=1):
                if hit["id"] in found.places:
                    continue
                hits.append(hit)
                if len(hits) == self.asked.limit:
                    if number < len(result.hits):
                        result = await self.engine.search(replace(behind, limit=number))
                    return ViewerPage(hits, found.total, self._rest_cursor(result.next_cursor))
            cursor = result.next_cursor
            if cursor is None:
                return ViewerPage(hits, found.total, None)

    def _request(self, depth: int) -> SearchRequest:
        return SearchRequest(
            self.kind.index,
            self.asked.text,
            sort=self.kind.default_sort,
            limit=max(depth, 1),
        )

    async def _matches(self, request: SearchRequest) -> _Matches:
        """Find what matches: all that is ranked, of the rest as many as the request asks for."""
        found = await self.engine.find_ids(request)
        if len(found.ids) == request.limit and found.estimated_total <= WHOLE:
            request = replace(request, limit=min(WHOLE + 1, self.max_total_hits))
            found = await self.engine.find_ids(request)
        if len(found.ids) < request.limit:
            places = await self._ranked_among(found.ids)
            matching = [each for each in found.ids if each in places]
            seen, total = found.ids, len(found.ids)
        else:
            places = await self._all_ranked()
            matching = (await self.engine.find_ids(request, places)).ids if places else []
            # So many that the page is full even if all ranked ones are among them.
            seen, total = found.ids, max(found.estimated_total, len(matching))
        # Stable: profiles of one person keep the engine's order.
        matching.sort(key=lambda each: places[each][0])
        return _Matches(matching, places, seen, total)

    async def _page(
        self,
        ids: Sequence[str],
        ranked: Mapping[str, Ranked],
        total: int,
        *,
        has_more: bool = False,
        rest: str | None = None,
    ) -> ViewerPage:
        cursor = self._rest_cursor(rest)
        if has_more and ids:
            place = RankedPlace(ranked[ids[-1]].score, ids[-1])
            cursor = write_viewer_cursor(self.kind, self.asked, ViewerCursor(self.now, place))
        return ViewerPage(await self._hits(ids, ranked), total, cursor)

    def _rest_cursor(self, cursor: str | None) -> str | None:
        if cursor is None:
            return None
        return write_viewer_cursor(self.kind, self.asked, ViewerCursor(self.now, RestPlace(cursor)))

    async def _ranked_among(self, ids: Sequence[str]) -> dict[str, tuple[int, Ranked]]:
        """Return the place of each of these documents that is ranked."""
        subjects = await self._subjects(ids)
        page = await self._rank(among=sorted(set(subjects.values())))
        places = {each.subject: (place, each) for place, each in enumerate(page.ranked)}
        return {each: places[subject] for each, subject in subjects.items() if subject in places}

    async def _all_ranked(self) -> dict[str, tuple[int, Ranked]]:
        """Return the place of every document that is ranked; all profiles of a person have one place."""
        page = await self._rank()
        places = {each.subject: (place, each) for place, each in enumerate(page.ranked)}
        if self.kind.index != USERS:
            return {document_id(key): place for key, place in places.items()}
        profiles = await self.ranking.profiles_of(list(places))
        return {document_id(key): places[person] for person, key in profiles}

    async def _subjects(self, ids: Sequence[str]) -> dict[str, str]:
        """Return whom or what each document shows; an id that is a digest is looked up."""
        keys = {each: key_of_id(each) for each in ids}
        digests = [each for each, key in keys.items() if key is None]
        if digests:
            documents = await self.engine.fetch_documents(self.kind.index, digests)
            keys |= {each: key_of_document(document) for each, document in documents.items()}
        by_owner = self.kind.index == USERS
        return {each: owner_of(key) if by_owner else key for each, key in keys.items() if key is not None}

    async def _rank(
        self, *, among: Sequence[str] | None = None, offset: int = 0, limit: int | None = None
    ) -> RankedPage:
        assert self.asked.viewer is not None
        rank = self.ranking.people if self.kind.index == USERS else self.ranking.communities
        return await rank(self.asked.viewer, self.now, among=among, offset=offset, limit=limit)

    async def _hits(self, page: Sequence[str], ranked: Mapping[str, Ranked]) -> list[dict[str, Any]]:
        documents = await self.engine.fetch_documents(self.kind.index, page) if page else {}
        return [_shown(documents[each], ranked.get(each)) for each in page if each in documents]


def _behind(place: RankedPlace, ids: Sequence[str], ranked: Sequence[Ranked]) -> int:
    """Return how many of a ranking do not come behind a place; its own hit may be gone."""
    if place.id in ids:
        return ids.index(place.id) + 1
    key = key_of_id(place.id) or ""
    return bisect_right(ranked, (-place.score, key), key=lambda each: (-each.score, each.shown))


def _shown(document: dict[str, Any], ranked: Ranked | None) -> dict[str, Any]:
    if ranked is None:
        return document
    shown = {**document, "followeeScore": ranked.score, "followeePostCount30d": ranked.posts}
    if ranked.top_authors is not None:
        shown["topAuthors"] = list(ranked.top_authors)
    return shown
