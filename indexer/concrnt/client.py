"""The one HTTP client that talks to strangers.

What it promises:

* One deadline covers the whole request: look-up, connect, TLS, headers that drip, bodies that never end.
* It connects to public addresses only (:mod:`indexer.concrnt.network`), on port 443, by HTTPS. Host
  overrides are the only way elsewhere; they replace where to dial, not whom we speak to: ``Host`` stays the
  server's name.
* A body is bounded in bytes after decompression, and whole, or it is an error.
* Redirects are followed within the same host only, at most three.
* What is sent as path and query is what the caller gave, byte for byte.
* Whatever goes wrong is one :class:`PeerError` with a class; only cancellation and our own bugs pass through.
* A server whose answers say that little is left of what it allows (``RateLimit``) is not asked until that is
  set back: :class:`PeerError` of class ``rate_limited``, at once and without a request.
* Nothing is read from the environment (no proxies, no netrc); no cookie is kept.

Safe for any number of requests at once. A request that ends by error, deadline or cancellation closes its
connection: none is left in the pool.
"""

import asyncio
import re
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, urljoin, urlsplit

import httpcore
import httpx

from indexer.concrnt.bodies import ACCEPT_ENCODING, Body
from indexer.concrnt.failures import FailureClass, PeerError
from indexer.concrnt.identifiers import canonical_fqdn
from indexer.concrnt.network import DirectBackend, GuardedBackend, Resolver, SystemResolver
from indexer.concrnt.ratelimits import wait_seconds
from indexer.concrnt.transport import cancelled_as_a_scope, make_http_client

__all__ = ["FailureClass", "PeerClient", "PeerError", "Response", "parse_retry_after", "user_agent"]

MAX_REDIRECTS: Final = 3
MAX_RETRY_AFTER_SECONDS: Final = 3600.0

_MAX_LOCATION_CHARACTERS: Final = 2048
_MAX_QUIET_HOSTS: Final = 10_000
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TARGET = re.compile(r"/[!-~]*")
_URL_CHARACTERS: Final = "/%:?=&~#+!$,;'@()*[]"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

Clock = Callable[[], datetime]
OnRequest = Callable[[str, str, float], None]
"""Told of every request that ended: host, status or failure class, seconds."""


@dataclass(frozen=True, slots=True)
class Response:
    """A success (2xx), whole; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Peer:
    """Where a server is reached, and which origins are still that server when it redirects."""

    fqdn: str
    base: httpx.URL
    origins: frozenset[tuple[str, str, int]]
    client: httpx.AsyncClient


class PeerClient:
    """See the module. An asynchronous context manager."""

    def __init__(
        self,
        *,
        user_agent: str,
        request_timeout: float,
        max_response_bytes: int,
        host_overrides: Mapping[str, str] | None = None,
        clock: Clock = lambda: datetime.now(UTC),
        on_request: OnRequest | None = None,
        resolve: Resolver | None = None,
        network: httpcore.AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Make a client.

        Args:
            user_agent: see :func:`user_agent`.
            request_timeout: seconds for a whole request, redirects included.
            max_response_bytes: of a body, after decompression.
            host_overrides: ``{"a.example": "http://127.0.0.1:9001"}``; origins without a path.
            clock: the time that ``Retry-After`` dates are compared with.
            on_request: for metrics.
            resolve: in place of the system's resolver.
            network: in place of the real network, below the address guard.
            ssl_context: in place of one with the usual certificate authorities.

        Raises:
            ValueError: a host override that is no origin.

        """
        self._request_timeout = request_timeout
        self._max_response_bytes = max_response_bytes
        self._clock = clock
        self._on_request = on_request
        self._quiet = _Quiet()
        self._resolver = SystemResolver()
        network = network or httpcore.AnyIOBackend()
        guarded = GuardedBackend(resolve or self._resolver, network, attempt_seconds=request_timeout / 4)
        context = ssl_context or httpx.create_ssl_context(trust_env=False)
        headers = {"User-Agent": user_agent, "Accept": "application/json", "Accept-Encoding": ACCEPT_ENCODING}
        self._public = make_http_client(guarded, context, headers)
        self._direct = make_http_client(DirectBackend(network), context, headers)
        self._overrides = {
            canonical_fqdn(name): _origin(name, url) for name, url in (host_overrides or {}).items()
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._public.aclose)
            stack.push_async_callback(self._direct.aclose)
            stack.callback(self._resolver.close)

    async def get(self, fqdn: str, path_and_query: str) -> Response:
        """Ask a server.

        Args:
            fqdn: its name.
            path_and_query: visible ASCII that begins with ``/``; sent as it is.

        Returns:
            Any 2xx answer, 204 too: what it holds is the caller's matter.

        Raises:
            PeerError: everything else that a server or the way to it can do.
            ValueError: ``fqdn`` is no server's name, or ``path_and_query`` none.

        """
        fqdn = canonical_fqdn(fqdn)
        self._quiet.check(fqdn, self._clock())
        if _TARGET.fullmatch(path_and_query) is None:
            raise ValueError("not a path and query")
        started = time.perf_counter()
        try:
            response = await self._within_deadline(self._peer(fqdn), path_and_query)
        except PeerError as error:
            code = error.failure.value if error.status is None else str(error.status)
            self._report(fqdn, code, started)
            raise
        self._report(fqdn, str(response.status), started)
        return response

    def _report(self, host: str, code: str, started: float) -> None:
        if self._on_request is not None:
            self._on_request(host, code, time.perf_counter() - started)

    def _peer(self, fqdn: str) -> _Peer:
        overridden = self._overrides.get(fqdn)
        origins = {("https", fqdn, 443)}
        if overridden is None:
            return _Peer(fqdn, httpx.URL(f"https://{fqdn}"), frozenset(origins), self._public)
        # A server behind an override may call itself by its name or by where it was reached.
        default_port = _DEFAULT_PORTS[overridden.scheme]
        origins.add((overridden.scheme, fqdn, default_port))
        origins.add((overridden.scheme, overridden.host, overridden.port or default_port))
        return _Peer(fqdn, overridden, frozenset(origins), self._direct)

    async def _within_deadline(self, peer: _Peer, target: str) -> Response:
        try:
            async with asyncio.timeout(self._request_timeout):
                return await cancelled_as_a_scope(self._follow(peer, target))
        except TimeoutError as error:
            raise PeerError(
                FailureClass.TIMEOUT, f"no whole answer in {self._request_timeout:g} s"
            ) from error

    async def _follow(self, peer: _Peer, target: str) -> Response:
        for _ in range(MAX_REDIRECTS + 1):
            outcome = await self._ask(peer, target)
            if isinstance(outcome, Response):
                return outcome
            target = outcome
        raise PeerError(FailureClass.REDIRECT, f"more than {MAX_REDIRECTS} redirects", location=target)

    async def _ask(self, peer: _Peer, target: str) -> Response | str:
        """Send one request; return the answer, or where on the same host it redirects to."""
        request = peer.client.build_request("GET", peer.base, headers={"Host": peer.fqdn})
        # httpx would spell the target its own way; cursors have to be echoed byte for byte.
        request.extensions = {"target": target.encode("ascii"), "sni_hostname": peer.fqdn}
        try:
            response = await peer.client.send(request, stream=True)
        except _NETWORK_ERRORS as error:
            raise _classified(error, answered=False) from error
        self._quiet.note(peer.fqdn, response.headers, self._clock())
        try:
            if response.status_code in _REDIRECTS:
                return _redirect_target(peer, target, response)
            self._check_status(response)
            return await self._read(response)
        except _NETWORK_ERRORS as error:
            raise _classified(error, answered=True) from error
        finally:
            await response.aclose()

    def _check_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if 200 <= status < 300:
            return
        if status in {429, 503}:
            wait = parse_retry_after(response.headers.get("retry-after", ""), self._clock())
            raise PeerError(FailureClass.RATE_LIMITED, f"HTTP {status}", status=status, retry_after=wait)
        if 400 <= status < 500:
            raise PeerError(FailureClass.HTTP_4XX, f"HTTP {status}", status=status)
        if status >= 500:
            raise PeerError(FailureClass.HTTP_5XX, f"HTTP {status}", status=status)
        raise PeerError(FailureClass.BAD_PAYLOAD, f"HTTP {status} is no answer", status=status)

    async def _read(self, response: httpx.Response) -> Response:
        body = Body(response.headers.get("content-encoding", ""), self._max_response_bytes)
        async for part in response.aiter_raw():
            body.feed(part)
        return Response(response.status_code, dict(response.headers), body.finish())


class _Quiet:
    """Servers that are left alone for a while, for they said that little is left of what they allow."""

    def __init__(self) -> None:
        self._until: OrderedDict[str, datetime] = OrderedDict()

    def note(self, fqdn: str, headers: Mapping[str, str], now: datetime) -> None:
        """Read what an answer says."""
        seconds = wait_seconds(headers, now)
        self._until.pop(fqdn, None)
        if seconds > 0:
            self._until[fqdn] = now + timedelta(seconds=seconds)
            if len(self._until) > _MAX_QUIET_HOSTS:
                self._until.popitem(last=False)

    def check(self, fqdn: str, now: datetime) -> None:
        """Raise :class:`PeerError` where a server is left alone."""
        until = self._until.get(fqdn)
        if until is not None and until > now:
            wait = (until - now).total_seconds()
            raise PeerError(FailureClass.RATE_LIMITED, "little is left of what it allows", retry_after=wait)


def user_agent(version: str, public_url: str) -> str:
    """Return how we introduce ourselves: ``concrnt-indexer/1.2 (+https://search.example)``."""
    return f"concrnt-indexer/{version} (+{public_url})" if public_url else f"concrnt-indexer/{version}"


def parse_retry_after(text: str, now: datetime) -> float | None:
    """Read a ``Retry-After`` header (RFC 9110, section 10.2.3).

    Args:
        text: seconds, or an HTTP date.
        now: aware.

    Returns:
        Seconds from now, between 0 and 3600; None when the text is neither.

    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        # Nine digits are thirty years; int() of a header full of digits would be a long computation.
        return MAX_RETRY_AFTER_SECONDS if len(text) > 9 else min(float(text), MAX_RETRY_AFTER_SECONDS)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - now).total_seconds(), 0.0), MAX_RETRY_AFTER_SECONDS)


def _origin(name: str, url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"the host override of {name} is no URL") from error
    if parsed.scheme not in _DEFAULT_PORTS or not parsed.host or parsed.raw_path != b"/" or parsed.userinfo:
        raise ValueError(f"the host override of {name} is not of the form http://host:port")
    return parsed


def _redirect_target(peer: _Peer, target: str, response: httpx.Response) -> str:
    """Return the path and query that a redirect leads to, as long as it stays on the same host."""
    status = response.status_code
    location: str = response.extensions["location"]
    if len(location) > _MAX_LOCATION_CHARACTERS:
        raise PeerError(FailureClass.REDIRECT, "to a very long URL", status=status)
    try:
        parts = urlsplit(
            urljoin(f"{peer.base.scheme}://{peer.base.netloc.decode('ascii')}{target}", location)
        )
        origin = (parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 0))
    except ValueError as error:
        raise PeerError(FailureClass.REDIRECT, "to no URL", status=status, location=location) from error
    if not location or origin not in peer.origins:
        raise PeerError(FailureClass.REDIRECT, "to another host", status=status, location=location)
    query = f"?{parts.query}" if parts.query else ""
    return quote(f"{parts.path or '/'}{query}", safe=_URL_CHARACTERS)


def _caused_by(error: BaseException, kind: type[BaseException]) -> bool:
    """Look through the chain: httpcore wraps what happened, and hides the cause when it leaves its pool."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, kind):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


_NETWORK_ERRORS: Final = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.RemoteProtocolError,
    ssl.SSLError,
    OSError,
)


def _classified(error: Exception, *, answered: bool) -> PeerError:
    """Turn an error of the network into ours; ``answered`` tells whether headers had come."""
    if isinstance(error, TimeoutError | httpcore.TimeoutException):
        return PeerError(FailureClass.TIMEOUT, "no connection in time")
    if isinstance(error, httpcore.RemoteProtocolError):
        # httpcore words it so where the connection was closed before a single byte of an answer.
        if not answered and str(error).startswith("Server disconnected"):
            return PeerError(FailureClass.CONNECT, "closed without an answer")
        return PeerError(FailureClass.BAD_PAYLOAD, "a truncated or broken HTTP answer")
    if _caused_by(error, ssl.SSLError):
        return PeerError(FailureClass.TLS, "no trusted TLS connection")
    if _caused_by(error, socket.gaierror):
        return PeerError(FailureClass.DNS, "does not resolve")
    lost = answered or not isinstance(error, httpcore.ConnectError)
    return PeerError(FailureClass.CONNECT, "the connection was lost" if lost else "no connection")
