"""The application of the public listener (behaviour.md section 7).

It is made from an engine, a source of statistics, a crawler and a few plain values; it holds no state of its
own, and writes nothing but what a crawl by hand brings. Whatever is asked, the answer is JSON of the
documented form, open to any origin; only the documentation page is HTML, and it needs nothing from elsewhere.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from indexer.api import examples
from indexer.api.answers import JsonAnswer, reusable
from indexer.api.crawl import CRAWLS_PER_MINUTE, Crawler, answer_crawl
from indexer.api.documentation import render_documentation
from indexer.api.errors import install_error_handlers
from indexer.api.kinds import SEARCH_KINDS, SearchKind
from indexer.api.limits import Limiter
from indexer.api.middleware import install_middleware
from indexer.api.models import CrawlAnswer, EverywhereAnswer, Health, StatisticsAnswer, SuggestAnswer
from indexer.api.openapi import (
    CRAWL_BODY,
    DESCRIPTION,
    describe_errors,
    describe_success,
    everywhere_parameters,
    search_parameters,
    search_responses,
    suggest_parameters,
)
from indexer.api.patience import Patience, always_answers
from indexer.api.search import Present, SearchService, as_it_is
from indexer.api.statistics import StatisticsSource, statistics_answer
from indexer.api.viewer import Ranking
from indexer.engines.base import Engine, EngineUnavailable
from indexer.observability.metrics import Metrics

ALWAYS_UNAVAILABLE: tuple[type[Exception], ...] = (EngineUnavailable, TimeoutError, ConnectionError)
"""What means "away" whoever raises it: 503, with ``Retry-After``."""

Handler = Callable[[Request], Awaitable[Response]]


def make_public_app(
    *,
    engine: Engine,
    ranking: Ranking,
    statistics: StatisticsSource,
    crawler: Crawler,
    metrics: Metrics,
    version: str,
    present: Present = as_it_is,
    public_url: str = "",
    max_total_hits: int = 10_000,
    crawls_per_minute: int = CRAWLS_PER_MINUTE,
    timeout_seconds: float = 10.0,
    requests_per_minute: int = 0,
    unavailable: tuple[type[Exception], ...] = (),
    database_answers: Callable[[], Awaitable[bool]] = always_answers,
) -> FastAPI:
    """Make the application.

    ``ranking`` ranks for viewers; ``crawler`` indexes single documents, ``crawls_per_minute`` of them for one
    client; ``present`` makes of the engine's documents what an answer shows.
    ``public_url`` is where readers find it, empty when unknown; ``timeout_seconds`` bounds every call of the
    engine and of ``statistics``; ``requests_per_minute`` is how much one client may ask, 0 without limit;
    ``unavailable`` are the further kinds of exceptions that mean that the
    database is away; ``database_answers`` asks it anew, when something takes long.
    """
    app = FastAPI(
        title="Concrnt indexer",
        summary="Search for the Concrnt network.",
        description=DESCRIPTION,
        version=version,
        servers=[{"url": public_url.rstrip("/")}] if public_url else None,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    patience = Patience(timeout_seconds, database_answers)
    service = SearchService(
        engine, ranking, max_total_hits=max_total_hits, patience=patience, present=present
    )
    _add_everywhere(app, service)
    for kind in SEARCH_KINDS:
        _add_search(app, kind, service)
    _add_suggest(app, service)
    _add_crawl(app, crawler, Limiter(crawls_per_minute))
    _add_statistics(app, engine, statistics, patience)
    _add_health(app)
    _add_documentation(app)
    of_database = unavailable
    if engine.name == "postgres":
        of_database = (EngineUnavailable, *unavailable)
    install_error_handlers(app, ALWAYS_UNAVAILABLE, of_database)
    limiter = Limiter(requests_per_minute) if requests_per_minute else None
    install_middleware(app, metrics, listener="public", public=True, limiter=limiter)
    return app


def _add_search(app: FastAPI, kind: SearchKind, service: SearchService) -> None:
    async def search(request: Request) -> Response:
        answer = await service.answer(kind, request.scope["query_string"])
        return reusable(request, JsonAnswer(answer))

    app.add_api_route(
        kind.path,
        search,
        methods=["GET"],
        operation_id=f"search_{kind.name}",
        tags=["search"],
        summary=kind.summary,
        description=kind.description,
        response_class=JsonAnswer,
        responses=search_responses(kind),
        openapi_extra={"parameters": search_parameters(kind)},
    )


def _add_everywhere(app: FastAPI, service: SearchService) -> None:
    async def search_everywhere(request: Request) -> Response:
        answer = await service.answer_everywhere(request.scope["query_string"])
        return reusable(request, JsonAnswer(answer))

    app.add_api_route(
        "/api/v1/search",
        search_everywhere,
        methods=["GET"],
        operation_id="search",
        tags=["search"],
        summary="Search everything",
        description="The best people, communities, posts and servers in one request, grouped. Each group is "
        "the beginning of its own search.",
        response_class=JsonAnswer,
        responses={
            200: describe_success(EverywhereAnswer, "The best of each kind.", examples.EVERYWHERE),
            **describe_errors((400, 413, 429, 503)),
        },
        openapi_extra={"parameters": everywhere_parameters()},
    )


def _add_suggest(app: FastAPI, service: SearchService) -> None:
    async def suggest(request: Request) -> Response:
        return reusable(request, JsonAnswer(await service.suggest(request.scope["query_string"])))

    app.add_api_route(
        "/api/v1/suggest",
        suggest,
        methods=["GET"],
        operation_id="suggest",
        tags=["search"],
        summary="Suggest names",
        description="For a search box, at every key: people and communities whose name, or a word of it, "
        "begins with what was typed; the most active first. Many times as fast as a search.",
        response_class=JsonAnswer,
        responses={
            200: describe_success(SuggestAnswer, "Names that begin so.", examples.SUGGESTIONS),
            **describe_errors((400, 413, 429, 503)),
        },
        openapi_extra={"parameters": suggest_parameters()},
    )


def _add_crawl(app: FastAPI, crawler: Crawler, limiter: Limiter) -> None:
    async def crawl(request: Request) -> Response:
        return await answer_crawl(request, crawler, limiter)

    app.add_api_route(
        "/api/v1/crawl/ccfs",
        crawl,
        methods=["POST"],
        operation_id="crawl_document",
        tags=["crawl"],
        summary="Have a document indexed",
        description="Fetches one document from the server where its owner lives, and indexes it under the "
        "same rules as what is followed. Servers are followed by themselves: this is for the impatient. The "
        "body is JSON, a form, or the URI as plain text.",
        response_class=JsonAnswer,
        responses={
            200: describe_success(CrawlAnswer, "It is indexed.", examples.CRAWLED),
            **describe_errors((400, 404, 413, 415, 429, 502, 503)),
        },
        openapi_extra={"requestBody": CRAWL_BODY},
    )


def _add_statistics(app: FastAPI, engine: Engine, statistics: StatisticsSource, patience: Patience) -> None:
    async def count() -> dict[str, Any]:
        counted = await statistics.statistics()
        return statistics_answer(counted, engine.name, await engine.statistics())

    async def stats(_request: Request) -> Response:
        return JsonAnswer(await patience.wait(count()))

    app.add_api_route(
        "/api/v1/stats",
        stats,
        methods=["GET"],
        operation_id="stats",
        tags=["state"],
        summary="How much there is",
        description="Counts of servers, feeds and documents, and how far behind the search engine is.",
        response_class=JsonAnswer,
        responses={
            200: describe_success(StatisticsAnswer, "The counts.", examples.STATISTICS),
            **describe_errors((413, 429, 503)),
        },
    )


def _add_health(app: FastAPI) -> None:
    app.add_api_route(
        "/health",
        answer_health,
        methods=["GET"],
        operation_id="health",
        tags=["state"],
        summary="Whether the process lives",
        description="Always the same answer; it says nothing of the database or the engine.",
        response_class=JsonAnswer,
        responses={
            200: describe_success(Health, "It lives.", {"status": "ok"}),
            **describe_errors((413,)),
        },
    )


async def answer_health(_request: Request) -> Response:
    """The process lives: nothing else is looked at, so that no outage elsewhere restarts it."""
    return JsonAnswer({"status": "ok"})


def _add_documentation(app: FastAPI) -> None:
    # Rendered once, but never one response for all: middleware writes into the headers of what passes.
    document = msgspec.json.encode(app.openapi())
    page = render_documentation(app.openapi())

    async def openapi(request: Request) -> Response:
        return reusable(request, Response(document, media_type="application/json"))

    async def docs(request: Request) -> Response:
        return reusable(request, HTMLResponse(page.html, headers=dict(page.headers)))

    async def root(_request: Request) -> Response:
        return RedirectResponse("docs")  # relative, so that it survives a proxy that serves us below a path

    pages: dict[str, Handler] = {"/openapi.json": openapi, "/docs": docs, "/": root}
    for path, handler in pages.items():
        app.add_api_route(path, handler, methods=["GET"], include_in_schema=False)
