"""The engine over Meilisearch: indexes, writes and searches behind the Protocol of ``engines/base.py``.

What it owns: the prepared indexes of one server, and those that are built beside them, whole. It may be the
only one that writes them: two writers would race, as with any engine.

Ordering and crashes: what one :meth:`MeilisearchEngine.write` sends to an index, the server works on in that
order. The call returns when every task has *succeeded*; a crash before leaves tasks that may still be carried
out, and writing again is harmless then.

A lost index: Meilisearch makes an index that does not exist as soon as somebody writes to it, without
settings. So after every write the identities of the indexes (when each was made, to the nanosecond) are
compared with those that were prepared; another one means that what stood there before is gone, and is an
:class:`IndexLost`. Nothing is then taken for written. Who keeps the indexes has to prepare and fill them
again.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from indexer.engines.base import (
    EngineStatistics,
    EngineUnavailable,
    FoundIds,
    IndexLost,
    IndexStatistics,
    RejectedDocument,
    SearchResult,
    Standing,
    WriteResult,
    build_uid,
    check_fields,
    is_build,
)
from indexer.engines.meilisearch.administration import Administration
from indexer.engines.meilisearch.documents import (
    SHAPE,
    SHOWN,
    DocumentMaker,
    Unstorable,
    begins_with,
    encode_line,
    shown_document,
)
from indexer.engines.meilisearch.positions import KEY_ASCENDING, read_cursor, write_cursor
from indexer.engines.meilisearch.searching import IndexSearch, Page
from indexer.engines.meilisearch.taken_over import foreign_body, foreign_hits
from indexer.engines.meilisearch.tasks import wait_for_tasks
from indexer.engines.meilisearch.wire import PayloadTooLarge, Refused, Wire, task_failure
from indexer.engines.meilisearch.writing import IndexWriter, Line, portions
from indexer.engines.text import parse_query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from indexer.engines.base import Document, IndexDefinition, SearchRequest, WriteBatch

SEARCH_SECONDS: Final = 10.0
PING_SECONDS: Final = 2.0
ACTIVITY: Final = "activityScore"
"""The field by which suggestions are ordered, where an index has it."""

_DOCUMENTS_BETWEEN_BREATHS: Final = 50
_IDS_AT_ONCE: Final = 1_000
_CARRIED_AT_ONCE: Final = 5_000
_SWAP_PAUSE_SECONDS: Final = 0.2

_Sent: TypeAlias = "dict[int, tuple[IndexWriter, Sequence[Line]]]"


class MeilisearchEngine:
    """A search engine in a Meilisearch server.

    Args:
        url: where the server is.
        api_key: a key that may search, read and write documents, settings, indexes, tasks and stats; "" =
        none. max_total_hits: how deep offset paging goes, and how far totals count.
        prefix: stands before every uid on the server, for several indexers on one server.

    """

    name = "meilisearch"
    shape = SHAPE

    def __init__(self, url: str, api_key: str, max_total_hits: int, *, prefix: str = "") -> None:
        self._wire = Wire(url, api_key)
        self._max_total_hits = max_total_hits
        self._admin = Administration(self._wire, prefix, max_total_hits)
        self._definitions: dict[str, IndexDefinition] = {}
        self._makers: dict[str, DocumentMaker] = {}
        self._identities: dict[str, str] = {}
        self._settled: set[str] = set()
        self._foreign: set[str] = set()

    async def prepare(self, indexes: Sequence[IndexDefinition]) -> None:
        """Make what is missing and change settings that differ; returns when the engine has taken them in.

        Searches go on meanwhile, under the settings that are there; writes wait. An index that another
        program has filled is left alone until one of ours takes its place.
        """
        for definition in indexes:
            await self._admin.make(definition.uid)
        present = await self._admin.present()
        for definition in indexes:
            self._know(definition, present)
        for definition in indexes:
            await self._settle(definition)

    async def look(self, indexes: Sequence[IndexDefinition]) -> Mapping[str, Standing]:
        """Learn which indexes are there, and whether their settings are ours."""
        present = await self._admin.present()
        standing = dict.fromkeys((definition.uid for definition in indexes), Standing.MISSING)
        for definition in indexes:
            if definition.uid in present:
                self._know(definition, present)
                is_settled = await self._admin.is_settled(definition)
                standing[definition.uid] = Standing.READY if is_settled else Standing.DIFFERS
        return standing

    async def write(self, batch: WriteBatch) -> WriteResult:
        """Write a batch: everything is sent at once, then every task is followed to its end."""
        rejected: list[RejectedDocument] = []
        uids = [
            uid
            for uid in (*batch.deletes, *batch.upserts)
            if batch.deletes.get(uid) or batch.upserts.get(uid)
        ]
        for uid in uids:
            self._definition(uid)
            if uid not in self._settled:
                raise EngineUnavailable(f"the settings of {uid} are not in place yet")
        uids = [uid for uid in uids if uid not in self._foreign]
        if not uids:
            return WriteResult(rejected)
        tasks = [
            task
            for uid, ids in batch.deletes.items()
            if ids and uid in uids
            for task in await self._writer(uid).delete(list(ids))
        ]
        sent: _Sent = {}
        for uid, documents in batch.upserts.items():
            if documents and uid in uids:
                sent |= await self._send(uid, documents, rejected)
        await self._finish(tasks, sent, rejected)
        await self._check_identities(uids)
        return WriteResult([replace(one, index=self._admin.own_uid(one.index)) for one in rejected])

    async def put_figures(self, index: str, figures: Mapping[str, Document]) -> Collection[str]:
        """Set the figures of documents that are there, by id; returns the ids that have no document.

        The server itself leaves out ids that it does not have when their turn comes, so that figures that
        wait behind a delete bring nothing back. A build gets them when it is swapped. Another program's
        index is left alone: no document of ours is there.
        """
        self._definition(index)
        if not figures:
            return []
        if await self._is_foreign(index):
            return figures.keys()
        present = await self._stored(index, list(figures), ["id"])
        maker = self._makers[index]
        lines = [
            Line(identifier, maker.figures_line(identifier, figures[identifier]))
            for identifier in figures
            if identifier in present
        ]
        await self._put_over(index, lines)
        return figures.keys() - present.keys()

    async def search(self, request: SearchRequest) -> SearchResult:
        """Answer one page; never raises for what query and filters hold.

        Raises:
            InvalidCursor: the cursor belongs to no such request.
            ValueError: the request names an index or a field that its definition does not.

        """
        started = time.monotonic()
        if await self._is_foreign(request.index):
            check_fields(self._definition(request.index), request)
            answer = await self._post_search(request.index, foreign_body(request, self._max_total_hits))
            total = min(answer["estimatedTotalHits"], self._max_total_hits)
            return SearchResult(foreign_hits(answer), total, round((time.monotonic() - started) * 1000))
        page = await self._page(request)
        hits = [shown for found in page.hits if (shown := shown_document(found.hit)) is not None]
        return SearchResult(
            hits,
            page.total,
            round((time.monotonic() - started) * 1000),
            write_cursor(request, page.hits[-1].position) if page.hits and not page.is_last else None,
        )

    async def find_ids(self, request: SearchRequest, among: Collection[str] | None = None) -> FoundIds:
        """Answer ids; raises as search() does. Given ids are asked for a thousand at a time."""
        if among is None:
            page = await self._page(request, fields=["id"])
            return FoundIds([found.id for found in page.hits], page.total)
        search = self._search(request)
        ids = [] if search is None else await search.among(among)
        return FoundIds(ids, len(ids))

    async def suggest(self, indexes: Sequence[str], text: str, limit: int) -> dict[str, list[Document]]:
        """Find names by their beginning."""
        definitions = [self._definition(index) for index in indexes]
        if any(not definition.names for definition in definitions):
            raise ValueError(f"no names in one of {', '.join(indexes)}")
        begins = begins_with(text)
        if begins is None:
            return {index: [] for index in indexes}
        answers = await asyncio.gather(
            *(self._suggestions(definition, begins, limit) for definition in definitions)
        )
        return dict(zip(indexes, answers, strict=True))

    async def fetch_documents(self, index: str, ids: Collection[str]) -> Mapping[str, Document]:
        """Return the documents that are there, by id."""
        self._definition(index)
        stored = await self._stored(index, list(ids), ["id", *SHOWN])
        return {
            identifier: shown
            for identifier, hit in stored.items()
            if (shown := shown_document(hit)) is not None
        }

    async def statistics(self) -> EngineStatistics:
        """Tell how large the indexes are; ``raw`` is the server's own answer."""
        raw = await self._wire.get("/stats")
        sizes = {
            uid: IndexStatistics(stats["numberOfDocuments"], stats["isIndexing"])
            for uid in self._identities
            if (stats := raw["indexes"].get(self._admin.uid(uid))) is not None and not is_build(uid)
        }
        return EngineStatistics(sizes, raw)

    async def ping(self) -> None:
        """Return when the server answers, knows our key, and has every index that was prepared."""
        present = await self._admin.present(seconds=PING_SECONDS)
        if not self._identities:
            raise EngineUnavailable("the engine is not prepared yet")
        lost = [uid for uid in self._identities if uid not in present]
        if lost:
            raise IndexLost(f"Meilisearch has lost {', '.join(sorted(lost))}")

    async def close(self) -> None:
        """Give up the connections."""
        await self._wire.close()

    # --- building beside the live index ----------------------------------------------------------------

    def taken_over(self) -> Collection[str]:
        """Tell which indexes another program has filled."""
        return frozenset(self._foreign)

    async def list_ids(self, uid: str) -> AsyncIterator[Sequence[str]]:
        """Yield ids in the order in which the server keeps them."""
        self._definition(uid)
        path = f"/indexes/{self._admin.uid(uid)}/documents/fetch"
        offset = 0
        while True:
            body = {"fields": ["id"], "offset": offset, "limit": _CARRIED_AT_ONCE}
            stored = (await self._wire.send("POST", path, body))["results"]
            if not stored:
                return
            yield [each["id"] for each in stored]
            offset += len(stored)

    async def identities(self) -> Mapping[str, str]:
        """Tell when each index was made, of those that are there."""
        return await self._admin.present()

    async def begin_build(self, uid: str) -> str:
        """Make an empty index with the settings of ``uid`` beside it."""
        await self.drop_build(uid)
        definition = replace(self._definition(uid), uid=build_uid(uid))
        self._admin.name_build(definition.uid)
        await self._admin.make(definition.uid)
        await self._settle(definition)
        self._know(definition, await self._admin.present())
        return self._identities[definition.uid]

    async def swap_build(self, uid: str) -> None:
        """Carry the figures over, swap the two in one task, then remove the old one.

        May be called again when it is not known whether the swap has happened: it never happens twice.
        """
        build = build_uid(uid)
        identity = self._identities.get(build)
        if identity is None:
            raise IndexLost(f"nothing is being built: {build}")
        while await self._admin.swap_is_pending():  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(_SWAP_PAUSE_SECONDS)
        present = await self._admin.present()
        if present.get(uid) != identity:
            if present.get(build) != identity:
                raise IndexLost(f"another process builds {uid}")
            if self._makers[uid].lays_over and uid not in self._foreign:
                await self._carry_figures(uid)
            await self._admin.swap(uid, build)
            present = await self._admin.present()
            if present.get(uid) != identity:
                raise IndexLost(f"another process builds {uid}")
        self._know(self._definition(uid), present)
        self._foreign.discard(uid)
        await self.drop_build(uid)

    async def drop_build(self, uid: str) -> None:
        """Remove the build's index."""
        build = build_uid(uid)
        for known in (self._definitions, self._makers, self._identities):
            known.pop(build, None)
        self._settled.discard(build)
        await self._admin.remove_builds(uid)
        self._admin.forget_build(build)

    # --- documents ---------------------------------------------------------------------------------------

    async def _send(self, uid: str, documents: Sequence[Document], rejected: list[RejectedDocument]) -> _Sent:
        """Send documents; returns what each task holds."""
        writer = self._writer(uid)
        sent: _Sent = {}
        for portion in portions(await self._lines(uid, documents, rejected)):
            try:
                sent |= {task: (writer, lines) for task, lines in await writer.send(portion)}
            except (PayloadTooLarge, Refused):
                rejected += await writer.put(portion)
        return sent

    async def _put_over(self, uid: str, lines: Sequence[Line]) -> None:
        """Lay fields over documents that are there."""
        writer = IndexWriter(self._wire, self._admin.uid(uid), lays_over=True, creates=False)
        for portion in portions(lines):
            for refused in await writer.put(portion):
                raise EngineUnavailable(f"Meilisearch refuses figures: {refused.reason}")

    async def _stored(self, uid: str, ids: Sequence[str], fields: Sequence[str]) -> dict[str, Document]:
        """Return fields of the documents that are there, by id."""
        path = f"/indexes/{self._admin.uid(uid)}/documents/fetch"
        found: dict[str, Document] = {}
        for start in range(0, len(ids), _IDS_AT_ONCE):
            asked = ids[start : start + _IDS_AT_ONCE]
            body = {"ids": asked, "fields": fields, "limit": len(asked)}
            answer = await self._wire.send("POST", path, body)
            found |= {stored["id"]: stored for stored in answer["results"]}
        return found

    async def _carry_figures(self, uid: str) -> None:
        """Give the documents of a build the figures that the live index has."""
        path = f"/indexes/{self._admin.uid(uid)}/documents/fetch"
        fields = ["id", *self._makers[uid].figure_fields]
        offset = 0
        while True:
            body = {"fields": fields, "offset": offset, "limit": _CARRIED_AT_ONCE}
            stored = (await self._wire.send("POST", path, body))["results"]
            lines = [
                Line(each["id"], encode_line(each)) for each in stored if each.get("figures") is not None
            ]
            await self._put_over(build_uid(uid), lines)
            offset += len(stored)
            if len(stored) < _CARRIED_AT_ONCE:
                return

    async def _finish(
        self,
        tasks: list[int],
        sent: _Sent,
        rejected: list[RejectedDocument],
    ) -> None:
        """Follow all tasks; what a failed one held is written in halves."""
        ended = await wait_for_tasks(self._wire, [*tasks, *sent])
        failures = {number: failure for number, task in ended.items() if (failure := task_failure(task))}
        for number in tasks:
            if failure := failures.get(number):
                raise failure if isinstance(failure, EngineUnavailable) else EngineUnavailable(str(failure))
        for number, (writer, lines) in sent.items():
            if failure := failures.get(number):
                rejected += await writer.settle(lines, failure)

    async def _check_identities(self, uids: Sequence[str]) -> None:
        present = await self._admin.present()
        for uid in uids:
            if present.get(uid) != self._identities.get(uid):
                raise IndexLost(f"Meilisearch has lost {uid}")

    def _search(self, request: SearchRequest, fields: Sequence[str] = SHOWN) -> IndexSearch | None:
        """Check a request and cut its query; None when nothing can match."""
        definition = self._definition(request.index)
        check_fields(definition, request)
        query = parse_query(request.query)
        if not query.terms and not query.is_blank:
            return None

        async def ask(body: Document) -> Any:
            return await self._ask(request.index, body)

        return IndexSearch(ask, request, query, self._max_total_hits, fields)

    async def _page(self, request: SearchRequest, fields: Sequence[str] = SHOWN) -> Page:
        search = self._search(request, fields)
        after = read_cursor(self._definition(request.index), request)
        return Page([], 0, is_last=True) if search is None else await search.page(after)

    async def _suggestions(self, definition: IndexDefinition, begins: str, limit: int) -> list[Document]:
        orders = [(ACTIVITY, "desc"), *((name, "asc") for name in definition.names)]
        body = {
            "q": "",
            "limit": limit,
            "attributesToRetrieve": SHOWN,
            "filter": [begins],
            "sort": [
                *(f"order_{field}:{how}" for field, how in orders if field in definition.sortable),
                *KEY_ASCENDING,
            ],
        }
        hits = (await self._ask(definition.uid, body))["hits"]
        return [shown for hit in hits if (shown := shown_document(hit)) is not None]

    async def _ask(self, index: str, body: Document) -> Any:
        if await self._is_foreign(index):
            raise EngineUnavailable(f"{index} is another program's until ours is built")
        return await self._post_search(index, body)

    async def _is_foreign(self, index: str) -> bool:
        if index in self._foreign:  # another process may have put ours in its place
            await self._settle(self._definition(index))
        return index in self._foreign

    async def _post_search(self, index: str, body: Document) -> Any:
        path = f"/indexes/{self._admin.uid(index)}/search"
        try:
            return await self._wire.send("POST", path, body, seconds=SEARCH_SECONDS)
        except Refused as error:
            # We ask for nothing that our settings do not allow: somebody has changed them.
            raise EngineUnavailable(f"the settings of {index} are not ours: {error.code}") from error

    # --- what is known here -----------------------------------------------------------------------------

    async def _settle(self, definition: IndexDefinition) -> None:
        """Have an index's settings in place, unless it is another program's."""
        if await self._admin.put_settings(definition):
            self._foreign.discard(definition.uid)
        else:
            self._foreign.add(definition.uid)
        self._settled.add(definition.uid)

    def _know(self, definition: IndexDefinition, present: Mapping[str, str]) -> None:
        if definition.uid not in present:
            raise IndexLost(f"Meilisearch has lost {definition.uid}")
        self._definitions[definition.uid] = definition
        self._makers[definition.uid] = DocumentMaker(definition)
        self._identities[definition.uid] = present[definition.uid]

    def _definition(self, uid: str) -> IndexDefinition:
        if not self._definitions:
            raise EngineUnavailable("the engine is not prepared yet")
        if uid not in self._definitions:
            if is_build(uid):
                raise IndexLost(f"nothing is being built: {uid}")
            raise ValueError(f"no index {uid!r}")
        return self._definitions[uid]

    def _writer(self, uid: str) -> IndexWriter:
        return IndexWriter(self._wire, self._admin.uid(uid), lays_over=self._maker(uid).lays_over)

    def _maker(self, uid: str) -> DocumentMaker:
        self._definition(uid)
        return self._makers[uid]

    async def _lines(
        self,
        uid: str,
        documents: Sequence[Document],
        rejected: list[RejectedDocument],
    ) -> list[Line]:
        write = self._maker(uid).line
        lines: list[Line] = []
        for number, document in enumerate(documents):
            if number % _DOCUMENTS_BETWEEN_BREATHS == _DOCUMENTS_BETWEEN_BREATHS - 1:
                await asyncio.sleep(0)
            try:
                lines.append(Line(document["id"], write(document)))
            except Unstorable as error:
                rejected.append(RejectedDocument(self._admin.uid(uid), document["id"], str(error)))
        return lines
