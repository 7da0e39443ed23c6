"""Running simulations: progress, growth, ports, state kept between starts."""

import asyncio
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from indexer.simulation.journal import OtherNetworkError
from indexer.simulation.live import Progress, Simulation, Stage, grow_steadily, simulate, simulation
from indexer.simulation.network import Network

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


class Stop(Exception):  # noqa: N818 - ends a loop that has no end
    pass


def stop_after(count: int) -> Callable[[float], "asyncio.Future[None]"]:
    """Return a sleep that does not wait and ends the loop at the given call."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == count:
            raise Stop

    return lambda seconds: asyncio.ensure_future(sleep(seconds))


async def test_a_simulation_answers_and_is_taken_up_again(tmp_path: Path) -> None:
    """The first start generates, the second loads; both answer with the same log."""
    stages: list[Stage] = []
    totals: list[int] = []

    def on_progress(progress: Progress) -> None:
        stages.append(progress.stage)
        totals.append(progress.total)

    async def first_domain() -> tuple[str, int]:
        async with (
            simulation(commits=600, rate=0, state_dir=tmp_path, on_progress=on_progress) as (running, _),
            httpx.AsyncClient(base_url=running.running.host_overrides[running.network.seed_domain]) as http,
        ):
            page = (await http.get("/api/v2/replication?limit=5")).json()
            return page["next"], running.network.commit_count

    first = await first_domain()
    assert {Stage.GENERATING, Stage.SERVING} == set(stages)
    stages.clear()
    assert await first_domain() == first
    assert Stage.LOADING in stages
    assert set(totals) == {600}
    with pytest.raises(OtherNetworkError, match="holds another network"):
        async with simulation(commits=601, state_dir=tmp_path):
            pass


async def test_simulate_runs_until_cancelled() -> None:
    """The command's entry tells when it is ready, grows, and ends when it is cancelled."""
    ready: asyncio.Future[Simulation] = asyncio.get_running_loop().create_future()
    grown = asyncio.Event()

    def on_progress(progress: Progress) -> None:
        if progress.stage is Stage.SERVING and progress.total > 50:
            grown.set()

    task = asyncio.create_task(
        simulate(commits=50, servers=1, rate=10_000, on_progress=on_progress, on_ready=ready.set_result)
    )
    running = await ready
    await grown.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running.network.commit_count > 50
    assert running.running.open_connections == 0


async def test_growth_keeps_its_rate() -> None:
    """The pause after an event is as long as its commits deserve."""
    network = Network.generate(seed=1, commits=100, end=NOON)
    reports: list[Progress] = []
    with pytest.raises(Stop):
        await grow_steadily(network, 5.0, report=reports.append, clock=lambda: NOON, sleep=stop_after(10))
    assert len(reports) == 11
    assert reports[-1].total == network.commit_count >= 110


async def test_a_taken_port_is_an_error() -> None:
    """A port in use raises OSError and leaves nothing running."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="address already in use"):
            await simulate(commits=10, servers=2, ports=[0, port])


async def test_generation_ends_when_cancelled(tmp_path: Path) -> None:
    """A large network that is cancelled while it is made leaves no folder that looks whole."""
    begun = asyncio.Event()
    task = asyncio.create_task(
        simulate(commits=1_000_000, state_dir=tmp_path, on_progress=lambda _progress: begun.set())
    )
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "network.json").exists()
