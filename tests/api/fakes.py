"""Stand-ins for what the API is made from: an engine, the mirror's figures, and a served application."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import httpx
from fastapi import FastAPI

from indexer.api import examples
from indexer.api.crawl import IndexedDocument
from indexer.api.internal import Check, make_internal_app
from indexer.api.public import make_public_app
from indexer.api.serving import Listener, serve
from indexer.api.statistics import Statistics
from indexer.engines.base import (
    Document,
    EngineStatistics,
    FoundIds,
    IndexDefinition,
    IndexStatistics,
    InvalidCursor,
    SearchRequest,
    SearchResult,
    WriteBatch,
    WriteResult,
)
from indexer.engines.indexes import COMMUNITIES, POSTS, SERVERS, USERS
from indexer.mirror.ranking import Ranked, RankedPage
from indexer.observability.metrics import Metrics, ScrapeSnapshot, ServerGauges

EXAMPLES: dict[str, dict[str, Any]] = {
    USERS: examples.USER,
    COMMUNITIES: examples.COMMUNITY,
    POSTS: examples.POST,
    SERVERS: examples.SERVER,
}

VERSION = "1.2.3"


class DatabaseAwayError(Exception):
    """What a mirror may raise when PostgreSQL is away."""


@dataclass
class Trouble:
    """What goes wrong in a dependency: it fails, or it hangs until told to go on."""

    failure: Exception | None = None
    hangs: bool = False

    async def meet(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.hangs:
            await asyncio.Event().wait()


@dataclass
class FakeEngine:
    """An engine over a list of documents: exact filters, no ranking, every request remembered."""

    name: str = "fake"
    documents: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    raw: dict[str, Any] | None = None
    max_total_hits: int = 10_000
    trouble: Trouble = field(default_factory=Trouble)
    requests: list[SearchRequest] = field(default_factory=list)
    suggestions: list[tuple[tuple[str, ...], str, int]] = field(default_factory=list)

    def reset(self) -> None:
        self.documents = {index: [document] for index, document in EXAMPLES.items()}
        self.raw = None
        self.trouble = Trouble()
        self.requests.clear()
        self.suggestions.clear()

    async def search(self, request: SearchRequest) -> SearchResult:
        self.requests.append(request)
        await self.trouble.meet()
        matching = [
            document
            for document in self.documents[request.index]
            if all(document.get(name) == value for name, value in request.filters.items())
        ]
        first = request.offset
        end = min(first + request.limit, self.max_total_hits)
        if request.cursor is not None:
            if not request.cursor.isdecimal():
                raise InvalidCursor("the cursor is none that was given here")
            first = int(request.cursor[-9:])
            end = first + request.limit
        following = f"{end:024}" if end < len(matching) else None
        return SearchResult(matching[first:end], min(len(matching), self.max_total_hits), 1, following)

    async def suggest(self, indexes: Sequence[str], text: str, limit: int) -> dict[str, list[Document]]:
        self.suggestions.append((tuple(indexes), text, limit))
        await self.trouble.meet()
        return {index: self.documents[index][:limit] if text.strip() else [] for index in indexes}

    async def statistics(self) -> EngineStatistics:
        await self.trouble.meet()
        indexes = {
            uid: IndexStatistics(len(found), is_indexing=False) for uid, found in self.documents.items()
        }
        return EngineStatistics(indexes, self.raw)

    async def prepare(self, indexes: Sequence[IndexDefinition]) -> None:
        raise NotImplementedError

    async def write(self, batch: WriteBatch) -> WriteResult:
        raise NotImplementedError

    async def put_figures(self, index: str, figures: Mapping[str, Document]) -> Collection[str]:
        raise NotImplementedError

    async def find_ids(self, request: SearchRequest, among: Collection[str] | None = None) -> FoundIds:
        limit = self.max_total_hits if among is not None else request.limit
        offset = 0 if among is not None else request.offset
        result = await self.search(replace(request, limit=limit, offset=offset))
        ids = [hit["id"] for hit in result.hits if among is None or hit["id"] in among]
        return FoundIds(ids, result.estimated_total)

    async def fetch_documents(self, index: str, ids: Collection[str]) -> Mapping[str, Document]:
        await self.trouble.meet()
        return {document["id"]: document for document in self.documents[index] if document["id"] in ids}

    async def ping(self) -> None:
        await self.trouble.meet()

    async def close(self) -> None:
        raise NotImplementedError


@dataclass
class FakeMirror:
    """The mirror's figures, as the API sees them."""

    trouble: Trouble = field(default_factory=Trouble)

    async def statistics(self) -> Statistics:
        await self.trouble.meet()
        return Statistics(
            server_count=3,
            last_crawl_at=datetime(2025, 3, 14, 12, 30, 0, 250_000, tzinfo=UTC),
            cursor_count=2,
            failure_count=1,
            catching_up_count=1,
            queue_depth=7,
        )

    async def scrape(self) -> ScrapeSnapshot:
        await self.trouble.meet()
        return ScrapeSnapshot(servers=[ServerGauges("alpha.example", caught_up=True)], queue_depth=7)


@dataclass
class FakeRanking:
    """Ranks what a test says."""

    trouble: Trouble = field(default_factory=Trouble)
    ranked: list[Ranked] = field(default_factory=list)

    async def people(
        self,
        viewer: str,
        now: datetime,
        *,
        among: Sequence[str] | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> RankedPage:
        await self.trouble.meet()
        assert viewer.startswith("con")
        assert now.tzinfo is not None
        ranked = [each for each in self.ranked if among is None or each.subject in among]
        return RankedPage(ranked[offset : None if limit is None else offset + limit], len(ranked))

    communities = people

    async def profiles_of(self, people: Sequence[str]) -> list[tuple[str, str]]:
        return [(each.subject, each.shown) for each in self.ranked if each.subject in people]


@dataclass
class FakeCrawler:
    """Indexes whatever it is asked for, and remembers it; unless a test says what it raises."""

    trouble: Trouble = field(default_factory=Trouble)
    asked: list[str] = field(default_factory=list)

    async def crawl(self, ccfs: str) -> IndexedDocument:
        self.asked.append(ccfs)
        await self.trouble.meet()
        return IndexedDocument(
            "post", examples.MARKDOWN_SCHEMA, examples.POST_KEY, examples.POST_KEY, ccfs, examples.FQDN
        )


@dataclass
class Served:
    """A served application with everything that it was made from."""

    app: FastAPI
    listener: Listener
    client: httpx.AsyncClient
    engine: FakeEngine
    mirror: FakeMirror
    metrics: Metrics
    ranking: FakeRanking = field(default_factory=FakeRanking)
    crawler: FakeCrawler = field(default_factory=FakeCrawler)

    async def get(self, path: str, **parameters: str | int) -> httpx.Response:
        return await self.client.get(path, params=parameters or None)

    async def get_long(self, path: str) -> httpx.Response:
        """GET a path that is too long for httpx."""
        request = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        head, _, body = (await self.raw(request.encode())).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return httpx.Response(int(status.split()[1]), headers=headers, content=body)

    async def raw(self, request: bytes) -> bytes:
        """Send bytes as they are and read until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        writer.write(request)
        await writer.drain()
        answer = await reader.read()
        writer.close()
        # The server may have refused, and reset, while a long request was still on its way.
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        return answer


@contextlib.asynccontextmanager
async def served_public(**options: Any) -> AsyncIterator[Served]:
    """Serve a public application; ``options`` go to ``make_public_app``."""
    engine, mirror, metrics, ranking = FakeEngine(), FakeMirror(), Metrics(VERSION), FakeRanking()
    crawler = FakeCrawler()
    engine.reset()
    settings = {"unavailable": (DatabaseAwayError,), **options}
    app = make_public_app(
        engine=engine,
        ranking=ranking,
        statistics=mirror,
        crawler=crawler,
        metrics=metrics,
        version=VERSION,
        **settings,
    )
    async with serving(app, engine, mirror, metrics) as served:
        served.ranking = ranking
        served.crawler = crawler
        yield served


@contextlib.asynccontextmanager
async def served_internal(checks: Sequence[Check] = (), **options: Any) -> AsyncIterator[Served]:
    """Serve an internal application; ``options`` go to ``make_internal_app``."""
    engine, mirror, metrics = FakeEngine(), FakeMirror(), Metrics(VERSION)
    engine.reset()
    app = make_internal_app(
        metrics=metrics, source=mirror, engine=engine, checks=checks, version=VERSION, **options
    )
    async with serving(app, engine, mirror, metrics) as served:
        yield served


@contextlib.asynccontextmanager
async def serving(
    app: FastAPI, engine: FakeEngine, mirror: FakeMirror, metrics: Metrics
) -> AsyncIterator[Served]:
    async with (
        serve(app, "127.0.0.1:0", grace_seconds=1) as listener,
        httpx.AsyncClient(base_url=listener.url, trust_env=False) as client,
    ):
        yield Served(app, listener, client, engine, mirror, metrics)


def assert_error(answer: httpx.Response, status: int, code: str) -> str:
    """The answer is an error of the documented shape, open to browsers; returns the message."""
    assert answer.status_code == status, answer.text[:300]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    body = answer.json()
    assert set(body) == {"message", "code"}
    assert body["code"] == code
    return str(body["message"])
