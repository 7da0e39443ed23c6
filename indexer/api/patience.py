"""How long an answer may take, and how soon it is known that it can not come.

A database that hangs keeps its connections open and says nothing: waiting for a statement there looks like
waiting for a slow one. So whoever waits longer than a moment has the database asked anew, by a probe that
all share; where that is not answered either, the answer is 503, after some 2.5 seconds. What was waited for
is cancelled and not awaited, since giving a connection back waits as well; at most `MOST_ABANDONED` of these
linger, and while there are so many nothing more is begun. They end by the timeouts of what they wait for.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from indexer.api.errors import DATABASE_AWAY, UnavailableError

T = TypeVar("T")
MOST_ABANDONED = 32
MOMENT_SECONDS = 0.5
PROBE_SECONDS = 2.0
_PROBE_AGE_SECONDS = 1.0
"""How long a probe that was answered counts."""


async def always_answers() -> bool:
    """Tell nothing: where there is no database to ask, only the limit of an answer counts."""
    return True


class Patience:
    """Bounds answers in time. `seconds` for each; `answers` tells whether the database does."""

    def __init__(
        self,
        seconds: float,
        answers: Callable[[], Awaitable[bool]] = always_answers,
        *,
        moment_seconds: float = MOMENT_SECONDS,
        probe_seconds: float = PROBE_SECONDS,
    ) -> None:
        self._seconds = seconds
        self._answers = answers
        self._moment_seconds = moment_seconds
        self._probe_seconds = probe_seconds
        self._probe: asyncio.Task[bool] | None = None
        self._answered_at = float("-inf")
        self._abandoned: set[asyncio.Task[Any]] = set()

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns, or raise what it raises.

        Raises UnavailableError where the database does not answer, TimeoutError when the work takes too long.
        """
        if len(self._abandoned) >= MOST_ABANDONED:
            work.close()
            raise UnavailableError(DATABASE_AWAY)
        task = asyncio.create_task(work)
        ends = time.monotonic() + self._seconds
        try:
            while not task.done():
                left = ends - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                await asyncio.wait({task}, timeout=min(left, self._moment_seconds))
                if not task.done() and not await self._is_answered(task):
                    raise UnavailableError(DATABASE_AWAY)
            return task.result()
        finally:
            if not task.done():
                self._abandon(task)

    async def _is_answered(self, task: asyncio.Task[Any]) -> bool:
        """Whether the database answers, or the work has ended before that was known."""
        if time.monotonic() - self._answered_at < _PROBE_AGE_SECONDS:
            return True
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._ask())
        probe = self._probe
        await asyncio.wait({task, probe}, return_when=asyncio.FIRST_COMPLETED)
        return task.done() or probe.result()

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(self._probe_seconds):
                answered = await self._answers()
        except TimeoutError:
            return False
        if answered:
            self._answered_at = time.monotonic()
        return answered

    def _abandon(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.add(task)
        task.add_done_callback(self._forget)
        task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits for it any more: it counts as seen
