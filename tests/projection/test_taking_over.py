"""Indexes that the Go crawler left: they answer until the network is read in, then ours take their place."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from indexer.engines.base import EngineUnavailable, SearchRequest, SortOrder
from indexer.engines.indexes import INDEXES, POSTS, USERS
from indexer.engines.meilisearch import MeilisearchEngine
from indexer.projection.building import SILENT
from indexer.simulation.scripted import ALICE, ALPHA, post
from tests.engines import samples
from tests.engines.meili_double import Index, serve_double
from tests.projection.keeping import Stage
from tests.replication.stage import NOW, open_mirror

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.engines.meili_double import MeiliDouble

pytestmark = pytest.mark.anyio


@pytest.fixture
async def left(database_url: str, anyio_backend: str) -> AsyncIterator[tuple[Stage, MeiliDouble]]:
    """An engine on a server where the crawler has been at work, prepared."""
    async with open_mirror(database_url) as mirror, serve_double() as double:
        index = double.indexes[POSTS] = Index("id")
        index.settings |= {
            "searchableAttributes": ["body"],
            "filterableAttributes": ["author"],
            "sortableAttributes": ["createdAt"],
        }
        for number in range(3):
            index.put(samples.post(f"old{number}", f"ふるい {number}"))
        engine = MeilisearchEngine(double.url, double.key, 10_000)
        await engine.prepare(INDEXES)
        yield Stage(mirror, engine), double
        await engine.close()


async def _read_in(stage: Stage) -> None:
    await stage.mirror.database.execute(
        "insert into mirror.cursors (domain, caught_up, caught_up_at) "
        "select domain, true, now() from mirror.servers "
        "on conflict (domain) do update set caught_up = true, caught_up_at = now()"
    )


@pytest.mark.parametrize(
    "state", ["discovered", "backfilling", "backing_off", "waiting", "stale", "following"]
)
@pytest.mark.parametrize("failing_minutes", [None, 1, 59, 61])
@pytest.mark.parametrize("another_is_read", [False, True])
async def test_when_all_is_read_in(
    left: tuple[Stage, MeiliDouble], state: str, failing_minutes: int | None, another_is_read: bool
) -> None:
    """Whatever the state: a server that was never read excuses itself by an hour, and only beside another."""
    stage, _ = left
    await stage.mirror.write(ALPHA, [post(ALICE, "a", "あたらしい")])
    if another_is_read:
        await _read_in(stage)
    await stage.mirror.database.execute(
        "insert into mirror.servers "
        "(domain, state, discovered_at, next_poll_at, failing_since, consecutive_failures) "
        "values ('seed.example', $1, $2, $2, $3, $4)",
        state,
        NOW,
        None if failing_minutes is None else NOW - timedelta(minutes=failing_minutes),
        0 if failing_minutes is None else 1,
    )
    is_read_in = await stage.builds.is_read_in(silent_since=NOW - SILENT)
    assert is_read_in == (another_is_read and failing_minutes == 61)
    await _read_in(stage)
    assert await stage.builds.is_read_in(silent_since=NOW - SILENT)


async def test_the_crawlers_index_gets_no_figures(left: tuple[Stage, MeiliDouble]) -> None:
    """Its documents have our ids, and stay as they are."""
    stage, double = left
    ids = set(double.indexes[POSTS].documents)
    before, tasks = dict(double.indexes[POSTS].documents), len(double.tasks)
    assert set(await stage.engine.put_figures(POSTS, {each: {"activityScore": 1.0} for each in ids})) == ids
    assert double.indexes[POSTS].documents == before
    assert len(double.tasks) == tasks


async def test_they_answer_until_all_is_read_and_then_give_way(left: tuple[Stage, MeiliDouble]) -> None:
    """Their settings and documents stay untouched; what is read meanwhile is in the new index."""
    stage, double = left
    before = dict(double.indexes[POSTS].settings)
    request = SearchRequest(POSTS, "ふるい", {"author": samples.ALICE}, SortOrder("createdAt"))
    await stage.mirror.write(ALPHA, [post(ALICE, "a", "あたらしい")])
    async with stage.process() as keeper:
        while await stage.mirror.rows("select 1 from mirror.projection_queue"):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        await keeper.look()
        assert len((await stage.engine.search(request)).hits) == 3
        assert double.indexes[POSTS].settings == before
        assert len(double.indexes[POSTS].documents) == 3
        assert POSTS not in [build.index_uid for build in await stage.builds.builds()]
        for nothing in (stage.engine.suggest([USERS], "x", 1), stage.engine.search(SearchRequest(USERS))):
            await nothing  # the others are ours
        with pytest.raises(EngineUnavailable):
            await stage.engine.find_ids(SearchRequest(POSTS))
        await _read_in(stage)
        await stage.settled()
    assert await stage.indexed() == await stage.stored()
    assert len(await stage.indexed()) == 1


async def test_another_process_notices_at_once(left: tuple[Stage, MeiliDouble]) -> None:
    """One that only answers asks ours as soon as it is there."""
    stage, double = left
    other = MeilisearchEngine(double.url, double.key, 10_000)
    await other.prepare(INDEXES)
    await stage.mirror.write(ALPHA, [post(ALICE, "a", "あたらしい")])
    await _read_in(stage)
    assert len((await other.search(SearchRequest(POSTS))).hits) == 3
    async with stage.process():
        await stage.settled()
    assert [hit["body"] for hit in (await other.search(SearchRequest(POSTS))).hits] == ["あたらしい"]
    await other.close()
