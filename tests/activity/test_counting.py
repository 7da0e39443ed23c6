"""Any history of entries, edits, deletes, moves of time and ticks: the numbers are the formula's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.activity.keeper import ActivityKeeper
from indexer.activity.score import Day, Entry, numbers
from indexer.mirror.activity import Activity, ActivityRow, Counting, SubjectKind
from indexer.simulation import schemas as wire
from tests.replication.stage import open_mirror

if TYPE_CHECKING:
    from tests.replication.stage import Mirror

pytestmark = pytest.mark.anyio

START = datetime(2025, 3, 14, 12, tzinfo=UTC)
COMMUNITY = "cckv://alpha.example/concrnt.world/communities/cats"
PEOPLE = tuple("con" + str(number).rjust(39, "0") for number in range(3))
DAY = 86_400


class Silent:
    """Metrics that nobody reads."""

    def activity_refreshed(self, subject: str, result: str, seconds: float) -> None:
        """Nothing."""


async def nothing() -> int:
    """Deliver to nobody."""
    return 0


def keeper_of(mirror: Mirror, counting: Counting) -> ActivityKeeper:
    """A keeper that is asked to tick by hand."""
    return ActivityKeeper(
        Activity(mirror.database, counting),
        deliver=nothing,
        interval_seconds=600,
        metrics=Silent(),
        clock=lambda: START,
    )


def counting(half_life_seconds: float = 604_800.0, history_days: int = 30) -> Counting:
    """What is counted with."""
    return Counting(half_life_seconds, history_days, (wire.MARKDOWN,), (wire.PROFILE,))


async def put(mirror: Mirror, key: str, author: str, at: datetime, schema: str = wire.MARKDOWN) -> None:
    """Put a record without its feed; what stands under the key is overwritten."""
    owner, parent = key.split("/")[2], key.rpartition("/")[0]
    await mirror.database.execute(
        "insert into mirror.records (key, owner, author, schema, parent, source, cdid, created_at,"
        " first_created_at, signed) values ($1, $2, $3, $4, $5, 'alpha.example', $1, $6, $6, '{}')"
        " on conflict (key) do update set author = excluded.author, schema = excluded.schema,"
        " first_created_at = least(records.first_created_at, excluded.first_created_at)",
        key, owner, author, schema, parent, at,
    )  # fmt: skip


async def tick_in_batches(activity: Activity, now: datetime, at_once: int) -> None:
    """A tick of so many marks and so many subjects that are due at once."""
    await activity.begin_tick(now)
    for kind in SubjectKind:
        is_last = False
        while not is_last:
            is_last = (await activity.refresh(kind, now, marks=at_once, due=at_once)).is_last


async def assert_counted(mirror: Mirror, now: datetime, counted_with: Counting) -> None:
    """Every subject's stored numbers are the formula's."""
    records = await mirror.rows(
        "select key, author, schema, parent, first_created_at as at from mirror.records"
    )
    stored = {row["subject"]: row for row in await mirror.rows("select * from mirror.activity")}
    for subject in (COMMUNITY, *PEOPLE):
        is_community = subject == COMMUNITY
        entries = [
            Entry(row["at"], row["author"])
            for row in records
            if (row["parent"] == subject if is_community else row["author"] == subject)
            and (is_community or row["schema"] in counted_with.post_schemas)
        ]
        if subject not in stored:
            assert entries == []
            continue
        expected = numbers(
            entries,
            now=now,
            half_life_seconds=counted_with.half_life_seconds,
            history_days=counted_with.history_days,
        )
        row = stored[subject]
        assert (row["posts_7d"], row["posts_30d"], row["last_at"]) == (
            expected.posts_7d, expected.posts_30d, expected.last_at,
        )  # fmt: skip
        assert row["authors_7d"] == (expected.authors_7d if is_community else None)
        assert (row["newest_at"], row["held"]) == (expected.basis.newest_at, expected.basis.held)
        assert row["weight"] == pytest.approx(expected.basis.weight, rel=1e-9)
        assert row["rank"] == pytest.approx(expected.basis.rank(now), rel=1e-12)
        first = (now - timedelta(days=counted_with.history_days - 1)).date()
        history = ActivityRow(**{name: row[name] for name in ActivityRow.__slots__}).history()
        days = [Day(day, posts, authors) for day, posts, authors in history if day >= first]
        assert days == [day if is_community else Day(day.date, day.posts, 0) for day in expected.days]


# --- any history -----------------------------------------------------------------------------------

_MOMENTS = st.one_of(
    st.integers(-40 * DAY, 40 * DAY),
    st.sampled_from([0, -7 * DAY, -30 * DAY, -DAY // 2, DAY // 2, -30 * DAY - 1, -7 * DAY + 1]),
    # soon: servers let such dates pass
    st.sampled_from([1, 600, 3_600, 11 * 3_600, 13 * 3_600, DAY, 2 * DAY]),
)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("post"), st.integers(0, 2), st.integers(0, 5), _MOMENTS),
        st.tuples(st.just("entry"), st.integers(0, 2), st.integers(0, 5), _MOMENTS),
        st.tuples(st.just("other"), st.integers(0, 2), st.integers(0, 5), _MOMENTS),
        st.tuples(st.just("delete"), st.integers(0, 2), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("sweep"), st.integers(0, 2), st.just(0), st.just(0)),
        st.tuples(
            st.just("wait"),
            st.just(0),
            st.just(0),
            st.sampled_from([1, 600, DAY // 2, 13 * 3_600, DAY, 7 * DAY, 30 * DAY]),
        ),
        st.tuples(st.just("tick"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("back"), st.just(0), st.just(0), st.sampled_from([1, 3_600, DAY])),
    ),
    max_size=25,
)


@dataclass
class History:
    """A mirror under a clock that a test moves."""

    mirror: Mirror
    counting: Counting
    at_once: int
    now: datetime = START
    names: set[str] = field(default_factory=set)

    async def take(self, step: tuple[str, int, int, int]) -> None:
        """One step."""
        what, person, name, seconds = step
        author = PEOPLE[person]
        post = f"cckv://{author}/concrnt.world/profiles/main/posts/{name}"
        at = self.now + timedelta(seconds=seconds)
        if what == "post":
            await put(self.mirror, post, author, at)
        elif what == "other":
            await put(self.mirror, post, author, at, wire.LIST)
        elif what == "entry":
            await put(self.mirror, f"{COMMUNITY}/{name}", author, at, wire.REFERENCE)
        elif what == "delete":
            keys = [post, f"{COMMUNITY}/{name}"]
            await self.mirror.database.execute("delete from mirror.records where key = any($1)", keys)
        elif what == "sweep":
            await self.mirror.database.execute("delete from mirror.records where author = $1", author)
        elif what == "wait":
            self.now = at
        elif what == "back":
            self.now = self.now - timedelta(seconds=seconds)
        else:
            await self.tick()

    async def tick(self) -> None:
        """Tick; from then on everything is right."""
        await tick_in_batches(Activity(self.mirror.database, self.counting), self.now, self.at_once)
        await assert_counted(self.mirror, self.now, self.counting)


def test_any_history_is_counted_as_the_formula_says(database_url: str) -> None:
    """Ticks between whatever steps, in batches of any size, with half-lives from a second to a year."""

    async def live(steps: list[tuple[str, int, int, int]], half_life: float, days: int, at_once: int) -> None:
        async with open_mirror(database_url) as mirror:
            await mirror.database.execute(
                "truncate mirror.records, mirror.activity, mirror.activity_undelivered,"
                " mirror.activity_marks, mirror.activity_settings"
            )
            history = History(mirror, counting(half_life, days), at_once)
            for step in steps:
                await history.take(step)
            await history.tick()

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        _STEPS,
        st.sampled_from([1.0, 60.0, 3_600.0, 604_800.0, 31_536_000.0]),
        st.sampled_from([1, 30, 60]),
        st.sampled_from([1, 50_000]),
    )
    def holds(steps: list[tuple[str, int, int, int]], half_life: float, days: int, at_once: int) -> None:
        asyncio.run(live(steps, half_life, days, at_once))

    holds()


async def test_what_is_due_takes_its_marks(database_url: str) -> None:
    """However small a batch, what was counted for a moment that came is not told of the same change again."""
    async with open_mirror(database_url) as mirror:
        for person in PEOPLE:
            for number in range(2):
                await put(mirror, f"cckv://{person}/posts/{number}", person, START)
        await tick_in_batches(Activity(mirror.database, counting()), START, 1)
        await mirror.database.execute("delete from mirror.records where key like '%/posts/0'")
        for now in (START - timedelta(seconds=1), START + timedelta(days=7, seconds=1)):
            await tick_in_batches(Activity(mirror.database, counting()), now, 1)
            await assert_counted(mirror, now, counting())


async def test_digits_that_a_heavy_entry_took_are_found_again(database_url: str) -> None:
    """What is left when the newest went weighs less than a billionth of them, and is right to 1e-9."""
    async with open_mirror(database_url) as mirror:
        counted_with = counting(3_600.0)
        posts = f"cckv://{PEOPLE[0]}/concrnt.world/profiles/main/posts"
        for number in range(20):
            await put(
                mirror, f"{posts}/light{number}", PEOPLE[0], START - timedelta(hours=34, minutes=number)
            )
            await put(
                mirror, f"{COMMUNITY}/light{number}", PEOPLE[1], START - timedelta(hours=34, minutes=number)
            )
        await keeper_of(mirror, counted_with).tick(START)
        for number in range(200):
            await put(mirror, f"{posts}/heavy{number}", PEOPLE[0], START - timedelta(seconds=number))
            await put(mirror, f"{COMMUNITY}/heavy{number}", PEOPLE[2], START - timedelta(seconds=number))
        await keeper_of(mirror, counted_with).tick(START)
        await mirror.database.execute("delete from mirror.records where key like '%heavy%'")
        await keeper_of(mirror, counted_with).tick(START)
        await assert_counted(mirror, START, counted_with)


async def test_many_ticks_neither_drift_nor_grow(database_url: str) -> None:
    """A hundred, each with entries that come and go: the same numbers, and a row of bounded length."""
    async with open_mirror(database_url) as mirror:
        counted_with, now = counting(), START
        for number in range(100):
            now += timedelta(hours=3)
            await put(mirror, f"{COMMUNITY}/{number}", PEOPLE[number % 3], now - timedelta(minutes=number))
            await put(mirror, f"cckv://{PEOPLE[0]}/posts/{number}", PEOPLE[0], now - timedelta(hours=number))
            if number % 3 == 0:
                keys = [f"{COMMUNITY}/{number // 2}", f"cckv://{PEOPLE[0]}/posts/{number // 2}"]
                await mirror.database.execute("delete from mirror.records where key = any($1)", keys)
            await keeper_of(mirror, counted_with).tick(now)
        await assert_counted(mirror, now, counted_with)
        lengths = await mirror.rows("select max(cardinality(days)) from mirror.activity")
        assert lengths[0]["max"] <= 30 + 32
