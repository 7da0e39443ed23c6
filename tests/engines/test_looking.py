"""The contract of all engines: looking at what is there, without preparing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from indexer.engines.base import Standing
from indexer.engines.indexes import INDEXES, POSTS, USERS
from indexer.engines.meilisearch import MeilisearchEngine
from tests.engines.conftest import MAX_TOTAL_HITS, OPENERS, postgres_engine
from tests.engines.meili_double import serve_double
from tests.engines.samples import post, put

if TYPE_CHECKING:
    from indexer.engines.base import BuildingEngine

pytestmark = pytest.mark.anyio

UIDS = [definition.uid for definition in INDEXES]


@pytest.mark.parametrize("name", OPENERS)
async def test_who_looks_makes_nothing(name: str, database_url: str) -> None:
    """In an empty engine all is missing, before and after; nothing is counted."""
    async with OPENERS[name](database_url) as engine:
        for _ in range(2):
            assert await engine.look(INDEXES) == dict.fromkeys(UIDS, Standing.MISSING)
            assert (await engine.statistics()).indexes == {}


async def test_who_looks_reads_what_is_there(engine: BuildingEngine) -> None:
    """All is ready; documents come by id and are counted."""
    await put(engine, post("a"))
    assert await engine.look(INDEXES) == dict.fromkeys(UIDS, Standing.READY)
    assert list(await engine.fetch_documents(POSTS, [post("a")["id"], post("b")["id"]])) == [post("a")["id"]]
    assert (await engine.statistics()).indexes[POSTS].number_of_documents == 1


async def test_what_another_version_made_stays_as_it_is_in_meilisearch(anyio_backend: str) -> None:
    """Settings that differ and an index that went are told; no task is sent."""
    async with serve_double() as double:
        first = MeilisearchEngine(double.url, double.key, MAX_TOTAL_HITS)
        await first.prepare(INDEXES)
        await first.close()
        double.indexes[POSTS].settings["rankingRules"] = ["words"]
        del double.indexes[USERS]
        sent = len(double.tasks)
        looking = MeilisearchEngine(double.url, double.key, MAX_TOTAL_HITS)
        standing = await looking.look(INDEXES)
        assert (standing[POSTS], standing[USERS]) == (Standing.DIFFERS, Standing.MISSING)
        assert (await looking.fetch_documents(POSTS, ["x"])) == {}
        assert set((await looking.statistics()).indexes) == set(UIDS) - {USERS}
        await looking.close()
        assert len(double.tasks) == sent


async def test_what_another_version_made_stays_as_it_is_in_postgresql(database_url: str) -> None:
    """Rows of another derivation are told, and not derived again."""
    async with postgres_engine(database_url) as first, postgres_engine(database_url) as looking:
        await first.prepare(INDEXES)
        await first._pool.execute(
            "update search.definitions set fingerprint = 'x' where index_uid = $1", POSTS
        )
        await first._pool.execute("alter table search.concrnt_posts add column other text")
        assert (await looking.look(INDEXES))[POSTS] is Standing.DIFFERS
        assert (
            await first._pool.fetchval("select count(*) from search.definitions where fingerprint = 'x'") == 1
        )
        assert (await looking.look(INDEXES))[USERS] is Standing.READY
