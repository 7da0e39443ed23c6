"""The client for strangers, against real sockets: every way to fail has its class, and nothing is left
open."""

import asyncio
import contextlib
import gzip
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Self

import httpcore
import psutil
import pytest

from indexer.concrnt.client import (
    FailureClass,
    PeerClient,
    PeerError,
    Response,
    parse_retry_after,
    user_agent,
)
from indexer.concrnt.identifiers import MalformedName

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 9, 20, 12, tzinfo=UTC)
CERTIFICATE = Path(__file__).parent / "tls" / "alpha.example.crt"
KEY = Path(__file__).parent / "tls" / "alpha.example.key"
PUBLIC = "93.184.216.34"

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    """An HTTP response with the right length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class Server:
    """A scripted server on a real socket: bytes, or a coroutine, by path; it notes what it was asked."""

    def __init__(self, script: dict[str, bytes | Script], tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0
        self._script = script
        self._tls = tls
        self._handlers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        handler = asyncio.ensure_future(self._serve(reader, writer))
        self._handlers.add(handler)
        handler.add_done_callback(self._handlers.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(request)
                step = self._script[request.split()[1].decode().partition("?")[0]]
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                else:
                    await step(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


async def drip_headers(writer: asyncio.StreamWriter) -> None:
    """Headers that come a letter at a time and never end."""
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def drip_body(writer: asyncio.StreamWriter) -> None:
    """A body that comes a letter at a time and never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def inform_for_ever(writer: asyncio.StreamWriter) -> None:
    """Interim answers without end."""
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def say_nothing(writer: asyncio.StreamWriter) -> None:
    """Silence."""
    await asyncio.sleep(3600)


async def close(writer: asyncio.StreamWriter) -> None:
    """The connection is closed without a word."""
    writer.close()
    raise ConnectionResetError


def reset_after(data: bytes) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        # Without a wait for what is unsent, closing a socket resets its connection.
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        raise ConnectionResetError

    return script


def close_after(data: bytes) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await close(writer)

    return script


class Seen:
    """What the client reported to metrics."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    def __call__(self, host: str, code: str, seconds: float) -> None:
        assert 0 <= seconds < 60
        self.requests.append((host, code))


def make_client(overrides: dict[str, str] | None = None, **options: Any) -> PeerClient:
    settings: dict[str, Any] = {
        "user_agent": user_agent("0.1.0", "https://search.example"),
        "request_timeout": 5.0,
        "max_response_bytes": 100_000,
        "host_overrides": overrides,
        "clock": lambda: NOW,
        **options,
    }
    return PeerClient(**settings)


@contextlib.asynccontextmanager
async def serving(
    script: dict[str, bytes | Script], **options: Any
) -> AsyncIterator[tuple[Server, PeerClient]]:
    async with Server(script) as server, make_client({"alpha.example": server.url}, **options) as client:
        yield server, client


async def failure(client: PeerClient, path: str, host: str = "alpha.example") -> PeerError:
    with pytest.raises(PeerError) as caught:
        await client.get(host, path)
    return caught.value


# --- what is sent, and what comes back ---


async def test_a_request_says_who_asks_and_asks_exactly_what_it_was_given() -> None:
    """Path and query go out byte for byte; the headers name us, the server, and the codings that we read."""
    seen = Seen()
    async with serving({"/a%2fB/../": answer("200 OK", b"{}")}, on_request=seen) as (server, client):
        response = await client.get("alpha.example", "/a%2fB/../?since=2025-03-01T00%3a00%3A00Z&x='|")
    assert response.body == b"{}"
    head = server.requests[0].decode()
    assert head.startswith("GET /a%2fB/../?since=2025-03-01T00%3a00%3A00Z&x='| HTTP/1.1\r\n")
    assert "\r\nHost: alpha.example\r\n" in head
    assert "\r\nUser-Agent: concrnt-indexer/0.1.0 (+https://search.example)\r\n" in head
    assert "\r\nAccept-Encoding: gzip, deflate\r\n" in head
    assert "Cookie" not in head
    assert seen.requests == [("alpha.example", "200")]


def test_without_a_public_url_only_the_software_is_named() -> None:
    """The User-Agent then has no parenthesis."""
    assert user_agent("0.1.0", "") == "concrnt-indexer/0.1.0"


async def test_any_success_is_an_answer() -> None:
    """204 and HTML too: what they mean is the caller's matter; compressed bodies come out plain."""
    script: dict[str, bytes | Script] = {
        "/204": b"HTTP/1.1 204 No Content\r\n\r\n",
        "/html": answer("200 OK", b"<html>", "Content-Type: text/html"),
        "/gzip": answer("200 OK", gzip.compress(b"[]"), "Content-Encoding: gzip"),
        "/chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n",
    }
    async with serving(script) as (server, client):
        bodies = {path: await client.get("alpha.example", path) for path in script}
    assert [response.status for response in bodies.values()] == [204, 200, 200, 200]
    assert [response.body for response in bodies.values()] == [b"", b"<html>", b"[]", b"[]"]
    assert bodies["/html"].headers["content-type"] == "text/html"
    assert server.connections == 1, "one connection serves request after request"


@pytest.mark.parametrize("path", ["", "x", "http://a/", "/a b", "/a\r\nHost: b", "/あ", "*"])
async def test_what_is_no_path_is_our_own_mistake(path: str) -> None:
    """A caller that skipped the template rules is told so at once; nothing is sent."""
    async with make_client() as client:
        with pytest.raises(ValueError, match="not a path"):
            await client.get("alpha.example", path)


@pytest.mark.parametrize("host", ["", "127.0.0.1", "localhost", "a.example:80", "u@a.example", "a.example/x"])
async def test_what_is_no_servers_name_is_our_own_mistake(host: str) -> None:
    """Nothing is looked up or dialled for it."""
    network = Redirected(0)
    async with make_client(network=network) as client:
        with pytest.raises(MalformedName):
            await client.get(host, "/")
    assert network.dialled == []


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:9001", "ftp://a/", "http://", "http://a/path", "http://a/?q", "http://u@a/", "http://[::"],
)
def test_a_host_override_is_an_origin(url: str) -> None:
    """Anything but a scheme, a host and a port is refused when the client is made."""
    with pytest.raises(ValueError, match=r"alpha\.example"):
        make_client({"alpha.example": url})


async def test_nothing_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies, and exotic exceptions from them, have no say."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "::1,[::1],fd00::/8")
    monkeypatch.setenv("SSL_CERT_FILE", "/does/not/exist")
    async with serving({"/": answer("200 OK", b"{}")}) as (_, client):
        assert (await client.get("alpha.example", "/")).status == 200


# --- status codes ---


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, FailureClass.HTTP_4XX),
        (404, FailureClass.HTTP_4XX),
        (499, FailureClass.HTTP_4XX),
        (500, FailureClass.HTTP_5XX),
        (502, FailureClass.HTTP_5XX),
        (599, FailureClass.HTTP_5XX),
        (304, FailureClass.BAD_PAYLOAD),
        (429, FailureClass.RATE_LIMITED),
        (503, FailureClass.RATE_LIMITED),
    ],
)
async def test_every_other_status_has_its_class(status: int, expected: FailureClass) -> None:
    """The status itself is kept, and is what metrics are told."""
    seen = Seen()
    async with serving({"/": answer(f"{status} X", b"")}, on_request=seen) as (_, client):
        error = await failure(client, "/")
    assert (error.failure, error.status, error.retry_after) == (expected, status, None)
    assert seen.requests == [("alpha.example", str(status))]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("999999", 3600.0),
        ("9" * 5000, 3600.0),
        (format_datetime(NOW.replace(minute=2), usegmt=True), 120.0),
        (format_datetime(NOW.replace(year=2030), usegmt=True), 3600.0),
        (format_datetime(NOW.replace(year=2020), usegmt=True), 0.0),
        ("Sun, 20 Sep 2026 12:02:00 -0000", 120.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("Sun, 99 Sep 2026 12:02:00 GMT", None),
    ],
)
async def test_a_server_that_asks_us_to_wait_is_heard(text: str, seconds: float | None) -> None:
    """Seconds or an HTTP date, at most an hour; what is neither is nothing."""
    assert parse_retry_after(text, NOW) == seconds
    if text.isascii() and len(text) < 100:
        async with serving({"/": answer("429 X", b"", f"Retry-After: {text}")}) as (_, client):
            assert (await failure(client, "/")).retry_after == seconds


# --- redirects ---


async def test_redirects_within_the_same_host_are_followed() -> None:
    """Relative, by the server's name, or by where it was reached: up to three."""
    script: dict[str, bytes | Script] = {"/end": answer("200 OK", b"{}")}
    async with serving(script) as (server, client):
        script["/3"] = answer("307 X", b"", "Location: end?a=%3A&b=あ#fragment")
        script["/2"] = answer("302 X", b"", f"Location: {server.url}/3")
        script["/1"] = answer("301 X", b"ignored", "Location: https://Alpha.Example/2")
        assert (await client.get("alpha.example", "/1")).body == b"{}"
        assert server.requests[-1].startswith(b"GET /end?a=%3A&b=%E3%81%82 HTTP/1.1")


async def test_a_fourth_redirect_is_one_too_many() -> None:
    """A loop ends as a redirect failure."""
    async with serving({"/": answer("301 X", b"", "Location: /")}) as (server, client):
        error = await failure(client, "/")
    assert error.failure is FailureClass.REDIRECT
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "location",
    [
        "https://www.other.example/",
        "http://127.0.0.1:7700/",
        "//10.0.0.5/x",
        "https://alpha.example:8443/",
        "https://alpha.example@10.0.0.5/",
        "https://alpha.example.evil.example/",
        "ftp://alpha.example/",
        "javascript:alert(1)",
        "https://[::1/",
        "https://alpha.example:port/",
        "",
    ],
)
async def test_redirects_elsewhere_are_refused_and_told(location: str) -> None:
    """Another host, port or scheme is a failure that names where it would have led."""
    script: dict[str, bytes | Script] = {"/": answer("302 X", b"", f"Location: {location}")}
    async with serving(script) as (server, client):
        error = await failure(client, "/")
    assert (error.failure, error.status, error.location) == (FailureClass.REDIRECT, 302, location)
    assert len(server.requests) == 1


async def test_a_redirect_to_an_endless_url_is_refused() -> None:
    """Its text is not kept."""
    script: dict[str, bytes | Script] = {"/": answer("302 X", b"", f"Location: /{'x' * 5000}")}
    async with serving(script) as (_, client):
        error = await failure(client, "/")
    assert (error.failure, error.location) == (FailureClass.REDIRECT, None)


# --- bodies ---

BROKEN = {
    "cut body": close_after(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[]"),
    "cut chunks": close_after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n[]"),
    "no chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "cut gzip": answer("200 OK", gzip.compress(b"[]")[:-1], "Content-Encoding: gzip"),
    "no gzip": answer("200 OK", b"[]", "Content-Encoding: gzip"),
    "brotli": answer("200 OK", b"[]", "Content-Encoding: br"),
    "no http": close_after(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000,
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[]",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
async def test_an_answer_that_is_not_whole_is_bad_payload(broken: bytes | Script) -> None:
    """Cut or broken bodies, streams and headers never pass for an answer."""
    async with serving({"/": broken}) as (_, client):
        assert (await failure(client, "/")).failure is FailureClass.BAD_PAYLOAD


LARGE = {
    "announced": answer("200 OK", b"x" * 100_001),
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + (b"4000\r\n" + b"x" * 0x4000 + b"\r\n") * 10,
    "gzip": answer("200 OK", gzip.compress(b"x" * 50_000_000), "Content-Encoding: gzip"),
}


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE.keys())
async def test_a_body_beyond_the_bound_is_too_large(large: bytes) -> None:
    """Counted after decompression, and given up as soon as it is known; the client goes on."""
    async with serving({"/": large, "/ok": answer("200 OK", b"x" * 100_000)}) as (_, client):
        assert (await failure(client, "/")).failure is FailureClass.TOO_LARGE
        assert len((await client.get("alpha.example", "/ok")).body) == 100_000


# --- connections ---

LOST = {
    "closed": close,
    "closed in the headers": close_after(b"HTTP/1.1 200 OK\r\nContent-Len"),
    "reset": reset_after(b""),
    "reset in the headers": reset_after(b"HTTP/1.1 200 OK\r\n"),
    "reset in the body": reset_after(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n["),
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST.keys())
async def test_a_lost_connection_is_a_connect_failure(lost: Script) -> None:
    """Closed without an answer, or reset at any time."""
    async with serving({"/": lost}) as (_, client):
        assert (await failure(client, "/")).failure is FailureClass.CONNECT


async def test_no_listener_and_no_name_have_their_classes() -> None:
    """A refused connection is connect, an unknown name is dns; both are reported by class."""
    seen = Seen()
    async with Server({}) as server:
        port = server.port
    overrides = {"alpha.example": f"http://127.0.0.1:{port}", "beta.example": "http://nowhere.invalid:80"}
    async with make_client(overrides, on_request=seen) as client:
        assert (await failure(client, "/")).failure is FailureClass.CONNECT
        assert (await failure(client, "/", "beta.example")).failure is FailureClass.DNS
        assert (await failure(client, "/", "does-not-exist.invalid")).failure is FailureClass.DNS
    assert [code for _, code in seen.requests] == ["connect", "dns", "dns"]


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["::1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]],
)
async def test_a_strangers_name_never_leads_inside(addresses: list[str]) -> None:
    """Whatever listens there sees no connection; overrides are the only door."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    network = Redirected(0)
    async with make_client(resolve=resolve, network=network) as client:
        assert (await failure(client, "/")).failure is FailureClass.BLOCKED_ADDRESS
    assert network.dialled == []


# --- TLS, through the guard, to a local stand-in for a public address ---


class Redirected(httpcore.AsyncNetworkBackend):
    """The network, but whatever is dialled is answered by a local port."""

    def __init__(self, port: int) -> None:
        self.dialled: list[tuple[str, int]] = []
        self._port = port
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        self.dialled.append((host, port))
        return await self._network.connect_tcp(
            "127.0.0.1", self._port, timeout, local_address, socket_options
        )


async def resolve_publicly(host: str, port: int) -> Sequence[str]:
    return [PUBLIC]


def server_context() -> tuple[ssl.SSLContext, list[str | None]]:
    """TLS for alpha.example, and the names that clients asked for."""
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    return context, names


async def test_the_checked_address_is_dialled_and_the_name_is_verified() -> None:
    """The connection goes to the address; SNI, certificate and Host are the name's; port 443."""
    context, names = server_context()
    async with Server({"/": answer("200 OK", b"{}")}, context) as server:
        network = Redirected(server.port)
        trust = ssl.create_default_context(cafile=str(CERTIFICATE))
        async with make_client(resolve=resolve_publicly, network=network, ssl_context=trust) as client:
            assert (await client.get("alpha.example", "/")).body == b"{}"
            assert (await failure(client, "/", "beta.example")).failure is FailureClass.TLS
    assert network.dialled == [(PUBLIC, 443), (PUBLIC, 443)]
    assert names == ["alpha.example", "beta.example"]
    assert b"Host: alpha.example\r\n" in server.requests[0]


@pytest.mark.parametrize("tls", [True, False])
async def test_a_server_without_trusted_tls_is_a_tls_failure(tls: bool) -> None:
    """An unknown certificate, or no TLS at all on the port."""

    async def speak_plainly(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await speak_plainly(writer)
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    context = server_context()[0] if tls else None
    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    async with make_client(resolve=resolve_publicly, network=Redirected(port)) as client:
        assert (await failure(client, "/")).failure is FailureClass.TLS
    server.close()
    await server.wait_closed()


# --- deadlines, cancellation, and what is left open ---

SLOW: dict[str, bytes | Script] = {
    "/headers": drip_headers,
    "/body": drip_body,
    "/interim": inform_for_ever,
    "/silence": say_nothing,
}


@pytest.mark.parametrize("path", SLOW)
async def test_one_deadline_covers_the_whole_request(path: str) -> None:
    """Bytes that keep coming do not extend it."""
    seen = Seen()
    async with serving(SLOW, request_timeout=0.2, on_request=seen) as (_, client):
        started = asyncio.get_running_loop().time()
        assert (await failure(client, path)).failure is FailureClass.TIMEOUT
        assert asyncio.get_running_loop().time() - started < 2
    assert seen.requests == [("alpha.example", "timeout")]


async def test_redirects_share_the_deadline() -> None:
    """Three slow redirects do not get three deadlines."""

    async def slow_redirect(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.15)
        writer.write(answer("302 X", b"", "Location: /"))

    async with serving({"/": slow_redirect}, request_timeout=0.25) as (_, client):
        assert (await failure(client, "/")).failure is FailureClass.TIMEOUT


async def test_a_silent_resolver_and_a_silent_handshake_end_at_the_deadline() -> None:
    """Look-up and TLS are part of the request, and leave no socket behind."""

    async def resolve_never(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(3600)
        return []

    async with make_client(resolve=resolve_never, request_timeout=0.1) as client:
        assert (await failure(client, "/")).failure is FailureClass.TIMEOUT

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    network = Redirected(port)
    async with make_client(resolve=resolve_publicly, network=network, request_timeout=0.2) as client:
        assert (await failure(client, "/")).failure is FailureClass.TIMEOUT
        await settle()
        assert open_connections(port) == 0
    server.close()
    await server.wait_closed()


def open_connections(port: int) -> int:
    """How many sockets of this process are connected to a port."""
    connections = psutil.Process().net_connections("tcp")
    return sum(bool(connection.raddr) and connection.raddr.port == port for connection in connections)


async def only_open(port: int, at_most: int) -> None:
    """No more sockets stay connected to a port; closing one takes its time on a busy machine."""
    async with asyncio.timeout(20):
        while open_connections(port) > at_most:  # noqa: ASYNC110 - nothing tells when a socket is gone
            await asyncio.sleep(0.01)


async def settle() -> None:
    """Let closed transports leave the event loop."""
    for _ in range(20):
        await asyncio.sleep(0.005)


async def test_slow_and_cancelled_requests_leave_nothing_open_and_starve_nobody() -> None:
    """Twenty slow servers, round after round, one cancelled midway: the healthy one answers throughout."""
    script: dict[str, bytes | Script] = {**SLOW, "/ok": answer("200 OK", b"{}")}
    async with Server(script) as server:
        names = [f"s{number}.example" for number in range(20)]
        overrides = dict.fromkeys([*names, "healthy.example"], server.url)
        async with make_client(overrides, request_timeout=0.3) as client:
            await client.get("healthy.example", "/ok")
            await only_open(server.port, 1)
            for round_number in range(4):
                paths = list(SLOW)
                tasks = [
                    asyncio.ensure_future(client.get(name, paths[number % len(paths)]))
                    for number, name in enumerate(names)
                ]
                await asyncio.sleep(0.05)
                response: Response = await client.get("healthy.example", "/ok")
                assert response.status == 200
                if round_number == 1:
                    for task in tasks:
                        task.cancel()
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                wanted = asyncio.CancelledError if round_number == 1 else PeerError
                assert all(isinstance(outcome, wanted) for outcome in outcomes)
            await only_open(server.port, 1)
        await only_open(server.port, 0)


@pytest.mark.parametrize("path", ["/silent", "/drip", "/ok"])
@pytest.mark.parametrize("again_after", [None, 0, 1, 2])
async def test_a_request_cancelled_at_any_step_leaves_nothing_open(
    path: str, again_after: int | None
) -> None:
    """Connecting, sending, waiting, reading, closing; once or twice; over a new or a kept socket."""
    script: dict[str, bytes | Script] = {
        "/silent": say_nothing,
        "/drip": drip_body,
        "/ok": answer("200 OK", b"{}"),
    }
    async with serving(script) as (server, client):
        for is_kept in (False, True):
            for step in range(25):
                if is_kept:
                    await client.get("alpha.example", "/ok")
                asking = asyncio.ensure_future(client.get("alpha.example", path))
                await steps(step)
                asking.cancel()
                if again_after is not None:
                    await steps(again_after)
                    asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
        await only_open(server.port, 1)
        await client.get("alpha.example", "/ok")
        await only_open(server.port, 1)


async def steps(number: int) -> None:
    """Let the event loop go round."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_many_requests_at_once_are_answered() -> None:
    """Two hundred requests through one client, each with its own answer."""

    def echo(number: int) -> bytes:
        return answer("200 OK", str(number).encode())

    async with serving({f"/{number}": echo(number) for number in range(200)}) as (_, client):
        responses = await asyncio.gather(
            *[client.get("alpha.example", f"/{number}") for number in range(200)]
        )
    assert [response.body for response in responses] == [str(number).encode() for number in range(200)]
