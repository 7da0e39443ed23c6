"""Listening: addresses, the sentences for what can go wrong, and stopping in bounded time."""

import asyncio
import signal
import socket
import time
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from indexer.api.serving import ListenError, bind, serve

pytestmark = pytest.mark.anyio


async def hello(scope: Scope, _receive: Receive, send: Send) -> None:
    """An application that answers anything."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def test_all_interfaces() -> None:
    """Without a host, IPv4 is served, and IPv6 where the machine has it."""
    async with serve(hello, ":0") as listener, httpx.AsyncClient(trust_env=False) as client:
        assert listener.port > 0
        assert (await client.get(f"http://127.0.0.1:{listener.port}")).text == "hello"
        assert (await client.get(listener.url)).text == "hello"
        if socket.has_dualstack_ipv6():
            assert (await client.get(f"http://[::1]:{listener.port}")).text == "hello"


async def test_one_interface() -> None:
    """The listener tells where it is."""
    async with serve(hello, "127.0.0.1:0") as listener, httpx.AsyncClient(trust_env=False) as client:
        assert listener.url == f"http://127.0.0.1:{listener.port}"
        assert (await client.get(listener.url)).text == "hello"


async def test_a_name() -> None:
    """localhost is IPv4 where both exist, as in Go."""
    async with serve(hello, "localhost:0") as listener:
        assert listener.host == "127.0.0.1"


def test_a_port_in_use() -> None:
    """The sentence names the port."""
    with bind(":0") as taken:
        port = taken.getsockname()[1]
        for listen in (f":{port}", f"127.0.0.1:{port}"):
            with pytest.raises(ListenError, match=f"port {port} is in use"):
                bind(listen)


NO_ADDRESSES = ["", "8080", "127.0.0.1", ":99999", ":http", "http://x:80", "::1:80", "[::1:80"]


@pytest.mark.parametrize("listen", NO_ADDRESSES)
def test_what_is_no_address(listen: str) -> None:
    """The sentence says what an address looks like."""
    with pytest.raises(ListenError, match="an address is HOST:PORT"):
        bind(listen)


@pytest.mark.parametrize(
    ("listen", "sentence"),
    [
        ("192.0.2.1:0", "this machine has no address 192.0.2.1"),
        ("no-such-name.invalid:0", "the name no-such-name.invalid is not known"),
    ],
)
def test_what_cannot_be_had(listen: str, sentence: str) -> None:
    """Library errors become sentences."""
    with pytest.raises(ListenError, match=sentence):
        bind(listen)


async def test_the_port_is_free_again() -> None:
    """After the context nothing listens any more."""
    async with serve(hello, "127.0.0.1:0") as listener:
        port = listener.port
    async with serve(hello, f"127.0.0.1:{port}") as again:
        assert again.port == port
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_requests_under_way_do_not_hold_up_the_end() -> None:
    """A request that never ends is cancelled when its time is over."""
    reached = asyncio.Event()
    cancelled = asyncio.Event()

    async def endless(_scope: Scope, _receive: Receive, _send: Send) -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with httpx.AsyncClient(trust_env=False) as client:
        async with serve(endless, "127.0.0.1:0", grace_seconds=1) as listener:
            asked = asyncio.create_task(client.get(listener.url))
            await reached.wait()
            began = time.monotonic()
        assert time.monotonic() - began < 4
        assert cancelled.is_set()
        answer: Any = (await asyncio.gather(asked, return_exceptions=True))[0]
        assert isinstance(answer, httpx.HTTPError) or answer.status_code >= 500


async def test_an_error_inside_the_context_comes_out_as_it_is() -> None:
    """Serving wraps nothing, and stops all the same."""
    with pytest.raises(LookupError):
        async with serve(hello, "127.0.0.1:0") as listener:
            raise LookupError
    assert listener.task.done()


async def test_signals_are_left_alone() -> None:
    """The application owns them."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with serve(hello, "127.0.0.1:0"):
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
