"""Ticks: what they cost, what a failure leaves, settings that change, and two processes at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from indexer.engines.base import SearchRequest
from indexer.engines.indexes import COMMUNITIES, INDEXES, USERS
from indexer.engines.postgres import PostgresEngine
from indexer.mirror import activity as activity_module
from indexer.mirror.activity import Activity, SubjectKind
from indexer.mirror.queue import ProjectionQueue
from indexer.projection.figures import FigureDelivery
from indexer.projection.kinds import Kinds
from indexer.projection.projector import Projector
from indexer.simulation import schemas as wire
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BOB,
    community,
    community_key,
    delete,
    document_address,
    post,
    post_key,
    profile,
    profile_key,
    reference,
)
from tests.activity.test_counting import (
    COMMUNITY,
    PEOPLE,
    START,
    Silent,
    assert_counted,
    counting,
    keeper_of,
    put,
    tick_in_batches,
)
from tests.replication.stage import open_mirror

if TYPE_CHECKING:
    from tests.replication.stage import Mirror

pytestmark = pytest.mark.anyio

CATS = community_key(ALPHA, "cats")
AT = "2025-03-14T11:00:00Z"


async def _numbers(mirror: Mirror, subject: str) -> dict[str, Any]:
    (row,) = await mirror.rows("select * from mirror.activity where subject = $1", subject)
    return row


class Quiet(Silent):
    """Metrics of the projector that nobody reads."""

    def engine_write(self, engine: str, seconds: float, upserts: int, deletes: int) -> None:
        """Nothing."""

    def searchable(self, seconds: float) -> None:
        """Nothing."""


async def _refused(key: str, reason: str) -> None:
    raise AssertionError((key, reason))


class Stage:
    """A mirror, an engine, and what brings the one to the other."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.engine = PostgresEngine(mirror.database.pool, 1_000)
        self.activity = Activity(mirror.database, counting())
        self.delivery = FigureDelivery(
            self.activity, self.engine, profile_schemas=[wire.PROFILE], community_schemas=[wire.COMMUNITY]
        )
        kinds = Kinds(
            profile_schemas=[wire.PROFILE], community_schemas=[wire.COMMUNITY], post_schemas=[wire.MARKDOWN]
        )
        self.projector = Projector(
            ProjectionQueue(mirror.database), self.engine, kinds, dead_letter=_refused, metrics=Quiet()
        )

    async def project(self) -> None:
        """Bring documents to the engine."""
        while await self.projector.project_once():
            pass

    async def tick(self, now: datetime = START) -> int:
        """Count and deliver; returns how many subjects wait for a document."""
        await keeper_of(self.mirror, counting()).tick(now)
        return await self.delivery.deliver()

    async def suggested(self) -> list[str]:
        """The people that a search box shows for ね."""
        found = await self.engine.suggest([COMMUNITIES, USERS], "ね", 8)
        return [hit["username"] for hit in found[USERS]]

    async def hits(self, index: str) -> list[dict[str, Any]]:
        """What the engine shows."""
        return (await self.engine.search(SearchRequest(index))).hits


async def test_numbers_reach_documents_and_never_make_them(database_url: str) -> None:
    """Every profile of a person shows them, when it is there, whichever came first."""
    async with open_mirror(database_url) as mirror:
        stage = Stage(mirror)
        await stage.engine.prepare(INDEXES)
        await mirror.write(ALPHA, [post(ALICE, "1", "a", created_at=AT), profile(ALICE, name="main")])
        assert await stage.tick() == 1  # the profile is on its way
        assert await stage.hits(USERS) == []
        await stage.project()
        (early,) = await stage.hits(USERS)
        assert "activityBasis" not in early
        assert await stage.delivery.deliver() == 0
        await mirror.write(ALPHA, [profile(ALICE, name="second"), profile(BOB)])
        await stage.project()
        assert await stage.tick() == 0
        shown = {hit["cckv"]: hit["postCount30d"] for hit in await stage.hits(USERS)}
        assert shown == {profile_key(ALICE): 1, profile_key(ALICE, "second"): 1, profile_key(BOB): 0}
        await mirror.write(ALPHA, [profile(ALICE, username="あたらしい", created_at="2025-03-02T00:00:00Z")])
        await stage.project()
        named = {hit["username"]: hit["postCount30d"] for hit in await stage.hits(USERS)}
        assert named["あたらしい"] == 1


async def test_suggestions_follow_what_people_did(database_url: str) -> None:
    """From records over a tick to the search box: who wrote more comes first, who wrote nothing last."""
    async with open_mirror(database_url) as mirror:
        stage = Stage(mirror)
        await stage.engine.prepare(INDEXES)
        people = [profile(ALICE, username="ねこまる"), profile(BOB, username="くろ ねこ")]
        silent = profile(ALICE, username="ねこ", name="other")
        await mirror.write(ALPHA, [*people, community(ALPHA, "cats", author=ALICE, name="ねこの会")])
        await mirror.write(ALPHA, [post(ALICE, "1", "a", created_at=AT)])
        await stage.tick()
        await stage.project()
        await stage.delivery.deliver()
        assert await stage.suggested() == ["ねこまる", "くろ ねこ"]
        await mirror.write(ALPHA, [post(BOB, name, "a", created_at=AT) for name in "12"])
        await stage.tick()
        assert await stage.suggested() == ["くろ ねこ", "ねこまる"]
        await mirror.write(ALPHA, [silent, *(delete(post_key(BOB, name), author=BOB) for name in "12")])
        await stage.project()
        await stage.tick()
        assert await stage.suggested() == ["ねこ", "ねこまる", "くろ ねこ"]


async def test_entries_that_came_before_their_community_count(database_url: str) -> None:
    """As soon as it is there."""
    async with open_mirror(database_url) as mirror:
        stage = Stage(mirror)
        await stage.engine.prepare(INDEXES)
        entries = [
            reference(CATS, post_key(who, "1"), author=who, name=who, created_at=AT) for who in (ALICE, BOB)
        ]
        await mirror.write(ALPHA, entries)
        await stage.tick()
        await mirror.write(ALPHA, [community(ALPHA, "cats", author=ALICE, name="ねこ")])
        await stage.project()
        await stage.tick()
        (hit,) = await stage.hits(COMMUNITIES)
        assert (hit["postCount7d"], hit["activeAuthors7d"], hit["lastPostAt"]) == (2, 2, AT)


async def test_deletes_by_key_range_and_href_reach_entries(database_url: str) -> None:
    """Also the silent one of a reference whose post went (C30)."""
    async with open_mirror(database_url) as mirror:
        posts = [post(ALICE, name, "a", created_at=AT) for name in "1234"]
        entries = [
            reference(CATS, post_key(ALICE, name), author=ALICE, name=name, created_at=AT) for name in "1234"
        ]
        await mirror.write(ALPHA, [*posts, *entries])
        keeper = keeper_of(mirror, counting())
        deletes = [
            delete(post_key(ALICE, "1"), author=ALICE, created_at="2025-03-14T11:30:00Z"),
            delete(f"{CATS}/2", author=ALICE, created_at="2025-03-14T11:30:01Z"),
            delete(document_address(posts[2], ALICE), author=ALICE, created_at="2025-03-14T11:30:02Z"),
            delete(profile_key(ALICE) + "/posts*", author=ALICE, created_at="2025-03-14T11:30:03Z"),
        ]
        counts = []
        for commit in (None, *deletes):
            await mirror.write(ALPHA, [commit] if commit else [])
            await keeper.tick(START)
            row = [await _numbers(mirror, subject) for subject in (ALICE, CATS)]
            counts.append(tuple(each["posts_30d"] for each in row))
        assert counts == [(4, 4), (3, 3), (3, 2), (2, 1), (0, 0)]


async def test_an_edit_is_no_entry(database_url: str) -> None:
    """The first createdAt under the key counts, also when an older copy comes later."""
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [post(ALICE, "1", "a", created_at="2025-03-10T00:00:00Z")])
        await mirror.write(ALPHA, [post(ALICE, "1", "b", created_at=AT)])
        await keeper_of(mirror, counting()).tick(START)
        assert (await _numbers(mirror, ALICE))["last_at"].isoformat() == "2025-03-10T00:00:00+00:00"


async def test_a_tick_touches_what_changed_alone(database_url: str) -> None:
    """Of many, one who posted, and one whose entry left a window."""
    async with open_mirror(database_url) as mirror:
        people = ["con" + str(number).rjust(39, "0") for number in range(200)]
        for number, person in enumerate(people):
            at = START - timedelta(days=6, hours=12 + number % 3, minutes=number)
            await put(mirror, f"cckv://{person}/posts/1", person, at)
        keeper = keeper_of(mirror, counting())
        assert await keeper.tick(START) == 200
        assert await keeper.tick(START + timedelta(minutes=10)) == 0
        await put(mirror, f"cckv://{people[0]}/posts/2", people[0], START)
        assert await keeper.tick(START + timedelta(minutes=20)) == 1
        due = await mirror.rows(
            "select count(*) from mirror.activity where due_at <= $1", START + timedelta(hours=9)
        )
        touched = await keeper.tick(START + timedelta(hours=9))
        assert 0 < touched == due[0]["count"] < 100


@pytest.mark.parametrize(
    # while what changed is written, and when that is done and something is counted from its entries
    "statement",
    ["count_all_changes", "count_again"],
)
async def test_a_tick_that_fails_leaves_the_old_numbers(
    database_url: str, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """Marks and the queue of what is to be delivered too: the next one counts the same."""
    tables = (
        "select * from mirror.activity order by subject",
        "select * from mirror.activity_marks order by 1, 2, 3, 4",
        "select * from mirror.activity_undelivered order by id",
    )
    async with open_mirror(database_url) as mirror:
        keeper = keeper_of(mirror, counting())
        await put(mirror, f"cckv://{ALICE}/posts/1", ALICE, START)
        await keeper.tick(START)
        await put(mirror, f"cckv://{ALICE}/posts/2", ALICE, START)
        await put(mirror, f"cckv://{BOB}/posts/1", BOB, START)
        before = [await mirror.rows(table) for table in tables]
        sql = activity_module._SQL[SubjectKind.USER]
        sound, broken = (
            "select subject from put\n",
            "select subject || 1 / (random() * 0)::integer from put\n",
        )
        assert sound in sql[statement]
        monkeypatch.setitem(sql, statement, sql[statement].replace(sound, broken))
        with pytest.raises(asyncpg.DivisionByZeroError):
            await keeper.tick(START)
        assert [await mirror.rows(table) for table in tables] == before
        monkeypatch.undo()
        await keeper.tick(START)
        assert (await _numbers(mirror, ALICE))["posts_30d"] == 2
        assert (await _numbers(mirror, BOB))["posts_30d"] == 1


async def test_two_processes_never_count_one_change_twice(database_url: str) -> None:
    """They take turns: together they touch every subject once."""
    async with open_mirror(database_url) as mirror, open_mirror(database_url) as other:
        for number in range(60):
            person = "con" + str(number).rjust(39, "0")
            await put(mirror, f"cckv://{person}/posts/1", person, START)
        touched = await asyncio.gather(
            *(keeper_of(each, counting()).tick(START) for each in (mirror, other, mirror, other))
        )
        assert sum(touched) == 60
        posts = await mirror.rows("select posts_30d, count(*) from mirror.activity group by 1")
        assert posts == [{"posts_30d": 1, "count": 60}]


async def test_other_settings_count_everything_again_without_an_empty_answer(database_url: str) -> None:
    """The numbers of before stand until the new ones are complete; progress is told; then once is enough."""
    async with open_mirror(database_url) as mirror:
        for number in range(30):
            person = "con" + str(number % 3).rjust(39, "0")
            await put(mirror, f"cckv://{person}/posts/{number}", person, START - timedelta(days=2 * number))
        await keeper_of(mirror, counting()).tick(START)
        activity = Activity(mirror.database, counting(3_600.0, 60))
        assert await activity.begin_tick(START)
        assert await activity.recount(START, at_once=2)
        state = await activity.recount_state()
        assert state is not None
        assert (state.done, state.subjects) == (2, 3)
        assert len(await mirror.rows("select from mirror.activity where posts_30d > 0")) == 3
        delivery = FigureDelivery(activity, None, profile_schemas=[], community_schemas=[])  # type: ignore[arg-type]
        assert await delivery.deliver() == 0
        await keeper_of(mirror, counting(3_600.0, 60)).tick(START)
        assert await activity.recount_state() is None
        await assert_counted(mirror, START, counting(3_600.0, 60))
        assert await keeper_of(mirror, counting(3_600.0, 60)).tick(START) == 0


async def test_what_comes_during_a_recount_is_counted_once(database_url: str) -> None:
    """Whether it came before its subject was counted again or after."""
    async with open_mirror(database_url) as mirror:
        people = (ALICE, BOB)
        for who in people:
            await put(mirror, f"cckv://{who}/posts/1", who, START)
        await keeper_of(mirror, counting()).tick(START)
        activity = Activity(mirror.database, counting(3_600.0))
        assert await activity.begin_tick(START)
        for number in range(2, 5):
            for who in people:
                await put(mirror, f"cckv://{who}/posts/{number}", who, START)
            await activity.recount(START, at_once=1)
        await keeper_of(mirror, counting(3_600.0)).tick(START)
        for who in people:
            numbers = await _numbers(mirror, who)
            assert (numbers["posts_30d"], numbers["weight"]) == (4, 4.0)
        assert await activity.recount_state() is None


async def test_records_from_before_the_migration_are_counted(database_url: str) -> None:
    """A database that is brought up to date needs no new crawl."""
    async with open_mirror(database_url) as mirror:
        await put(mirror, f"cckv://{ALICE}/posts/1", ALICE, START)
        await mirror.database.execute("truncate mirror.activity_marks")
        text = resources.files("indexer.mirror").joinpath("migrations/0004_activity.sql").read_text()
        await mirror.database.execute(text[text.index("-- What is there already") :])
        await keeper_of(mirror, counting()).tick(START)
        assert (await _numbers(mirror, ALICE))["posts_30d"] == 1


@pytest.mark.parametrize("half_life", [1.0, 31_536_000.0])
async def test_edges_are_counted_alike_in_sql(database_url: str, half_life: float) -> None:
    """Windows to the microsecond, midnight, the future, year 9999 and year 1, thousands at one instant."""
    moment, midnight = timedelta(microseconds=1), datetime(2025, 3, 14, tzinfo=START.tzinfo)
    times = [
        START - timedelta(days=days) - extra for days in (7, 30) for extra in (-moment, moment * 0, moment)
    ]
    times += [midnight - timedelta(seconds=1), midnight, midnight + timedelta(seconds=1)]
    times += [
        START + timedelta(minutes=3),
        START + timedelta(hours=23),
        datetime(2099, 1, 1, tzinfo=START.tzinfo),
    ]
    times += [datetime(9999, 12, 31, tzinfo=START.tzinfo), datetime(1, 1, 2, tzinfo=START.tzinfo)]
    times += [START - timedelta(hours=1)] * 2_000
    person = "con" + "0".rjust(39, "0")
    async with open_mirror(database_url) as mirror:
        await mirror.database.execute(
            "insert into mirror.records (key, owner, author, schema, parent, source, cdid, created_at,"
            " first_created_at, signed) select $1 || n, $2, $2, $3, $1, 's', 'c' || n, t, t, 'x'"
            " from unnest($4::timestamptz[]) with ordinality as u (t, n)",
            f"cckv://{person}/posts/", person, wire.MARKDOWN, times,
        )  # fmt: skip
        counted_with = replace(counting(), half_life_seconds=half_life)
        now = START
        for _ in range(3):
            await keeper_of(mirror, counted_with).tick(now)
            await assert_counted(mirror, now, counted_with)
            now += timedelta(hours=20)


@pytest.mark.parametrize("ahead", [timedelta(hours=20), timedelta(days=3)])
async def test_an_entry_of_the_future_costs_what_it_is(database_url: str, ahead: timedelta) -> None:
    """What did not change is not read again: while one is held, when a day turns, or when its time comes."""
    async with open_mirror(database_url) as mirror:
        for number in range(20):
            at = START - timedelta(days=2, minutes=number)
            await put(mirror, f"{COMMUNITY}/{number}", PEOPLE[number % 2], at, wire.REFERENCE)
            await put(mirror, f"cckv://{ALICE}/posts/{number}", ALICE, at)
        await put(mirror, f"{COMMUNITY}/ahead", PEOPLE[0], START + ahead, wire.REFERENCE)
        await put(mirror, f"cckv://{ALICE}/posts/ahead", ALICE, START + ahead)
        await keeper_of(mirror, counting()).tick(START)
        # Nobody is told that these go, so only who reads all entries finds fewer of them.
        async with mirror.database.connection() as connection, connection.transaction():
            await connection.execute("set local session_replication_role = replica")
            await connection.execute("delete from mirror.records where key like '%/19' or key like '%/18'")
        for now in (
            START + timedelta(minutes=1),
            START + timedelta(hours=13),
            START + ahead + timedelta(hours=1),
        ):
            await put(mirror, f"{COMMUNITY}/{now.isoformat()}", PEOPLE[2], now, wire.REFERENCE)
            await keeper_of(mirror, counting()).tick(now)
        for subject in (COMMUNITY, ALICE):
            numbers = await _numbers(mirror, subject)
            assert (numbers["posts_30d"], numbers["held"]) == (21 + 3 * (subject == COMMUNITY), 0)


async def test_a_sweep_of_forty_thousand_posts(database_url: str) -> None:
    """C28: marks are many, parameters few, and a batch is bounded."""
    async with open_mirror(database_url) as mirror:
        await mirror.database.execute(
            "insert into mirror.records (key, owner, author, schema, parent, source, cdid, created_at,"
            " first_created_at, signed) select $1 || n, $2, $2, $3, $1, 's', 'c' || n, $4, $4, 'x'"
            " from generate_series(1, 40000) n",
            f"cckv://{ALICE}/posts/", ALICE, wire.MARKDOWN, START - timedelta(days=1),
        )  # fmt: skip
        keeper = keeper_of(mirror, counting())
        await keeper.tick(START)
        assert (await _numbers(mirror, ALICE))["posts_30d"] == 40_000
        await mirror.database.execute(
            "delete from mirror.records where starts_with(key, $1)", f"cckv://{ALICE}/"
        )
        await tick_in_batches(Activity(mirror.database, counting()), START, 1_000)
        numbers = await _numbers(mirror, ALICE)
        assert (numbers["posts_30d"], numbers["weight"], numbers["last_at"]) == (0, 0, None)
        assert await mirror.rows("select from mirror.activity_marks") == []


async def test_an_engine_that_was_filled_anew_gets_every_number(database_url: str) -> None:
    """Also those that have not changed since."""
    async with open_mirror(database_url) as mirror:
        stage = Stage(mirror)
        await stage.engine.prepare(INDEXES)
        await mirror.write(ALPHA, [post(ALICE, "1", "a", created_at=AT), profile(ALICE)])
        await stage.project()
        await stage.tick()
        await mirror.database.execute("update search.concrnt_users set figures = null, document = '{}'")
        await mirror.write(ALPHA, [profile(ALICE, username="あ", created_at="2025-03-02T00:00:00Z")])
        await stage.project()
        await stage.tick(START + timedelta(minutes=1))
        assert "postCount30d" not in (await stage.hits(USERS))[0]
        await stage.activity.deliver_all()
        assert await stage.delivery.deliver() == 0
        assert (await stage.hits(USERS))[0]["postCount30d"] == 1


async def test_a_tick_reads_by_index(database_url: str) -> None:
    """What changed is looked up; no statement of a tick reads all records or all numbers."""
    async with open_mirror(database_url) as mirror:
        await mirror.database.execute(
            "insert into mirror.records (key, owner, author, schema, parent, source, cdid, created_at,"
            " first_created_at, signed)"
            " select 'cckv://a.example/c/' || n % 300 || '/' || n, 'a.example',"
            "  'con' || lpad((n % 5000)::text, 39, '0'), $1, 'cckv://a.example/c/' || n % 300, 's', 'c' || n,"
            "  $2::timestamptz - n * interval '1 minute', $2::timestamptz - n * interval '1 minute', 'x'"
            " from generate_series(1, 20000) n",
            wire.MARKDOWN, START,
        )  # fmt: skip
        await keeper_of(mirror, counting()).tick(START)
        await mirror.database.execute("analyze")
        await put(mirror, "cckv://a.example/c/1/new", ALICE, START)
        activity = Activity(mirror.database, counting())
        for kind in SubjectKind:
            for statement, more in (
                ("count_all_changes", ()),
                ("count_changes", ()),
                ("count_again", ([ALICE],)),
            ):
                plan = await _plan(mirror, activity, activity_module._SQL[kind][statement], START, *more)
                assert [line for line in plan if "Seq Scan on records" in line] == []
                assert [line for line in plan if "Seq Scan on activity " in line] == []


async def _plan(
    mirror: Mirror, activity: Activity, statement: str, now: datetime, *more: object
) -> list[str]:
    async with mirror.database.connection() as connection, connection.transaction():
        await connection.execute(activity_module._COMMON["plan_by_index"])
        rows = await connection.fetch(f"explain {statement}", *activity._parameters(now, 1_000, 1_000), *more)
    return [row[0] for row in rows]
