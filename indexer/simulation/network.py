"""A whole simulated network: generated from a seed, growing live, kept in a folder.

`Network.generate` tells the story of a span of time; the same arguments give the same bytes. `grow` goes
on with it at the present. `save` binds a network to a folder: from then on every commit is appended
there, and `load` goes on where it ended. Receipt times have microseconds, as PostgreSQL behind a real
feed does.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Self

import msgspec

from indexer.concrnt.keys import KeyPair
from indexer.concrnt.times import from_datetime
from indexer.simulation.activity import Activity, NewCommit
from indexer.simulation.journal import Journal, Origin, read_log, write_log
from indexer.simulation.log import CommitLog, LoggedCommit, Precision
from indexer.simulation.server import SimulatedServer
from indexer.simulation.world import World

DEFAULT_SPAN = timedelta(days=30)
Progress = Callable[[int, int], None]
"""(commits made, commits wanted), called now and then."""

_NAMES = (
    "hakoniwa", "minato", "yama", "kawa", "hoshi", "mori", "umi", "hana", "yuki", "kaze", "tsuki", "sora",
    "ishi", "take", "momiji", "niji", "shima", "tani", "hara", "numa",
)  # fmt: skip
_PROGRESS_STEP = 500
_EVENT_GAP_NS = 40_000_000
"""How far apart the commits of one event are received, at most."""
_LATE_SHARE = 0.02
_LATEST_NS = 2_000_000_000


def domains_of(servers: int) -> tuple[str, ...]:
    """Return the domains of a network of so many servers; the first is the seed of discovery."""
    names = [_NAMES[n] if n < len(_NAMES) else f"mura-{n + 1}" for n in range(servers)]
    return tuple(f"{name}.example" for name in names)


class Network:
    """Servers, their logs, and the people who fill them."""

    def __init__(self, origin: Origin, logs: dict[str, CommitLog]) -> None:
        self.origin = origin
        self.servers: dict[str, SimulatedServer] = {
            domain: _server(origin.seed, domain, logs[domain]) for domain in origin.domains
        }
        for server in self.servers.values():
            others = [other for other in self.servers.values() if other is not server]
            server.peers, server.relays = others, others
        self._world = World(origin.seed, origin.domains)
        self._world.expect(origin.people)
        self._live: tuple[Random, Activity] | None = None
        self._journal: Journal | None = None

    @property
    def seed_domain(self) -> str:
        """Where discovery starts."""
        return self.origin.domains[0]

    @property
    def commit_count(self) -> int:
        """How many commits all logs hold together."""
        return sum(len(server.log) for server in self.servers.values())

    # -- generating --------------------------------------------------------------------------------

    @classmethod
    def generate(
        cls,
        *,
        seed: int | str,
        servers: int = 3,
        commits: int,
        people: int | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        on_progress: Progress | None = None,
    ) -> Self:
        """Make a network of exactly `commits` commits, received between `start` and `end`.

        `end` is now by default, `start` thirty days before it. `people` follows from `commits` by default.
        """
        end = end if end is not None else (start + DEFAULT_SPAN if start is not None else datetime.now(UTC))
        start = start if start is not None else end - DEFAULT_SPAN
        if servers < 1 or commits < 0 or start >= end:
            raise ValueError("a network needs a server, no fewer than 0 commits, and a start before its end")
        domains = domains_of(servers)
        network = cls(
            Origin(str(seed), domains, commits),
            {domain: CommitLog(precision=Precision.MICROSECONDS) for domain in domains},
        )
        wanted_people = people if people is not None else min(max(commits // 20, 4), 20_000)
        network._tell(commits, wanted_people, from_datetime(start), from_datetime(end), on_progress)
        return network

    def _tell(
        self, commits: int, people: int, start_ns: int, end_ns: int, on_progress: Progress | None
    ) -> None:
        """Fill the logs with the story from start to end."""
        random = Random(f"{self.origin.seed}/story")
        activity = Activity(self._world, random)
        step = (end_ns - start_ns) / max(1, commits)
        told = 0
        while told < commits:
            done = told / commits
            at_ns = start_ns + int(step * (told + random.random() * 0.5))
            event = activity.happen(
                at_ns,
                joining=len(self._world.joined) < people * done**0.6,
                founding=self._world.community_count < _communities_by(commits, len(self.servers), done),
            )
            gap_ns = min(_EVENT_GAP_NS, int(step / 16))
            for commit in event:
                if told < commits:
                    self._log(commit, at_ns)
                    told += 1
                    at_ns += gap_ns
                    if on_progress is not None and told % _PROGRESS_STEP == 0:
                        on_progress(told, commits)
        if on_progress is not None:
            on_progress(commits, commits)

    # -- growing -----------------------------------------------------------------------------------

    def grow(self, now: datetime) -> int:
        """Let one more thing happen at `now`; return how many commits it gave.

        Now and then a commit surfaces a little behind the end of the log, as real ones do.
        """
        random, activity = self._live_activity()
        at_ns, made = from_datetime(now), list[NewCommit]()
        if self._world.joined and random.random() < _LATE_SHARE:
            late_ns = at_ns - random.randrange(_LATEST_NS)
            made = list(activity.surface_late(late_ns))
            at_ns = late_ns if made else at_ns
        made = made or list(activity.happen(at_ns, joining=random.random() < 0.02))
        for commit in made:
            self._log(commit, at_ns)
            at_ns += 1_000
        return len(made)

    def _live_activity(self) -> tuple[Random, Activity]:
        """Return the source of what happens live: another one at every start, fixed by what there is."""
        if self._live is None:
            random = Random(f"{self.origin.seed}/live/{self.commit_count}")
            self._live = random, Activity(self._world, random)
        return self._live

    def _log(self, commit: NewCommit, at_ns: int) -> None:
        self.servers[commit.domain].log.add(at_ns, commit.signed, hidden=commit.hidden)
        if self._journal is not None:
            self._journal.append(commit.domain, LoggedCommit(at_ns, commit.signed, commit.hidden))

    # -- keeping -----------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write the network to a folder and append to it from now on."""
        self.close()
        folder.mkdir(parents=True, exist_ok=True)
        for domain, server in self.servers.items():
            write_log(folder, domain, server.log)
        replace(self.origin, people=tuple(self._world.made)).write(folder)
        self._journal = Journal(folder, self.servers)

    @classmethod
    def load(cls, folder: Path, *, on_progress: Progress | None = None) -> Self:
        """Read a network back and append to its folder from now on.

        Raises FileNotFoundError when the folder holds no network, OtherNetworkError when another version of
        the simulation wrote it, ForeignLogError when its logs are not this network's.
        """
        origin = Origin.read(folder)
        network = cls(origin, {domain: read_log(folder, domain) for domain in origin.domains})
        network._remember(on_progress)
        network._journal = Journal(folder, origin.domains)
        return network

    def _remember(self, on_progress: Progress | None) -> None:
        """Learn from the logs what their authors knew."""
        total = self.commit_count
        for number, row in enumerate(self._rows()):
            outer = msgspec.json.decode(row.signed)
            document = msgspec.json.decode(outer["document"])
            cdid = outer["ccfs"].rpartition("/")[2]
            self._world.observe(document, cdid, row.signed, hidden=row.hidden)
            if on_progress is not None and number % _PROGRESS_STEP == 0:
                on_progress(number, total)
        if on_progress is not None:
            on_progress(total, total)

    def _rows(self) -> Iterator[LoggedCommit]:
        for server in self.servers.values():
            yield from server.log

    def close(self) -> None:
        """Close the files of the folder, if there is one."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _communities_by(commits: int, servers: int, done: float) -> float:
    """Return how many communities there should be when this share of the story is told."""
    return float(min(max(commits // 150, 2 * servers), 3_000) * (0.1 + 0.9 * done) * min(1.0, commits / 60))


def _server(seed: str, domain: str, log: CommitLog) -> SimulatedServer:
    return SimulatedServer(domain, log, csid=KeyPair.from_seed(f"{seed}/server/{domain}").csid)
