"""The contract of all engines: filters, orders, pages and totals (cases C36, C47)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from unicodedata import normalize

import pytest

from indexer.engines.base import SearchRequest, SortOrder
from indexer.engines.indexes import BY_UID, COMMUNITIES, POSTS, SERVERS, USERS
from tests.engines.conftest import MAX_TOTAL_HITS
from tests.engines.samples import ALICE, BOB, NEWEST_FIRST, community, found, post, put, server, user

if TYPE_CHECKING:
    from indexer.engines.base import Engine

pytestmark = pytest.mark.anyio

HOSTILE = [
    'say "hi"',
    "it's",
    "end\\",
    'x" OR owner = "y',
    '\\" OR 1',
    "line\nbreak",
    "TO",
    "NOT",
    "EXISTS",
    "",
    "長" * 10_000,
    "{a,b}",
    "%",
    "NULL",
    "\x1f",
]


@pytest.mark.parametrize("field", ["author", "owner", "sourceServer", "schema"])
async def test_filter_values_are_literal(engine: Engine, field: str) -> None:
    """A filter finds exactly the documents with that value, whatever signs it holds (C36)."""
    await put(engine, *(post(f"{number:02}", **{field: value}) for number, value in enumerate(HOSTILE)))
    for number, value in enumerate(HOSTILE):
        assert await found(engine, "", filters={field: value}) == [f"{number:02}"]
        assert await found(engine, "", filters={field: value + "x"}) == []


@pytest.mark.parametrize(
    ("index", "field"), [(COMMUNITIES, "cckv"), (SERVERS, "status"), (USERS, "ccid"), (POSTS, "ancestors")]
)
async def test_hostile_values_match_nothing(engine: Engine, index: str, field: str) -> None:
    """What no document holds is found in none, NUL and lone surrogates included."""
    await put(engine, user(), community("c"), post("p"), server("alpha.example"))
    for value in (*HOSTILE, "\0", chr(0xD800), "a\0"):
        assert await found(engine, "", index, filters={field: value}) == []


async def test_filters_compare_exactly(engine: Engine) -> None:
    """Case and normal form count in filters, and in keys."""
    composed, decomposed = "ガ", normalize("NFD", "ガ")
    await put(engine, post("a", owner="Alpha"), post("b", owner="alpha"), post("c", owner=composed))
    await put(engine, post("d", owner=decomposed))
    for owner, expected in (("Alpha", ["a"]), ("alpha", ["b"]), (composed, ["c"]), (decomposed, ["d"])):
        assert await found(engine, "", filters={"owner": owner}) == expected
    assert await found(engine, "", filters={"owner": "ALPHA"}) == []


async def test_filters_and_words_together(engine: Engine) -> None:
    """Filters and words must all hold."""
    await put(
        engine,
        post("a", "ねこ cat"),
        post("b", "ねこ cat", author=BOB),
        post("c", "いぬ dog", author=BOB),
        post("d", "ねこ cat", author=BOB, sourceServer="beta.example"),
    )
    assert await found(engine, "ねこ", filters={"author": BOB}) == ["b", "d"]
    assert await found(engine, "cat", filters={"author": BOB, "sourceServer": "beta.example"}) == ["d"]
    assert await found(engine, "ca", filters={"author": ALICE}) == ["a"]
    assert await found(engine, "dog", filters={"author": ALICE}) == []


async def test_a_list_is_filtered_by_its_members(engine: Engine) -> None:
    """A document is found by every ancestor of its key, and by no prefix of one."""
    await put(engine, post("a"), post("b", key=f"cckv://{BOB}/x/b"))
    assert await found(engine, "", filters={"ancestors": f"cckv://{ALICE}"}) == ["a"]
    assert await found(engine, "", filters={"ancestors": f"cckv://{ALICE}/concrnt.world/profiles"}) == ["a"]
    assert await found(engine, "", filters={"ancestors": f"cckv://{ALICE}/concrnt.world/prof"}) == []
    assert await found(engine, "", filters={"ancestors": f"cckv://{BOB}/x"}) == ["b"]


@pytest.mark.parametrize("query", ["", "共通"])
async def test_orders(engine: Engine, query: str) -> None:
    """Times sort as times and names as text, both ways; documents without the field come last both ways."""
    profile = partial(user, ALICE, description="共通")
    await put(
        engine,
        profile("a", username="ベータ", createdAt="2025-01-01T00:00:00.5Z"),
        profile("b", username="", createdAt="2025-01-01T00:00:00Z"),
        profile("c", username="アルファ", createdAt="0001-01-01T00:00:00Z", activityScore=3),
        profile("d", username="alpha", createdAt="9999-12-31T23:59:59.999999Z"),
    )
    order = SortOrder
    assert await found(engine, query, USERS, sort=order("createdAt", True)) == ["d", "a", "b", "c"]
    assert await found(engine, query, USERS, sort=order("createdAt", False)) == ["c", "b", "a", "d"]
    assert await found(engine, query, USERS, sort=order("username", False)) == ["d", "c", "a", "b"]
    assert await found(engine, query, USERS, sort=order("username", True)) == ["a", "c", "d", "b"]
    assert await found(engine, query, USERS, sort=order("activityScore", True)) == ["c", "a", "b", "d"]
    assert await found(engine, query, USERS, sort=order("activityScore", False)) == ["c", "a", "b", "d"]
    assert await found(engine, query, USERS, sort=order("lastPostAt", True)) == ["a", "b", "c", "d"]


async def test_every_sortable_field_sorts_and_every_filterable_field_filters(engine: Engine) -> None:
    """Right after prepare(), with nothing written, all orders and filters answer (C46)."""
    for uid, definition in BY_UID.items():
        for field in definition.sortable:
            for descending in (True, False):
                assert await found(engine, "x", uid, sort=SortOrder(field, descending)) == []
                assert await found(engine, "", uid, sort=SortOrder(field, descending)) == []
        for field in definition.filterable:
            assert await found(engine, "", uid, filters={field: "x"}) == []


@pytest.mark.parametrize("query", ["", "共通"])
async def test_the_key_ends_every_order(engine: Engine, query: str) -> None:
    """Equal documents come in the order of their keys, by bytes, and so do hashed ids."""
    names = ["a", "B", "_", "-", "0", "あ", "ア", "a/b", "z" * 600, "y" * 600, "~"]
    keys = [f"cckv://{ALICE}/k/{name}" for name in names]
    await put(engine, *(post("", "共通", key=key) for key in keys))
    for sort in (NEWEST_FIRST, SortOrder("indexedAt", False), None):
        result = await engine.search(SearchRequest(POSTS, query, sort=sort, limit=100))
        assert [hit["cckv"] for hit in result.hits] == sorted(keys, key=str.encode)


async def test_pages_neither_repeat_nor_skip(engine: Engine) -> None:
    """All of 1,500 posts with one word are reached, each once, and the totals are right (C47)."""
    total = 1_500
    await put(
        engine,
        *(
            post(f"{number:04}", "共通 word", createdAt=f"2025-01-{number % 7 + 1:02}T00:00:00Z")
            for number in range(total)
        ),
    )
    for query in ("", "共通", "word", "wor"):
        seen: list[str] = []
        for offset in range(0, total + 100, 100):
            result = await engine.search(SearchRequest(POSTS, query, {}, NEWEST_FIRST, offset, 100))
            assert result.estimated_total == total
            seen += [hit["id"] for hit in result.hits]
        assert len(seen) == len(set(seen)) == total
        for offset, count in ((990, 100), (1_000, 100), (1_100, 100), (1_450, 50), (1_499, 1), (1_500, 0)):
            assert len(await found(engine, query, sort=NEWEST_FIRST, offset=offset)) == count
        for offset in (9_999, 10_000, 50_000, 10**30):
            assert await found(engine, query, sort=NEWEST_FIRST, offset=offset) == []


async def test_nothing_lies_beyond_max_total_hits(engine: Engine) -> None:
    """Hits and totals end at the bound, for common words and for everything alike (C47)."""
    await put(
        engine,
        *(
            post(
                f"{number:04}",
                "common" if number % 2 else "commonly",
                indexedAt=f"2025-01-01T00:{number % 60:02}:00Z",
            )
            for number in range(2 * MAX_TOTAL_HITS + 1_000)
        ),
    )
    for query in ("", "common", "common posts"):
        for sort in (NEWEST_FIRST, SortOrder("indexedAt", False)):
            page = await engine.search(SearchRequest(POSTS, query, {}, sort, MAX_TOTAL_HITS - 5, 100))
            assert len(page.hits) == 5
            assert page.estimated_total == MAX_TOTAL_HITS
            assert await found(engine, query, sort=sort, offset=MAX_TOTAL_HITS) == []
    for offset in (0, 1_000, MAX_TOTAL_HITS - 100):
        assert all(int(name) % 2 for name in await found(engine, "common", sort=NEWEST_FIRST, offset=offset))


async def test_common_words_span_tiers_and_absent_fields(engine: Engine) -> None:
    """Where whole words are few and beginnings are many, pages cross from one to the other without a gap."""
    many = MAX_TOTAL_HITS + 500
    await put(
        engine,
        *(user(profile=f"w{number}", username="cat", postCount7d=number) for number in range(30)),
        *(user(profile=f"x{number:04}", username="cats") for number in range(many)),
        *(user(profile=f"p{number}", username="cats", postCount7d=number) for number in range(30)),
    )
    sort = SortOrder("postCount7d")
    seen: list[str] = []
    for offset in range(0, 200, 7):
        seen += await found(engine, "cat", USERS, sort=sort, offset=offset, limit=7)
    assert seen[:60] == [f"w{n}" for n in range(29, -1, -1)] + [f"p{n}" for n in range(29, -1, -1)]
    assert seen[60:] == [f"x{number:04}" for number in range(len(seen) - 60)]


async def test_unknown_fields_are_mistakes(engine: Engine) -> None:
    """An index, filter or order that the definition does not name is refused as a mistake of the caller."""
    for request in (
        SearchRequest("nothing"),
        SearchRequest(POSTS, filters={"body": "x"}),
        SearchRequest(POSTS, sort=SortOrder("id")),
    ):
        with pytest.raises(ValueError, match="no "):
            await engine.search(request)
