"""The application of the internal listener: metrics, health, readiness (behaviour.md sections 7 and 8).

For Prometheus, orchestrators and operators; never for strangers. A scrape answers within seconds whatever is
away: what the database or the engine knows is then left out, what this process knows is there.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import structlog
from fastapi import FastAPI, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from indexer.api.answers import JsonAnswer
from indexer.api.errors import install_error_handlers
from indexer.api.middleware import install_middleware
from indexer.api.public import ALWAYS_UNAVAILABLE, answer_health
from indexer.api.readiness import Check, Readiness
from indexer.engines.base import Engine
from indexer.observability.metrics import CONTENT_TYPE, IndexGauges, Metrics, ScrapeSnapshot

__all__ = ["Check", "ScrapeSource", "make_internal_app"]

SCRAPE_SECONDS = 2.0
"""How long a scrape waits for the database and for the engine."""

log = structlog.get_logger(__name__)
T = TypeVar("T")


class ScrapeSource(Protocol):
    """Whoever can read the gauges that are stored in PostgreSQL."""

    async def scrape(self) -> ScrapeSnapshot:
        """Read servers, queue and dead letters; the indexes are asked of the engine."""
        ...


def make_internal_app(
    *,
    metrics: Metrics,
    source: ScrapeSource,
    engine: Engine,
    checks: Sequence[Check],
    version: str,
    check_seconds: float = 2.0,
    scrape_seconds: float = SCRAPE_SECONDS,
) -> FastAPI:
    """Make the application. ``checks`` decide ``/ready``."""
    app = FastAPI(
        title="Concrnt indexer, internal",
        version=version,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    readiness = Readiness(checks, seconds=check_seconds)
    page = _render_page(version)

    async def scrape(_request: Request) -> Response:
        snapshot = await _snapshot(source, engine, scrape_seconds)
        # With thousands of servers the text takes a while to write: not on the loop.
        text = await asyncio.to_thread(metrics.render, snapshot)
        return Response(text, media_type=CONTENT_TYPE)

    async def ready(_request: Request) -> Response:
        missing = await readiness.missing()
        status = "not ready" if missing else "ready"
        return JsonAnswer({"status": status, "missing": missing}, status_code=503 if missing else 200)

    async def root(_request: Request) -> Response:
        return HTMLResponse(page)

    for path, handler in (("/", root), ("/metrics", scrape), ("/health", answer_health), ("/ready", ready)):
        app.add_api_route(path, handler, methods=["GET"])
    install_error_handlers(app, ALWAYS_UNAVAILABLE)
    install_middleware(app, metrics, listener="internal", public=False)
    return app


async def _snapshot(source: ScrapeSource, engine: Engine, seconds: float) -> ScrapeSnapshot:
    """What the database and the engine know, as far as they answer in time."""
    stored, indexes = await asyncio.gather(
        _within(seconds, "database", source.scrape()), _within(seconds, "engine", _indexes(engine))
    )
    snapshot = stored if stored is not None else ScrapeSnapshot()
    return replace(snapshot, indexes=indexes) if indexes is not None else snapshot


async def _indexes(engine: Engine) -> Mapping[str, IndexGauges]:
    statistics = await engine.statistics()
    return {
        uid: IndexGauges(index.number_of_documents, index.is_indexing)
        for uid, index in statistics.indexes.items()
    }


async def _within(seconds: float, what: str, asked: Awaitable[T]) -> T | None:
    """The answer, or None when there is none in time or at all."""
    try:
        async with asyncio.timeout(seconds):
            return await asked
    except Exception as error:  # noqa: BLE001 - whatever is wrong there, this process has metrics to show
        log.warning("a scrape goes without what is stored", source=what, error=repr(error))
        return None


def _render_page(version: str) -> str:
    environment = Environment(loader=PackageLoader("indexer.api"), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("internal.html").render(version=version)
