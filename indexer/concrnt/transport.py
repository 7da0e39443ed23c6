"""httpx above, a pool of connections in the middle, a network of our choice below.

httpx's own transport takes no network backend. This one does, and leaves httpcore's errors as they are.
"""

import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final

import httpcore
import httpx

_MAX_IDLE_CONNECTIONS: Final = 32
# Below the five seconds after which common servers close an idle connection, so that we do not race them.
_IDLE_SECONDS: Final = 4.0


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
    pool = httpcore.AsyncConnectionPool(
        ssl_context=context,
        max_connections=None,
        max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
        keepalive_expiry=_IDLE_SECONDS,
        network_backend=network,
    )
    return httpx.AsyncClient(
        transport=_Transport(pool),
        headers=dict(headers),
        timeout=None,  # noqa: S113 - see above
        trust_env=False,
        follow_redirects=False,
    )
