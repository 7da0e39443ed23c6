"""Cases C19, C36, C47, C48, C53 and C54 as a client meets them: over HTTP, on a real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unicodedata import normalize
from urllib.parse import quote

import httpx
import pytest

from indexer.api.kinds import SEARCH_KINDS
from indexer.api.public import make_public_app
from indexer.api.serving import serve
from indexer.engines.indexes import INDEXES
from indexer.observability.metrics import Metrics
from tests.api.fakes import FakeCrawler, FakeMirror, FakeRanking, assert_error
from tests.engines.conftest import MAX_TOTAL_HITS, OPENERS
from tests.engines.samples import community, post, put, server, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.engines.base import Document, Engine

pytestmark = pytest.mark.anyio

POSTS = "/api/v1/search/posts"
EVERY_PATH = [*(kind.path for kind in SEARCH_KINDS), "/api/v1/search", "/api/v1/suggest"]
HOSTILE = ('say "hi"', "it's", "end\\", 'x" OR owner = "y', '\\" OR 1', "a\nb", "TO", "NOT", "EXISTS")


class Client:
    """A client of the API, and the engine behind it."""

    def __init__(self, http: httpx.AsyncClient, engine: Engine) -> None:
        self.http = http
        self.engine = engine

    async def put(self, *documents: Document) -> None:
        await put(self.engine, *documents)

    async def answer(self, path: str, **parameters: str | int) -> dict[str, Any]:
        response = await self.http.get(path, params=parameters)
        assert response.status_code == 200, response.text[:300]
        answer: dict[str, Any] = response.json()
        return answer

    async def found(self, query: str, path: str = POSTS) -> set[str]:
        """The last steps of the keys of what is found."""
        hits = (await self.answer(path, q=query, limit=100))["hits"]
        return {hit["cckv"].rsplit("/", 1)[-1] for hit in hits}


@pytest.fixture(params=OPENERS)
async def client(
    request: pytest.FixtureRequest, database_url: str, anyio_backend: str
) -> AsyncIterator[Client]:
    """A client for each engine, with its indexes in place."""
    async with OPENERS[request.param](database_url) as engine:
        await engine.prepare(INDEXES)
        app = make_public_app(
            engine=engine,
            ranking=FakeRanking(),
            crawler=FakeCrawler(),
            statistics=FakeMirror(),
            metrics=Metrics("test"),
            version="test",
            max_total_hits=MAX_TOTAL_HITS,
        )
        async with (
            serve(app, "127.0.0.1:0", grace_seconds=1) as listener,
            httpx.AsyncClient(base_url=listener.url, trust_env=False) as http,
        ):
            yield Client(http, engine)


async def test_short_japanese_queries(client: Client) -> None:
    """C19: each is found by the right posts and by those only."""
    bodies = {
        "rain": "今日は雨が降る",
        "cafe": "東京の猫カフェ",
        "memo": "db設計メモ",
        "neko": "ﾈｺ歓迎",
        "goyang": "이 고양이",
        "yoshi": "𠮷野家",
    }
    await client.put(
        *(post(name, body) for name, body in bodies.items()),
        *(post(f"filler{number}", "よい天気ですね" if number % 2 else "음악") for number in range(500)),
    )
    right = {
        **{query: {"cafe"} for query in ("猫", "東京", "カフェ", "猫カ", "の")},
        **{query: {"memo"} for query in ("db", "DB", "設計")},
        "雨": {"rain"},
        "ネコ": {"neko"},
        "고양": {"goyang"},
        "𠮷": {"yoshi"},
    }
    assert {query: await client.found(query) for query in right} == right


async def test_filters_are_literal(client: Client) -> None:
    """C36: whatever a filter holds, what equals it is found, and orders that are none are told."""
    long = "x" * 10_000
    values = (*HOSTILE, long)
    for number, value in enumerate(values):
        fields = {"sourceServer": value, "owner": value}
        await client.put(
            post(f"p{number}", author=value, schema=value, **fields),
            user(profile=f"u{number}", **fields),
            community(f"c{number}", **fields),
            server(f"s{number}.example", status=value),
        )
    for kind in SEARCH_KINDS:
        for name in (filtered.name for filtered in kind.filters):
            for value in values:
                hits = (await client.answer(kind.path, **{name: value}))["hits"]
                if name != "cckv":
                    assert [hit[name] for hit in hits] == [value], (kind.name, name)
                else:
                    assert hits == []
            everything = await client.answer(kind.path, **{name: ""})
            assert everything["estimatedTotalHits"] == len(values)
        for order in ("createdAt:desc,owner", ":", "id", "createdAt:up"):
            message = assert_error(
                await client.http.get(kind.path, params={"sort": order}), 400, "bad_request"
            )
            assert kind.sortable[0] in message


async def test_everything_is_reached(client: Client) -> None:
    """C47: offsets end where it is said, totals are honest up to there, and a cursor goes on to the end."""
    total = MAX_TOTAL_HITS + 300
    await client.put(*(post(f"{number:04}", "共通 word") for number in range(total)))
    seen: list[str] = []
    for offset in range(0, MAX_TOTAL_HITS, 100):
        page = await client.answer(POSTS, q="word", offset=offset, limit=100)
        assert (len(page["hits"]), page["estimatedTotalHits"]) == (100, MAX_TOTAL_HITS)
        seen += [hit["id"] for hit in page["hits"]]
    cursor = page["nextCursor"]
    while cursor is not None:
        page = await client.answer(POSTS, q="word", cursor=cursor, limit=100)
        seen += [hit["id"] for hit in page["hits"]]
        cursor = page["nextCursor"]
    assert len(seen) == len(set(seen)) == total
    for offset in (MAX_TOTAL_HITS, total - 1, 9_999, 50_000):
        page = await client.answer(POSTS, q="word", offset=offset)
        assert (page["hits"], page["estimatedTotalHits"], page["nextCursor"]) == ([], MAX_TOTAL_HITS, None)
    assert len((await client.answer(POSTS, q="word", offset=MAX_TOTAL_HITS - 50, limit=100))["hits"]) == 50


@pytest.mark.parametrize("path", EVERY_PATH)
async def test_parameters_at_the_edge(client: Client, path: str) -> None:
    """C48: clamped, replaced by the default, or refused as JSON that browsers may read; never 500."""
    await client.put(post("a", "word"), user(username="word"), community("word"), server("word.example"))
    for given in (
        *("q=%00", "q=%ED%A0%80", "q=%FF", f"q={quote('猫' * 7_000)}", "q=word&q=other", "unknown=%00"),
        *("offset=-1", "offset=1e30", f"offset={'9' * 30}", "limit=0", "limit=abc", "limit=1_000"),
        *(f"limit={quote('٣')}", "cursor=", "highlight=%00", "q=word&highlight=true"),
    ):
        response = await client.http.get(f"{path}?{given}")
        assert response.status_code == 200, given
        assert response.headers["access-control-allow-origin"] == "*"
        assert 1 <= response.json()["limit"] <= 100
    for given in (
        f"q={'a' * 11_000}",
        *([] if path in EVERY_PATH[-2:] else [f"cursor={'A' * 10}", "sort=id"]),
    ):
        assert_error(await client.http.get(f"{path}?{given}"), 400, "bad_request")


async def test_one_word_in_many_code_points(client: Client) -> None:
    """C53: every width and normal form finds all; keys stay apart, and filters compare as written."""
    names = {"nfc": "ガイド", "nfd": normalize("NFD", "ガイド"), "half": "ｶﾞｲﾄﾞ"}
    await client.put(
        *(user(profile=key, username=name, sourceServer=name) for key, name in names.items()),
        *(user(profile=key, username="鍵") for key in (normalize("NFC", "が"), normalize("NFD", "が"))),
        *(
            post(key, body)
            for key, body in (("wide", "ＡＢＣ"), ("snow", "雪⛄\ufe0f"), ("one", "①㍿Ⅳ"), ("i", "İstanbul"))
        ),
    )
    users = "/api/v1/search/users"
    for name in names.values():
        assert await client.found(name, users) == set(names)
        assert (await client.answer(users, sourceServer=name))["estimatedTotalHits"] == 1
        assert len((await client.answer("/api/v1/suggest", q=name))["users"]) == len(names)
    assert len(await client.found("鍵", users)) == 2
    for query, key in (("abc", "wide"), ("⛄", "snow"), ("株式会社", "one"), ("İSTANBUL", "i")):
        assert await client.found(query) == {key}, query
    assert await client.found("istanbul") == set()


async def test_text_is_text(client: Client) -> None:
    """C54: operators are no syntax, nothing matches by a sign, and marked text is escaped."""
    await client.put(post("evil", "<img src=x onerror=1> ねこ"), post("dog", "いぬ cat"), post("b", "a & b"))
    for sign in ("(", "%", "_", "@", "#", "'", "\\", "<->", ":*", "| !", "、。"):
        for path in EVERY_PATH[:-1]:
            answer = await client.answer(path, q=sign, highlight="true")
            assert answer.get("hits", answer.get("posts", {}).get("hits")) == [], sign
    assert await client.found("   ") == {"evil", "dog", "b"}
    assert await client.found('"cat') == await client.found("-cat") == {"dog"}
    for query, marked in (
        ("ねこ", "&lt;img src=x onerror=1&gt; <em>ねこ</em>"),
        ("img", "&lt;<em>img</em> src=x onerror=1&gt; ねこ"),
    ):
        (hit,) = (await client.answer(POSTS, q=query, highlight="true"))["hits"]
        assert hit["body"] == "<img src=x onerror=1> ねこ"
        assert hit["_formatted"]["body"] == marked
        assert "value" not in hit["_formatted"]
