"""Listening: one application on one socket, by uvicorn inside our own event loop.

The application as a whole owns signals, logging and the order in which things stop; uvicorn gets none of
these. What uvicorn answers by itself, before any application sees the request (a head that is no HTTP, or
too long), has the error shape and the open headers too.

What is *not* bounded here is how slowly a client may send its request: a reverse proxy belongs before the
public listener.
"""

import asyncio
import contextlib
import errno
import os
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from indexer.api.middleware import MAX_URL_BYTES, OPEN_HEADERS
from indexer.api.parameters import percent_encode_high_bytes

_GRACE_SECONDS = 5
_LINGER_SECONDS = 2.0
_MAX_HEAD_BYTES = MAX_URL_BYTES + 64 * 1024
_LISTEN = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})")


class ListenError(Exception):
    """The address cannot be listened on; the message is a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that is being served."""

    host: str
    port: int
    """The actual port, also where 0 was asked for."""
    task: asyncio.Task[None]
    """Ends when serving ends; before the context is left, that is a failure."""

    @property
    def url(self) -> str:
        """A URL at which this machine reaches the listener."""
        host = {"0.0.0.0": "127.0.0.1", "::": "localhost"}.get(self.host, self.host)  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


@contextlib.asynccontextmanager
async def serve(app: ASGIApp, listen: str, *, grace_seconds: int = _GRACE_SECONDS) -> AsyncIterator[Listener]:
    """Serve ``app`` on ``listen`` (``host:port``; ``:port`` is all interfaces) while the context is open.

    Leaving the context stops it: requests under way get ``grace_seconds``, then they are cancelled. Raises
    ListenError when the address is malformed or cannot be had.
    """
    bound = bind(listen)
    server = _Server(
        uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=grace_seconds,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[bound]), name=f"serve {listen}")
    try:
        await _until_started(server, task)
        host, port = bound.getsockname()[:2]
        yield Listener(host, port, task)
    finally:
        server.should_exit = True
        # uvicorn bounds itself; the wait here is for a request that refuses to be cancelled.
        _, late = await asyncio.wait({task}, timeout=grace_seconds + 2)
        for unfinished in late:
            unfinished.cancel()
        bound.close()


def bind(listen: str) -> socket.socket:
    """Bind a TCP socket to ``listen``; raises ListenError. ``:port`` is IPv6 and IPv4 where both exist."""
    parts = _LISTEN.fullmatch(listen)
    if parts is None or int(parts["port"]) > 65_535:
        raise ListenError(
            f"cannot listen on {listen!r}: an address is HOST:PORT, or :PORT for all interfaces"
        )
    host, port = parts["six"] or parts["host"], int(parts["port"])
    try:
        return _bind_everywhere(port) if host == "" else _bind_host(host, port)
    except OSError as error:
        raise ListenError(f"cannot listen on {listen}: {_sentence(error, host, port)}") from error


def _bind_everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # a kernel without IPv6; a port in use fails again below
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("0.0.0.0", port))  # noqa: S104 - what the setting says


def _bind_host(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # A name may have both kinds; as in Go, IPv4 is taken then.
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return socket.create_server(address[:2], family=family)


def _sentence(error: OSError, host: str, port: int) -> str:
    if isinstance(error, socket.gaierror):
        return f"the name {host} is not known"
    return {
        errno.EADDRINUSE: f"port {port} is in use by another program",
        errno.EACCES: f"this user may not listen on port {port}; ports from 1024 on are free to all",
        errno.EADDRNOTAVAIL: f"this machine has no address {host}",
    }.get(error.errno or 0, os.strerror(error.errno) if error.errno else str(error))


async def _until_started(server: "_Server", task: asyncio.Task[None]) -> None:
    started = asyncio.create_task(server.has_started.wait())
    await asyncio.wait({started, task}, return_when=asyncio.FIRST_COMPLETED)
    started.cancel()
    if task.done():
        task.result()


class _Server(uvicorn.Server):
    """A uvicorn that says when it has started and leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_started = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_started.set()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol with a bound on the head of a request, kinder to URLs, and with errors of our shape.

    Left alone it keeps a URL or a header of any length in memory; refuses URLs over 65,535 bytes (a query of
    ten thousand Japanese characters has 90,000) and those with bare UTF-8, which is what ``curl '…?q=猫'``
    sends; and answers what it cannot parse as plain text without headers for browsers.
    """

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._lingering: asyncio.TimerHandle | None = None
        self._begin_head()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does this only for sockets it made itself. Without it an answer, whose head and body are two
        # writes, waits 40 ms for the client's acknowledgement.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _begin_head(self) -> None:
        self._in_head = self._in_request_line = True
        self._head_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._lingering is not None:
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self._refuse(413, "Content Too Large", "too_large", "URL and headers are too long")
                return
        if self._in_request_line:
            line, line_end, rest = data.partition(b"\n")
            self._in_request_line = not line_end
            data = percent_encode_high_bytes(line) + line_end + rest
        super().data_received(data)

    def on_headers_complete(self) -> None:
        # Only the path goes through the parser that knows no long URLs; the query is ours to read anyway.
        self.url, _, query = self.url.partition(b"#")[0].partition(b"?")
        super().on_headers_complete()
        self.scope["query_string"] = query
        self._in_head = self._in_request_line = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._begin_head()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words are not for readers
        self._refuse(400, "Bad Request", "bad_request", "the request is no HTTP that can be read here")

    def _refuse(self, status: int, phrase: str, code: str, message: str) -> None:
        body = msgspec.json.encode({"message": message, "code": code})
        headers = {
            **OPEN_HEADERS,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        # Closed at once, what the client still sends would be met by a reset that takes the answer away.
        self.transport.write_eof()
        self._lingering = self.loop.call_later(_LINGER_SECONDS, self.transport.close)
