"""Keeping indexes whole: built under constant change, lost, killed at every step (C02 d, C30, C35 b, C46)."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from indexer.engines.base import EngineUnavailable, SearchRequest, WriteBatch, build_uid
from indexer.engines.indexes import INDEXES, POSTS, SERVERS
from indexer.engines.meilisearch import MeilisearchEngine
from indexer.projection import building as building_module
from indexer.simulation.scripted import ALICE, ALPHA, delete, post, post_key, profile
from tests.engines.meili_double import serve_double
from tests.projection.keeping import Stage
from tests.replication.stage import NOW, open_mirror

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.engines.meili_double import MeiliDouble

pytestmark = pytest.mark.anyio


async def test_the_first_start_builds_nothing(stage: Stage) -> None:
    """Empty indexes of an empty mirror are whole; what comes then is projected."""
    keeper = stage.keeper()
    await keeper.look()
    assert await stage.builds.builds() == []
    async with stage.process():
        await stage.put(("a", "ねこ"))
        await stage.settled()
    assert list((await stage.indexed()).values()) == ["ねこ"]
    await stage.keeper().look()
    assert await stage.builds.builds() == []


async def test_an_engine_that_was_never_filled_is_filled(stage: Stage) -> None:
    """Records that were indexed elsewhere long ago, of which nothing is marked, are all found (C46)."""
    await stage.put(*((f"{number:03}", f"本文{number}") for number in range(250)))
    await stage.mirror.write(ALPHA, [profile(ALICE, username="ありす")])
    await stage.mirror.database.execute("delete from mirror.projection_queue")
    async with stage.process():
        await stage.settled()
    assert await stage.indexed() == await stage.stored()
    assert (await stage.engine.statistics()).indexes[SERVERS].number_of_documents == 1
    users = await stage.engine.search(SearchRequest("concrnt_users", "ありす"))
    assert users.estimated_total == 1


async def test_indexed_at_stays(stage: Stage) -> None:
    """A build is no change of a record."""
    async with stage.process():
        await stage.put(("a", "ねこ"))
        await stage.settled()
        before = (await stage.engine.search(SearchRequest(POSTS, "ねこ"))).hits
        await stage.builds.request([POSTS], "asked", now=NOW)
        await stage.settled()
    assert (await stage.engine.search(SearchRequest(POSTS, "ねこ"))).hits == before


async def test_a_reindex_under_constant_searches_and_writes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer fails, is empty or goes back in time; in the end the index equals the mirror (C35 b)."""
    monkeypatch.setattr(building_module, "KEYS_AT_ONCE", 40)
    await stage.put(*((f"{number:03}", f"はじめ{number}") for number in range(400)))
    fixed = await stage.mirror.rows("select key from mirror.records")
    turns = itertools.count(1)
    newest: tuple[list[int], list[int]] = ([], [])
    done = asyncio.Event()

    async def change() -> None:
        """Edit, add and delete, over and over; ``steady`` is always there and only grows."""
        while not done.is_set():
            turn = next(turns)
            at = f"2025-03-02T{turn // 60:02}:{turn % 60:02}:00Z"
            await stage.mirror.write(
                ALPHA,
                [
                    post(ALICE, "steady", f"しるし {turn}", created_at=at),
                    post(ALICE, f"{turn % 400:03}", f"かわった{turn}", created_at=at),
                    post(ALICE, f"new{turn}", "あたらしい", created_at=at),
                    delete(post_key(ALICE, f"{(turn * 7) % 400:03}"), author=ALICE, created_at=at),
                ],
            )
            await asyncio.sleep(0.005)

    async def search(seen: list[int]) -> None:
        while not done.is_set():
            hits = (await stage.engine.search(SearchRequest(POSTS, "しるし"))).hits
            assert len(hits) == 1
            seen.append(int(hits[0]["body"].split()[1]))
            await asyncio.sleep(0)

    async with stage.process():
        await stage.put(("steady", "しるし 0"))
        await stage.settled()
        tasks = [asyncio.create_task(change()), *(asyncio.create_task(search(seen)) for seen in newest)]
        for _ in range(2):
            await stage.builds.request([POSTS], "asked", now=NOW)
            while await stage.builds.builds():
                await asyncio.sleep(0.01)
                assert not any(task.done() for task in tasks)
        done.set()
        await asyncio.gather(*tasks)
        await stage.settled()
    assert await stage.indexed() == await stage.stored()
    assert len(fixed) == 400
    assert all(len(seen) > 5 and seen == sorted(seen) for seen in newest)


async def test_changed_schemas_build_what_they_change(stage: Stage) -> None:
    """Records of a schema that is no longer configured leave, those of a new one come, unasked."""
    other = "https://schema.concrnt.world/m/plaintext.json"
    await stage.mirror.write(ALPHA, [post(ALICE, "a", "ねこ"), post(ALICE, "b", "いぬ", schema=other)])
    async with stage.process():
        await stage.settled()
    assert list((await stage.indexed()).values()) == ["ねこ"]
    stage.post_schemas = [other]
    async with stage.process() as keeper:
        await keeper.look()
        assert [build.index_uid for build in await stage.builds.builds()] == [POSTS]
        await stage.settled()
    assert list((await stage.indexed()).values()) == ["いぬ"]


class Killed(BaseException):
    """The process is gone at once."""


@pytest.mark.parametrize("step", range(1, 10))
async def test_killed_at_any_step_of_a_build(
    stage: Stage, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process ends in the same index, with changes between the two processes in it (C02 d)."""
    monkeypatch.setattr(building_module, "KEYS_AT_ONCE", 3)
    await stage.put(*((f"{number}", "はじめ") for number in range(7)))
    async with stage.process():
        await stage.settled()
    await stage.builds.request([POSTS], "asked", now=NOW)
    steps = itertools.count(1)

    def killing(work: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
        async def killed(*arguments: Any, **named: Any) -> Any:
            if not after and next(steps) == step:
                raise Killed
            result = await work(*arguments, **named)
            if after and next(steps) == step:
                raise Killed
            return result

        return killed

    keeper = stage.keeper()
    with monkeypatch.context() as patched:
        for name, after in (("begin_build", True), ("swap_build", False), ("write", True)):
            patched.setattr(stage.engine, name, killing(getattr(stage.engine, name), after=after))
        for name, after in (("begin", False), ("note_filled", False)):
            patched.setattr(keeper.store, name, killing(getattr(keeper.store, name), after=after))
        with suppress(Killed):  # the last step is past the end
            await keeper.build_what_is_asked_for()
    await stage.put(("1", "あとから"), ("new", "あとから"), hour=5)
    await stage.mirror.write(
        ALPHA, [delete(post_key(ALICE, "2"), author=ALICE, created_at="2025-03-01T06:00:00Z")]
    )
    async with stage.process():
        await stage.settled()
    assert await stage.indexed() == await stage.stored()
    assert len(await stage.indexed()) == 7
    assert build_uid(POSTS) not in await stage.engine.identities()


async def test_an_engine_that_is_away_in_the_middle_is_waited_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build goes on when it is back, without beginning anew."""
    monkeypatch.setattr(building_module, "KEYS_AT_ONCE", 10)
    await stage.put(*((f"{number:02}", "はじめ") for number in range(60)))
    async with stage.process():
        await stage.settled()
    begun = []
    begin, write = stage.engine.begin_build, stage.engine.write
    calls = itertools.count(1)

    async def counted(uid: str) -> str:
        begun.append(uid)
        return await begin(uid)

    async def sometimes(batch: WriteBatch) -> Any:
        if next(calls) % 3:
            raise EngineUnavailable("gone")
        return await write(batch)

    monkeypatch.setattr(stage.engine, "begin_build", counted)
    monkeypatch.setattr(stage.engine, "write", sometimes)
    await stage.builds.request([POSTS], "asked", now=NOW)
    async with stage.process():
        await stage.settled()
    assert begun == [POSTS]
    assert await stage.indexed() == await stage.stored()


async def _lose_build(stage: Stage) -> None:
    await stage.mirror.database.execute('drop table if exists search."concrnt_posts__build"')
    if isinstance(stage.engine, MeilisearchEngine):
        await stage.engine._admin.remove_builds(POSTS)


async def _lose_all(stage: Stage) -> None:
    await stage.mirror.database.execute("drop schema if exists search cascade")
    if isinstance(stage.engine, MeilisearchEngine):
        for index in (await stage.engine._wire.get("/indexes"))["results"]:
            await stage.engine._wire.send("DELETE", f"/indexes/{index['uid']}")


@pytest.mark.parametrize("lose", [_lose_build, _lose_all])
async def test_what_is_lost_during_a_build_is_built_again(
    stage: Stage, lose: Callable[[Stage], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build, or all there is: noticed, begun anew, and in the end the index equals the mirror."""
    monkeypatch.setattr(building_module, "KEYS_AT_ONCE", 3)
    await stage.put(*((f"{number}", "はじめ") for number in range(30)))
    async with stage.process():
        await stage.settled()
    await stage.builds.request([POSTS], "asked", now=NOW)
    write, calls = stage.engine.write, itertools.count(1)
    lost = asyncio.Event()

    async def losing(batch: WriteBatch) -> Any:
        if next(calls) == 4:
            await lose(stage)
            lost.set()
        return await write(batch)

    monkeypatch.setattr(stage.engine, "write", losing)
    async with stage.process():
        await lost.wait()
        await stage.put(("later", "あとから"), hour=3)
        await stage.settled()
        while await _differs(stage):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    assert len(await stage.indexed()) == 31


async def test_progress_that_can_not_be_noted_fills_nothing_twice(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whichever page the mirror is away, each key is written once."""
    monkeypatch.setattr(building_module, "KEYS_AT_ONCE", 10)
    await stage.put(*((f"{number:02}", "はじめ") for number in range(30)))
    async with stage.process():
        await stage.settled()
    keeper = stage.keeper()
    keeper.unavailable = (ConnectionError,)
    progress, write, calls = keeper.store.progress, stage.engine.write, itertools.count(1)
    noted: list[int] = []
    written: list[str] = []

    async def sometimes(uid: str, filled: int) -> None:
        if next(calls) % 2:
            raise ConnectionError
        noted.append(filled)
        await progress(uid, filled)

    async def watched(batch: WriteBatch) -> Any:
        written.extend(document["id"] for document in batch.upserts[build_uid(POSTS)])
        return await write(batch)

    monkeypatch.setattr(keeper.store, "progress", sometimes)
    monkeypatch.setattr(stage.engine, "write", watched)
    await stage.builds.request([POSTS], "asked", now=NOW)
    await keeper.build_what_is_asked_for()
    assert len(written) == len(set(written)) == 30
    assert noted[-1] == 30


# --- Meilisearch only ------------------------------------------------------------------------------------


@pytest.fixture
async def doubled(database_url: str, anyio_backend: str) -> AsyncIterator[tuple[Stage, MeiliDouble]]:
    """A mirror and a double that the test may break."""
    async with open_mirror(database_url) as mirror, serve_double() as double:
        engine = MeilisearchEngine(double.url, double.key, 10_000)
        await engine.prepare(INDEXES)
        yield Stage(mirror, engine), double
        await engine.close()


async def test_a_volume_that_is_wiped_while_running_is_filled_again(
    doubled: tuple[Stage, MeiliDouble],
) -> None:
    """Also when a write makes the server invent an index before anybody looks (C46)."""
    stage, double = doubled
    async with stage.process():
        await stage.put(*((f"{number}", "はじめ") for number in range(30)))
        await stage.settled()
        for turn in range(3):
            double.wipe()
            await stage.put((f"after{turn}", "あとから"))
            await stage.settled()
            while await _differs(stage):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
    assert len(await stage.indexed()) == 33
    settings = double.indexes[POSTS].settings
    assert settings["filterableAttributes"] != []


async def _differs(stage: Stage) -> bool:
    try:
        return await stage.indexed() != await stage.stored()
    except EngineUnavailable:
        return True


async def test_an_hour_without_the_engine_is_caught_up(doubled: tuple[Stage, MeiliDouble]) -> None:
    """Followers go on writing; the newest state of everything is there when the engine is back."""
    stage, double = doubled
    async with stage.process():
        double.answers = lambda *_: (503, "")
        for minute in range(60):
            at = f"2025-03-01T00:{minute:02}:00Z"
            await stage.mirror.write(
                ALPHA,
                [
                    post(ALICE, f"{minute}", "ねこ", created_at=at),
                    post(ALICE, "edited", f"{minute}", created_at=at),
                ],
            )
        double.answers = lambda *_: None
        await stage.settled()
    assert await stage.indexed() == await stage.stored()
    assert len(await stage.indexed()) == 61


@pytest.mark.parametrize("loses_tasks", [False, True])
@pytest.mark.parametrize("after", range(1, 13))
async def test_the_process_and_the_engine_killed_at_any_request(
    doubled: tuple[Stage, MeiliDouble], after: int, loses_tasks: bool
) -> None:
    """Also when the engine loses the tasks that it had accepted, all is there in the end (C02 c)."""
    stage, double = doubled
    await stage.put(*((f"{number}", "はじめ") for number in range(20)))
    seen = len(double.requests)
    async with stage.process():
        while len(double.requests) < seen + after:  # noqa: ASYNC110 - every request is a crash point
            await asyncio.sleep(0)
        if loses_tasks:
            double.hold.clear()
            await asyncio.sleep(0.01)
    if loses_tasks:
        double.lose_tasks()
        double.hold.set()
    await stage.mirror.write(
        ALPHA, [delete(post_key(ALICE, "3"), author=ALICE, created_at="2025-03-03T00:00:00Z")]
    )
    async with stage.process():
        await stage.settled()
    assert await stage.indexed() == await stage.stored()
    assert len(await stage.indexed()) == 19
