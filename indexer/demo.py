"""The demo: a simulated network in a process of its own, and an indexer that follows it, in one folder.

Everything lives in `demo/` under `backends.dataDir`: the embedded database and the network's logs, so that a
second start goes on where the first stood. The network runs as a child process, as other people's servers
would, and ends with the demo.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import structlog
import yaml

from indexer.app import House, run_up, utc_now
from indexer.errors import ExpectedError, unwrapped
from indexer.mirror.database import StoreUnavailable
from indexer.mirror.servers import ServerState
from indexer.mirror.statistics import server_reports, totals
from indexer.progress import Pace, ProgressSnapshot, seconds_left

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from indexer.config import Settings
    from indexer.mirror.statistics import ServerReport

log = structlog.get_logger(__name__)

_REFRESH_SECONDS = 0.5
_END_SECONDS = 5.0
_CHANGES_IN_HAND = 50
_POLL_INTERVAL = timedelta(seconds=1)
_ACTIVITY_INTERVAL = timedelta(seconds=10)


@asynccontextmanager
async def simulated_network(
    folder: Path, *, servers: int, commits: int, seed: str, rate: float
) -> AsyncIterator[tuple[str, dict[str, str], int]]:
    """A simulated network in a child process: its seed, where servers answer, how many commits they hold."""
    arguments = ["-m", "indexer.simulation", "--state-dir", str(folder), "--servers", str(servers)]
    arguments += ["--commits", str(commits), "--seed", seed, "--rate", str(rate)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise ExpectedError("the simulated network did not start; its words are above", code="simulation")
        ready = json.loads(line)
        if "error" in ready:
            raise ExpectedError(
                f"{ready['error']} (the demo's network and database are both in {folder.parent}: "
                "to begin anew, remove that folder whole)",
                code="simulation",
            )
        yield ready["seed"], ready["hostOverrides"], ready["commits"]
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the child's input, which ends it; a child that does not end in time is killed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def run_demo(
    settings: Settings,
    *,
    servers: int,
    commits: int,
    seed: str,
    rate: float,
    show: Callable[[ProgressSnapshot], None],
) -> None:
    """Run the demo until cancelled; `show` is told how far it is twice a second."""
    folder = settings.backends.data_dir / "demo"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExpectedError(
            f"the demo's folder {folder} can not be made ({error.strerror}); "
            "set backends.dataDir to a folder that can be written",
            code="data_dir",
        ) from error
    network = simulated_network(folder / "network", servers=servers, commits=commits, seed=seed, rate=rate)
    with unwrapped():
        async with network as (seed_domain, overrides, expected), asyncio.TaskGroup() as group:
            demo_settings = _demo_settings(settings, folder, seed_domain, overrides)
            _write_configuration(folder, seed_domain, overrides)
            watching: list[asyncio.Task[None]] = []

            def opened(house: House) -> None:
                watching.append(group.create_task(_watch(house, expected, servers, show), name="progress"))

            try:
                await run_up(demo_settings, on_open=opened)
            finally:
                for task in watching:
                    task.cancel()


def _demo_settings(settings: Settings, folder: Path, seed: str, overrides: dict[str, str]) -> Settings:
    """The operator's settings, on the simulated network and in the demo's folder."""
    crawl = settings.crawl.model_copy(
        update={
            "seed": seed,
            "host_overrides": overrides,
            "min_poll_interval": min(settings.crawl.min_poll_interval, _POLL_INTERVAL),
            "activity_interval": min(settings.crawl.activity_interval, _ACTIVITY_INTERVAL),
        }
    )
    backends = settings.backends.model_copy(update={"data_dir": folder, "postgres_dsn": ""})
    observability = settings.observability
    if observability.log_level == "info" and observability.log_format == "auto":
        observability = observability.model_copy(update={"log_level": "warning"})
    return settings.model_copy(update={"crawl": crawl, "backends": backends, "observability": observability})


def _write_configuration(folder: Path, seed: str, overrides: dict[str, str]) -> None:
    """Write what other commands need to look at the demo: `--config` this file."""
    told = {
        "crawl": {"seed": seed, "hostOverrides": overrides},
        "backends": {"dataDir": str(folder.absolute())},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")


async def _watch(house: House, expected: int, servers: int, show: Callable[[ProgressSnapshot], None]) -> None:
    watch = _Watch(house, expected, servers, began_at=utc_now())
    while True:
        try:
            show(await watch.look())
        except StoreUnavailable:
            log.debug("no progress to show: the mirror is away")
        await asyncio.sleep(_REFRESH_SECONDS)


@dataclass(slots=True)
class _Watch:
    """How far the demo is. `expected` commits were in the logs as it began, some of them for members only."""

    house: House
    expected: int
    servers: int
    began_at: datetime
    pace: Pace = field(default_factory=Pace)
    was_caught_up: bool = False

    async def look(self) -> ProgressSnapshot:
        layer = self.house.settings.crawl.layer
        counted = await totals(self.house.database, layer=layer)
        reports = await server_reports(self.house.database, layer=layer)
        drained = sum(map(self._is_drained, reports))
        per_second = self.pace.observe(time.monotonic(), counted.commits)
        # Once everything was searchable, a few changes under way do not make the demo fall behind.
        in_hand = _CHANGES_IN_HAND if self.was_caught_up else 0
        caught_up = drained >= self.servers and counted.queue_depth <= in_hand
        self.was_caught_up = self.was_caught_up or caught_up
        to_read = 0 if drained >= self.servers else max(self.expected - counted.commits, 1)
        return ProgressSnapshot(
            servers=max(counted.servers, self.servers),
            servers_caught_up=drained,
            pages=self.house.instruments.pages,
            commits=counted.commits,
            commits_per_second=per_second,
            queue_depth=counted.queue_depth,
            seconds_left=0.0 if caught_up else seconds_left(to_read + counted.queue_depth, per_second),
            caught_up=caught_up,
            api_url=self.house.api_url,
        )

    def _is_drained(self, server: ServerReport) -> bool:
        """Whether nothing of a server is waited for: it was read to its end, or an operator paused it."""
        if server.state == ServerState.PAUSED:
            return True
        return server.caught_up_at is not None and server.caught_up_at >= self.began_at
