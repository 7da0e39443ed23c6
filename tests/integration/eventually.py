"""Waiting for what a running indexer does by itself: polling with a deadline, never a fixed sleep."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_POLL_SECONDS = 0.05


async def eventually(
    look: Callable[[], Awaitable[T]], *, until: Callable[[T], bool] = bool, seconds: float = 90.0
) -> T:
    """What `look` gives as soon as `until` holds of it; fails with the last look when time is up."""
    deadline = time.monotonic() + seconds
    while True:
        seen = await look()
        if until(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s; seen last: {seen!r:.2000}")
        await asyncio.sleep(_POLL_SECONDS)
