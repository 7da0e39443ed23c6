"""The four searches: what each parameter means, and that none of them can break anything."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from indexer.api.kinds import SEARCH_KINDS, SearchKind
from indexer.engines.base import SortOrder
from indexer.engines.indexes import COMMUNITIES, POSTS, SERVERS, USERS
from tests.api.fakes import EXAMPLES, Served, assert_error

pytestmark = pytest.mark.anyio

EVERY_KIND = pytest.mark.parametrize("kind", SEARCH_KINDS, ids=lambda kind: kind.name)
VIEWER = "con" + "0" * 38 + "1"

AWKWARD_VALUES = [
    'say "hi"',
    "it's",
    "end\\",
    'x" OR owner = "y',
    '\\" OR 1',
    "line\nbreak",
    "TO",
    "NOT",
    "EXISTS",
    "x" * 10_000,
]


@EVERY_KIND
async def test_an_answer_has_exactly_the_documented_fields(api: Served, kind: SearchKind) -> None:
    """hits are the engine's documents as they are."""
    answer = await api.get(kind.path, q="猫")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "hits": [EXAMPLES[kind.index]],
        "query": "猫",
        "limit": 20,
        "offset": 0,
        "estimatedTotalHits": 1,
        "nextCursor": None,
        "processingTimeMs": 1,
    }


@pytest.mark.parametrize(
    ("name", "index", "order"),
    [
        ("users", USERS, SortOrder("createdAt", descending=True)),
        ("communities", COMMUNITIES, SortOrder("createdAt", descending=True)),
        ("posts", POSTS, SortOrder("createdAt", descending=True)),
        ("servers", SERVERS, SortOrder("lastSeenAt", descending=True)),
    ],
)
async def test_without_parameters_everything_is_asked_newest_first(
    api: Served, name: str, index: str, order: SortOrder
) -> None:
    """The defaults of each search."""
    await api.get(f"/api/v1/search/{name}")
    (request,) = api.engine.requests
    assert (request.index, request.query, request.filters, request.sort) == (index, "", {}, order)
    assert (request.offset, request.limit) == (0, 20)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("1", 1),
        ("100", 100),
        ("0", 1),
        ("-5", 1),
        ("101", 100),
        ("9" * 30, 100),
        ("9" * 5000, 100),
        ("", 20),
        ("abc", 20),
        ("1e30", 20),
        ("1.0", 20),
        ("1_000", 20),
        ("٣", 20),
        ("%20", 20),
        ("1%00", 20),
        ("0x10", 20),
        ("NaN", 20),
    ],
)
async def test_limit(api: Served, text: str, limit: int) -> None:
    """Clamped to 1–100; what is no plain number means 20."""
    answer = await api.client.get(f"/api/v1/search/posts?limit={text}")
    assert answer.status_code == 200
    assert answer.json()["limit"] == limit
    assert api.engine.requests[-1].limit == limit


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("5", 5),
        ("-1", 0),
        ("-" + "9" * 30, 0),
        ("", 0),
        ("abc", 0),
        ("1e30", 0),
        ("1_000", 0),
        ("٣", 0),
        ("007", 7),
        ("9" * 30, 2**53 - 1),
    ],
)
async def test_offset(api: Served, text: str, offset: int) -> None:
    """Negative or no plain number means 0; thirty digits are a number, very far away."""
    answer = await api.client.get(f"/api/v1/search/posts?offset={text}")
    assert answer.status_code == 200
    assert answer.json()["offset"] == offset


@pytest.mark.parametrize("offset", ["10000", "10001", "50000", "9" * 30])
async def test_past_the_deepest_page_there_are_no_hits(api: Served, offset: str) -> None:
    """C47: no hits there, no error, and the total is told all the same."""
    answer = (await api.client.get(f"/api/v1/search/posts?offset={offset}&limit=100")).json()
    assert answer["hits"] == []
    assert answer["estimatedTotalHits"] == 1
    assert api.engine.requests[-1].offset == 10_000


async def test_every_document_down_to_the_deepest_is_reached_once(api: Served) -> None:
    """C47: a page that would cross the deepest hit ends at it."""
    api.engine.documents[POSTS] = [{"id": str(number)} for number in range(10_050)]
    last = (await api.get("/api/v1/search/posts", offset=9_950, limit=100)).json()
    assert [hit["id"] for hit in last["hits"]] == [str(number) for number in range(9_950, 10_000)]


SORTS = [
    ("username", SortOrder("username", descending=True)),
    ("username:asc", SortOrder("username", descending=False)),
    ("username:desc", SortOrder("username", descending=True)),
    ("activityScore", SortOrder("activityScore", descending=True)),
    ("lastPostAt:asc", SortOrder("lastPostAt", descending=False)),
    ("", SortOrder("createdAt", descending=True)),
]


@pytest.mark.parametrize(("text", "order"), SORTS)
async def test_sort(api: Served, text: str, order: SortOrder) -> None:
    """A field alone means descending; empty means the default."""
    assert (await api.client.get(f"/api/v1/search/users?sort={text}")).status_code == 200
    assert api.engine.requests[-1].sort == order


@pytest.mark.parametrize(
    "text",
    [
        "createdAt:desc,owner",
        ":",
        ":desc",
        "id",
        "createdAt:",
        "createdAt:DESC",
        "createdAt:desc:asc",
        "createdat",
        "createdAt%00",
        " createdAt",
        "_geoPoint(1,2):asc",
    ],
)
async def test_sort_that_is_not_offered(api: Served, text: str) -> None:
    """C36: 400, and the message names what is accepted; the engine is not asked."""
    message = assert_error(await api.client.get(f"/api/v1/search/users?sort={text}"), 400, "bad_request")
    assert "createdAt, indexedAt, username, activityScore" in message
    assert api.engine.requests == []


async def test_each_search_sorts_by_its_own_fields(api: Served) -> None:
    """Posts have no activity, servers no createdAt."""
    assert (await api.get("/api/v1/search/communities", sort="activeAuthors7d")).status_code == 200
    assert_error(await api.get("/api/v1/search/posts", sort="activityScore"), 400, "bad_request")
    assert_error(await api.get("/api/v1/search/servers", sort="createdAt"), 400, "bad_request")


FILTERS = [(kind, filtered.name) for kind in SEARCH_KINDS for filtered in kind.filters]
EVERY_FILTER = pytest.mark.parametrize(
    ("kind", "name"), FILTERS, ids=[f"{kind.name}-{name}" for kind, name in FILTERS]
)


@EVERY_FILTER
@pytest.mark.parametrize("value", AWKWARD_VALUES, ids=range(len(AWKWARD_VALUES)))
async def test_filters_are_passed_on_untouched(api: Served, kind: SearchKind, name: str, value: str) -> None:
    """C36: whatever a value holds, exactly what equals it is found."""
    odd = {**EXAMPLES[kind.index], name: value}
    api.engine.documents[kind.index].append(odd)
    answer = await api.client.get(kind.path, params={name: value})
    assert answer.status_code == 200
    assert answer.json()["hits"] == [odd]
    assert api.engine.requests[-1].filters == {name: value}


@EVERY_FILTER
async def test_empty_filters_are_ignored(api: Served, kind: SearchKind, name: str) -> None:
    """An empty value filters nothing."""
    answer = await api.client.get(f"{kind.path}?{name}=")
    assert len(answer.json()["hits"]) == 1
    assert api.engine.requests[-1].filters == {}


async def test_unknown_parameters_are_ignored(api: Served) -> None:
    """Also those that belong to another search, and viewer where nobody can be one."""
    path = "/api/v1/search/posts?owner=x&cckv=x&status=x&viewer=x&filter=a%3D1&Q=x&q"
    assert (await api.client.get(path)).status_code == 200
    assert api.engine.requests[-1].filters == {}
    assert (await api.get("/api/v1/search/servers", viewer="x", sort="lastSeenAt")).status_code == 200


async def test_the_first_of_repeated_parameters_counts(api: Served) -> None:
    """q, limit and filters alike."""
    path = "/api/v1/search/posts?q=a&q=b&limit=3&limit=4&author=x&author=y&sort=createdAt&sort=nonsense"
    answer = (await api.client.get(path)).json()
    assert (answer["query"], answer["limit"]) == ("a", 3)
    assert api.engine.requests[-1].filters == {"author": "x"}


QUERIES: list[tuple[str, str, str]] = [
    ("%00", "\x00", "\ufffd"),
    ("a%00b", "a\x00b", "a\ufffdb"),
    ("%ED%A0%80", "\ufffd" * 3, "\ufffd" * 3),
    ("%FF", "\ufffd", "\ufffd"),
    ("%", "%", "%"),
    ("%zz", "%zz", "%zz"),
    ("a+b%2Bc", "a b+c", "a b+c"),
    ("%F0%A0%AE%B7", "𠮷", "𠮷"),
    ("%20%20", "  ", "  "),
]


@EVERY_KIND
@pytest.mark.parametrize(("encoded", "echoed", "asked"), QUERIES)
async def test_queries_at_the_edge(
    api: Served, kind: SearchKind, encoded: str, echoed: str, asked: str
) -> None:
    """C48: bytes that are no text never make an error; the engine never sees NUL."""
    answer = await api.client.get(f"{kind.path}?q={encoded}")
    assert answer.status_code == 200
    assert answer.json()["query"] == echoed
    assert api.engine.requests[-1].query == asked


SYNTAX = [
    "(", "a:b", "a & | !", "%", "_", "@", "#", '"unclosed', "-cat", "'", "\\", "   ", "。、！", "<->", ":*",
    "<img src=x onerror=1> ねこ",
]  # fmt: skip


@pytest.mark.parametrize("text", SYNTAX)
async def test_text_is_text(api: Served, text: str) -> None:
    """C54: what would be syntax elsewhere reaches the engine as it was typed, and is echoed so."""
    answer = await api.client.get("/api/v1/search/posts", params={"q": text})
    assert answer.status_code == 200
    assert answer.json()["query"] == text
    assert api.engine.requests[-1].query == text


async def test_bare_utf8_is_understood(api: Served) -> None:
    """A command line sends the characters as they were typed."""
    request = "GET /api/v1/search/posts?q=東京 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await api.raw(request.encode())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert api.engine.requests[-1].query == "東京"


async def test_ten_thousand_japanese_characters_are_searched(api: Served) -> None:
    """Percent-encoded they are 90 kB, more than uvicorn's parser takes by itself."""
    answer = await api.get_long(f"/api/v1/search/posts?q={quote('猫' * 10_000)}")
    assert answer.status_code == 200
    assert api.engine.requests[-1].query == "猫" * 10_000


@EVERY_KIND
async def test_a_hundred_kilobytes_of_query_are_refused(api: Served, kind: SearchKind) -> None:
    """C48: 400 as JSON, open to browsers; the engine is not asked."""
    message = assert_error(await api.get_long(f"{kind.path}?q={'a' * 100_000}"), 400, "bad_request")
    assert "at most 10000" in message
    assert api.engine.requests == []


@pytest.mark.parametrize("name", ["users", "communities"])
async def test_viewer(api: Served, name: str) -> None:
    """C48: malformed or with sort it is refused; who follows nobody gets nothing; empty is none."""
    path = f"/api/v1/search/{name}"
    assert_error(await api.get(path, viewer="x"), 400, "bad_request")
    assert_error(await api.get(path, viewer=VIEWER, sort="createdAt"), 400, "bad_request")
    answer = await api.get(path, viewer=VIEWER)
    assert (answer.status_code, answer.json()["hits"], answer.json()["estimatedTotalHits"]) == (200, [], 0)
    assert (await api.client.get(f"{path}?viewer=&sort=createdAt")).status_code == 200


async def test_searches_run_side_by_side(api: Served) -> None:
    """C40: cancelled callers leave nothing behind; the others are answered."""
    hundred = [asyncio.create_task(api.get("/api/v1/search/posts", q=str(number))) for number in range(50)]
    for task in hundred[:30]:
        task.cancel()
    results: list[Any] = await asyncio.gather(*hundred, return_exceptions=True)
    assert [answer.status_code for answer in results[30:]] == [200] * 20
    assert (await api.get("/health")).status_code == 200
