"""Requests and replies as values, and the ways in which a reply can travel badly.

A server makes a `Reply`; the listener delivers it as the reply's `delivery` says. Everything that a
well-behaved HTTP library refuses to do is a delivery here, so that faults stay data.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came in. `query` holds the last value of each parameter, decoded."""

    method: str
    target: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    at_seconds: float
    """When it came, on the monotonic clock."""
    endpoint: str = ""
    """Which endpoint it was taken for; empty when none."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Deliver everything at once."""


@dataclass(frozen=True, slots=True)
class Drip:
    """Deliver `size` bytes every `seconds`; with `headers` the head drips as well."""

    seconds: float
    size: int = 1
    headers: bool = False


@dataclass(frozen=True, slots=True)
class CutShort:
    """Announce the whole body, deliver `sent` bytes of it and close."""

    sent: int


@dataclass(frozen=True, slots=True)
class Reset:
    """Deliver `sent` bytes of head and body, then reset the connection."""

    sent: int = 0


@dataclass(frozen=True, slots=True)
class Silence:
    """Deliver nothing, ever; the connection stays open until the other side or the listener ends it."""


@dataclass(frozen=True, slots=True)
class Endless:
    """Repeat the body in chunks, `seconds` apart, and never finish."""

    seconds: float = 0.0


Delivery = Whole | Drip | CutShort | Reset | Silence | Endless


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back; `content-length` is the listener's business."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delivery: Delivery = field(default_factory=Whole)
    wait: Callable[[], Awaitable[None]] | None = None
    """Awaited before the first byte goes out."""

    def with_headers(self, **headers: str) -> Self:
        """Return the same with more headers; underscores stand for hyphens."""
        return replace(
            self, headers={**self.headers, **{name.replace("_", "-"): text for name, text in headers.items()}}
        )


Handler = Callable[[Request], Awaitable[Reply]]


def json_reply(body: bytes, status: int = 200) -> Reply:
    """Return a reply of JSON text."""
    return Reply(status, body, {"content-type": "application/json; charset=UTF-8"})
