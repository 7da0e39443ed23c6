"""Viewer mode over a real mirror and engine (cases C28, C47, C50)."""

from __future__ import annotations

import struct
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import asyncpg
import pytest

from indexer.activity.answer import ActivityPresenter
from indexer.api import viewer
from indexer.api.errors import ApiError
from indexer.api.kinds import SEARCH_KINDS
from indexer.api.search import SearchService
from indexer.engines.base import WriteBatch
from indexer.engines.indexes import INDEXES, USERS
from indexer.mirror.activity import SubjectKind
from indexer.mirror.ranking import _SQL, ViewerRanking
from indexer.simulation import schemas as wire
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    BOB,
    CAROL,
    ack,
    acked,
    community,
    community_key,
    delete,
    post,
    post_key,
    profile,
    profile_key,
    reference,
)
from tests.activity.test_keeping import Stage
from tests.engines.conftest import OPENERS
from tests.engines.samples import user
from tests.replication.stage import open_mirror

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from indexer.engines.base import FoundIds, SearchRequest
    from tests.replication.stage import Mirror

pytestmark = pytest.mark.anyio

NOW = datetime(2025, 3, 14, 12, tzinfo=UTC)
VIEWER = "con" + "v" * 39
_USERS, _COMMUNITIES = SEARCH_KINDS[:2]
HALF_LIFE = 604_800.0
_OPEN: Any = OPENERS["postgres"]


@pytest.fixture(params=OPENERS, autouse=True)
def _engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trial is one of every engine."""
    monkeypatch.setattr(sys.modules[__name__], "_OPEN", OPENERS[request.param])


@dataclass
class Viewing:
    """A mirror, an engine, and a viewer's searches."""

    mirror: Mirror
    stage: Stage
    service: SearchService

    async def arrive(self, *commits: bytes, source: str = ALPHA) -> None:
        """Commits come in, are projected and counted."""
        await self.mirror.write(source, commits)
        await self.stage.project()
        await self.stage.tick(NOW)

    async def answer(self, kind: Any, **parameters: Any) -> dict[str, Any]:
        """A viewer's search."""
        return await self.service.answer(kind, urlencode({"viewer": VIEWER, **parameters}).encode())

    async def people(self, **parameters: Any) -> list[str]:
        """The keys of the people found."""
        return [hit["cckv"] for hit in (await self.answer(_USERS, **parameters))["hits"]]

    async def communities(self, **parameters: Any) -> list[str]:
        """The last steps of the keys of the communities found."""
        hits = (await self.answer(_COMMUNITIES, **parameters))["hits"]
        return [hit["cckv"].rpartition("/")[2] for hit in hits]


@asynccontextmanager
async def viewing(database_url: str, max_total_hits: int = 10_000) -> AsyncIterator[Viewing]:
    """A viewer of an empty network."""
    async with open_mirror(database_url) as mirror, _OPEN(database_url, max_total_hits) as engine:
        stage = Stage(mirror)
        stage.engine = engine
        stage.delivery._engine = stage.projector._engine = stage.engine
        await stage.engine.prepare(INDEXES)
        ranking = ViewerRanking(
            mirror.database,
            half_life_seconds=HALF_LIFE,
            ack_schemas=[wire.FOLLOW],
            profile_schemas=[wire.PROFILE],
            community_schemas=[wire.COMMUNITY],
        )
        service = SearchService(
            stage.engine,
            ranking,
            max_total_hits=max_total_hits,
            present=ActivityPresenter(30),
            clock=lambda: NOW,
        )
        yield Viewing(mirror, stage, service)


def _at(**ago: float) -> str:
    return (NOW - timedelta(**ago)).isoformat().replace("+00:00", "Z")


async def test_followees_by_their_own_posts(database_url: str) -> None:
    """Score descending; one hit a person, the main profile, else the smallest key; others are no hits."""
    async with viewing(database_url) as see:
        await see.arrive(
            profile(ALICE), profile(ALICE, name="alt"), profile(BOB, name="b"), profile(BOB, name="a"),
            profile(CAROL), ack(VIEWER, ALICE), ack(VIEWER, BOB),
            post(ALICE, "1", "a", created_at=_at(days=7)),
            post(BOB, "1", "a", created_at=_at(days=7)), post(BOB, "2", "a", created_at=_at(days=40)),
            post(BOB, "3", "a", created_at=_at(days=14)), post(CAROL, "1", "a", created_at=_at(days=1)),
        )  # fmt: skip
        answer = await see.answer(_USERS)
        assert [hit["cckv"] for hit in answer["hits"]] == [profile_key(BOB, "a"), profile_key(ALICE)]
        assert [hit["followeeScore"] for hit in answer["hits"]] == pytest.approx([0.75, 0.5], rel=1e-9)
        assert [hit["followeePostCount30d"] for hit in answer["hits"]] == [2, 1]
        assert answer["hits"][0]["activityScore"] == pytest.approx(0.75, rel=1e-9)
        assert answer["estimatedTotalHits"] == 2
        assert await see.people(owner=CAROL, sourceServer="x") == await see.people()
        assert await see.people(offset=1, limit=1) == [profile_key(ALICE)]
        assert (await see.answer(_USERS, offset=50_000))["estimatedTotalHits"] == 2
        await see.arrive(delete(profile_key(BOB, "a"), author=BOB, created_at=_at(hours=1)))
        assert await see.people() == [profile_key(BOB, "b"), profile_key(ALICE)]


async def test_communities_by_the_followees_entries(database_url: str) -> None:
    """With up to five top authors, most entries first, equal ones by CCID; what is no community is no hit."""
    followees = ["con" + str(number) * 39 for number in range(1, 8)]
    cats, dogs = community_key(ALPHA, "cats"), community_key(ALPHA, "dogs")
    async with viewing(database_url) as see:
        entries = [
            reference(cats, post_key(who, str(n)), author=who, name=f"{who}{n}", created_at=_at(days=7))
            for number, who in enumerate(followees)
            for n in range(2 if number == 6 else 1)
        ]
        await see.arrive(
            *[ack(VIEWER, who) for who in followees], *entries, reference(dogs, post_key(ALICE, "1"),
            author=ALICE, name="stranger", created_at=_at(days=1)), reference(dogs, post_key(ALICE, "2"),
            author=followees[0], name="x", created_at=_at(days=14)), reference(community_key(ALPHA, "none"),
            "cckv://x/y", author=followees[0], name="y", created_at=_at(days=1)), community(ALPHA, "cats",
            author=ALICE), community(ALPHA, "dogs", author=ALICE), community(ALPHA, "idle", author=ALICE),
        )  # fmt: skip
        answer = await see.answer(_COMMUNITIES)
        assert [hit["cckv"] for hit in answer["hits"]] == [cats, dogs]
        assert [hit["followeeScore"] for hit in answer["hits"]] == pytest.approx([4.0, 0.25], rel=1e-9)
        assert [hit["followeePostCount30d"] for hit in answer["hits"]] == [8, 1]
        assert answer["hits"][0]["topAuthors"] == [followees[6], *followees[:4]]
        assert answer["estimatedTotalHits"] == 2
        assert await see.communities(limit=1, offset=1) == ["dogs"]


async def test_with_a_query_ranked_matches_come_first(database_url: str) -> None:
    """Every matching profile of a ranked person is a hit; the others follow; the total counts all."""
    async with viewing(database_url) as see:
        await see.arrive(
            profile(ALICE, username="猫"), profile(ALICE, name="alt", username="猫 好き"), profile(BOB,
            username="犬"), profile(CAROL, username="猫"), ack(VIEWER, ALICE), ack(VIEWER, BOB), post(ALICE,
            "1", "a", created_at=_at(days=7)), post(BOB, "1", "a", created_at=_at(days=1)),
        )  # fmt: skip
        answer = await see.answer(_USERS, q="猫")
        found = [hit["cckv"] for hit in answer["hits"]]
        assert set(found[:2]) == {profile_key(ALICE), profile_key(ALICE, "alt")}
        assert found[2:] == [profile_key(CAROL)]
        assert ["followeeScore" in hit for hit in answer["hits"]] == [True, True, False]
        assert answer["estimatedTotalHits"] == 3
        pages = [await see.people(q="猫", offset=offset, limit=1) for offset in range(4)]
        assert [page for page in pages if page] == [[key] for key in found]
        assert await see.people(q=" ") == await see.people()


async def test_nobody_followed_or_nothing_lately_is_no_hit(database_url: str) -> None:
    """Without q; with q the matches come all the same."""
    async with viewing(database_url) as see:
        await see.arrive(profile(ALICE, username="猫"), post(ALICE, "1", "a", created_at=_at(days=31)))
        assert (await see.answer(_USERS))["hits"] == []
        await see.arrive(ack(VIEWER, ALICE))
        assert await see.people() == await see.communities() == []
        assert await see.people(q="猫") == [profile_key(ALICE)]


async def test_follow_and_unfollow_in_any_order(database_url: str) -> None:
    """C50: strictly newer wins, whichever server says so; ranking follows at once."""
    async with viewing(database_url) as see:
        await see.arrive(profile(ALICE), post(ALICE, "1", "a", created_at=_at(days=1)))
        steps = [
            (ack(VIEWER, ALICE, kind="unack", created_at="2025-03-01T00:00:02Z"), ALPHA, False),
            (ack(VIEWER, ALICE, created_at="2025-03-01T00:00:01Z"), ALPHA, False), (ack(VIEWER, ALICE,
            created_at="2025-03-01T00:00:02Z"), ALPHA, False), (ack(VIEWER, ALICE,
            created_at="2025-03-01T00:00:03Z"), ALPHA, True), (acked(VIEWER, ALICE, kind="unacked",
            created_at="2025-03-01T00:00:03Z"), BETA, True), (acked(VIEWER, ALICE, kind="unacked",
            created_at="2025-03-01T00:00:04Z"), BETA, False), (ack(VIEWER, ALICE,
            created_at="2025-03-01T00:00:03Z"), ALPHA, False), (ack(VIEWER, ALICE,
            schema="https://other.example/ack.json", created_at="2025-03-01T00:00:09Z"), ALPHA, False),
            (acked(VIEWER, ALICE, created_at="2025-03-01T00:00:10Z"), BETA, True),
        ]  # fmt: skip
        for number, (commit, source, follows) in enumerate(steps):
            await see.mirror.write(source, [commit])
            assert (await see.people() == [profile_key(ALICE)]) is follows, number
        assert await see.mirror.rows("select count(*) from mirror.acks") == [{"count": 1}]


# --- many ------------------------------------------------------------------------------------------


async def _many(see: Viewing, ranked: int, others: int) -> list[str]:
    """So many followees with one post each, newest first, and so many other people; all match `ねこ`."""
    people = ["con" + str(number).rjust(39, "0") for number in range(ranked + others)]
    await see.mirror.database.execute(
        "insert into mirror.records (key, owner, author, schema, parent, source, cdid, created_at,"
        " first_created_at, signed) select 'cckv://' || p || '/concrnt.world/profiles/main', p, p, $2,"
        " 'cckv://' || p || '/concrnt.world/profiles', 's', p, $3, $3, '{}' from unnest($1::text[]) p",
        people, wire.PROFILE, NOW - timedelta(days=60),
    )  # fmt: skip
    await see.mirror.database.execute(
        "insert into mirror.records (key, owner, author, schema, parent, source, cdid, created_at,"
        " first_created_at, signed)"
        " select 'cckv://' || p || '/posts/1', p, p, $2, 'cckv://' || p || '/posts',"
        " 's', 'p' || p, $3, $3::timestamptz - n * interval '1 minute', '{}'"
        " from unnest($1::text[]) with ordinality u (p, n)",
        people[:ranked], wire.MARKDOWN, NOW,
    )  # fmt: skip
    await see.mirror.database.execute(
        "insert into mirror.acks select $1, p, $2, true, $3, p, 's' from unnest($4::text[]) p",
        VIEWER, wire.FOLLOW, NOW, people[:ranked],
    )  # fmt: skip
    await see.stage.engine.write(WriteBatch({USERS: [user(person, username="ねこ") for person in people]}))
    await see.stage.tick(NOW)
    return [profile_key(person) for person in people]


@pytest.mark.parametrize("whole", [0, 5_000])
async def test_pages_across_both_lists_neither_repeat_nor_skip(
    database_url: str, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    """C47: 1,250 ranked and 500 other matches, in pages of 100, one of which spans the border.

    Whether the database ranks among the matches, or the engine matches among the ranked.
    """
    monkeypatch.setattr(viewer, "WHOLE", whole)
    async with viewing(database_url) as see:
        keys = await _many(see, 1_250, 500)
        found = []
        for offset in range(0, 1_800, 100):
            answer = await see.answer(_USERS, q="ねこ", offset=offset, limit=100)
            assert answer["estimatedTotalHits"] == 1_750
            found += [hit["cckv"] for hit in answer["hits"]]
        assert found[:1_250] == keys[:1_250]
        assert sorted(found) == sorted(keys)
        ranked = [
            key for offset in range(0, 1_300, 100) for key in await see.people(offset=offset, limit=100)
        ]
        assert ranked == keys[:1_250]


async def test_no_more_ids_are_asked_for_than_a_page_is_deep(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many matches a page is what they cost, and one question about those who are ranked."""
    monkeypatch.setattr(viewer, "WHOLE", 10)
    async with viewing(database_url) as see:
        keys = await _many(see, 30, 20)
        asked: list[tuple[int, bool]] = []
        find_ids = see.stage.engine.find_ids

        async def noting(request: SearchRequest, among: Collection[str] | None = None) -> FoundIds:
            asked.append((request.limit, among is not None))
            return await find_ids(request, among)

        monkeypatch.setattr(see.stage.engine, "find_ids", noting)
        assert await see.people(q="ねこ", offset=20, limit=5) == keys[20:25]
        assert asked == [(25, False), (25, True)]


async def test_the_deepest_page_ends_the_list(database_url: str) -> None:
    """Past `search.maxTotalHits` there is no hit, in either mode."""
    async with viewing(database_url, max_total_hits=150) as see:
        keys = await _many(see, 160, 50)
        assert await see.people(offset=100, limit=100) == keys[100:150]
        assert await see.people(offset=150) == []
        assert await see.people(q="ねこ", offset=140, limit=100) == keys[140:150]
        assert await see.people(q="ねこ", offset=150) == []


async def _by_cursor(see: Viewing, limit: int, **parameters: Any) -> list[list[str]]:
    """The keys of every page, by cursor from the first."""
    pages: list[list[str]] = []
    asked: dict[str, Any] = {**parameters, "limit": limit}
    while True:
        answer = await see.answer(_USERS, **asked)
        pages.append([hit["cckv"] for hit in answer["hits"]])
        if answer["nextCursor"] is None:
            return pages
        asked["cursor"] = answer["nextCursor"]


async def test_a_cursor_leads_to_the_end_of_both_lists(database_url: str) -> None:
    """Past `search.maxTotalHits` too: what is ranked comes first, in order, everything once."""
    async with viewing(database_url, max_total_hits=150) as see:
        keys = await _many(see, 260, 130)
        assert [key for page in await _by_cursor(see, 60) for key in page] == keys[:260]
        pages = await _by_cursor(see, 60, q="ねこ")
        assert [len(page) for page in pages] == [60] * 6 + [30]
        found = [key for page in pages for key in page]
        assert found[:260] == keys[:260]
        assert sorted(found) == sorted(keys)


async def test_a_page_at_an_offset_leads_on_by_cursor(database_url: str) -> None:
    """Across the border of the two lists, the rest comes once."""
    async with viewing(database_url) as see:
        keys = await _many(see, 260, 130)
        answer = await see.answer(_USERS, q="ねこ", offset=240, limit=40)
        pages = await _by_cursor(see, 40, q="ねこ", cursor=answer["nextCursor"])
        assert sorted(key for page in pages for key in page) == sorted(keys[280:])


async def test_a_cursor_holds_while_time_goes_by_and_hits_go(database_url: str) -> None:
    """The last hit of a page may leave, and others before it: nothing that follows is repeated or skipped."""
    async with viewing(database_url) as see:
        keys = await _many(see, 40, 10)
        for query in ({}, {"q": "ねこ"}):
            first = await see.answer(_USERS, limit=20, **query)
            gone = [key.split("/")[2] for key in keys[17:20]]
            await see.mirror.database.execute(
                "update mirror.acks set valid = false where ackee = any($1::text[])", gone
            )
            later = SearchService(
                see.service.engine, see.service.ranking, clock=lambda: NOW + timedelta(days=3)
            )
            parameters = {"viewer": VIEWER, "limit": 20, "cursor": first["nextCursor"], **query}
            answer = await later.answer(_USERS, urlencode(parameters).encode())
            assert [hit["cckv"] for hit in answer["hits"]] == keys[20:40]
            await see.mirror.database.execute("update mirror.acks set valid = true")


async def test_a_cursor_is_good_for_its_own_search(database_url: str) -> None:
    """Another query, another viewer, another list, a plain search, garbage: 404, never another answer."""
    async with viewing(database_url) as see:
        await _many(see, 30, 0)
        cursor = (await see.answer(_USERS, limit=10))["nextCursor"]
        plain = (await see.service.answer(_USERS, b"limit=10"))["nextCursor"]
        for kind, parameters in (
            (_USERS, {"viewer": VIEWER, "q": "ねこ", "cursor": cursor}),
            (_USERS, {"viewer": ALICE, "cursor": cursor}),
            (_COMMUNITIES, {"viewer": VIEWER, "cursor": cursor}),
            (_USERS, {"cursor": cursor}),
            (_USERS, {"viewer": VIEWER, "cursor": plain}),
            (_USERS, {"viewer": VIEWER, "cursor": "A" * 40}),
            (_USERS, {"viewer": VIEWER, "cursor": cursor[:28] + "_" * 9}),
        ):
            with pytest.raises(ApiError) as refused:
                await see.service.answer(kind, urlencode(parameters).encode())
            assert refused.value.status == 404


async def test_a_cursor_of_another_time_leads_nowhere(database_url: str) -> None:
    """Whatever moment a forged one holds, no ranking is made at one that was never given here: 404."""
    async with viewing(database_url) as see:
        await _many(see, 30, 0)
        for query in ({}, {"q": "ねこ"}):
            made = (await see.answer(_USERS, limit=10, **query))["nextCursor"]
            head = urlsafe_b64decode(made[:28])
            (moment,) = struct.unpack(">q", head[5:13])

            def forged(at: int, made: str = made, head: bytes = head) -> str:
                return urlsafe_b64encode(head[:5] + struct.pack(">q", at) + head[13:]).decode() + made[28:]

            second, day = 1_000_000, 86_400_000_000
            wrong = [-62_135_596_800 * second, 253_402_300_799 * second, 0, moment - 8 * day, moment + day]
            for at in [*wrong, -(2**63), 2**63 - 1, moment + 61 * second]:
                with pytest.raises(ApiError) as refused:
                    await see.answer(_USERS, limit=10, cursor=forged(at), **query)
                assert refused.value.status == 404
            for at in (moment - 6 * day, moment + 59 * second):
                assert (await see.answer(_USERS, limit=10, cursor=forged(at), **query))["hits"]


async def test_forty_thousand_followees(database_url: str) -> None:
    """C28: no statement has a parameter for each."""
    async with viewing(database_url) as see:
        await see.arrive(profile(ALICE), post(ALICE, "1", "a", created_at=_at(days=1)), ack(VIEWER, ALICE))
        await see.mirror.database.execute(
            "insert into mirror.acks select $1, 'con' || lpad(n::text, 39, 'x'), $2, true, $3, 'c' || n, 's'"
            " from generate_series(1, 40000) n",
            VIEWER, wire.FOLLOW, NOW,
        )  # fmt: skip
        assert await see.people() == [profile_key(ALICE)]
        assert await see.people(q="con0") == [profile_key(ALICE)]
        assert await see.communities() == []


async def test_the_database_ranks_by_index(database_url: str) -> None:
    """For one of many viewers, no statement reads a whole table."""
    async with open_mirror(database_url) as mirror:
        await mirror.database.execute(
            "insert into mirror.records (key, owner, author, schema, parent, source, cdid, created_at,"
            " first_created_at, signed)"
            " select 'cckv://a.example/c/' || n % 300 || '/' || n, 'a.example',"
            "  'con' || lpad((n % 9000)::text, 39, '0'), $1, 'cckv://a.example/c/' || n % 300, 's', 'c' || n,"
            "  $2, $2, 'x' from generate_series(1, 40000) n",
            wire.REFERENCE, NOW - timedelta(days=1),
        )  # fmt: skip
        await mirror.database.execute(
            "insert into mirror.acks select 'con' || lpad(v::text, 39, 'v'),"
            " 'con' || lpad((v * 40 + n)::text, 39, '0'), $1, true, $2, 'c', 's'"
            " from generate_series(1, 200) v, generate_series(1, 40) n",
            wire.FOLLOW, NOW,
        )  # fmt: skip
        for kind in SubjectKind:
            await Stage(mirror).activity.refresh(kind, NOW)
        await mirror.database.execute("analyze")
        somebody = "con" + "7".rjust(39, "v")
        connection = await asyncpg.connect(database_url)
        try:
            common = (somebody, [wire.FOLLOW], NOW, None, 0, 20)
            people = await _plan(connection, _SQL["rank_people"], *common)
            entries = (*common, [wire.COMMUNITY], HALF_LIFE, NOW - timedelta(days=30))
            communities = await _plan(connection, _SQL["rank_communities"], *entries)
        finally:
            await connection.close()
        assert any("acks_pkey" in line for line in people)
        assert any("activity_pkey" in line for line in people)
        assert any("records_author_entries" in line for line in communities)
        assert [line for line in (*people, *communities) if "Seq Scan" in line] == []


async def _plan(connection: asyncpg.Connection[asyncpg.Record], statement: str, *arguments: Any) -> list[str]:
    rows = await connection.fetch(f"explain {statement}", *arguments)
    return [row[0] for row in rows]
