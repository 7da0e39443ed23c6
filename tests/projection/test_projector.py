"""The projector's invariants: nothing lost, nothing stale, whatever goes away in between (cases C02, C35)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.engines.base import EngineUnavailable
from indexer.engines.ids import document_id
from indexer.engines.indexes import POSTS
from indexer.projection import projector as projector_module
from indexer.projection.projector import LONGEST_PAUSE_SECONDS, Projector, pause_seconds
from tests.projection.stage import KINDS, NOON, Away, FakeEngine, Queue, once, post

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.projection.stage import Record

pytestmark = pytest.mark.anyio


@dataclass
class Stage:
    """A projector between a queue and an engine, and what it told."""

    queue: Queue = field(default_factory=Queue)
    engine: FakeEngine = field(default_factory=FakeEngine)
    dead: list[tuple[str, str]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    writes: list[tuple[str, int, int]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    clock_seconds: float = 0.0

    def projector(self) -> Projector:
        """A new process's projector on the same queue and engine."""
        return Projector(
            self.queue,
            self.engine,
            KINDS,
            dead_letter=self._dead_letter,
            metrics=self,
            unavailable=(Away,),
            clock=lambda: NOON + timedelta(seconds=self.clock_seconds),
            sleep=self._sleep,
        )

    def engine_write(self, engine: str, seconds: float, upserts: int, deletes: int) -> None:
        """A metric."""
        assert seconds >= 0
        self.writes.append((engine, upserts, deletes))

    def searchable(self, seconds: float) -> None:
        """A metric."""
        self.latencies.append(seconds)

    async def run_until(self, reached: Callable[[], bool]) -> None:
        """Run a projector until something holds; each step of the loop is looked at."""
        task = asyncio.create_task(self.projector().run())
        while not reached() and not task.done():  # noqa: ASYNC110 - every step of the loop is a crash point
            await asyncio.sleep(0)
        if task.done():
            await task
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def drain(self) -> None:
        """Run until no mark is left."""
        await self.run_until(lambda: not self.queue.marks)

    def indexed(self) -> dict[str, str]:
        """The bodies of the posts in the engine, by id."""
        return {key: document["body"] for key, document in self.engine.documents.get(POSTS, {}).items()}

    def stored(self) -> dict[str, str]:
        """The bodies of the stored posts, by id."""
        return {document_id(key): _body(record) for key, record in self.queue.records.items()}

    async def _dead_letter(self, key: str, reason: str) -> None:
        self.dead.append((key, reason))

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


def _body(record: Record) -> str:
    return record.document.split('"body":"')[1].split('"')[0]


async def test_the_index_follows_the_store() -> None:
    """What is put is indexed, what is removed leaves, and no mark stays."""
    stage = Stage()
    for name in "abc":
        stage.queue.put(post(name, "ねこ"))
    await stage.drain()
    assert stage.indexed() == stage.stored()
    stage.queue.remove(post("a").key)
    stage.queue.put(post("b", "いぬ"))
    await stage.drain()
    assert stage.indexed() == stage.stored()
    assert len(stage.indexed()) == 2


async def test_a_change_during_a_write_keeps_its_mark() -> None:
    """The newer generation is projected as well; the old state does not stay (C35 a)."""
    stage = Stage()
    stage.queue.put(post("a", "ふるい"))
    stage.engine.during_write = once(lambda: stage.queue.put(post("a", "あたらしい")))
    await stage.drain()
    assert stage.indexed() == {document_id(post("a").key): "あたらしい"}
    assert len(stage.engine.batches) == 2


async def test_a_change_between_write_and_clearing_keeps_its_mark() -> None:
    """Also when it comes at the last moment."""
    stage = Stage()
    stage.queue.put(post("a", "ある"))
    stage.queue.before_done = once(lambda: stage.queue.remove(post("a").key))
    await stage.drain()
    assert stage.indexed() == {}


async def test_an_engine_that_is_away_loses_nothing() -> None:
    """Marks stay while it is away; pauses grow to their bound and start anew after a success."""
    stage = Stage()
    stage.queue.put(post("a", "ねこ"))
    stage.engine.errors = [EngineUnavailable("gone")] * 10
    await stage.drain()
    assert stage.indexed() == stage.stored()
    assert stage.pauses == [0.5, 1, 2, 4, 8, 16, *[LONGEST_PAUSE_SECONDS] * 4]
    stage.pauses.clear()
    stage.queue.put(post("a", "いぬ"))
    stage.engine.errors = [EngineUnavailable("gone")]
    await stage.drain()
    assert stage.pauses == [0.5]
    assert stage.indexed() == stage.stored()


def test_pauses_are_bounded() -> None:
    """However long an outage lasts, the next try is half a minute away at most."""
    assert pause_seconds(10**9) == LONGEST_PAUSE_SECONDS


async def test_the_state_is_read_again_after_an_outage() -> None:
    """What changed while the engine was away is not written from memory."""
    stage = Stage()
    stage.queue.put(post("a", "ふるい"))
    stage.engine.errors = [EngineUnavailable("gone")]
    stage.engine.during_write = once(lambda: stage.queue.put(post("a", "あたらしい")))
    await stage.drain()
    assert stage.indexed() == stage.stored()
    assert len(stage.engine.batches) == 1


async def test_a_queue_that_is_away_loses_nothing() -> None:
    """Neither reading nor clearing marks has to work at once; a batch written twice is harmless."""
    stage = Stage()
    stage.queue.put(post("a", "ねこ"))
    stage.queue.failures = 3
    await stage.drain()
    stage.queue.put(post("a", "いぬ"))
    stage.queue.before_done = once(lambda: setattr(stage.queue, "failures", 1))
    await stage.drain()
    assert stage.indexed() == stage.stored()


async def test_unexpected_errors_end_the_loop() -> None:
    """A mistake of ours is not retried for ever in silence."""
    stage = Stage()
    stage.queue.put(post("a"))
    stage.engine.errors = [ZeroDivisionError()]
    with pytest.raises(ExceptionGroup) as caught:
        await stage.projector().run()
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)
    assert stage.queue.marks


@pytest.mark.parametrize("after", range(1, 14))
async def test_a_crash_at_any_step_loses_nothing(after: int) -> None:
    """Killed after any number of steps, the next process ends in the same index (C02)."""
    stage = Stage()
    for name in "abc":
        stage.queue.put(post(name, "ねこ"))
    stage.queue.remove(post("c").key)
    steps = iter(range(after))
    await stage.run_until(lambda: next(steps, None) is None)
    stage.queue.put(post("b", "いぬ"))
    await stage.drain()
    assert stage.indexed() == stage.stored()


async def test_refused_documents_are_set_aside() -> None:
    """They go to the dead letters with the key and a reason, their marks go, and the rest is indexed."""
    stage = Stage()
    for name in "abc":
        stage.queue.put(post(name, "ねこ"))
    stage.engine.refused = {document_id(post("b").key)}
    await stage.drain()
    assert stage.dead == [(post("b").key, "refused")]
    assert len(stage.indexed()) == 2


async def test_batches_are_bounded_and_keys_never_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many marks go in batches of a bounded size, two under way at once, never with a key in common."""
    monkeypatch.setattr(projector_module, "MAX_MARKS", 10)
    stage = Stage()
    for number in range(95):
        stage.queue.put(post(f"{number:02}", "ねこ"))
    most = 0

    def change() -> None:
        nonlocal most
        most = max(most, len(stage.engine.writing))
        if len(stage.engine.batches) < 5:
            stage.queue.put(post("00", f"{len(stage.engine.batches)}"))

    stage.engine.during_write = change
    await stage.drain()
    assert stage.indexed() == stage.stored()
    assert max(map(len, stage.queue.taken)) == 10
    assert most > 10


async def test_marks_of_nothing_are_cleared_without_a_write() -> None:
    """A key that is in no index, and never was, needs no engine."""
    stage = Stage()
    other = post("a")
    stage.queue.put(
        type(other)(other.key, other.document, schema="https://schema.concrnt.net/reference.json")
    )
    await stage.drain()
    assert stage.engine.batches == []


async def test_metrics() -> None:
    """Each write is told with its size, and each change with its time from commit to searchable."""
    stage = Stage()
    stage.queue.put(post("a"))
    stage.queue.put(post("b"))
    stage.clock_seconds = 1.5
    assert await stage.projector().project_once() == 2
    assert await stage.projector().project_once() == 0
    assert stage.writes == [("fake", 2, 0)]
    assert stage.latencies == [1.5, 1.5]


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "engine away", "queue away", "step"]), st.integers(0, 4)),
    max_size=40,
)


@given(STEPS)
@settings(deadline=None, max_examples=60)
def test_any_history_ends_in_the_same_index(steps: list[tuple[str, int]]) -> None:
    """Whatever changes and fails in whatever order, the index equals the store in the end."""
    asyncio.run(_play(steps))


async def _play(steps: list[tuple[str, int]]) -> None:
    stage = Stage()
    running = asyncio.create_task(stage.projector().run())
    for number, (step, name) in enumerate(steps):
        key = post(f"{name}").key
        if step == "put":
            stage.queue.put(post(f"{name}", f"{number}"))
        elif step == "remove" and key in stage.queue.records:
            stage.queue.remove(key)
        elif step == "engine away":
            stage.engine.errors.append(EngineUnavailable("gone"))
        elif step == "queue away":
            stage.queue.failures += 1
        for _ in range(name):
            await asyncio.sleep(0)
    while stage.queue.marks:  # noqa: ASYNC110 - the fake queue tells nobody
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert stage.indexed() == stage.stored()
