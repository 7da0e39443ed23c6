"""The OpenAPI document and the application agree, as far as a machine can find out.

Schemathesis makes requests from the document, valid ones and broken ones, over real HTTP, and judges the
answers by what the document promises. Its runs are bounded and the same every time.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from indexer.api.kinds import SEARCH_KINDS
from tests.api.fakes import served_public


@pytest.fixture(scope="module")
def api_url() -> Iterator[str]:
    """The URL of an application served on a thread of its own: schemathesis is not asynchronous."""
    url: list[str] = []
    started, stop = threading.Event(), threading.Event()

    async def run() -> None:
        async with served_public(crawls_per_minute=100_000) as served:
            url.append(served.listener.url)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),), name="served application")
    thread.start()
    started.wait()
    yield url[0]
    stop.set()
    thread.join()


@pytest.fixture(scope="module")
def api_schema(api_url: str) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{api_url}/openapi.json")


SEARCHES = [*(kind.path for kind in SEARCH_KINDS), "/api/v1/search", "/api/v1/suggest"]
WITHOUT_PARAMETERS = ["/api/v1/stats", "/health"]
CRAWL = "/api/v1/crawl/ccfs"
TRIALS = [
    *((path, "GET", mode) for path in SEARCHES for mode in GenerationMode),
    *((path, "GET", GenerationMode.POSITIVE) for path in WITHOUT_PARAMETERS),  # nothing there can be wrong
    *((CRAWL, "POST", mode) for mode in GenerationMode),
]


# schemathesis's own pytest integration needs an attribute that current pytest no longer has.
@pytest.mark.parametrize(("path", "method", "mode"), TRIALS)
def test_what_is_documented_is_what_happens(
    api_schema: schemathesis.BaseSchema, path: str, method: str, mode: GenerationMode
) -> None:
    """Statuses, content types, schemas of answers, refusals: nothing is found."""
    operation = api_schema[path][method]

    @given(case=operation.as_strategy(mode))
    @settings(
        max_examples=20,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    def agree(case: schemathesis.Case[Any]) -> None:
        query = case.query or {}
        if (
            mode is GenerationMode.POSITIVE and {"viewer", "sort"} <= query.keys()
        ):  # OpenAPI has no words for "not together"
            del query["sort"]
        case.call_and_validate()

    agree()


def test_every_operation_is_tried(api_schema: schemathesis.BaseSchema) -> None:
    """No path of the document is left out above."""
    assert set(api_schema) == {*SEARCHES, *WITHOUT_PARAMETERS, CRAWL}
