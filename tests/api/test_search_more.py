"""Cursors, highlights, all kinds at once, suggestions, tags of answers, limits per client."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from indexer.api.kinds import SEARCH_KINDS, SearchKind
from indexer.api.limits import MAX_CLIENTS, Limiter, client_of
from indexer.engines.indexes import COMMUNITIES, POSTS, SERVERS, USERS
from indexer.mirror.ranking import Ranked
from tests.api.fakes import EXAMPLES, Served, Trouble, assert_error, served_public

if TYPE_CHECKING:
    from datetime import datetime

    from indexer.engines.base import Document

pytestmark = pytest.mark.anyio

EVERY_KIND = pytest.mark.parametrize("kind", SEARCH_KINDS, ids=lambda kind: kind.name)


async def test_cursors_lead_to_the_end(api: Served) -> None:
    """Beyond the deepest page of offsets too, each hit once; the last page has no cursor."""
    api.engine.documents[POSTS] = [{"id": str(number)} for number in range(10_250)]
    seen: list[str] = []
    parameters: dict[str, str | int] = {"limit": 100}
    while True:
        answer = (await api.get("/api/v1/search/posts", **parameters)).json()
        assert answer["offset"] == 0
        seen += [hit["id"] for hit in answer["hits"]]
        if answer["nextCursor"] is None:
            break
        parameters = {"limit": 100, "cursor": answer["nextCursor"], "offset": 7}
    assert seen == [str(number) for number in range(10_250)]


async def test_the_deepest_page_of_offsets_leads_on(api: Served) -> None:
    """Its cursor goes where offsets do not; past it there is none."""
    api.engine.documents[POSTS] = [{"id": str(number)} for number in range(10_250)]
    last = (await api.get("/api/v1/search/posts", offset=9_950, limit=100)).json()
    assert len(last["hits"]) == 50
    following = (await api.get("/api/v1/search/posts", cursor=last["nextCursor"])).json()
    assert following["hits"][0]["id"] == "10000"
    assert (await api.get("/api/v1/search/posts", offset=10_000)).json()["nextCursor"] is None


@EVERY_KIND
@pytest.mark.parametrize("cursor", ["x", "猫", "\0", "a" * 9_000, "=" * 30, " "])
async def test_what_is_no_cursor(api: Served, kind: SearchKind, cursor: str) -> None:
    """400; the engine is not asked."""
    assert_error(await api.get(kind.path, cursor=cursor), 400, "bad_request")
    assert api.engine.requests == []


@EVERY_KIND
async def test_a_cursor_that_leads_nowhere(api: Served, kind: SearchKind) -> None:
    """404 says so; empty is none."""
    assert "again without it" in assert_error(await api.get(kind.path, cursor="a" * 30), 404, "not_found")
    assert (await api.client.get(f"{kind.path}?cursor=")).status_code == 200


@pytest.mark.parametrize(("text", "is_on"), [("true", True), ("1", True), ("false", False), ("x", False)])
async def test_highlight(api: Served, text: str, is_on: bool) -> None:
    """_formatted stands beside the document, which stays as it is."""
    api.engine.documents[POSTS] = [{"id": "a", "body": "<b>猫</b>", "author": "x"}]
    (hit,) = (await api.get("/api/v1/search/posts", q="猫", highlight=text)).json()["hits"]
    formatted = hit.pop("_formatted", None)
    assert hit == {"id": "a", "body": "<b>猫</b>", "author": "x"}
    expected = {"body": "&lt;b&gt;<em>猫</em>&lt;/b&gt;", "author": "x"}
    assert formatted == (expected if is_on else None)


async def test_all_kinds_at_once(api: Served) -> None:
    """The best of each, grouped, in the order of its default; one request of the engine each."""
    answer = (await api.get("/api/v1/search", q="猫", limit=3)).json()
    assert list(answer) == [
        *("query", "limit", "users", "communities", "posts", "servers"),
        "processingTimeMs",
    ]
    assert (answer["query"], answer["limit"]) == ("猫", 3)
    for name, index in (
        ("users", USERS),
        ("communities", COMMUNITIES),
        ("posts", POSTS),
        ("servers", SERVERS),
    ):
        assert answer[name] == {"hits": [EXAMPLES[index]], "estimatedTotalHits": 1}
    assert {(request.query, request.limit, request.offset) for request in api.engine.requests} == {
        ("猫", 3, 0)
    }
    assert {request.index: request.sort for request in api.engine.requests} == {
        kind.index: kind.default_sort for kind in SEARCH_KINDS
    }
    marked = (await api.get("/api/v1/search", q="猫", highlight="true")).json()
    assert marked["posts"]["hits"][0]["_formatted"]["body"] == "東京の<em>猫</em>カフェに行ってきた"


async def test_suggestions(api: Served) -> None:
    """People and communities, with what a search box shows of them and nothing else."""
    answer = (await api.get("/api/v1/suggest", q="み", limit=3)).json()
    assert [*answer] == ["query", "limit", "users", "communities", "processingTimeMs"]
    (user,), (community,) = answer["users"], answer["communities"]
    assert user["username"] == EXAMPLES[USERS]["username"]
    assert community["name"] == EXAMPLES[COMMUNITIES]["name"]
    assert "description" not in user
    assert "activityHistory" not in community
    assert api.engine.suggestions == [((USERS, COMMUNITIES), "み", 3)]


@pytest.mark.parametrize("path", ["/api/v1/search", "/api/v1/suggest"])
async def test_the_other_searches_at_the_edge(api: Served, path: str) -> None:
    """C48: the same leniency, the same refusals."""
    for query in (
        "q=%00",
        "q=%ED%A0%80",
        "q=%FF",
        "limit=0&q=a",
        "limit=abc",
        "limit=1e30",
        "q=a&q=b",
        "x=1",
    ):
        answer = await api.client.get(f"{path}?{query}")
        assert answer.status_code == 200, query
    assert (await api.get(path, limit=10**30)).json()["limit"] in (20, 100)
    assert_error(await api.get_long(f"{path}?q={'a' * 100_000}"), 400, "bad_request")
    assert_error(await api.client.post(path), 405, "method_not_allowed")
    api.engine.trouble = Trouble(hangs=True)
    assert_error(await api.get(path, q="a"), 503, "unavailable")


@pytest.mark.parametrize(
    "path",
    ["/api/v1/search/posts?q=a", "/api/v1/search?q=a", "/api/v1/suggest?q=a", "/docs", "/openapi.json"],
)
async def test_an_answer_that_has_not_changed_is_not_sent_again(api: Served, path: str) -> None:
    """304 for the tag of the same answer, whoever else is named with it; a change has another tag."""
    first = await api.client.get(path)
    tag = first.headers["etag"]
    assert re.fullmatch(r'W/"[0-9a-f]{24}"', tag)
    assert first.headers["cache-control"] == "no-cache"
    for shown in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        again = await api.client.get(path, headers={"If-None-Match": shown})
        assert (again.status_code, again.content) == (304, b""), shown
        assert again.headers["etag"] == tag
        assert again.headers["access-control-allow-origin"] == "*"
    assert (await api.client.get(path, headers={"If-None-Match": '"other"'})).status_code == 200
    assert (await api.client.head(path)).headers["etag"] == tag


async def test_a_changed_answer_has_another_tag(api: Served) -> None:
    """How long it took does not count; what was found does."""
    first = (await api.get("/api/v1/search/posts")).headers["etag"]
    api.engine.documents[POSTS] = [{**EXAMPLES[POSTS], "body": "いぬ"}]
    assert (await api.get("/api/v1/search/posts")).headers["etag"] != first


async def test_a_tag_stands_for_everything_but_the_time_taken(api: Served) -> None:
    """Text that looks like the end of an answer, inside a document, ends nothing."""
    tags = set()
    for tail in ("a", "b"):
        body = f'"processingTimeMs":1}}{tail}'
        api.engine.documents[POSTS] = [{**EXAMPLES[POSTS], "body": body, "processingTimeMs": body}]
        tags.add((await api.get("/api/v1/search/posts")).headers["etag"])
    assert len(tags) == 2


@pytest.mark.parametrize("coding", ["gzip", "identity"])
async def test_an_answer_is_known_again_in_either_coding(api: Served, coding: str) -> None:
    """The tag is that of what was said, and caches are told what else decides, by 200 and 304 alike."""
    api.engine.documents[POSTS] = [{**EXAMPLES[POSTS], "id": str(number)} for number in range(40)]
    path = "/api/v1/search/posts?limit=40"
    tag = (await api.client.get(path)).headers["etag"]
    for shown, status in ((tag, 304), ('"other"', 200)):
        headers = {"Accept-Encoding": coding, "If-None-Match": shown, "Origin": "https://client.example"}
        answer = await api.client.get(path, headers=headers)
        assert (answer.status_code, answer.headers["etag"]) == (status, tag)
        assert answer.headers["vary"] == "Accept-Encoding"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "etag" in answer.headers["access-control-expose-headers"].lower()


@pytest.mark.parametrize("parameters", [{}, {"viewer": "con" + "1" * 39}])
async def test_an_answer_whose_scores_move_is_another(parameters: dict[str, str]) -> None:
    """A score that fell since is news, one that did not is none; every way shows the same."""
    scores = iter([1.5, 1.25, 1.25])

    def present(document: Document, _now: datetime) -> Document:
        return {**document, "activityScore": score}

    async with served_public(present=present) as served:
        served.ranking.ranked = [Ranked("con" + "1" * 39, EXAMPLES[USERS]["cckv"], 1.0, 1, ())]
        tags = []
        for score in scores:
            suggested = (await served.get("/api/v1/suggest", q="a")).json()["users"]
            everywhere = (await served.get("/api/v1/search", q="a")).json()["users"]["hits"]
            assert [hit["activityScore"] for hit in (*suggested, *everywhere)] == [score, score]
            answer = await served.get("/api/v1/search/users", **parameters)
            assert [hit["activityScore"] for hit in answer.json()["hits"]] == [score]
            tags.append(answer.headers["etag"])
    assert tags[0] != tags[1] == tags[2]


class Clock:
    """Seconds that pass when they are told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_fills_evenly() -> None:
    """A minute's worth at once, then one by one; the wait that is told is enough."""
    clock = Clock()
    limiter = Limiter(30, monotonic=clock)
    assert [limiter.seconds_to_wait("a") for _ in range(31)] == [0] * 30 + [2]
    assert limiter.seconds_to_wait("b") == 0
    clock.now += 2
    assert [limiter.seconds_to_wait("a") for _ in range(2)] == [0, 2]
    clock.now += 3_600
    assert sum(limiter.seconds_to_wait("a") == 0 for _ in range(100)) == 30


def test_memory_is_bounded() -> None:
    """Of very many clients those seen longest ago are forgotten."""
    limiter = Limiter(1, monotonic=Clock())
    for number in range(MAX_CLIENTS + 100):
        assert limiter.seconds_to_wait(str(number)) == 0
    assert limiter.seconds_to_wait("0") == 0
    assert limiter.seconds_to_wait(str(MAX_CLIENTS)) > 0


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("9.9.9.9", None, "9.9.9.9"),
        ("9.9.9.9", "8.8.8.8", "9.9.9.9"),
        ("127.0.0.1", "1.1.1.1, 8.8.8.8", "8.8.8.8"),
        ("10.0.0.2", "8.8.8.8", "8.8.8.8"),
        ("::ffff:10.0.0.2", "8.8.8.8", "8.8.8.8"),
        ("10.0.0.2", "nonsense", "10.0.0.2"),
        ("10.0.0.2", "", "10.0.0.2"),
        ("2a00:1450:4001:1::5", None, "2a00:1450:4001:1::/64"),
        ("2a00:1450:4001:1:ffff::9", None, "2a00:1450:4001:1::/64"),
        (None, "8.8.8.8", ""),
    ],
)
def test_whom_a_request_counts_for(peer: str | None, forwarded: str | None, client: str) -> None:
    """The peer; behind a proxy on a private address, whom the proxy itself names."""
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    assert client_of({"type": "http", "client": (peer, 1) if peer else None, "headers": headers}) == client


async def test_who_asks_too_much_is_told_when_to_come_back() -> None:
    """429 in the shape of errors with Retry-After, for one client only; health is never refused."""
    async with served_public(requests_per_minute=3) as served:
        path = "/api/v1/search/posts"
        assert [(await served.get(path)).status_code for _ in range(3)] == [200] * 3
        refused = await served.get(path)
        assert_error(refused, 429, "too_many_requests")
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert (await served.get("/health")).status_code == 200
        other = {"X-Forwarded-For": "8.8.8.8"}
        assert (await served.client.get(path, headers=other)).status_code == 200


async def test_without_a_limit_nobody_is_refused(api: Served) -> None:
    """Off unless it was asked for."""
    assert {(await api.get("/health")).status_code for _ in range(50)} == {200}
    assert {(await api.get("/api/v1/search/servers")).status_code for _ in range(50)} == {200}
