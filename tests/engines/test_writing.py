"""The contract of all engines: what writing promises (cases C06, C28, C33, C34)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from indexer.engines.base import SearchRequest, WriteBatch
from indexer.engines.ids import document_id
from indexer.engines.indexes import COMMUNITIES, POSTS, SERVERS, USERS
from tests.engines.samples import ALICE, batch_of, community, found, post, put, server, user

if TYPE_CHECKING:
    from indexer.engines.base import Engine

pytestmark = pytest.mark.anyio


async def test_a_batch_is_searchable_when_written(engine: Engine) -> None:
    """Upserts replace, deletes remove, in all indexes of one batch; the absent may be deleted."""
    await put(engine, post("a", "ふるい"), post("b", "ふるい"), user(username="ふるい"), community("c"))
    batch = WriteBatch(
        upserts={POSTS: [post("a", "あたらしい")], SERVERS: [server("alpha.example")]},
        deletes={POSTS: [post("b")["id"], document_id("cckv://nobody/x")], USERS: [user()["id"]]},
    )
    assert (await engine.write(batch)).rejected == []
    assert await found(engine, "ふるい") == []
    assert await found(engine, "あたらしい") == ["a"]
    assert await found(engine, "", USERS) == []
    assert await found(engine, "", COMMUNITIES) == ["c"]
    assert await found(engine, "", SERVERS) == ["alpha.example"]


async def test_an_empty_batch_is_no_error(engine: Engine) -> None:
    """Nothing to write is written."""
    assert (await engine.write(WriteBatch())).rejected == []
    assert (await engine.write(WriteBatch(upserts={POSTS: []}, deletes={POSTS: []}))).rejected == []


async def test_ids_at_the_limit(engine: Engine) -> None:
    """Keys of any length and letters each have their own document (C06)."""
    prefix = f"cckv://{ALICE}/"
    keys = [prefix + "k" * (length - len(prefix)) for length in (383, 384, 1_000)]
    keys += [prefix + name for name in ("日本語", "a/b", "a_b", "A/b")]
    usual = [post(f"usual{number}", "ふつう") for number in range(30)]
    assert (
        await engine.write(batch_of([*usual, *(post("", "ながい", key=key) for key in keys)]))
    ).rejected == []
    result = await engine.search(SearchRequest(POSTS, "ながい"))
    assert {hit["cckv"] for hit in result.hits} == set(keys)
    assert len(await found(engine, "ふつう")) == 30
    await engine.write(WriteBatch(deletes={POSTS: [document_id(key) for key in keys]}))
    assert await found(engine, "ながい") == []


async def test_ten_thousand_documents_at_once(engine: Engine) -> None:
    """A batch has no bound of its own, in upserts or in deletes (C28)."""
    documents = [post(f"{number}", f"本文{number}") for number in range(10_000)]
    await put(engine, *documents)
    assert (await engine.statistics()).indexes[POSTS].number_of_documents == 10_000
    await engine.write(WriteBatch(deletes={POSTS: [document["id"] for document in documents]}))
    assert (await engine.statistics()).indexes[POSTS].number_of_documents == 0


async def test_fat_documents(engine: Engine) -> None:
    """Batches are split by bytes; giants are indexed by their beginning; the rest is searchable (C33)."""
    fat = "ふとい" * 34_133  # 300 KiB
    documents = [post(f"fat{number:03}", f"番号{number} {fat}") for number in range(60)]
    documents.append(post("giant", "きょだい" + "あ" * (5 * 1024 * 1024)))
    documents.append(post("word", "x" * 100_000))
    await put(engine, *documents, post("small", "ちいさい"))
    assert len(await found(engine, "ふとい")) == 60
    assert await found(engine, "きょだい") == ["giant"]
    assert await found(engine, "x" * 300) == ["word"]
    assert await found(engine, "ちいさい") == ["small"]


async def test_many_names_of_attributes_do_no_harm(engine: Engine) -> None:
    """Tens of thousands of attribute names below ``value`` become nothing that an engine knows (C34)."""
    documents = [
        post(f"{number}", "なまえ", value={f"name{number}_{other}": other for other in range(100)})
        for number in range(700)
    ]
    await put(engine, *documents)
    assert len(await found(engine, "なまえ")) == 100
    assert await found(engine, "name699") == []


async def test_a_refused_document_costs_itself(engine: Engine) -> None:
    """What an engine can not hold is named with a short reason, and the rest of its batch is written."""
    bad = [post("bad1", "だめ\ud800"), post("bad2", author="a\0b"), post("bad3", value={1.5: object()})]
    good = [post(f"good{number}", "よい") for number in range(100)]
    result = await engine.write(batch_of([*good[:50], *bad, *good[50:]]))
    assert {rejected.id for rejected in result.rejected} == {document["id"] for document in bad}
    for rejected in result.rejected:
        assert rejected.index == POSTS
        assert 0 < len(rejected.reason) < 200
    assert len(await found(engine, "よい")) == 100


async def test_statistics_count_documents(engine: Engine) -> None:
    """Every index is counted, from the first moment."""
    assert {s.number_of_documents for s in (await engine.statistics()).indexes.values()} == {0}
    await put(engine, post("a"), post("b"), user(), server("alpha.example"))
    statistics = await engine.statistics()
    counts = {uid: index.number_of_documents for uid, index in statistics.indexes.items()}
    assert counts == {USERS: 1, COMMUNITIES: 0, POSTS: 2, SERVERS: 1}
    assert not any(index.is_indexing for index in statistics.indexes.values())


async def test_ping(engine: Engine) -> None:
    """An engine that answers says so."""
    await engine.ping()
