"""Discovery: which servers there are (behaviour.md, section 2).

One run asks the seed for its well-known and for the servers that it knows, and adds the names that are
new. The list gives names only; each server's own well-known, fetched before it is followed, decides layer
and endpoints. A seed that does not answer, or a list that can not be had, leaves the servers known so far
at work. Nothing is ever removed; running again changes nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

import structlog

from indexer.concrnt.client import PeerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from indexer.concrnt.wellknown import Skip
    from indexer.mirror.servers import Servers
    from indexer.replication.feeds import Feeds

log = structlog.get_logger(__name__)

NEW_PER_PARENT_DOMAIN = 100
"""How many new servers below one parent domain a run takes: names are cheap to make up."""
RECENT = timedelta(minutes=5)
"""Names that came in one by one, as what aliases name does, share the bound of a run."""
ALIAS_MEMORY = timedelta(days=1)


class DiscoveryMetrics(Protocol):
    """What discovery counts."""

    def discovery_run(self, result: str) -> None:
        """A run ended `ok` or `error`."""
        ...


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """Where discovery starts and how far it goes. An empty `layer` means any."""

    seed: str
    layer: str
    max_servers: int


class Discovery:
    """Asks the seed who is there."""

    def __init__(
        self,
        feeds: Feeds,
        servers: Servers,
        *,
        settings: DiscoverySettings,
        metrics: DiscoveryMetrics,
        clock: Callable[[], datetime],
    ) -> None:
        self._feeds = feeds
        self._servers = servers
        self._settings = settings
        self._metrics = metrics
        self._clock = clock

    async def run(self) -> list[str]:
        """One run; returns the servers that are new. Raises `StoreUnavailable` when PostgreSQL is away."""
        now = self._clock()
        new = await self.add([self._settings.seed])
        await self._servers.ask_again(now=now, aliases_until=now - ALIAS_MEMORY)
        try:
            names = await self._names()
        except PeerError as error:
            log.warning("the seed's list can not be had", seed=self._settings.seed, why=str(error))
            self._metrics.discovery_run("error")
            return new
        new += await self.add(names)
        self._metrics.discovery_run("ok")
        return new

    async def _names(self) -> list[str]:
        """The names in the seed's list that may be ours, in its order. Raises `PeerError`."""
        seed = self._settings.seed
        well_known = await self._feeds.well_known(seed)
        listed = await self._feeds.known_servers(seed, well_known.endpoints)
        names, other_layer = [], 0
        for entry in listed.entries:
            if self._settings.layer and entry.layer and entry.layer != self._settings.layer:
                other_layer += 1
            else:
                names.append(entry.name)
        if listed.skipped or other_layer:
            log.info(
                "entries of the seed's list were skipped",
                seed=seed,
                other_layer=other_layer,
                malformed=_counts(listed.skipped),
            )
        return list(dict.fromkeys(names))

    async def add(self, names: Iterable[str]) -> list[str]:
        """Add names within the bounds of discovery; returns those that are new."""
        room = self._settings.max_servers - await self._servers.count()
        if room <= 0:
            return []
        now = self._clock()
        return await self._servers.discover(
            list(names),
            now=now,
            aliases_since=now - ALIAS_MEMORY,
            at_most=room,
            per_parent=NEW_PER_PARENT_DOMAIN,
            recent_since=now - RECENT,
        )


def _counts(skipped: Mapping[Skip, int]) -> dict[str, int]:
    return dict(Counter({str(reason): count for reason, count in skipped.items()}))
