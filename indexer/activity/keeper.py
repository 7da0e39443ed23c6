"""Keeping activity up to date: ticks over what changed (architecture, decision 5).

What it owns: when counting happens, and in which order. What is counted, and by which statements, is the
mirror's (`indexer/mirror/activity.py`); what the numbers mean is `score.py`.

A tick takes one moment as its now and works in batches, each one transaction: first everything that is
marked or due, then, when the settings have changed, the next part of a recount of everything. A tick that
fails leaves the batches that were done and the old numbers of all others; the next one goes on with what is
left. Ticks of several processes never count one thing twice: batches take turns.

The numbers that answers show come from what `deliver` has brought to the search engine. It is called after
the tick, and again a little later when documents were not there yet. While a recount is under way nothing
new is delivered, so that answers are not ordered by two half-lives at once.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from indexer.mirror.activity import SubjectKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from indexer.mirror.activity import Activity

log = structlog.get_logger(__name__)

RETRY_SECONDS: Final = 5.0
"""How soon a tick that failed, or numbers whose document was not there yet, are tried again at most."""


FIRST_WAIT_SECONDS: Final = 15.0
"""Between the first two ticks of a process; then twice as long each time, up to the interval. The first one
may come in the middle of a backfill, and what it leaves out should not wait for a whole interval."""


class ActivityMetrics(Protocol):
    """What the keeper tells of its work."""

    def activity_refreshed(self, subject: str, result: str, seconds: float) -> None:
        """A tick over communities or people (`community`, `user`) ended: `ok` or `error`."""


class ActivityKeeper:
    """Keeps the numbers of one mirror up to date.

    Args:
        activity: the mirror's activity.
        deliver: brings numbers to the search engine; returns how many wait for their document.
        interval_seconds: between ticks.
        metrics: observers.
        clock: the time now, aware.
        unavailable: the errors that mean "away, try again".
        sleep: waits so many seconds.

    """

    def __init__(
        self,
        activity: Activity,
        *,
        deliver: Callable[[], Awaitable[int]],
        interval_seconds: float,
        metrics: ActivityMetrics,
        clock: Callable[[], datetime],
        unavailable: tuple[type[Exception], ...] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._activity = activity
        self._deliver = deliver
        self._interval = interval_seconds
        self._metrics = metrics
        self._clock = clock
        self._unavailable = unavailable
        self._sleep = sleep
        self._wait = min(FIRST_WAIT_SECONDS, interval_seconds)

    async def run(self) -> None:
        """Tick and deliver until cancelled. Raises only what is a mistake of ours."""
        while True:
            try:
                await self.tick(self._clock())
                await self._deliver_all_ready()
            except self._unavailable as error:
                log.warning("activity waits for the store or the engine", why=str(error))
                await self._sleep(min(RETRY_SECONDS, self._interval))

    async def tick(self, now: datetime) -> int:
        """Bring every number up to date with what is stored; returns how many subjects were touched."""
        recounting = await self._activity.begin_tick(now)
        touched = 0
        for kind in SubjectKind:
            touched += await self._tick_over(kind, now)
        if recounting:
            await self._recount(now)
        return touched

    async def _tick_over(self, kind: SubjectKind, now: datetime) -> int:
        started, touched = time.perf_counter(), 0
        try:
            is_last = False
            while not is_last:
                batch = await self._activity.refresh(kind, now)
                touched, is_last = touched + batch.subjects, batch.is_last
        except Exception:
            self._metrics.activity_refreshed(kind.value, "error", time.perf_counter() - started)
            raise
        self._metrics.activity_refreshed(kind.value, "ok", time.perf_counter() - started)
        return touched

    async def _recount(self, now: datetime) -> None:
        while await self._activity.recount(now):
            state = await self._activity.recount_state()
            if state is not None:
                log.info("counting all activity again", done=state.done, subjects=state.subjects)
        log.info("all activity is counted again")

    async def _deliver_all_ready(self) -> None:
        """Deliver, then wait for the next tick; what waits for its document is tried again meanwhile."""
        waited = 0.0
        while waited < self._wait:
            waiting = await self._deliver()
            pause = min(RETRY_SECONDS, self._wait - waited) if waiting else self._wait - waited
            await self._sleep(pause)
            waited += pause
        self._wait = min(2 * self._wait, self._interval)
