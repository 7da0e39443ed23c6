"""Every fault, as a client meets it."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest

from indexer.simulation import faults
from indexer.simulation.faults import Endpoint
from indexer.simulation.scripted import ALICE, ALPHA, ScriptedNetwork, post, scripted_network
from indexer.simulation.server import SimulatedServer

pytestmark = pytest.mark.anyio

FEED = "/api/v2/replication"
IDENTITY = {"accept-encoding": "identity"}


@pytest.fixture
async def network() -> AsyncIterator[ScriptedNetwork]:
    async with scripted_network(ALPHA) as running:
        running[ALPHA].receive("2025-03-01T00:00:00Z", post(ALICE, "1", "やあ"))
        yield running


@pytest.fixture
def alpha(network: ScriptedNetwork) -> SimulatedServer:
    return network[ALPHA]


@pytest.fixture
async def http(network: ScriptedNetwork) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=network.host_overrides[ALPHA]) as client:
        yield client


async def test_faults_play_in_turn(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """What is planned next comes in turn, then what is always, until it is cleared."""
    alpha.faults.always(faults.html(), on=Endpoint.REPLICATION)
    alpha.faults.next(faults.redirect("https://www.other.example/", code=301), on=Endpoint.REPLICATION)
    alpha.faults.next(faults.no_content(), times=2, on=Endpoint.REPLICATION)
    answers = [await http.get(FEED) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [301, 204, 204, 200]
    assert answers[0].headers["location"] == "https://www.other.example/"
    assert answers[3].headers["content-type"].startswith("text/html")
    assert (await http.get("/.well-known/concrnt")).status_code == 200
    alpha.faults.clear()
    assert len((await http.get(FEED)).json()["items"]) == 1


async def test_scripts_choose_by_request(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """A function picks the fault, or the truth."""
    alpha.faults.script(lambda request: faults.status(500) if "since" in request.query else None)
    assert (await http.get(FEED)).status_code == 200
    assert (await http.get(FEED, params={"since": "2025-01-01T00:00:00Z"})).status_code == 500


@pytest.mark.parametrize(
    ("fault", "status", "retry_after"),
    [
        (faults.slow_down(120), 429, "120"),
        (faults.slow_down(datetime(2025, 3, 1, tzinfo=UTC)), 429, "Sat, 01 Mar 2025 00:00:00 GMT"),
        (faults.slow_down(code=503), 503, None),
    ],
)
async def test_slow_down(
    alpha: SimulatedServer,
    http: httpx.AsyncClient,
    fault: faults.Fault,
    status: int,
    retry_after: str | None,
) -> None:
    """429 and 503 say how long to wait, in seconds, as a date, or not at all."""
    alpha.faults.next(fault)
    answer = await http.get(FEED)
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, retry_after)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (faults.body(b"{}"), {}),
        (faults.body(b"[]"), []),
        (faults.null_items(), {"items": None, "next": None}),
        (
            faults.empty_page("2025-03-02T00:00:00Z"),
            {"items": [], "prev": None, "next": "2025-03-02T00:00:00Z"},
        ),
        (faults.nested(3), {"items": [[[[]]]], "prev": None, "next": None}),
        (faults.oversized(100_000), {"items": [], "next": None}),
        (faults.gzip_bomb(100_000), {"items": [], "next": None}),
    ],
)
async def test_bodies(
    alpha: SimulatedServer, http: httpx.AsyncClient, fault: faults.Fault, expected: object
) -> None:
    """Bodies come as they were asked for."""
    alpha.faults.next(fault)
    assert (await http.get(FEED)).json() == expected


async def test_next_cursor_is_forged(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """A page keeps its rows and points elsewhere."""
    alpha.faults.next(faults.next_cursor("1999-01-01T00:00:00Z"))
    page = (await http.get(FEED)).json()
    assert (len(page["items"]), page["next"]) == (1, "1999-01-01T00:00:00Z")


async def test_cut_short(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """The body ends before its announced length."""
    alpha.faults.next(faults.cut_short())
    with pytest.raises(httpx.RemoteProtocolError):
        await http.get(FEED)


async def test_broken_and_truncated_gzip(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """The trailer is wrong, or the stream ends early, though its length is as announced."""
    for fault in (faults.broken_gzip_trailer(), faults.truncated_gzip()):
        alpha.faults.next(fault)
        async with http.stream("GET", FEED) as answer:
            raw = b"".join([part async for part in answer.aiter_raw()])
        assert json.loads(zlib.decompressobj(-15).decompress(raw[10:]))["next"] is None
        with pytest.raises((gzip.BadGzipFile, EOFError)):
            gzip.decompress(raw)


async def test_reset_and_drip(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """A reset is an error of the connection; a drip arrives whole in the end, headers dripped too."""
    alpha.faults.next(faults.reset())
    alpha.faults.next(faults.reset(after=300))
    for _ in range(2):
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await http.get(FEED, headers=IDENTITY)
    alpha.faults.next(faults.drip(0.0, size=7, headers=True))
    alpha.faults.next(faults.drip(0.0))
    for _ in range(2):
        assert len((await http.get(FEED, headers=IDENTITY)).json()["items"]) == 1


async def test_silence_and_endless_bodies(
    network: ScriptedNetwork, alpha: SimulatedServer, http: httpx.AsyncClient
) -> None:
    """Nothing comes, or nothing ends; the server lets go when the reader does."""
    alpha.faults.next(faults.silence())
    alpha.faults.next(faults.endless())
    with pytest.raises(httpx.ReadTimeout):
        await http.get(FEED, timeout=0.05)
    async with http.stream("GET", FEED) as answer:
        assert len(await anext(answer.aiter_bytes(10_000))) == 10_000
    assert (await http.get(FEED)).status_code == 200
    await http.aclose()
    await network.running.wait_idle()
    assert network.running.open_connections == 0


async def test_held_answers(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """A held request is seen at once and answered when the gate opens."""
    gate = asyncio.Event()
    alpha.faults.next(faults.hold(gate))
    alpha.faults.next(faults.delay(0.0))
    asking = asyncio.create_task(http.get(FEED))
    assert len(await alpha.wait_for_requests(1)) == 1
    assert not asking.done()
    gate.set()
    assert (await asking).status_code == 200
    assert (await http.get(FEED)).status_code == 200


async def test_stopping_ends_what_hangs(network: ScriptedNetwork, alpha: SimulatedServer) -> None:
    """Stopping a network ends held and silent connections."""
    alpha.faults.next(faults.silence())
    async with httpx.AsyncClient(base_url=network.host_overrides[ALPHA], timeout=None) as http:
        asking = asyncio.create_task(http.get(FEED))
        await alpha.wait_for_requests(1)
        await network.running.stop()
        with pytest.raises(httpx.RemoteProtocolError):
            await asking
