"""The contract of all engines: building an index beside the live one, and which index is which (C35, C46)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from indexer.engines.base import IndexLost, SearchRequest, SortOrder, WriteBatch, build_uid
from indexer.engines.indexes import BY_UID, INDEXES, POSTS, USERS
from tests.engines.samples import found, post, put, user

if TYPE_CHECKING:
    from indexer.engines.base import BuildingEngine, Document

pytestmark = pytest.mark.anyio


async def _fill(engine: BuildingEngine, uid: str, *documents: Document) -> None:
    assert (await engine.write(WriteBatch(upserts={build_uid(uid): documents}))).rejected == []


async def test_a_build_is_not_seen_before_the_swap_and_is_all_there_after(engine: BuildingEngine) -> None:
    """Searches, counts and writes of the live index know nothing of it; then it is the live index."""
    await put(engine, post("old", "ねこ"), post("both", "ねこ"), user(username="x"))
    built = await engine.begin_build(POSTS)
    await _fill(engine, POSTS, post("both", "いぬ"), post("new", "いぬ"))
    await engine.write(WriteBatch(deletes={build_uid(POSTS): [post("nothing")["id"]]}))
    assert await found(engine, "ねこ") == ["both", "old"]
    assert (await engine.statistics()).indexes.keys() == {definition.uid for definition in INDEXES}
    await engine.swap_build(POSTS)
    assert await found(engine, "ねこ") == []
    assert await found(engine, "いぬ") == ["both", "new"]
    assert (await engine.identities())[POSTS] == built
    assert build_uid(POSTS) not in await engine.identities()
    await put(engine, post("newer", "いぬ"))
    assert await found(engine, "いぬ", filters={"sourceServer": "alpha.example"}) == ["both", "new", "newer"]
    assert (await engine.statistics()).indexes[POSTS].number_of_documents == 3
    for field in BY_UID[POSTS].sortable:
        assert len(await found(engine, "", sort=SortOrder(field))) == 3
    assert await found(engine, "", USERS) == ["main"]


async def test_identities_stay_until_an_index_is_another(engine: BuildingEngine) -> None:
    """Writing, preparing again and building beside change no identity of a live index; a swap does."""
    before = await engine.identities()
    assert before.keys() == {definition.uid for definition in INDEXES}
    await put(engine, post("a"))
    await engine.prepare(INDEXES)
    await engine.begin_build(POSTS)
    during = await engine.identities()
    assert {uid: during[uid] for uid in before} == before
    assert during[build_uid(POSTS)] not in before.values()
    await engine.swap_build(POSTS)
    assert (await engine.identities())[POSTS] == during[build_uid(POSTS)]


async def test_builds_can_be_given_up_and_begun_again(engine: BuildingEngine) -> None:
    """What was left of one is gone; that there was none is no error; five in a row leave nothing behind."""
    await engine.drop_build(POSTS)
    await put(engine, post("a", "ねこ"))
    first = await engine.begin_build(POSTS)
    await _fill(engine, POSTS, post("stale", "ねこ"))
    assert await engine.begin_build(POSTS) != first
    await engine.drop_build(POSTS)
    with pytest.raises(IndexLost):
        await _fill(engine, POSTS, post("b"))
    for turn in range(5):
        await engine.begin_build(POSTS)
        await _fill(engine, POSTS, post(f"{turn}", "ねこ"))
        await engine.swap_build(POSTS)
        assert await found(engine, "ねこ") == [f"{turn}"]
    assert (await engine.identities()).keys() == {definition.uid for definition in INDEXES}


async def test_no_search_fails_or_is_empty_while_indexes_are_swapped(engine: BuildingEngine) -> None:
    """Every answer is that of the old index or of the new one."""
    await put(engine, *(post(f"{number}", "ねこ") for number in range(50)))
    totals: list[int] = []
    done = asyncio.Event()

    async def search() -> None:
        while not done.is_set():
            result = await engine.search(SearchRequest(POSTS, "ねこ", sort=SortOrder("createdAt")))
            totals.append(result.estimated_total)

    searching = [asyncio.create_task(search()) for _ in range(3)]
    for _ in range(3):
        await engine.begin_build(POSTS)
        await _fill(engine, POSTS, *(post(f"{number}", "ねこ") for number in range(50)))
        await engine.swap_build(POSTS)
    done.set()
    await asyncio.gather(*searching)
    assert len(totals) > 10
    assert set(totals) == {50}


async def test_a_build_takes_the_figures_along(engine: BuildingEngine) -> None:
    """Those of documents that are in both; orders and suggestions know them, and words are its own."""
    people = [user(profile=name, username=f"ねこ {name} lantern") for name in "abc"]
    await put(engine, *people)
    for number, person in enumerate(people):
        await engine.put_figures(USERS, {person["id"]: {"activityScore": float(number), "postCount7d": 1}})
    for _ in range(2):
        await engine.begin_build(USERS)
        await _fill(engine, USERS, *people[1:], user(profile="d", username="ねこ d federation"))
        await engine.swap_build(USERS)
    by_activity = SortOrder("activityScore")
    assert await found(engine, "", USERS, sort=by_activity) == ["c", "b", "d"]
    assert await found(engine, "lanterm", USERS, sort=by_activity) == ["c", "b"]
    assert await found(engine, "fedaretion", USERS) == ["d"]
    suggested = await engine.suggest([USERS], "ねこ", 2)
    assert [hit["username"] for hit in suggested[USERS]] == ["ねこ c lantern", "ねこ b lantern"]
    await engine.put_figures(USERS, {people[1]["id"]: {"activityScore": 9.0}})
    (first, _) = (await engine.suggest([USERS], "ねこ", 2))[USERS]
    assert first["username"] == "ねこ b lantern"
    fetched = await engine.fetch_documents(USERS, [people[2]["id"]])
    assert fetched[people[2]["id"]] == {**people[2], "activityScore": 2.0, "postCount7d": 1}
    await put(engine, user(profile="e", username="lanternfish"))
    assert await found(engine, "lanternfihs", USERS) == ["e"]


async def test_ids_are_listed(engine: BuildingEngine) -> None:
    """All of them, once."""
    await put(engine, *(post(f"{number}") for number in range(30)), user())
    listed = [identifier async for ids in engine.list_ids(POSTS) for identifier in ids]
    assert sorted(listed) == sorted(post(f"{number}")["id"] for number in range(30))
    assert engine.taken_over() in ((), frozenset())
