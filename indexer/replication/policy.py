"""When a server is asked again. Pure (behaviour.md, section 2).

A healthy server is polled between the shortest and the longest interval: something new brings it back to the
shortest, each poll that finds nothing doubles it. A first failure waits one interval, further ones 5 minutes,
15 minutes, an hour. After 30 failures in a row over at least three days a server is stale: once a day.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BACKOFFS = (timedelta(minutes=5), timedelta(minutes=15), timedelta(hours=1))
STALE_FAILURES = 30
STALE_AGE = timedelta(days=3)
STALE_INTERVAL = timedelta(days=1)
JITTER = 0.1


def next_interval(
    previous: timedelta | None, *, found_new: bool, shortest: timedelta, longest: timedelta
) -> timedelta:
    """How long to wait after a run that went well; `previous` is what was waited before it."""
    if found_new or previous is None:
        return shortest
    return min(max(previous * 2, shortest), longest)


def is_stale(failures: int, failing_since: datetime | None, *, now: datetime) -> bool:
    """Whether a server with so many failures in a row, the last one now, is stale."""
    return failures >= STALE_FAILURES and failing_since is not None and now - failing_since >= STALE_AGE


def failure_delay(failures: int, *, interval: timedelta, stale: bool) -> timedelta:
    """How long to wait after the n-th failure in a row (1 = the first)."""
    if stale:
        return STALE_INTERVAL
    if failures <= 1:
        return interval
    return BACKOFFS[min(failures - 2, len(BACKOFFS) - 1)]


def with_jitter(length: timedelta, random: Callable[[], float]) -> timedelta:
    """Spread a wait by ±10 %; `random` gives numbers from 0 to 1."""
    return length * (1 + JITTER * (2 * random() - 1))
