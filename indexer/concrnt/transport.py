"""httpx above, a pool of connections in the middle, a network of our choice below.

httpx's own transport takes no network backend. This one does, and leaves httpcore's errors as they are.

httpcore closes what a cancelled request leaves behind in scopes that are shielded from cancellation as anyio
knows it; a plain ``Task.cancel()`` goes through them, and a socket stays open. So whoever asks cancels by
:func:`cancelled_as_a_scope`.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Final, TypeVar

import anyio
import httpcore
import httpx

_MAX_IDLE_CONNECTIONS: Final = 32
# Below the five seconds after which common servers close an idle connection, so that we do not race them.
_IDLE_SECONDS: Final = 4.0


_T = TypeVar("_T")


async def cancelled_as_a_scope(work: Awaitable[_T]) -> _T:
    """Wait for some work; when that is cancelled, cancel the work's anyio scope, and wait until it has ended.

    Cancelled twice, it waits no longer; the work ends all the same.
    """
    scope = anyio.CancelScope()

    async def scoped() -> list[_T]:
        with scope:
            return [await work]
        return []

    working = asyncio.ensure_future(scoped())
    try:
        return (await asyncio.shield(working))[0]
    finally:
        if not working.done():
            scope.cancel()
            await asyncio.wait({working})


class _Connection(httpcore.AsyncHTTPConnection):
    """A connection that is closed when its first request ends before the answer begins.

    httpcore does not do so where that happens between the connecting and the sending (encode/httpcore, issue
    1093): the pool would neither use nor close it.
    """

    _was_asked = False
    _is_given_up = False

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        """Send a request. Nobody else has the connection before its first answer has ended."""
        is_first = not self._was_asked
        self._was_asked = True
        try:
            return await super().handle_async_request(request)
        except BaseException:
            if is_first:
                self._is_given_up = True
                with anyio.CancelScope(shield=True):
                    await self.aclose()
            raise

    def is_closed(self) -> bool:
        """Tell the pool whether to forget it."""
        return self._is_given_up or super().is_closed()


class _Pool(httpcore.AsyncConnectionPool):
    """A pool of any number of such connections."""

    def __init__(self, network: httpcore.AsyncNetworkBackend, context: ssl.SSLContext) -> None:
        super().__init__(
            max_connections=None,
            max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
        )
        self._network = network
        self._context = context

    def create_connection(self, origin: httpcore.Origin) -> httpcore.AsyncConnectionInterface:
        """Make a connection that is not connected yet."""
        return _Connection(
            origin=origin,
            ssl_context=self._context,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=self._network,
        )


class _Transport(httpx.AsyncBaseTransport):
    """Hands requests to the pool as they are."""

    def __init__(self, pool: httpcore.AsyncConnectionPool) -> None:
        self._pool = pool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request through the pool."""
        response = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.extensions["target"],
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        # httpx reads a redirect's Location even when it follows none, and raises over one that is no URL.
        location = [value for name, value in response.headers if name.lower() == b"location"]
        return httpx.Response(
            response.status,
            headers=[header for header in response.headers if header[0].lower() != b"location"],
            stream=_Stream(response),
            extensions={**response.extensions, "location": b"".join(location[:1]).decode("utf-8", "replace")},
        )

    async def aclose(self) -> None:
        """Close the pool."""
        await self._pool.aclose()


class _Stream(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._response.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._response.aclose()


def make_http_client(
    network: httpcore.AsyncNetworkBackend, context: ssl.SSLContext, headers: Mapping[str, str]
) -> httpx.AsyncClient:
    """Make a client that dials through ``network``, reads no environment and sets no time limits.

    Requests carry what they ask for, byte for byte, in ``extensions["target"]``: httpx would spell it its own
    way. Answers carry a redirect's Location, which is a stranger's text, in ``extensions["location"]``.
    The caller bounds a request as a whole; httpx only knows the gaps within one.
    """
    return httpx.AsyncClient(
        transport=_Transport(_Pool(network, context)),
        headers=dict(headers),
        timeout=None,  # noqa: S113 - see above
        trust_env=False,
        follow_redirects=False,
    )
