"""Indexes that the Go crawler left: they answer until the network is read in, then ours take their place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from indexer.engines.base import EngineUnavailable, SearchRequest, SortOrder
from indexer.engines.indexes import INDEXES, POSTS, USERS
from indexer.engines.meilisearch import MeilisearchEngine
from indexer.simulation.scripted import ALICE, ALPHA, post
from tests.engines import samples
from tests.engines.meili_double import Index, serve_double
from tests.projection.keeping import Stage
from tests.replication.stage import open_mirror

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
        await stage.mirror.database.execute("update mirror.servers set state = 'following'")
        await stage.settled()
    assert await stage.indexed() == await stage.stored()
    assert len(await stage.indexed()) == 1


async def test_another_process_notices_at_once(left: tuple[Stage, MeiliDouble]) -> None:
    """One that only answers asks ours as soon as it is there."""
    stage, double = left
    other = MeilisearchEngine(double.url, double.key, 10_000)
    await other.prepare(INDEXES)
    await stage.mirror.write(ALPHA, [post(ALICE, "a", "あたらしい")])
    await stage.mirror.database.execute("update mirror.servers set state = 'following'")
    assert len((await other.search(SearchRequest(POSTS))).hits) == 3
    async with stage.process():
        await stage.settled()
    assert [hit["body"] for hit in (await other.search(SearchRequest(POSTS))).hits] == ["あたらしい"]
    await other.close()
