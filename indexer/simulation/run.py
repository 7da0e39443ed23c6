"""Putting simulated servers on ports of their own.

`serve` starts one listener per server in the running loop; the handle that it returns knows the ports and
what an indexer needs to find them (`host_overrides`), and ends them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from indexer.simulation.listener import Listener
from indexer.simulation.server import SimulatedServer


class ServesServers(Protocol):
    """Anything made of simulated servers."""

    @property
    def servers(self) -> Mapping[str, SimulatedServer]:
        """The servers by domain."""
        ...


@dataclass(frozen=True, slots=True)
class RunningNetwork:
    """A network that answers: the listeners by domain."""

    listeners: Mapping[str, Listener]

    @property
    def host_overrides(self) -> dict[str, str]:
        """Domain → base URL, as the setting `crawl.hostOverrides` takes it."""
        return {domain: listener.url for domain, listener in self.listeners.items()}

    @property
    def ports(self) -> dict[str, int]:
        """Domain → port."""
        return {domain: listener.port for domain, listener in self.listeners.items()}

    @property
    def open_connections(self) -> int:
        """How many connections are open on all ports together."""
        return sum(listener.open_connections for listener in self.listeners.values())

    async def wait_idle(self) -> None:
        """Wait until every connection that is open now has ended."""
        for listener in self.listeners.values():
            await listener.wait_idle()

    async def stop(self) -> None:
        """End all listeners and their connections."""
        for listener in self.listeners.values():
            await listener.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


async def serve(
    network: ServesServers, *, host: str = "127.0.0.1", ports: Sequence[int] | None = None
) -> RunningNetwork:
    """Start every server of a network.

    `ports` are given to the servers in their order; None takes any that are free. Raises OSError when a port
    is taken; nothing is left running then.
    """
    chosen = list(ports) if ports is not None else [0] * len(network.servers)
    listeners: dict[str, Listener] = {}
    try:
        for (domain, server), port in zip(network.servers.items(), chosen, strict=True):
            listeners[domain] = await Listener.start(server.handle, host=host, port=port)
    except OSError:
        await RunningNetwork(listeners).stop()
        raise
    return RunningNetwork(listeners)
