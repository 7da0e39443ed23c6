"""A small HTTP/1.1 listener on loopback that delivers replies well or badly, as they say.

A usual server library refuses to truncate, drip or reset; the simulated network needs all of it, on the same
port as its honest answers. Requests are parsed by httptools; one connection serves one request at a time and
is kept alive between them. `stop` ends everything that is open and returns when it is gone.
"""

import asyncio
import socket
import struct
from contextlib import suppress
from http import HTTPStatus
from time import monotonic
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl

import httptools

from indexer.simulation.wire import (
    CutShort,
    Delivery,
    Drip,
    Endless,
    Handler,
    Reply,
    Request,
    Reset,
    Silence,
    Whole,
)

_READ_BYTES = 65_536
_LINGER_NONE = struct.pack("ii", 1, 0)
"""SO_LINGER with no time left: closing sends RST, not FIN."""


class Listener:
    """One listening port and the connections that came in through it."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.host = ""
        self.port = 0

    @classmethod
    async def start(cls, handler: Handler, *, host: str = "127.0.0.1", port: int = 0) -> Self:
        """Listen; port 0 takes any that is free. Raises OSError when the port is taken."""
        listener = cls(handler)
        listener._server = await asyncio.start_server(listener._accept, host, port, backlog=512)
        listener.host, listener.port = listener._server.sockets[0].getsockname()[:2]
        return listener

    @property
    def url(self) -> str:
        """The base URL, without a final slash."""
        return f"http://{self.host}:{self.port}"

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        return len(self._connections)

    async def wait_idle(self) -> None:
        """Wait until every connection that is open now has ended."""
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def stop(self) -> None:
        """Close the port, then every connection."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(_Connection(reader, writer, self._handler).run())
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)


class _Connection:
    """One connection: requests in, replies out, in turn."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler) -> None:
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._inbox = _Inbox()
        self._parser = httptools.HttpRequestParser(self._inbox)
        self._inbox.parser = self._parser

    async def run(self) -> None:
        """Serve until either side ends it."""
        try:
            while data := await self._reader.read(_READ_BYTES):
                self._parser.feed_data(data)
                while self._inbox.requests:
                    if not await self._answer(self._inbox.requests.pop(0)):
                        return
        except (ConnectionError, httptools.HttpParserError):
            pass  # the other side is gone or speaks no HTTP: nobody is left to answer
        finally:
            await self._close()

    async def _close(self) -> None:
        self._writer.close()
        with suppress(OSError):  # it is closed all the same
            await self._writer.wait_closed()

    async def _answer(self, request: Request) -> bool:
        """Deliver the reply to one request; tell whether the connection goes on."""
        reply = await self._handler(request)
        if reply.wait is not None:
            await reply.wait()
        head = _head(reply, request)
        body = b"" if request.method == "HEAD" else reply.body
        goes_on = await self._deliver(head, body, reply.delivery)
        return goes_on and self._parser.should_keep_alive()

    async def _deliver(self, head: bytes, body: bytes, delivery: Delivery) -> bool:
        match delivery:
            case Whole():
                await self._send(head + body)
                return True
            case Drip():
                await self._drip(head, body, delivery)
                return True
            case CutShort(sent):
                await self._send(head + body[:sent])
            case Reset(sent):
                await self._send((head + body)[:sent])
                self._reset()
            case Silence():
                await self._reader.read()
            case Endless(seconds):
                await self._repeat(head, body, seconds)
        return False

    async def _send(self, data: bytes) -> None:
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def _drip(self, head: bytes, body: bytes, drip: Drip) -> None:
        if drip.headers:
            body = head + body
        else:
            await self._send(head)
        for start in range(0, len(body), drip.size):
            await self._send(body[start : start + drip.size])
            await asyncio.sleep(drip.seconds)
            if self._reader.at_eof():
                return

    async def _repeat(self, head: bytes, body: bytes, seconds: float) -> None:
        await self._send(head)
        chunk = b"%x\r\n%b\r\n" % (len(body), body)
        while not self._reader.at_eof():
            await self._send(chunk)
            await asyncio.sleep(seconds)

    def _reset(self) -> None:
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
        self._writer.transport.abort()


class _Inbox:
    """What httptools calls while it parses; whole requests pile up in `requests`."""

    def __init__(self) -> None:
        self.parser: httptools.HttpRequestParser | None = None
        self.requests: list[Request] = []
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        method = self.parser.get_method().decode("latin-1") if self.parser is not None else ""
        target = self._target.decode("latin-1")
        path, _, query = target.partition("?")
        self.requests.append(
            Request(
                method=method,
                target=target,
                path=path,
                query=dict(parse_qsl(query, keep_blank_values=True)),
                headers=self._headers,
                body=b"".join(self._body),
                at_seconds=monotonic(),
            )
        )
        self._target, self._headers, self._body = b"", {}, []


def _head(reply: Reply, request: Request) -> bytes:
    """Return status line and headers, the empty line included."""
    lines = [f"HTTP/1.1 {reply.status} {_phrase(reply.status)}"]
    lines += [f"{name}: {text}" for name, text in reply.headers.items()]
    if isinstance(reply.delivery, Endless):
        lines.append("transfer-encoding: chunked")
    elif reply.status != HTTPStatus.NO_CONTENT:
        lines.append(f"content-length: {len(reply.body)}")
    if request.headers.get("connection", "").lower() == "close":
        lines.append("connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unusual"
