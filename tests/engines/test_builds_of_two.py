"""The contract of all engines: two processes that build one index, neither knowing of the other."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import asyncpg
import pytest

from indexer.engines.base import IndexBusy, IndexLost, SearchRequest, WriteBatch, build_uid
from indexer.engines.indexes import INDEXES, POSTS
from indexer.engines.meilisearch import MeilisearchEngine
from tests.engines.conftest import postgres_engine
from tests.engines.meili_double import serve_double
from tests.engines.samples import found, post, put

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.engines.base import BuildingEngine

    Two = tuple[BuildingEngine, BuildingEngine]

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres", "meilisearch"])
async def two(request: pytest.FixtureRequest, database_url: str, anyio_backend: str) -> AsyncIterator[Two]:
    """Two engines over one store, prepared; the first has begun a build and sleeps since."""
    async with AsyncExitStack() as stack:
        engines: list[BuildingEngine] = []
        if request.param == "postgres":
            engines = [await stack.enter_async_context(postgres_engine(database_url)) for _ in range(2)]
        else:
            double = await stack.enter_async_context(serve_double())
            engines = [MeilisearchEngine(double.url, double.key, 1_000) for _ in range(2)]
        late, other = engines
        for engine in engines:
            await engine.prepare(INDEXES)
        await put(late, *(post(f"{number}", "ねこ") for number in range(5)))
        await late.begin_build(POSTS)
        yield late, other
        for engine in engines:
            await engine.close()


async def _fill(engine: BuildingEngine, body: str, *names: str) -> None:
    documents = [post(name, body) for name in names]
    await engine.write(WriteBatch(upserts={build_uid(POSTS): documents}))


async def test_who_wakes_up_late_swaps_no_other_build(two: Two) -> None:
    """The live index stays whole until the other is done, who then swaps its own."""
    late, other = two
    await other.begin_build(POSTS)
    await _fill(other, "いぬ", "1")
    with pytest.raises(IndexLost):
        await late.swap_build(POSTS)
    assert len(await found(late, "ねこ")) == 5
    await _fill(other, "いぬ", "2")
    await other.swap_build(POSTS)
    assert await found(other, "いぬ") == ["1", "2"]
    with pytest.raises(IndexLost):
        await late.swap_build(POSTS)
    assert await found(other, "いぬ") == ["1", "2"]


async def test_who_wakes_up_late_writes_into_no_other_build(two: Two) -> None:
    """Neither during the other's build nor after it, and it is told."""
    late, other = two
    await other.begin_build(POSTS)
    await _fill(other, "いぬ", "1")
    with pytest.raises(IndexLost):
        await _fill(late, "ふるい", "1", "2")
    await other.swap_build(POSTS)
    with pytest.raises(IndexLost):
        await _fill(late, "ふるい", "1", "2")
    assert await found(other, "") == ["1"]
    assert await found(other, "いぬ") == ["1"]
    await other.begin_build(POSTS)
    await other.drop_build(POSTS)
    assert (await other.identities()).keys() == {definition.uid for definition in INDEXES}


async def test_a_build_that_is_gone_is_lost(two: Two) -> None:
    """Not away: nobody makes it again."""
    late, other = two
    await other.drop_build(POSTS)
    with pytest.raises(IndexLost):
        await _fill(late, "いぬ", "1")
    with pytest.raises(IndexLost):
        await late.swap_build(POSTS)
    assert len(await found(late, "ねこ")) == 5


async def test_a_long_reader_delays_a_swap_and_no_search(database_url: str) -> None:
    """The swap is given up in time, searches go on, and it succeeds when the reader is done."""
    async with postgres_engine(database_url) as engine:
        await engine.prepare(INDEXES)
        await put(engine, post("a", "ねこ"))
        await engine.begin_build(POSTS)
        await _fill(engine, "いぬ", "a")
        reader = await asyncpg.connect(database_url)
        async with reader.transaction():
            await reader.fetch("select id from search.concrnt_posts")
            with pytest.raises(IndexBusy):
                await engine.swap_build(POSTS)
            assert (await engine.search(SearchRequest(POSTS, "ねこ"))).estimated_total == 1
        await reader.close()
        await engine.swap_build(POSTS)
        assert await found(engine, "いぬ") == ["a"]
