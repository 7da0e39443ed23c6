"""A simulated network that runs: made or taken up again, put on ports, growing at a rate until it is ended.

`simulate` is what the command of that name runs; `simulation` is the same as a block, for a demo that has
more to do. Both keep the network in `state_dir`, when there is one, and go on with it at the next start.
Making or reading a large network happens in a thread and stops soon after a cancellation.
"""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from threading import Event

from indexer.simulation.journal import Origin, OtherNetworkError, is_network_folder
from indexer.simulation.network import Network, domains_of
from indexer.simulation.run import RunningNetwork, serve


class Stage(StrEnum):
    """What a simulation is busy with."""

    GENERATING = "generating"
    LOADING = "loading"
    SERVING = "serving"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is: `done` of `total` commits made or read; while serving, all that there are."""

    stage: Stage
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """A running network and where it answers."""

    network: Network
    running: RunningNetwork


def _utc_now() -> datetime:
    return datetime.now(UTC)


async def simulate(
    *,
    seed: int | str = "concrnt",
    servers: int = 3,
    commits: int = 2_000,
    rate: float = 1.0,
    host: str = "127.0.0.1",
    ports: Sequence[int] | None = None,
    state_dir: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_ready: Callable[[Simulation], None] | None = None,
) -> None:
    """Run a simulated network until cancelled.

    `rate` is commits per second added live (0: none), `ports` one per server (None: any that are free).
    `on_progress` is called in the event loop while commits are made or read and after each live event,
    `on_ready` once, when all ports answer. Raises OSError for ports and folders, OtherNetworkError when
    `state_dir` holds another network.
    """
    async with simulation(
        seed=seed,
        servers=servers,
        commits=commits,
        rate=rate,
        host=host,
        ports=ports,
        state_dir=state_dir,
        on_progress=on_progress,
    ) as (running, growth):
        if on_ready is not None:
            on_ready(running)
        await growth


@asynccontextmanager
async def simulation(
    *,
    seed: int | str = "concrnt",
    servers: int = 3,
    commits: int = 2_000,
    rate: float = 1.0,
    host: str = "127.0.0.1",
    ports: Sequence[int] | None = None,
    state_dir: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    clock: Callable[[], datetime] = _utc_now,
) -> AsyncIterator[tuple[Simulation, asyncio.Task[None]]]:
    """Run a simulated network for as long as the block lasts; gives it and the task that lets it grow.

    Arguments and errors as for `simulate`. The task ends only by an error, which the end of the block raises.
    """
    report = on_progress if on_progress is not None else _ignore
    with _alone_in(state_dir):
        async with _running(seed, servers, commits, rate, host, ports, state_dir, report, clock) as running:
            yield running


@contextmanager
def _alone_in(folder: Path | None) -> Iterator[None]:
    """Hold a folder for this process: two that append to the same logs would tell two stories.

    Raises `OtherNetworkError` when another process has it. The lock ends with the process, however that ends.
    """
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"another simulation is at work in {folder}"
            raise OtherNetworkError(message) from error
        yield


@asynccontextmanager
async def _running(  # noqa: PLR0917 - the arguments of `simulation`
    seed: int | str,
    servers: int,
    commits: int,
    rate: float,
    host: str,
    ports: Sequence[int] | None,
    state_dir: Path | None,
    report: Callable[[Progress], None],
    clock: Callable[[], datetime],
) -> AsyncIterator[tuple[Simulation, asyncio.Task[None]]]:
    network = await _take_up(Origin(str(seed), domains_of(servers), commits), state_dir, report, clock)
    try:
        running = await serve(network, host=host, ports=ports)
        growth = asyncio.create_task(
            grow_steadily(network, rate, report=report, clock=clock), name="simulation growth"
        )
        try:
            yield Simulation(network, running), growth
        finally:
            growth.cancel()
            await running.stop()
            with suppress(asyncio.CancelledError):
                await growth
    finally:
        network.close()


async def grow_steadily(
    network: Network,
    rate: float,
    *,
    report: Callable[[Progress], None],
    clock: Callable[[], datetime] = _utc_now,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Let a network grow by `rate` commits per second, for ever; 0 only waits."""
    count = network.commit_count
    report(Progress(Stage.SERVING, count, count))
    if rate <= 0:
        await asyncio.Event().wait()
    while True:
        made = network.grow(clock())
        count += made
        report(Progress(Stage.SERVING, count, count))
        await sleep(made / rate)


async def _take_up(
    origin: Origin,
    state_dir: Path | None,
    report: Callable[[Progress], None],
    clock: Callable[[], datetime],
) -> Network:
    """Return the network that the folder holds, or a new one that is kept there."""
    known = state_dir is not None and is_network_folder(state_dir)
    stage = Stage.LOADING if known else Stage.GENERATING
    loop, ended = asyncio.get_running_loop(), Event()

    def reported(done: int, total: int) -> None:
        if ended.is_set():
            raise InterruptedError("the simulation was ended")
        loop.call_soon_threadsafe(report, Progress(stage, done, total))

    def work() -> Network:
        if state_dir is not None and known:
            return _resumed(origin, state_dir, reported)
        network = Network.generate(
            seed=origin.seed,
            servers=len(origin.domains),
            commits=origin.commits,
            end=clock(),
            on_progress=reported,
        )
        if state_dir is not None:
            network.save(state_dir)
        return network

    try:
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        ended.set()
        raise


def _resumed(origin: Origin, state_dir: Path, reported: Callable[[int, int], None]) -> Network:
    stored = Origin.read(state_dir)
    if not stored.is_same_as(origin):
        raise OtherNetworkError(
            f"{state_dir} holds another network (seed {stored.seed}, {len(stored.domains)} servers, "
            f"{stored.commits} commits): ask for that one, or remove the folder"
        )
    return Network.load(state_dir, on_progress=reported)


def _ignore(_progress: Progress) -> None:
    """Report to nobody."""
