"""The formula of section 6, against a reading of it in exact arithmetic (cases C20, C38)."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.activity.answer import ActivityPresenter
from indexer.activity.score import NO_RANK, Basis, Day, Entry, Numbers, aged, numbers

NOW = datetime(2025, 3, 14, 12, tzinfo=UTC)
HALF_LIVES = [1.0, 60.0, 3_600.0, 604_800.0, 31_536_000.0, 315_360_000.0]
SECOND = timedelta(seconds=1)


def count(*ages: timedelta, half_life: float = 604_800.0, days: int = 30) -> Numbers:
    """The numbers of entries of these ages."""
    return numbers(
        [Entry(NOW - age) for age in ages], now=NOW, half_life_seconds=half_life, history_days=days
    )


@pytest.mark.parametrize("half_life", HALF_LIVES)
def test_scores_are_those_of_ten_plain_lines(half_life: float) -> None:
    """Entries aged 0 to 31 days, for half-lives of a second to ten years: within 1e-9; what is tiny is 0."""
    ages = [timedelta(hours=7 * n, microseconds=n) for n in range(107)]
    expected = 0.0
    for age in ages:
        if age <= timedelta(days=30):
            exponent = -age.total_seconds() / half_life
            expected += math.pow(2.0, exponent) if exponent > -1_070 else 0.0
    assert count(*ages, half_life=half_life).basis.score(NOW) == pytest.approx(expected, rel=1e-9)
    for later in (timedelta(hours=1), timedelta(days=400)):
        score = count(*ages, half_life=half_life).basis.score(NOW + later)
        assert 0.0 <= score < expected + 1e-12


@pytest.mark.parametrize("half_life", HALF_LIVES)
def test_one_half_life_is_a_half(half_life: float) -> None:
    """Not an e-th."""
    assert aged(timedelta(seconds=half_life), half_life) == 0.5
    assert aged(timedelta(seconds=-half_life), half_life) == 1.0


def test_exactly_7_and_30_days_still_count() -> None:
    """A microsecond more does not."""
    moment = timedelta(microseconds=1)
    week, month = timedelta(days=7), timedelta(days=30)
    counted = count(week, week + moment, month, month + moment)
    assert (counted.posts_7d, counted.posts_30d) == (1, 3)
    assert counted.basis.score(NOW) == pytest.approx(0.5 + aged(week + moment, 604_800) + 2 ** (-30 / 7))


def test_future_entries_count_as_now_whatever_their_date() -> None:
    """Each as exactly 1, in today's days, until its time has come (C20)."""
    ahead = [timedelta(minutes=3), timedelta(hours=23), timedelta(days=27_000)]
    entries = [Entry(NOW + each, "a") for each in ahead]
    entries += [Entry(datetime(9999, 12, 31, tzinfo=UTC), "b"), Entry(datetime(1, 1, 1, tzinfo=UTC), "c")]
    counted = numbers(entries, now=NOW, half_life_seconds=3_600, history_days=30)
    assert counted.basis == Basis(3_600, None, 0.0, 4)
    assert counted.basis.score(NOW) == 4.0
    assert (counted.posts_7d, counted.authors_7d) == (4, 2)
    assert counted.days == (Day(NOW.date(), 4, 2),)
    assert counted.last_at == datetime(9999, 12, 31, tzinfo=UTC)
    assert math.isfinite(counted.basis.rank(NOW))


def test_thousands_of_entries_at_one_instant() -> None:
    """Add up."""
    assert count(*[timedelta(days=1)] * 5_000).basis.score(NOW) == pytest.approx(5_000 * 2 ** (-1 / 7))


def test_a_second_around_midnight_makes_two_days() -> None:
    """In UTC, whatever the entries' own offset."""
    midnight = datetime(2025, 3, 14, tzinfo=UTC)
    counted = numbers(
        [Entry(midnight - SECOND), Entry(midnight), Entry(midnight + SECOND)],
        now=NOW, half_life_seconds=60, history_days=2,
    )  # fmt: skip
    assert [(day.date.day, day.posts) for day in counted.days] == [(13, 1), (14, 2)]


@pytest.mark.parametrize("half_life", HALF_LIVES)
def test_ranks_order_as_scores_do_for_ever(half_life: float) -> None:
    """Also where every score has long become 0; without entries comes last."""
    ages = [timedelta(0), SECOND, timedelta(minutes=1), timedelta(hours=5), timedelta(days=29)]
    ranks = [count(age, half_life=half_life).basis.rank(NOW) for age in ages]
    assert all(newer > older for newer, older in pairwise([*ranks, Basis(half_life).rank(NOW)]))
    assert Basis(half_life).rank(NOW) == NO_RANK


@given(
    st.lists(st.timedeltas(timedelta(0), timedelta(days=30)), min_size=1, max_size=20),
    st.lists(st.timedeltas(timedelta(0), timedelta(days=30)), min_size=1, max_size=20),
    st.sampled_from(HALF_LIVES),
)
def test_the_better_score_has_the_better_rank(
    some: list[timedelta], others: list[timedelta], half_life: float
) -> None:
    """Whenever floats can tell the scores apart."""
    first, second = (count(*ages, half_life=half_life).basis for ages in (some, others))
    if first.score(NOW) > second.score(NOW) * (1 + 1e-6) > 1e-290:
        assert first.rank(NOW) > second.rank(NOW)


# --- what answers show ------------------------------------------------------------------------------


def test_answers_fill_the_days_and_age_the_score() -> None:
    """The score is that of the moment of the answer; days without entries are zero; today is last."""
    hit = {
        "type": "community",
        "activityScore": 2_871.5,
        "activityHistory": [["2025-02-01", 9, 9], ["2025-03-12", 4, 3]],
        "activityBasis": {"halfLife": 3_600.0, "at": "2025-03-14T11:00:00Z", "weight": 3.0, "held": 1},
    }
    shown = ActivityPresenter(4)(hit, NOW)
    assert shown == {
        "type": "community",
        "activityScore": 2.5,
        "activityHistory": [
            {"date": "2025-03-11", "posts": 0, "authors": 0},
            {"date": "2025-03-12", "posts": 4, "authors": 3},
            {"date": "2025-03-13", "posts": 0, "authors": 0},
            {"date": "2025-03-14", "posts": 0, "authors": 0},
        ],
    }
    person = {**hit, "type": "user", "activityHistory": [["2025-03-14", 2]]}
    days = ActivityPresenter(2)(person, NOW)["activityHistory"]
    assert days == [{"date": "2025-03-13", "posts": 0}, {"date": "2025-03-14", "posts": 2}]


def test_what_no_tick_has_reached_has_no_activity() -> None:
    """And is shown as it is."""
    assert ActivityPresenter(30)({"type": "user", "ccid": "x"}, NOW) == {"type": "user", "ccid": "x"}
