"""Faults on demand: what a server answers instead of the truth.

A fault turns the honest reply into another one. A `FaultPlan` says which requests it meets: the next few,
all of them, or those that a function picks. What is asked first is used first, so a list of `next` calls
plays in turn:

    alpha.faults.next(redirect("https://www.other.example/"), on=Endpoint.REPLICATION)
    alpha.faults.next(html(), times=2, on=Endpoint.REPLICATION)
    alpha.faults.always(drip(2.0))

What a server *is* rather than answers is changed on the server itself: `layer`, `domain_shown`, `endpoints`,
`known_servers`, its `log` (wiped, cut back, rows from the future).
"""

import gzip
import json
from asyncio import Event, sleep
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import format_datetime
from enum import StrEnum

from indexer.simulation.wire import CutShort, Drip, Endless, Reply, Request, Reset, Silence, json_reply

Fault = Callable[[Request, Reply], Reply]
"""(request, honest reply) -> the reply that is sent."""


class Endpoint(StrEnum):
    """The endpoints of a server; `ANY` stands for all, unknown paths included."""

    ANY = "any"
    WELL_KNOWN = "well-known"
    KNOWN_SERVERS = "known-servers"
    REPLICATION = "replication"
    RESOLVE = "resolve"
    QUERY = "query"
    ASSOCIATIONS = "associations"


@dataclass(slots=True)
class _Rule:
    on: Endpoint
    choose: Callable[[Request], Fault | None]
    left: int | None

    def meets(self, request: Request) -> bool:
        return self.left != 0 and self.on in (Endpoint.ANY, request.endpoint)


class FaultPlan:
    """Which faults meet which requests of one server."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []

    def next(self, fault: Fault, *, times: int = 1, on: Endpoint = Endpoint.ANY) -> None:
        """Let the next `times` requests fail, after those already planned."""
        self._rules.append(_Rule(on, lambda _: fault, times))

    def always(self, fault: Fault, *, on: Endpoint = Endpoint.ANY) -> None:
        """Let every request fail that no `next` takes, until `clear`."""
        self._rules.append(_Rule(on, lambda _: fault, None))

    def script(self, choose: Callable[[Request], Fault | None], *, on: Endpoint = Endpoint.ANY) -> None:
        """Let a function pick a fault per request, or None for the truth."""
        self._rules.append(_Rule(on, choose, None))

    def clear(self, on: Endpoint | None = None) -> None:
        """Forget the plan, of one endpoint or whole."""
        self._rules = [rule for rule in self._rules if on is not None and rule.on is not on]

    def apply(self, request: Request, honest: Reply) -> Reply:
        """Return what goes out for a request."""
        for rule in sorted(self._rules, key=lambda rule: rule.left is None):
            fault = rule.choose(request) if rule.meets(request) else None
            if fault is None:
                continue
            if rule.left is not None:
                rule.left -= 1
            return fault(request, honest)
        return honest


# -- statuses ---------------------------------------------------------------------------------------


def status(code: int, body: bytes = b'{"message":"simulated"}', **headers: str) -> Fault:
    """Answer a status, with headers whose underscores stand for hyphens."""
    return lambda _request, _honest: json_reply(body, code).with_headers(**headers)


def slow_down(retry_after: int | str | datetime | None = None, *, code: int = 429) -> Fault:
    """Ask for quiet (429 or 503); `retry_after` in seconds, as a date, or as any text."""
    if retry_after is None:
        return status(code)
    text = (
        format_datetime(retry_after, usegmt=True) if isinstance(retry_after, datetime) else str(retry_after)
    )
    return status(code, retry_after=text)


def redirect(location: str, *, code: int = 302) -> Fault:
    """Send the reader elsewhere."""
    return status(code, b"", location=location)


def no_content() -> Fault:
    """Answer 204."""
    return lambda _request, _honest: Reply(204)


# -- bodies that are no page ------------------------------------------------------------------------


def body(content: bytes, *, content_type: str = "application/json") -> Fault:
    """Answer 200 with any body: `{}`, `[]`, a page of one's own."""
    return lambda _request, _honest: Reply(200, content, {"content-type": content_type})


def html(text: str = "<!doctype html><title>One moment</title><p>Checking your browser") -> Fault:
    """Answer 200 with a challenge page."""
    return body(text.encode(), content_type="text/html; charset=utf-8")


def null_items() -> Fault:
    """Answer the empty end of an old server."""
    return body(b'{"items":null,"next":null}')


def empty_page(next_cursor: str | None = None, *, prev: str | None = None) -> Fault:
    """Answer a page without rows that may point on."""
    cursors = (b"null" if text is None else b'"%b"' % text.encode() for text in (prev, next_cursor))
    return body(b'{"items":[],"prev":%b,"next":%b}' % tuple(cursors))


def next_cursor(text: str | None) -> Fault:
    """Answer the honest page with another `next`: back in time, ahead of the clock, no time at all."""

    def changed(_request: Request, honest: Reply) -> Reply:
        page = json.loads(honest.body)
        return replace(honest, body=json.dumps({**page, "next": text}, ensure_ascii=False).encode())

    return changed


def nested(depth: int) -> Fault:
    """Answer JSON nested this deep, as the only item of a page."""
    return body(b'{"items":[' + b"[" * depth + b"]" * depth + b'],"prev":null,"next":null}')


def oversized(size: int) -> Fault:
    """Answer a valid page of `size` bytes: blanks inside of it."""
    return body(b'{"items":[' + b" " * size + b'],"next":null}')


# -- compression ------------------------------------------------------------------------------------


def broken_gzip_trailer() -> Fault:
    """Send the honest body compressed, its checksum wrong."""
    return lambda _request, honest: _gzipped(honest, _flip_checksum(_deflate(honest.body)))


def truncated_gzip(missing: int = 8) -> Fault:
    """Send the honest body compressed, without its last bytes; the announced length fits what is sent."""
    return lambda _request, honest: _gzipped(honest, _deflate(honest.body)[:-missing])


def gzip_bomb(size: int) -> Fault:
    """Send a small body that unpacks to `size` bytes."""
    packed = _deflate(b'{"items":[' + b" " * size + b'],"next":null}')
    return lambda _request, honest: _gzipped(honest, packed)


def _gzipped(honest: Reply, packed: bytes) -> Reply:
    return replace(honest, body=packed).with_headers(content_encoding="gzip")


def _deflate(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=1, mtime=0)


def _flip_checksum(packed: bytes) -> bytes:
    return packed[:-8] + bytes(byte ^ 0xFF for byte in packed[-8:-4]) + packed[-4:]


# -- the way it travels -----------------------------------------------------------------------------


def cut_short(missing: int = 20) -> Fault:
    """Announce the honest body and close `missing` bytes before its end."""
    return lambda _request, honest: replace(honest, delivery=CutShort(max(0, len(honest.body) - missing)))


def drip(seconds: float, *, size: int = 1, headers: bool = False) -> Fault:
    """Send the honest reply `size` bytes at a time; with `headers` from its first byte on."""
    return lambda _request, honest: replace(honest, delivery=Drip(seconds, size, headers))


def reset(after: int = 0) -> Fault:
    """Reset the connection after so many bytes of the reply."""
    return lambda _request, honest: replace(honest, delivery=Reset(after))


def silence() -> Fault:
    """Take the request and never answer."""
    return lambda _request, honest: replace(honest, delivery=Silence())


def endless(chunk: bytes = b" " * 1024, *, seconds: float = 0.0) -> Fault:
    """Send a body that never ends."""
    return lambda _request, honest: replace(honest, body=chunk, delivery=Endless(seconds))


def delay(seconds: float) -> Fault:
    """Answer the truth, late."""
    return lambda _request, honest: replace(honest, wait=lambda: sleep(seconds))


def hold(gate: Event) -> Fault:
    """Answer the truth when the test opens the gate."""

    async def opened() -> None:
        await gate.wait()

    return lambda _request, honest: replace(honest, wait=opened)
