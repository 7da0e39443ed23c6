"""The network below the client: where strangers' names may lead us, decided on the address that is dialled.

A name is resolved here, every address that comes back is checked, and one of these very addresses is
dialled, so nothing can change between look-up and connect. A name that leads to one public and one private
address is refused whole: no honest server is set up so. TLS still verifies the *name*; that is the pool's
business.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpcore

from indexer.concrnt.addresses import is_public_address
from indexer.concrnt.failures import FailureClass, PeerError

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""``(host, port)`` to literal addresses in the order of preference; raises ``OSError``."""

SocketOption = httpcore.SOCKET_OPTION

_MAX_ADDRESSES_TRIED: Final = 4
_RESOLVER_THREADS: Final = 16


class SystemResolver:
    """The system's resolver on threads of its own.

    The event loop's default threads are few and shared: names whose servers are silent would hold them all
    for half a minute each, and whatever else needs a thread would wait.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVER_THREADS, thread_name_prefix="resolver")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Resolve a name; raises ``OSError`` as the system does."""
        found = await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port)
        return list(dict.fromkeys(found))

    def close(self) -> None:
        """Let the threads end when their look-ups do."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class DirectBackend(httpcore.AsyncNetworkBackend):
    """Connects anywhere; for hosts that the operator has overridden."""

    def __init__(self, network: httpcore.AsyncNetworkBackend) -> None:
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect."""
        stream = await self._network.connect_tcp(host, port, timeout, local_address, socket_options)
        return _TidyStream(stream)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to public addresses only, to the ones that were checked.

    Raises from :meth:`connect_tcp`, besides httpcore's own errors: :class:`PeerError` of class ``dns`` or
    ``blocked_address``.
    """

    def __init__(
        self, resolve: Resolver, network: httpcore.AsyncNetworkBackend, *, attempt_seconds: float
    ) -> None:
        self._resolve = resolve
        self._direct = DirectBackend(network)
        self._attempt_seconds = attempt_seconds

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first checked address that answers."""
        addresses = await self._checked(host, port)
        # The last one may use up the request's own deadline; the others must leave it something.
        for address in addresses[:-1]:
            try:
                return await self._direct.connect_tcp(
                    address, port, self._attempt_seconds, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._direct.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def _checked(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise PeerError(FailureClass.DNS, f"{host} does not resolve") from error
        if not addresses:
            raise PeerError(FailureClass.DNS, f"{host} has no address")
        if not all(is_public_address(address) for address in addresses):
            # Which address it is stays with us: an answer must not tell a stranger about our network.
            raise PeerError(FailureClass.BLOCKED_ADDRESS, f"{host} leads to an address that is not public")
        return addresses[:_MAX_ADDRESSES_TRIED]


class _TidyStream(httpcore.AsyncNetworkStream):
    """A stream that is closed when its TLS handshake is cancelled, which httpcore's own is not."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
    ) -> httpcore.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
