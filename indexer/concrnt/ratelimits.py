"""What servers say of how much they may be asked: the `RateLimit` header fields, in the forms that are met.

* ``RateLimit: "default";r=50;t=30`` with ``RateLimit-Policy: "default";q=100;w=60`` (the IETF draft), several
  policies in one field included;
* ``RateLimit: limit=100, remaining=50, reset=30`` (its earlier form);
* ``RateLimit-Limit``, ``-Remaining``, ``-Reset``, and the same with ``X-`` before (whose reset may be a Unix
  time, in seconds or milliseconds).

We are one reader of many: a quarter of what a server allows is left to others. Pure; what can not be read
asks for nothing.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

RESERVE: Final = 0.25
"""The share of a limit that is left to others."""
MAX_WAIT_SECONDS: Final = 3600.0

_MAX_CHARACTERS: Final = 1024
_NUMBER = re.compile(r"[0-9]{1,15}")
_UNIX_SECONDS: Final = 10**9
_UNIX_MILLISECONDS: Final = 10**12
_PREFIXES: Final = ("ratelimit-", "x-ratelimit-", "x-rate-limit-")


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: how many requests are left until it is set back, in how many seconds; out of how many."""

    remaining: int
    reset_seconds: float | None
    limit: int | None

    @property
    def wait_seconds(self) -> float:
        """How long to ask for nothing, so that something is left for others."""
        reserve = 1 if self.limit is None else math.ceil(self.limit * RESERVE)
        if self.remaining > reserve or self.reset_seconds is None:
            return 0.0
        return min(max(self.reset_seconds, 0.0), MAX_WAIT_SECONDS)


def wait_seconds(headers: Mapping[str, str], now: datetime) -> float:
    """How long the header fields of an answer ask us to stay away; 0 where they do not.

    Args:
        headers: names in lower case.
        now: aware, for fields that name a time.

    """
    return max((limit.wait_seconds for limit in limits(headers, now)), default=0.0)


def limits(headers: Mapping[str, str], now: datetime) -> Iterator[Limit]:
    """Every limit that header fields tell of."""
    yield from _structured(_field(headers, "ratelimit"), _policies(_field(headers, "ratelimit-policy")))
    for prefix in _PREFIXES:
        remaining = _number(_field(headers, f"{prefix}remaining"))
        if remaining is not None:
            reset = _number(_field(headers, f"{prefix}reset"))
            limit = _number(_field(headers, f"{prefix}limit").partition(",")[0].partition(";")[0])
            yield Limit(remaining, _seconds(reset, now), limit)


def _field(headers: Mapping[str, str], name: str) -> str:
    return headers.get(name, "")[:_MAX_CHARACTERS]


def _structured(field: str, policies: Mapping[str, Mapping[str, str]]) -> Iterator[Limit]:
    members = list(_members(field))
    merged = {name: value for bare, given in members for name, value in given.items() if not bare}
    for bare, given in [*((bare, given) for bare, given in members if bare), ("", merged)]:
        policy = policies.get(bare, {})
        remaining = _number(given.get("r", given.get("remaining", "")))
        if remaining is None:
            continue
        reset = _number(given.get("t", given.get("reset", policy.get("w", ""))))
        limit = _number(given.get("limit", policy.get("q", "")))
        yield Limit(remaining, None if reset is None else float(reset), limit)


def _policies(field: str) -> dict[str, Mapping[str, str]]:
    """Policies by name; in the earlier form (``100;w=60``) the name is the quota."""
    policies: dict[str, Mapping[str, str]] = {}
    for name, given in _members(field):
        policies[name] = given if "q" in given else {**given, "q": name}
    if len(policies) == 1:
        policies[""] = next(iter(policies.values()))
    return policies


def _members(field: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The members of a list: a name, ``""`` where there are parameters only, and its parameters."""
    for member in field.split(","):
        parts = [part.strip() for part in member.split(";") if part.strip()]
        pairs = [part.partition("=") for part in parts]
        given = {name.strip().lower(): value.strip() for name, sign, value in pairs if sign}
        bare = "" if not parts or "=" in parts[0] else parts[0].strip('"')
        yield bare, given


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if _NUMBER.fullmatch(text) else None


def _seconds(reset: int | None, now: datetime) -> float | None:
    """Seconds from now until a reset, which is given in seconds or as a Unix time."""
    if reset is None or reset < _UNIX_SECONDS:
        return reset
    moment = reset / 1000 if reset >= _UNIX_MILLISECONDS else float(reset)
    return moment - now.timestamp()
