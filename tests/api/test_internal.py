"""The internal listener: it answers within seconds whatever is away, and says what is missing."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from indexer.api.readiness import Check, Readiness
from tests.api.fakes import DatabaseAwayError, Served, Trouble, served_internal

pytestmark = pytest.mark.anyio


class Dependencies:
    """The checks of a process, each with its trouble."""

    def __init__(self) -> None:
        self.database = Trouble()
        self.engine = Trouble()
        self.loop = Trouble()
        self.checks = (
            Check("database", lambda: self.database.meet()),  # noqa: PLW0108 - the trouble changes
            Check("engine", lambda: self.engine.meet()),  # noqa: PLW0108
            Check("follower loop", lambda: self.loop.meet()),  # noqa: PLW0108
        )


@pytest.fixture(scope="module")
def dependencies() -> Dependencies:
    return Dependencies()


@pytest.fixture(scope="module")
async def internal_server(dependencies: Dependencies) -> AsyncIterator[Served]:
    async with served_internal(dependencies.checks, check_seconds=0.3, scrape_seconds=0.3) as served:
        yield served


@pytest.fixture
def internal(internal_server: Served, dependencies: Dependencies) -> Served:
    """The served internal application, with nothing wrong."""
    internal_server.engine.reset()
    internal_server.mirror.trouble = Trouble()
    dependencies.database = dependencies.engine = dependencies.loop = Trouble()
    return internal_server


async def names(internal: Served) -> set[str]:
    """The families that have samples in a scrape."""
    answer = await internal.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {family.name for family in text_string_to_metric_families(answer.text) if family.samples}


async def test_a_scrape_shows_process_database_and_engine(internal: Served) -> None:
    """All three in one answer."""
    found = await names(internal)
    assert {"crawler_build_info", "crawler_replication_caught_up", "crawler_index_documents"} <= found


@pytest.mark.parametrize("trouble", [Trouble(failure=DatabaseAwayError()), Trouble(hangs=True)])
async def test_a_scrape_without_the_database(internal: Served, trouble: Trouble) -> None:
    """Its gauges are absent, the rest is there, and soon."""
    internal.mirror.trouble = trouble
    found = await names(internal)
    assert "crawler_replication_caught_up" not in found
    assert {"crawler_build_info", "crawler_index_documents"} <= found


async def test_a_scrape_without_the_engine(internal: Served) -> None:
    """Only the figures of the indexes are absent."""
    internal.engine.trouble = Trouble(hangs=True)
    found = await names(internal)
    assert "crawler_index_documents" not in found
    assert "crawler_replication_caught_up" in found


async def test_a_scrape_may_be_compressed(internal: Served) -> None:
    """Prometheus asks for gzip."""
    answer = await internal.client.get("/metrics", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"


async def test_ready(internal: Served) -> None:
    """200 when every check passes."""
    answer = await internal.get("/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "missing": []})


async def test_not_ready_says_what_is_missing(internal: Served, dependencies: Dependencies) -> None:
    """C57: refused, hanging and dead are all named, within seconds; health stays what it is."""
    dependencies.database = Trouble(hangs=True)
    dependencies.engine = Trouble(failure=ConnectionRefusedError("connection refused"))
    dependencies.loop = Trouble(failure=RuntimeError())
    for _ in range(2):
        answer = await internal.get("/ready")
        assert answer.status_code == 503
        assert answer.json() == {
            "status": "not ready",
            "missing": [
                {"name": "database", "detail": "no answer within 0.3 s"},
                {"name": "engine", "detail": "connection refused"},
                {"name": "follower loop", "detail": "RuntimeError"},
            ],
        }
        assert answer.elapsed.total_seconds() < 3
    assert (await internal.get("/health")).status_code == 200


async def test_ready_again_when_it_is_over(internal: Served, dependencies: Dependencies) -> None:
    """C57: nothing of an outage sticks."""
    dependencies.database = Trouble(hangs=True)
    assert (await internal.get("/ready")).status_code == 503
    dependencies.database = Trouble()
    assert (await internal.get("/ready")).status_code == 200


async def test_a_check_that_ignores_its_end_runs_once() -> None:
    """A check that cannot be cancelled holds up no answer, and is not started again beside itself."""
    started = 0
    release = asyncio.Event()

    async def stubborn() -> None:
        nonlocal started
        started += 1
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    readiness = Readiness([Check("stubborn", stubborn)], seconds=0.05)
    for _ in range(3):
        assert [missing.name for missing in await readiness.missing()] == ["stubborn"]
    assert started == 1
    release.set()
    assert await readiness.missing() == []


async def test_no_checks_means_ready() -> None:
    """Nothing is asked for, nothing is missing."""
    assert await Readiness([]).missing() == []


async def test_the_page_and_the_error_shape(internal: Served) -> None:
    """A page that links what there is; errors as everywhere, without opening the listener to browsers."""
    page = await internal.get("/")
    assert "/metrics" in page.text
    assert "/ready" in page.text
    missing = await internal.get("/nope")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert "access-control-allow-origin" not in missing.headers
