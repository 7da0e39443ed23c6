"""The address guard: judged on the address that is dialled."""

import socket
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore
import pytest

from indexer.concrnt.addresses import is_public_address
from indexer.concrnt.failures import FailureClass, PeerError
from indexer.concrnt.network import GuardedBackend, SystemResolver

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "2001:4860:4860::8888"])
def test_ordinary_addresses_are_public(address: str) -> None:
    """Global unicast of both families."""
    assert is_public_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.5",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.127.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "192.88.99.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:93.184.216.34",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::5db8:d822",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
        "alpha.example",
        "",
    ],
)
def test_special_addresses_are_not(address: str) -> None:
    """Loopback, private, shared, link-local, multicast, reserved, and all that stands for an IPv4 address."""
    assert not is_public_address(address)


class Dialled(httpcore.AsyncNetworkBackend):
    """A network that notes what is dialled, and answers only at some addresses."""

    def __init__(self, answering: Sequence[str] = ()) -> None:
        self.addresses: list[tuple[str, int]] = []
        self._answering = answering

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - the signature is httpcore's
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        self.addresses.append((host, port))
        if host not in self._answering:
            raise httpcore.ConnectError("refused")
        return httpcore.AsyncMockStream([])


def guard(found: Sequence[str] | Exception, network: Dialled) -> GuardedBackend:
    async def resolve(host: str, port: int) -> Sequence[str]:
        if isinstance(found, Exception):
            raise found
        return found

    return GuardedBackend(resolve, network, attempt_seconds=1)


@pytest.mark.parametrize(
    "found",
    [
        ["10.0.0.5"],
        ["93.184.216.34", "10.0.0.5"],
        ["10.0.0.5", "93.184.216.34"],
        ["::ffff:127.0.0.1"],
        ["100.64.0.1"],
    ],
)
async def test_a_name_that_leads_inside_is_not_dialled(found: list[str]) -> None:
    """One address that is not public blocks the name; nothing is dialled, and the address is not told."""
    network = Dialled()
    with pytest.raises(PeerError) as caught:
        await guard(found, network).connect_tcp("evil.example", 443)
    assert caught.value.failure is FailureClass.BLOCKED_ADDRESS
    assert network.addresses == []
    assert not any(address in str(caught.value) for address in found)


async def test_the_checked_address_itself_is_dialled() -> None:
    """A second look-up, which could answer differently, never happens."""
    network = Dialled(["93.184.216.34"])
    await guard(["93.184.216.34"], network).connect_tcp("alpha.example", 443)
    assert network.addresses == [("93.184.216.34", 443)]


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    """The first that answers is taken; at most four are tried."""
    network = Dialled(["1.1.1.1"])
    await guard(["2606:4700::1111", "1.1.1.1", "1.0.0.1"], network).connect_tcp("alpha.example", 443)
    assert network.addresses == [("2606:4700::1111", 443), ("1.1.1.1", 443)]
    silent = Dialled()
    with pytest.raises(httpcore.ConnectError):
        await guard([f"1.1.1.{last}" for last in range(1, 10)], silent).connect_tcp("alpha.example", 443)
    assert len(silent.addresses) == 4


@pytest.mark.parametrize("found", [[], socket.gaierror(-2, "unknown"), UnicodeError("label too long")])
async def test_a_name_without_an_address_is_a_dns_failure(found: list[str] | Exception) -> None:
    """Unknown names, empty answers and names that the resolver cannot encode."""
    with pytest.raises(PeerError) as caught:
        await guard(found, Dialled()).connect_tcp("alpha.example", 443)
    assert caught.value.failure is FailureClass.DNS


async def test_the_systems_resolver_answers_with_literal_addresses() -> None:
    """Each once, in the system's order."""
    resolver = SystemResolver()
    try:
        assert await resolver("127.0.0.1", 443) == ["127.0.0.1"]
        with pytest.raises(OSError, match=r"."):
            await resolver("does-not-exist.invalid", 443)
    finally:
        resolver.close()
