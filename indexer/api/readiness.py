"""Whether this process can do its work: named checks, each bounded in time.

A dependency that hangs is as missing as one that refuses: a check that has not answered within its time
counts as failed, is cancelled, and is not started again while it is still hanging on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

CHECK_SECONDS = 2.0
_MAX_DETAIL_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Check:
    """A question with a name; ``run`` returns when all is well and raises with the reason when it is not."""

    name: str
    run: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Missing:
    """A check that did not pass, and why."""

    name: str
    detail: str


class Readiness:
    """Runs the checks side by side."""

    def __init__(self, checks: Sequence[Check], *, seconds: float = CHECK_SECONDS) -> None:
        """``seconds`` is how long a check may take."""
        self._checks = tuple(checks)
        self._seconds = seconds
        self._running: dict[str, asyncio.Task[None]] = {}

    async def missing(self) -> list[Missing]:
        """What did not pass, in the order of the checks; takes ``seconds`` at most."""
        tasks = {check.name: self._start(check) for check in self._checks}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=self._seconds)
        failures = ((name, self._failure(task)) for name, task in tasks.items())
        return [Missing(name, detail) for name, detail in failures if detail is not None]

    def _start(self, check: Check) -> asyncio.Task[None]:
        """The check's task: the one that still runs, else a new one."""
        running = self._running.get(check.name)
        if running is None or running.done():
            running = asyncio.create_task(_run(check), name=f"check {check.name}")
            # A check that was given up may fail when nobody looks any more: its error counts as seen.
            running.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._running[check.name] = running
        return running

    def _failure(self, task: asyncio.Task[None]) -> str | None:
        if not task.done():
            # Not awaited: what ignores its cancellation must not hold up the answer.
            task.cancel()
            return f"no answer within {self._seconds:g} s"
        if task.cancelled():
            return "still waiting for an earlier answer"
        error = task.exception()
        if error is None:
            return None
        return (str(error) or type(error).__name__)[:_MAX_DETAIL_CHARACTERS]


async def _run(check: Check) -> None:
    await check.run()
