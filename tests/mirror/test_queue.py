"""The projection queue: generations, writers that overlap, bounds of a batch."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from indexer.mirror.queue import ProjectionQueue
from indexer.simulation import schemas as wire
from indexer.simulation.scripted import ALICE, ALPHA, delete, post, post_key, record
from tests.replication.stage import NOW, open_mirror

if TYPE_CHECKING:
    from tests.replication.stage import Mirror

pytestmark = pytest.mark.anyio

_MARK = (
    "insert into mirror.projection_queue (key, marked_at) values ($1, now()) on conflict (key) do update"
    " set generation = nextval('mirror.projection_generation')"
)
_MANY = 10**9


async def _marks(mirror: Mirror) -> dict[str, int]:
    rows = await mirror.rows("select key, generation from mirror.projection_queue")
    return {row["key"]: row["generation"] for row in rows}


async def test_a_mark_is_cleared_only_at_the_generation_that_was_read(database_url: str) -> None:
    """A change since then has raised it; the mark stays, with the time of its oldest change."""
    async with open_mirror(database_url) as mirror:
        queue = ProjectionQueue(mirror.database)
        await mirror.write(ALPHA, [post(ALICE, "1", "a"), post(ALICE, "2", "b")])
        first = await queue.take(10, _MANY, ())
        await mirror.write(ALPHA, [post(ALICE, "1", "c", created_at="2025-03-02T00:00:00Z")])
        await queue.done([(mark.key, mark.generation) for mark in first], NOW)
        (left,) = await queue.take(10, _MANY, ())
        assert left.key == post_key(ALICE, "1")
        assert left.generation > max(mark.generation for mark in first)
        assert left.marked_at == first[0].marked_at
        assert left.record is not None
        assert '"c"' in left.record.document
        await queue.done([(left.key, left.generation)], NOW + timedelta(seconds=1))
        assert await _marks(mirror) == {}
        indexed = await mirror.rows("select indexed_at from mirror.records order by key")
        assert [row["indexed_at"] - NOW for row in indexed] == [timedelta(seconds=1), timedelta()]


async def test_of_two_writers_the_lower_generation_may_commit_last(database_url: str) -> None:
    """The later writer's mark is read and cleared before; the earlier one's is read all the same (C35 c)."""
    async with open_mirror(database_url) as mirror:
        queue = ProjectionQueue(mirror.database)
        slow, fast = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
        try:
            transaction = slow.transaction()
            await transaction.start()
            await slow.execute(_MARK, "cckv://a.example/slow")
            await fast.execute(_MARK, "cckv://a.example/fast")
            (taken,) = await queue.take(10, _MANY, ())
            assert taken.key == "cckv://a.example/fast"
            await queue.done([(taken.key, taken.generation)], NOW)
            await transaction.commit()
            (late,) = await queue.take(10, _MANY, ())
            assert (late.key, late.generation < taken.generation) == ("cckv://a.example/slow", True)
        finally:
            await slow.close()
            await fast.close()


async def test_clearing_waits_for_no_follower(database_url: str) -> None:
    """A row that a follower is changing is left alone: after its commit the mark has another generation."""
    async with open_mirror(database_url) as mirror:
        queue = ProjectionQueue(mirror.database)
        await mirror.write(ALPHA, [post(ALICE, "1", "a"), post(ALICE, "2", "b")])
        taken = await queue.take(10, _MANY, ())
        follower = await asyncpg.connect(database_url)
        try:
            transaction = follower.transaction()
            await transaction.start()
            await follower.execute(_MARK, post_key(ALICE, "1"))
            await follower.execute(
                "select from mirror.records where key = $1 for update", post_key(ALICE, "2")
            )
            marks = [(mark.key, mark.generation) for mark in taken]
            await asyncio.wait_for(queue.done(marks, NOW), 5)
            assert set(await _marks(mirror)) == {post_key(ALICE, "1")}
            await transaction.commit()
        finally:
            await follower.close()
        (left,) = await queue.take(10, _MANY, ())
        assert left.generation not in [mark.generation for mark in taken]


async def test_former_schemas_add_up_until_they_are_projected(database_url: str) -> None:
    """A key that changed its schema twice, and then went, has to leave both indexes."""
    key = post_key(ALICE, "1")
    async with open_mirror(database_url) as mirror:
        queue = ProjectionQueue(mirror.database)
        for day, schema in ((1, wire.PROFILE), (2, wire.MARKDOWN), (3, wire.PROFILE)):
            at = f"2025-03-0{day}T00:00:00Z"
            await mirror.write(ALPHA, [record(key, {}, author=ALICE, schema=schema, created_at=at)])
        await mirror.write(ALPHA, [delete(key, author=ALICE, created_at="2025-03-04T00:00:00Z")])
        (mark,) = await queue.take(10, _MANY, ())
        assert mark.record is None
        assert sorted(mark.former_schemas) == sorted([wire.PROFILE, wire.MARKDOWN])


async def test_a_batch_is_bounded_in_marks_and_in_bytes_but_never_empty(database_url: str) -> None:
    """The oldest first; a document larger than the bound comes alone; what is excluded is not read."""
    async with open_mirror(database_url) as mirror:
        queue = ProjectionQueue(mirror.database)
        bodies = ["x" * 300_000, *["y" * 10_000] * 5]
        for number, body in enumerate(bodies):
            await mirror.write(ALPHA, [post(ALICE, f"{number}", body)])
        keys = [post_key(ALICE, f"{number}") for number in range(len(bodies))]

        async def taken(limit: int, max_bytes: int, excluding: list[str]) -> list[str]:
            return [mark.key for mark in await queue.take(limit, max_bytes, excluding)]

        assert await taken(10, 100_000, []) == keys[:1]
        assert await taken(10, 35_000, keys[:1]) == keys[1:4]
        assert await taken(2, _MANY, []) == keys[:2]
        assert await taken(10, _MANY, keys) == []


async def test_waiting_ends_with_a_mark_of_this_process(database_url: str) -> None:
    """Also when it was told before anybody waited; what was read since does not count again."""
    async with open_mirror(database_url) as mirror:
        queue = ProjectionQueue(mirror.database)
        queue.notify()
        await asyncio.wait_for(queue.wait(), 0.5)
        await queue.take(1, 1, ())
        waiting = asyncio.ensure_future(queue.wait())
        await asyncio.sleep(0)
        queue.notify()
        await asyncio.wait_for(waiting, 0.5)


async def test_marking_schemas_again_marks_every_record_of_them(database_url: str) -> None:
    """For rebuilds: marks that are there already get another generation."""
    async with open_mirror(database_url) as mirror:
        queue = ProjectionQueue(mirror.database)
        await mirror.write(ALPHA, [post(ALICE, "1", "a"), post(ALICE, "2", "b")])
        before = await _marks(mirror)
        await queue.done([(post_key(ALICE, "2"), before[post_key(ALICE, "2")])], NOW)
        await queue.mark_schemas([wire.MARKDOWN], now=NOW)
        after = await _marks(mirror)
        assert after.keys() == before.keys()
        assert min(after.values()) > max(before.values())


@pytest.mark.parametrize("steps", range(8))
async def test_a_waiting_projector_can_be_cancelled_whenever_a_mark_comes(
    database_url: str, steps: int
) -> None:
    """A cancellation that meets a wake-up is not lost: a process that is told to end would go on for ever."""
    async with open_mirror(database_url) as mirror:
        queue = ProjectionQueue(mirror.database)
        waiting = asyncio.ensure_future(queue.wait())
        for _ in range(4):
            await asyncio.sleep(0)
        queue.notify()
        for _ in range(steps):
            await asyncio.sleep(0)
        if waiting.cancel():
            with pytest.raises(asyncio.CancelledError):
                await waiting
