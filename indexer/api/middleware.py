"""What surrounds every request: counting, headers for browsers, HEAD, limits, and the last catch.

Plain ASGI throughout: no task and no queue is made per request, and streamed bodies stay streamed. The order,
from the outside, is the order of the classes; ``install_middleware`` puts it together. The outermost of
Starlette's own, which answers 500 without our headers, never sees an exception.
"""

import time

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indexer.api.errors import ApiError, TooLargeError, error_answer
from indexer.api.limits import Limited, Limiter
from indexer.observability.metrics import Metrics

log = structlog.get_logger(__name__)

MAX_URL_BYTES = 256 * 1024
"""Ten thousand Japanese characters, percent-encoded, are 90 kB."""

MAX_BODY_BYTES = 1024 * 1024

_GZIP_MINIMUM_BYTES = 1_000
_GZIP_LEVEL = 5  # the default of 9 costs three times as much for two percent
_ANY_METHODS = "GET, HEAD, POST, OPTIONS"
OPEN_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Allow, ETag, Retry-After",
    "X-Content-Type-Options": "nosniff",
}


def install_middleware(
    app: FastAPI, metrics: Metrics, *, listener: str, public: bool, limiter: Limiter | None = None
) -> None:
    """Surround the application; ``listener`` is the label in metrics, ``public`` opens it to browsers.

    ``limiter`` says how much one client may ask; without it there is no limit.
    """
    # Starlette puts the last one added outermost.
    app.add_middleware(GZipMiddleware, minimum_size=_GZIP_MINIMUM_BYTES, compresslevel=_GZIP_LEVEL)
    app.add_middleware(Boundary)
    app.add_middleware(HeadAsGet)
    if limiter is not None:
        app.add_middleware(Limited, limiter=limiter)
    if public:
        app.add_middleware(OpenToBrowsers)
    app.add_middleware(Observe, metrics=metrics, listener=listener)


class Observe:
    """Counts each request under its route template, whatever became of it."""

    def __init__(self, app: ASGIApp, metrics: Metrics, listener: str) -> None:
        self.app = app
        self.metrics = metrics
        self.listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request and count it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        inner = dict(scope)  # what is inside may change it, and routing leaves the route in it
        status = 500

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = time.perf_counter()
        try:
            await self.app(inner, receive, observed)
        finally:
            route = getattr(inner.get("route"), "path", None)
            seconds = time.perf_counter() - began
            self.metrics.observe_http_request(self.listener, method, route, status, seconds)


class OpenToBrowsers:
    """CORS for any origin, on every answer, errors included.

    Starlette's own leaves the headers out when the request names no origin and on unexpected errors. OPTIONS
    asks which methods a path has; routing knows, and says so in what would be a 405.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request with open headers."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def opened(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(OPEN_HEADERS)
            await send(message)

        if scope["method"] == "OPTIONS":
            await _answer_options(self.app, scope, receive, opened)
        else:
            await self.app(scope, receive, opened)


async def _answer_options(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Ask the application, and turn its refusal of the method into the answer."""
    # A browser that asks first must be allowed to go on and see the 404 itself.
    preflight = "access-control-request-method" in Headers(scope=scope)
    answered = False

    async def turned(message: Message) -> None:
        nonlocal answered
        if message["type"] == "http.response.start":
            answered = message["status"] == 405 or (message["status"] == 404 and preflight)
            if answered:
                await _allow(Headers(scope=message).get("allow"), send)
                return
        if not answered:
            await send(message)

    await app(scope, receive, turned)


async def _allow(methods: str | None, send: Send) -> None:
    allowed = methods or _ANY_METHODS
    headers = MutableHeaders(
        {
            "Allow": allowed,
            "Access-Control-Allow-Methods": allowed,
            "Access-Control-Allow-Headers": "*",
            "Access-Control-Max-Age": "86400",
        }
    )
    await send({"type": "http.response.start", "status": 204, "headers": headers.raw})
    await send({"type": "http.response.body", "body": b""})


class HeadAsGet:
    """Lets HEAD work wherever GET does: the same headers, no body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve HEAD as GET without its body."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        scope["method"] = "GET"

        async def bodiless(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self.app(scope, receive, bodiless)


class Boundary:
    """Refuses what is too long to read, and turns an exception that nobody expected into a plain 500."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request within bounds."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            _check_sizes(scope)
            await self.app(scope, _bounded(receive), noted)
        except ApiError as error:
            if started:
                raise
            await error_answer(error)(scope, receive, send)
        except Exception as error:
            log.exception("a request failed", method=scope["method"], path=scope["path"])
            if started:
                raise  # half an answer is out: only closing the connection tells the client
            answer = ApiError(500, "something went wrong here; it has been logged")
            answer.__cause__ = error
            await error_answer(answer)(scope, receive, send)


def _check_sizes(scope: Scope) -> None:
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_URL_BYTES:
        raise TooLargeError(f"the URL is longer than {MAX_URL_BYTES} bytes")
    announced = Headers(scope=scope).get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > MAX_BODY_BYTES:
        raise TooLargeError(f"the body is longer than {MAX_BODY_BYTES} bytes")


def _bounded(receive: Receive) -> Receive:
    """``receive`` that counts: a body sent in chunks announces no length."""
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY_BYTES:
            raise TooLargeError(f"the body is longer than {MAX_BODY_BYTES} bytes")
        return message

    return bounded
