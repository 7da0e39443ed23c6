"""How much one client may ask: a bucket of tokens per address, and 429 when it is empty.

A bucket holds a minute's worth of requests and fills evenly, so that a page that asks for ten things at once
is no offence. Addresses of version 6 count by their /64, which one household has whole. A peer on a private
or loopback address is a reverse proxy of the operator's: what it says of its client (the last entry of
``X-Forwarded-For``, the one that it wrote itself) counts instead; from any other peer the header is ignored.
Memory is bounded: of very many clients those seen longest ago are forgotten, which only is to their favour.
``/health`` is never refused: whoever watches the process has to hear that it lives.
"""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from indexer.api.errors import ApiError, error_answer

MAX_CLIENTS = 50_000
_UNLIMITED_PATHS = frozenset({"/health"})
_IPV6_HOUSEHOLD = 64


class Limiter:
    """The buckets of all clients. ``monotonic`` is in seconds."""

    def __init__(self, per_minute: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._capacity = float(per_minute)
        self._per_second = per_minute / 60
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def seconds_to_wait(self, client: str) -> int:
        """Take a token of a client; 0 when there was one, else the whole seconds until there is."""
        now = self._monotonic()
        tokens, filled_at = self._buckets.get(client, (self._capacity, now))
        tokens = min(self._capacity, tokens + (now - filled_at) * self._per_second)
        wait = 0 if tokens >= 1 else math.ceil((1 - tokens) / self._per_second)
        self._buckets[client] = (tokens if wait else tokens - 1, now)
        self._buckets.move_to_end(client)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return wait


class Limited:
    """Refuses requests of clients who ask too much."""

    def __init__(self, app: ASGIApp, limiter: Limiter) -> None:
        self.app = app
        self.limiter = limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or tell when to come back."""
        if scope["type"] == "http" and scope["path"] not in _UNLIMITED_PATHS:
            wait = self.limiter.seconds_to_wait(client_of(scope))
            if wait:
                error = ApiError(
                    429, f"too many requests; the next is answered in {wait} s", {"Retry-After": str(wait)}
                )
                await error_answer(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def client_of(scope: Scope) -> str:
    """The client that a request counts for."""
    peer = scope.get("client")
    address = _parsed(peer[0]) if peer else None
    if address is not None and (address.is_private or address.is_loopback):
        forwarded = Headers(scope=scope).getlist("x-forwarded-for")
        said = _parsed(forwarded[-1].rsplit(",", 1)[-1].strip()) if forwarded else None
        address = said or address
    if address is None:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _IPV6_HOUSEHOLD), strict=False))
    return str(address)


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
