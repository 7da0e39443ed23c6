"""The contract of all engines: what a query finds (cases C04, C19, C53, C54, the queries of C48)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unicodedata import normalize

import pytest

from indexer.engines.base import SearchRequest
from indexer.engines.indexes import COMMUNITIES, POSTS, SERVERS, USERS
from tests.engines.samples import ALICE, NEWEST_FIRST, batch_of, community, found, post, put, server, user

if TYPE_CHECKING:
    from indexer.engines.base import Engine

pytestmark = pytest.mark.anyio

FILLERS = 5_000
JAPANESE_POSTS = {
    "rain": "今日は雨が降る",
    "cafe": "東京の猫カフェ",
    "memo": "db設計メモ",
    "neko": "ﾈｺ歓迎",
    "goyang": "이 고양이",
    "yoshi": "𠮷野家",
}


async def test_japanese_queries_of_one_or_two_characters(engine: Engine) -> None:
    """Every substring finds its posts and only those, among thousands of others (C19)."""
    alphabet = "ありがとうさよならまたねおはよ天気空海川花火祭音楽本食事"
    fillers = [
        post(f"filler{number}", f"{alphabet[number % 20 :]}{number}の{alphabet[: number % 17]}")
        for number in range(FILLERS)
    ]
    await put(engine, *fillers, *(post(name, body) for name, body in JAPANESE_POSTS.items()))

    expected = {
        "雨": ["rain"],
        "猫": ["cafe"],
        "東京": ["cafe"],
        "カフェ": ["cafe"],
        "db": ["memo"],
        "DB": ["memo"],
        "設計": ["memo"],
        "ネコ": ["neko"],
        "고양": ["goyang"],
        "𠮷": ["yoshi"],
        "猫カ": ["cafe"],
        "フェ": ["cafe"],
        "カェ": [],
        "今日は雨が降る": ["rain"],
        "今日が": [],
    }
    assert {query: await found(engine, query) for query in expected} == expected
    everyone = await engine.search(SearchRequest(POSTS, "の", sort=NEWEST_FIRST))
    assert len(everyone.hits) == 20
    assert everyone.estimated_total == 2_000  # bounded by max_total_hits


async def test_words(engine: Engine) -> None:
    """Words match whole, the last one by its beginning too; the first must, others may fail from the end."""
    await put(engine, post("a", "The quick brown fox"), post("b", "A quick brownie"), post("c", "brown rice"))
    assert await found(engine, "quick brown") == ["a", "b"]
    assert await found(engine, "brown quick") == ["a", "c"]
    assert await found(engine, "qui brown") == []
    assert await found(engine, "RICE") == ["c"]
    assert await found(engine, "rown") == []


async def test_whole_words_come_before_beginnings(engine: Engine) -> None:
    """A word that is the query comes before one that begins with it, whatever the order asked for."""
    await put(
        engine,
        post("older", "cat", createdAt="2025-01-01T00:00:00Z"),
        post("newer", "category", createdAt="2025-02-01T00:00:00Z"),
        post("oldest", "a cat", createdAt="2024-01-01T00:00:00Z"),
    )
    assert await found(engine, "cat", sort=NEWEST_FIRST) == ["older", "oldest", "newer"]
    assert await found(engine, "cat", sort=NEWEST_FIRST, offset=1, limit=2) == ["oldest", "newer"]


async def test_every_searchable_field_is_found(engine: Engine) -> None:
    """Names, ids, domains and links are found whole and by their beginning, each in its index."""
    await put(
        engine,
        user(username="ねこまる", description="すごい人"),
        community("cats", shortname="nyan", description="いぬは不可"),
        post("p1", "本文"),
        server("alpha.example"),
        server("beta.example", softwareVersion="v9.9.9"),
    )
    for query in ("ねこ", "すごい", ALICE, ALICE[:20], f"cckv://{ALICE}", "alpha.example", "alpha.exa"):
        assert await found(engine, query, USERS) == ["main"], query
    for query in ("cats", "nyan", "いぬ", "alpha", "communities cats"):
        assert await found(engine, query, COMMUNITIES) == ["cats"], query
    for query in ("本文", ALICE, "posts/p1", "p1", "alpha.example"):
        assert await found(engine, query, POSTS) == ["p1"], query
    assert await found(engine, "alpha.example", SERVERS) == ["alpha.example"]
    assert await found(engine, "9.9", SERVERS) == ["beta.example"]


async def test_what_is_not_searchable_is_not_found(engine: Engine) -> None:
    """Nothing inside ``value``, in schemas or in links to pictures is searched."""
    await put(
        engine,
        post("p", "本文", value={"body": "本文", "title": "ひみつ", "emoji": {"ひみつ": "x"}}),
        user(avatar="https://images.example/ひみつ.png", badges=[{"seriesId": "ひみつ", "badgeId": "b"}]),
    )
    assert await found(engine, "ひみつ") == []
    assert await found(engine, "schema") == []
    assert await found(engine, "ひみつ", USERS) == []


@pytest.mark.parametrize("form", ["ガイド", "ｶﾞｲﾄﾞ", normalize("NFD", "ガイド")])
async def test_other_code_points_are_the_same_word(engine: Engine, form: str) -> None:
    """Every width and normal form of a name finds all of them; keys that differ only so stay two (C53)."""
    decomposed = normalize("NFD", "ガイド")
    names = ["ガイド", decomposed, "ｶﾞｲﾄﾞ"]
    await put(engine, *(user(profile=name, username=name) for name in names))
    hits = await engine.search(SearchRequest(USERS, form))
    assert sorted(hit["username"] for hit in hits.hits) == sorted(names)
    assert len({hit["id"] for hit in hits.hits}) == len(names)


@pytest.mark.parametrize(
    ("written", "finding", "missing"),
    [
        ("ＡＢＣ", ["abc", "ABC", "ａｂ"], ["bc"]),
        ("İstanbul", ["İstanbul", "i̇stan"], ["istanbul"]),
        ("①", ["1", "①"], ["2"]),
        ("㍿", ["株式会社", "㍿", "会社"], ["有限"]),
        ("Ⅳ", ["iv", "IV", "Ⅳ"], ["v"]),
        ("雪⛄\ufe0fだ", ["⛄", "⛄\ufe0f", "雪"], ["☃"]),
        ("うち👨‍👩‍👧です", ["👨‍👩‍👧", "うち", "です"], ["👨", "👩‍👧", "うちで"]),
    ],
)
async def test_the_folding_rule(engine: Engine, written: str, finding: list[str], missing: list[str]) -> None:
    """NFKC and case folding decide what is alike, and nothing else (C53)."""
    await put(engine, post("p", written))
    for query in finding:
        assert await found(engine, query) == ["p"], query
    for query in missing:
        assert await found(engine, query) == [], query


@pytest.mark.parametrize(
    "query",
    [*"(%_@#'\\-!|&:", "& | !", '"unclosed', "<->", ":*", "''", "。", "\0", chr(0xD800), "\ufffd"],
)
async def test_signs_are_no_syntax(engine: Engine, query: str) -> None:
    """Signs find nothing and raise nothing; words between them are words (C54, C48)."""
    await put(engine, post("a", "a cat"), post("b", "日本語"))
    assert await found(engine, query) == []
    assert await found(engine, f"cat {query}") in (["a"], [])
    assert await found(engine, f"({query}cat") in (["a"], [])


async def test_queries_of_signs_and_words(engine: Engine) -> None:
    """What would be an operator elsewhere only separates words (C54)."""
    await put(engine, post("a", "cat dog"), post("b", "日本語"))
    for query in ("-cat", "cat:*", '"cat dog', "cat <-> dog", "cat & !bird:dog", "dog'); drop table x"):
        assert await found(engine, query) == ["a"], query
    assert await found(engine, "!bird & cat") == []


async def test_blank_queries_ask_for_everything(engine: Engine) -> None:
    """No query, and one of nothing but space, finds all (C54)."""
    await put(engine, post("a", "x"), post("b", "y"))
    for query in ("", "  ", "\t\n", "　"):
        assert await found(engine, query) == ["a", "b"]


async def test_endless_queries(engine: Engine) -> None:
    """A query of 100,000 characters is answered like any other (C48)."""
    await put(engine, post("a", "猫がいる"), post("b", "x" * 100_000))
    assert await found(engine, "猫 " * 50_000) == ["a"]
    assert await found(engine, "猫" * 100_000) == []
    assert await found(engine, "x" * 100_000) == ["b"]
    assert await found(engine, " ".join(f"w{number}" for number in range(20_000))) == []
    assert await found(engine, "(" * 100_000) == []


async def test_html_is_text(engine: Engine) -> None:
    """Markup comes back as it was written (C54)."""
    body = "<img src=x onerror=1> ねこ"
    await put(engine, post("a", body))
    result = await engine.search(SearchRequest(POSTS, "ねこ img"))
    assert [hit["body"] for hit in result.hits] == [body]


async def test_replaced_characters_do_not_hide_what_follows(engine: Engine) -> None:
    """A text that once held a NUL is found by what stands around it (C04)."""
    await put(engine, post("a", "ねこ\ufffdだいすき"), post("b", r"ねこ\u0000だいすき"))
    assert await found(engine, "だいすき") == ["a", "b"]
    assert await found(engine, "ねこだいすき") == []


async def test_documents_come_back_as_they_went_in(engine: Engine) -> None:
    """A hit equals the document that was written, strange values included (C34)."""
    value = {
        "_geo": {"lat": "a"},
        "_vectors": "x",
        "id": 1,
        "type": "server",
        "deep": [[[[{"x": 1.5, "y": -(2**40), "z": None, "t": True}]]]],
        "": "",
        "ねこ": "🐈",
    }
    documents = [
        post("a", "ねこ", value=value),
        post("b", "ねこ", value={f"name{n}": n for n in range(5_000)}),
    ]
    assert (await engine.write(batch_of(documents))).rejected == []
    result = await engine.search(SearchRequest(POSTS, "ねこ"))
    assert result.hits == documents
