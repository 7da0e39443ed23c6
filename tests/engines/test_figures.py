"""The contract of all engines: figures, ids and documents by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from indexer.engines.base import SearchRequest, SortOrder, WriteBatch
from indexer.engines.indexes import COMMUNITIES, INDEXES, POSTS, USERS
from indexer.engines.postgres import schema
from tests.engines.samples import NEWEST_FIRST, community, found, post, put, user

if TYPE_CHECKING:
    from indexer.engines.base import Engine

pytestmark = pytest.mark.anyio


def _figures(rank: float, posts: int) -> dict[str, Any]:
    return {
        "activityScore": rank,
        "postCount7d": posts,
        "postCount30d": posts,
        "activityHistory": [["2025-03-01", posts]],
        "activityBasis": {"weight": 1.5, "text": '"} 猫'},
    }


async def _shown(engine: Engine, index: str = USERS) -> list[dict[str, Any]]:
    return (await engine.search(SearchRequest(index))).hits


async def test_figures_are_shown_and_create_nothing(engine: Engine) -> None:
    """They appear on documents that are there, and nowhere else; who lacks a document is told."""
    alice, absent = user(), user("con" + "9" * 39)
    await put(engine, alice)
    missing = await engine.put_figures(USERS, {each["id"]: _figures(3.5, 2) for each in (alice, absent)})
    assert set(missing) == {absent["id"]}
    assert await _shown(engine) == [{**alice, **_figures(3.5, 2)}]


async def test_figures_replace_those_before(engine: Engine) -> None:
    """Also those that the new ones lack."""
    alice = user()
    await put(engine, alice)
    await engine.put_figures(USERS, {alice["id"]: {**_figures(3.5, 2), "lastPostAt": "2025-03-01T00:00:00Z"}})
    await engine.put_figures(USERS, {alice["id"]: _figures(1.0, 1)})
    await engine.put_figures(USERS, {alice["id"]: _figures(1.0, 1)})
    assert await _shown(engine) == [{**alice, **_figures(1.0, 1)}]
    assert await engine.put_figures(USERS, {}) in ((), set(), [])


async def test_writing_a_document_leaves_its_figures(engine: Engine) -> None:
    """The projector and the delivery never undo each other, whichever comes last; deleting takes both."""
    alice = user(username="ふるい")
    await put(engine, alice)
    await engine.put_figures(USERS, {alice["id"]: _figures(3.5, 2)})
    renamed = user(username="あたらしい")
    await put(engine, renamed)
    assert await _shown(engine) == [{**renamed, **_figures(3.5, 2)}]
    assert await found(engine, "あたらしい", USERS, sort=SortOrder("activityScore")) == ["main"]
    assert await found(engine, "ふるい", USERS) == []
    await engine.write(WriteBatch(deletes={USERS: [alice["id"]]}))
    await put(engine, alice)
    assert await _shown(engine) == [alice]


async def test_orders_by_figures(engine: Engine) -> None:
    """Both directions; those without come last."""
    documents = [community(name) for name in "abcd"]
    await put(engine, *documents)
    for document, rank in zip(documents[:3], (2_800.25, -1e300, 2_900.0), strict=True):
        await engine.put_figures(COMMUNITIES, {document["id"]: {"activityScore": rank, "activeAuthors7d": 1}})
    order = SortOrder("activityScore", descending=True)
    assert await found(engine, "", COMMUNITIES, sort=order) == ["c", "a", "b", "d"]
    order = SortOrder("activityScore", descending=False)
    assert await found(engine, "", COMMUNITIES, sort=order) == ["b", "a", "c", "d"]


async def test_figures_survive_a_new_derivation(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are derived again keep them, once."""
    alice = user(username="みけ")
    await put(engine, alice)
    await engine.put_figures(USERS, {alice["id"]: _figures(3.5, 2)})
    for version in (101, 102):
        monkeypatch.setattr(schema, "ROW_VERSION", version)
        await engine.prepare(INDEXES)
    assert await _shown(engine) == [{**alice, **_figures(3.5, 2)}]
    await put(engine, alice)
    assert await found(engine, "みけ", USERS, sort=SortOrder("activityScore")) == ["main"]


async def test_ids_are_those_of_the_search(engine: Engine) -> None:
    """In the same order, page by page; among given ids, all that match."""
    documents = [
        post(f"{n:03}", "ねこ" if n % 2 else "いぬ", createdAt=f"2025-03-01T00:00:{n:02}Z") for n in range(60)
    ]
    await put(engine, *documents)
    request = SearchRequest(POSTS, "ねこ", sort=NEWEST_FIRST, limit=100)
    hits = [hit["id"] for hit in (await engine.search(request)).hits]
    ids = await engine.find_ids(request)
    assert (ids.ids, ids.estimated_total) == (hits, 30)
    page = SearchRequest(POSTS, "ねこ", sort=NEWEST_FIRST, limit=7, offset=5)
    assert (await engine.find_ids(page)).ids == hits[5:12]
    some = [document["id"] for document in documents[:10]]
    among = await engine.find_ids(page, [*some, "absent"])
    assert among.ids == [each for each in hits if each in some]
    assert (await engine.find_ids(SearchRequest(POSTS, "。、！"), some)).ids == []


async def test_documents_by_id(engine: Engine) -> None:
    """Those that are there."""
    await put(engine, post("a"), post("b"))
    fetched = await engine.fetch_documents(POSTS, [post("a")["id"], post("c")["id"]])
    assert fetched == {post("a")["id"]: post("a")}
