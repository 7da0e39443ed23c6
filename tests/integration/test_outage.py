"""PostgreSQL goes away and comes back while the house is at work (C57, C40)."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import anyio.to_thread
import psutil
import pytest

from indexer.mirror.embedded import EmbeddedServer, start_embedded
from indexer.simulation.scripted import ALICE, ALPHA, SEED, post, scripted_network
from tests.integration.eventually import eventually
from tests.integration.house import Running, running_house, settings_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from indexer.simulation.scripted import ScriptedNetwork

pytestmark = pytest.mark.anyio
_SEARCH = "/api/v1/search/posts?q=ねこ"
_ALL_SEARCHES = (
    _SEARCH,
    "/api/v1/search?q=ねこ",
    "/api/v1/suggest?q=a",
    "/api/v1/stats",
    f"/api/v1/search/users?viewer={ALICE}",
)


def _postmaster(data_dir: Path) -> psutil.Process:
    return psutil.Process(int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0]))


def _stop(data_dir: Path) -> None:
    """Stop the server as an operator does in a hurry: open connections are cut."""
    postmaster = _postmaster(data_dir)
    postmaster.send_signal(signal.SIGINT)
    psutil.wait_procs([postmaster], timeout=20)


@contextmanager
def _started_again(data_dir: Path) -> Iterator[None]:
    """The server as it was started before, until it is stopped; leaving waits for that."""
    command = shlex.split((data_dir / "postgres" / "postmaster.opts").read_text())
    user = (data_dir / "postgres").stat().st_uid
    with subprocess.Popen(
        command,
        user=user if os.geteuid() == 0 else None,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ):
        yield


@contextmanager
def hanging(data_dir: Path) -> Iterator[None]:
    """The server keeps its connections and answers nothing."""
    postmaster = _postmaster(data_dir)
    family = [postmaster, *postmaster.children(recursive=True)]
    for process in family:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in family:
            with suppress(ProcessLookupError):  # what was told to end before it slept ends as it wakes
                os.kill(process.pid, signal.SIGCONT)


@asynccontextmanager
async def _following(data_dir: Path) -> AsyncIterator[tuple[Running, ScriptedNetwork, EmbeddedServer]]:
    """A house that follows alpha, on a server that can be stopped."""
    server = await anyio.to_thread.run_sync(start_embedded, data_dir)
    try:
        async with (
            scripted_network(SEED, ALPHA) as network,
            running_house(settings_of(SEED, network.host_overrides, server.dsn)) as running,
        ):
            network[ALPHA].receive("2025-03-01T00:00:00Z", post(ALICE, "1", "前のねこ"))
            await eventually(lambda: running.bodies("ねこ"))
            yield running, network, server
    finally:
        await anyio.to_thread.run_sync(server.stop)


async def _says_that_the_database_is_away(running: Running, *paths: str) -> None:
    """/ready names it within seconds, the API asks for patience, /health is fine."""

    async def missing() -> set[str]:
        answer = await asyncio.wait_for(running.internal.get("/ready"), 5)
        assert answer.status_code in (200, 503)
        return {check["name"] for check in answer.json()["missing"]}

    await eventually(missing, until=lambda names: "database" in names, seconds=8)
    assert (await running.api.get("/health")).status_code == 200
    assert (await running.internal.get("/health")).status_code == 200
    assert (await running.internal.get("/metrics")).status_code == 200
    for path in paths:
        answer = await running.api.get(path)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert set(answer.json()) == {"message", "code"}


async def _resumes_by_itself(running: Running, network: ScriptedNetwork, text: str) -> None:
    """/ready is 200 again, and what was committed meanwhile becomes searchable."""

    async def status() -> int:
        return (await running.internal.get("/ready")).status_code

    await eventually(status, until=lambda code: code == 200, seconds=20)
    await eventually(lambda: running.bodies(text), seconds=40)
    assert running.is_alive
    assert await running.bodies("前のねこ")
    assert (await running.server(ALPHA))["consecutiveFailures"] == 0
    assert network[ALPHA].requests


@pytest.mark.timeout(120)
async def test_a_stopped_database_stops_nothing_for_good(data_dir: Path) -> None:
    """Everything says so while it is away, and resumes by itself when it is back."""
    async with _following(data_dir) as (running, network, _):
        await anyio.to_thread.run_sync(_stop, data_dir)
        await _says_that_the_database_is_away(running, _SEARCH, "/api/v1/stats")
        network[ALPHA].receive("2025-03-01T00:00:01Z", post(ALICE, "2", "留守の間のいぬ"))
        with _started_again(data_dir):
            await _resumes_by_itself(running, network, "いぬ")
            await anyio.to_thread.run_sync(_stop, data_dir)


@pytest.mark.timeout(120)
async def test_a_database_that_hangs_is_as_away_as_one_that_refuses(data_dir: Path) -> None:
    """Connections stay open and nobody answers: the same words, the same recovery."""
    async with _following(data_dir) as (running, network, _):
        with hanging(data_dir):
            began = time.monotonic()
            answers = await asyncio.gather(*map(running.api.get, _ALL_SEARCHES * 12))
            assert time.monotonic() - began < 5
            for answer in answers:
                assert answer.status_code == 503
                assert int(answer.headers["retry-after"]) > 0
                assert "the database" in answer.json()["message"]
            await _says_that_the_database_is_away(running, _SEARCH)
            network[ALPHA].receive("2025-03-01T00:00:01Z", post(ALICE, "2", "留守の間のいぬ"))
        await _resumes_by_itself(running, network, "いぬ")
