"""The projector: from the queue of changed keys to the search engine (behaviour.md, section 5).

What it owns: the order "read the current state, write it to the engine, clear the mark", and nothing else.
The queue says only *that* a key changed; what is written is the state at the time of reading. So losing,
repeating or reordering wake-ups is harmless.

Ordering: a key is in at most one batch at a time, so two states of one key never race. Batches themselves may
finish in any order: two are under way at once, so that one is prepared while the other is written. The queue
must be held by one projector at a time (the caller's lease); two would race with what they had read.

Crash behaviour: a mark is cleared only at the generation that was read, and only after the engine has said
that the batch is searchable. After a crash at any point the marks are still there, and writing them again
changes nothing. A change that comes in while a batch is under way raises the generation, so its mark
survives.

Builds: while an index is built beside the live one (``building.py``), its uid is in :attr:`Projector.builds`,
and what is written into the live index is written into the other as well, in the same batch.

Failures: when the engine or the queue is away, the batch is dropped and read again after a pause of 0.5 s,
doubled up to 30 s; a document that the engine refuses goes to the dead letters and its mark is cleared.
Anything else is a mistake of ours and ends :meth:`Projector.run` with that error.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from indexer.engines.base import EngineUnavailable, WriteBatch, build_uid
from indexer.projection.batch import BatchPlan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

    from indexer.engines.base import Engine, WriteResult
    from indexer.projection.batch import Marked
    from indexer.projection.kinds import Kinds

MAX_MARKS: Final = 1_000
MAX_BYTES: Final = 8 * 1024 * 1024
BATCHES_IN_FLIGHT: Final = 2
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0

_MARKS_BETWEEN_BREATHS: Final = 100
"""Documents made before other tasks get a turn: some milliseconds."""


class Marks(Protocol):
    """The projection queue, as the projector needs it."""

    async def take(self, limit: int, max_bytes: int, excluding: Collection[str]) -> Sequence[Marked]:
        """Read the oldest marks with the current state of their keys, in one snapshot.

        Claims nothing. At most ``limit`` marks, whose documents together are about ``max_bytes`` at most, but
        at least one when any is due; none whose key is in ``excluding``.
        """

    async def done(self, marks: Sequence[tuple[str, int]], indexed_at: datetime) -> None:
        """Clear marks, each a (key, generation), that still have this generation, in one transaction.

        Also notes ``indexed_at`` with their records.
        """

    async def wait(self) -> None:
        """Return when something may have been marked since the last :meth:`take` began.

        Also when that happened before this call; and after a few seconds in any case.
        """


class ProjectionMetrics(Protocol):
    """What the projector tells of its work."""

    def engine_write(self, engine: str, seconds: float, upserts: int, deletes: int) -> None:
        """A batch was written."""

    def searchable(self, seconds: float) -> None:
        """A change became searchable this long after its commit."""


def pause_seconds(failures: int) -> float:
    """Return how long to wait after so many failures in a row."""
    # The exponent is bounded: an outage of days must not end in an overflow.
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE_SECONDS)


def _utc_now() -> datetime:
    return datetime.now(UTC)


T = TypeVar("T", bound="Keyed")


class Keyed(Protocol):
    """Something read together with the state of its key."""

    @property
    def state(self) -> Marked:
        """The key and its current state."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large batches are, and how many are under way at once."""

    marks: int
    bytes: int
    in_flight: int


class Projector:
    """Drains the queue into an engine until it is cancelled.

    Args:
        marks: the queue.
        engine: where documents go.
        kinds: which schemas are indexed.
        dead_letter: called with (key, reason) for a document that the engine refuses.
        metrics: observers.
        unavailable: the errors of ``marks`` that mean "away, try again".
        clock: the time now, aware.
        sleep: waits so many seconds.
        limits: how large batches are; None takes the constants above.

    """

    def __init__(
        self,
        marks: Marks,
        engine: Engine,
        kinds: Kinds,
        *,
        dead_letter: Callable[[str, str], Awaitable[None]],
        metrics: ProjectionMetrics,
        unavailable: tuple[type[Exception], ...] = (),
        clock: Callable[[], datetime] = _utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        limits: BatchLimits | None = None,
    ) -> None:
        self.builds: set[str] = set()
        """The uids of the indexes that are built anew; changed only while the projector stands still."""
        self._limits = limits or BatchLimits(MAX_MARKS, MAX_BYTES, BATCHES_IN_FLIGHT)
        self._marks = marks
        self._engine = engine
        self._kinds = kinds
        self._dead_letter = dead_letter
        self._metrics = metrics
        self._unavailable: tuple[type[Exception], ...] = (EngineUnavailable, *unavailable)
        self._clock = clock
        self._sleep = sleep
        self._in_flight: set[str] = set()
        self._claimed: set[str] = set()
        self._taking = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._batch_ended = asyncio.Event()
        self._waiting_for_end: list[asyncio.Future[None]] = []
        self._failures = 0
        self._pause_is_due = False

    async def run(self) -> None:
        """Project until cancelled. Raises only what is a mistake of ours (in an ExceptionGroup)."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._limits.in_flight):
                group.create_task(self._work(), name=f"projector {number}")

    async def project_once(self) -> int:
        """Project one batch of what is marked now; returns how many marks it held (0: nothing is due)."""
        marks = await self._take()
        if marks:
            await self._project(marks)
        return len(marks)

    async def _work(self) -> None:
        while True:
            try:
                await self._project(await self._next_marks())
            except self._unavailable:
                self._failures += 1
                self._pause_is_due = True
            else:
                self._failures = 0

    async def _next_marks(self) -> Sequence[Marked]:
        # One worker at a time looks for marks: the others' keys are excluded by then. So it is also one that
        # pauses, and then tries, for all.
        async with self._taking:
            while True:
                if self._pause_is_due:
                    self._pause_is_due = False
                    await self._sleep(pause_seconds(self._failures))
                self._batch_ended.clear()
                if marks := await self._take():
                    return marks
                if self._in_flight:
                    # What is due may be a newer generation of a key that another worker is writing.
                    await self._batch_ended.wait()
                else:
                    await self._marks.wait()

    async def _take(self) -> Sequence[Marked]:
        async with self._reading:
            excluded = self._in_flight | self._claimed
            marks = await self._marks.take(self._limits.marks, self._limits.bytes, excluded)
            self._in_flight.update(mark.key for mark in marks)
        return marks

    @asynccontextmanager
    async def standing_still(self) -> AsyncIterator[None]:
        """While this is open no batch is under way, and none begins."""
        async with self._reading:
            while self._in_flight:
                await self._next_end()
            yield

    @asynccontextmanager
    async def claim(self, read: Callable[[], Awaitable[Sequence[T]]]) -> AsyncIterator[Sequence[T]]:
        """Keep every batch away from some keys, whose state is read when no batch has them in hand.

        ``read`` may be called more than once; the last answer counts.
        """
        async with self._reading:
            found = await read()
            while not self._in_flight.isdisjoint(each.state.key for each in found):
                await self._next_end()
                found = await read()
            keys = {each.state.key for each in found}
            self._claimed |= keys
        try:
            yield found
        finally:
            self._claimed -= keys

    async def _next_end(self) -> None:
        ended = asyncio.get_running_loop().create_future()
        self._waiting_for_end.append(ended)
        await ended

    async def _project(self, marks: Sequence[Marked]) -> None:
        try:
            await self._write(marks)
        finally:
            self._in_flight.difference_update(mark.key for mark in marks)
            self._batch_ended.set()
            for ended in self._waiting_for_end:
                if not ended.done():
                    ended.set_result(None)
            self._waiting_for_end.clear()

    async def _write(self, marks: Sequence[Marked]) -> None:
        indexed_at = self._clock()
        plan = BatchPlan(self._kinds, indexed_at)
        for number, mark in enumerate(marks, start=1):
            plan.add(mark)
            if number % _MARKS_BETWEEN_BREATHS == 0:
                await asyncio.sleep(0)
        if not plan.is_empty:
            result = await self._timed_write(_into_builds(plan.batch(), self.builds))
            for rejected in result.rejected:
                if rejected.index in plan.batch().upserts:  # once, not for the build as well
                    await self._dead_letter(plan.key_of(rejected.id), rejected.reason)
        await self._marks.done([(mark.key, mark.generation) for mark in marks], indexed_at)
        searchable_at = self._clock()
        for mark in marks:
            if mark.server is not None:
                continue  # the time of a poll is no commit
            self._metrics.searchable(max((searchable_at - mark.marked_at).total_seconds(), 0.0))

    async def _timed_write(self, batch: WriteBatch) -> WriteResult:
        started = time.perf_counter()
        result = await self._engine.write(batch)
        self._metrics.engine_write(
            self._engine.name,
            time.perf_counter() - started,
            sum(map(len, batch.upserts.values())),
            sum(map(len, batch.deletes.values())),
        )
        return result


def _into_builds(batch: WriteBatch, builds: Collection[str]) -> WriteBatch:
    """Return the batch, for the live indexes and for those that are built."""
    if not builds:
        return batch
    upserts, deletes = dict(batch.upserts), dict(batch.deletes)
    for uid in builds:
        if uid in upserts:
            upserts[build_uid(uid)] = upserts[uid]
        if uid in deletes:
            deletes[build_uid(uid)] = deletes[uid]
    return WriteBatch(upserts=upserts, deletes=deletes)
