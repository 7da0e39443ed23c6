"""A follower at work on scripted servers: real HTTP, a real mirror, a clock that the test moves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from indexer.concrnt.client import PeerClient
from indexer.mirror.moves import Moves
from indexer.mirror.statistics import ServerReport, server_reports
from indexer.mirror.trust import OpenQuestions
from indexer.replication.discovery import Discovery, DiscoverySettings
from indexer.replication.feeds import Feeds
from indexer.replication.follower import Follower, FollowerSettings
from indexer.replication.left_homes import LeftHomes
from indexer.replication.moving import Moving
from indexer.replication.proving import FetchedDocuments
from indexer.replication.residents import Residents
from indexer.replication.schedule import Schedule, ScheduleSettings
from indexer.replication.trust import TrustMode
from indexer.simulation.scripted import SEED, scripted_network
from tests.replication.stage import SCHEMAS, Mirror, open_mirror

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from indexer.mirror.changes import Changes
    from indexer.simulation.scripted import ScriptedNetwork
    from indexer.simulation.server import SimulatedServer

START = datetime(2025, 6, 1, 12, tzinfo=UTC)
LAYER = "concrnt-mainnet"


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def move(self, **length: float) -> None:
        """Move on by a length of time."""
        self.now += timedelta(**length)


@dataclass
class Counts:
    """What the parts counted."""

    requests: list[tuple[str, str]] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    malformed: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    pages: int = 0
    not_whole: int = 0
    discoveries: list[str] = field(default_factory=list)
    crawls: list[tuple[str, str]] = field(default_factory=list)

    def pages_applied(self, server: str, pages: int, changes: Changes) -> None:  # noqa: ARG002
        self.pages += pages
        for other, number in changes.withdrawn.items():
            self.rejected_later(other, "withdrawn", number)
        for total, more in (
            (self.kinds, changes.tally.kinds),
            (self.malformed, changes.tally.malformed),
            (self.rejected, changes.tally.rejected),
        ):
            for kind, number in more.items():
                total[kind] = total.get(kind, 0) + number

    def rejected_later(self, server: str, reason: str, number: int) -> None:  # noqa: ARG002
        self.rejected[reason] = self.rejected.get(reason, 0) + number

    def request(self, server: str, result: str) -> None:
        self.requests.append((server, result))

    def instant_not_whole(self, server: str) -> None:  # noqa: ARG002
        self.not_whole += 1

    def discovery_run(self, result: str) -> None:
        self.discoveries.append(result)

    def server_crawled(self, server: str, result: str, seconds: float) -> None:  # noqa: ARG002
        self.crawls.append((server, result))

    def crawl_run(self, result: str, seconds: float) -> None:
        """Not looked at."""


@dataclass
class Stage:
    """Everything a trial touches."""

    network: ScriptedNetwork
    mirror: Mirror
    clock: Clock
    counts: Counts
    discovery: Discovery
    schedule: Schedule
    residents: Residents
    another_residents: Callable[[], Residents]
    """Makes what another process, or this one after a restart, has."""

    def __getitem__(self, domain: str) -> SimulatedServer:
        return self.network[domain]

    async def crawl(self, *, after: timedelta = timedelta(minutes=1)) -> None:
        """Move the clock on, discover, and follow whatever is due."""
        self.clock.now += after
        await self.discovery.run()
        await self.schedule.run_once()

    async def follow(self, domain: str, *, after: timedelta = timedelta(minutes=1)) -> bool:
        """Move the clock on and follow one server."""
        self.clock.now += after
        return await self.schedule.follow(domain)

    async def report(self, domain: str) -> ServerReport:
        """What the operator sees of a server."""
        reports = await server_reports(self.mirror.database, layer="")
        return next(report for report in reports if report.domain == domain)

    def asked(self, domain: str) -> list[dict[str, Any]]:
        """The queries that the server's feed was asked with, oldest first."""
        return [
            dict(request.query)
            for request in self.network[domain].requests
            if request.path.endswith("/replication")
        ]


@asynccontextmanager
async def stage(
    dsn: str,
    *servers: str | SimulatedServer,
    page_limit: int = 100,
    overlap: timedelta = timedelta(seconds=10),
    max_pages: int = 1000,
    layer: str = LAYER,
    max_servers: int = 20_000,
    trust: TrustMode = TrustMode.OFF,
    seed: str = SEED,
    request_timeout: float = 5,
) -> AsyncIterator[Stage]:
    """A network of scripted servers (seed, alpha, beta, gamma by default) and a follower on it."""
    clock, counts = Clock(), Counts()
    async with (
        scripted_network(*servers) as network,
        PeerClient(
            user_agent="test",
            request_timeout=request_timeout,
            max_response_bytes=32 * 2**20,
            host_overrides=network.host_overrides,
            clock=clock,
        ) as peers,
        open_mirror(dsn, trust) as mirror,
    ):
        feeds = Feeds(peers)
        follower = Follower(
            feeds,
            mirror.writer,
            schemas=SCHEMAS,
            settings=FollowerSettings(page_limit, overlap, max_pages),
            metrics=counts,
            clock=clock,
        )
        discovery = Discovery(
            feeds,
            mirror.servers,
            settings=DiscoverySettings(seed, layer, max_servers),
            metrics=counts,
            clock=clock,
        )
        schedule = Schedule(
            follower,
            feeds,
            mirror.servers,
            settings=ScheduleSettings(
                layer=layer,
                concurrency=8,
                min_poll_interval=timedelta(seconds=15),
                incremental_interval=timedelta(minutes=15),
                well_known_interval=timedelta(minutes=10),
            ),
            metrics=counts,
            clock=clock,
            discover=discovery.add,
            moving=Moving(
                feeds,
                Moves(mirror.database, indexed_schemas=SCHEMAS.indexed),
                discover=discovery.add,
                layer=layer,
            ),
        )

        def make_residents() -> Residents:
            return Residents(
                feeds,
                mirror.servers,
                OpenQuestions(mirror.database),
                mirror.writer,
                mirror.judge.prover.fetched if mirror.judge is not None else FetchedDocuments(),
                left_homes=LeftHomes(
                    mirror.database, mirror.writer, SCHEMAS, on_rejected=counts.rejected_later, clock=clock
                ),
                seed=seed,
                schemas=SCHEMAS,
                metrics=counts,
                clock=clock,
            )

        yield Stage(network, mirror, clock, counts, discovery, schedule, make_residents(), make_residents)
