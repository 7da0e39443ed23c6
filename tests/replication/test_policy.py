"""When a server is asked again: pure rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from indexer.replication.policy import (
    STALE_INTERVAL,
    failure_delay,
    is_stale,
    next_interval,
    with_jitter,
)

SHORTEST, LONGEST = timedelta(seconds=15), timedelta(minutes=15)
NOW = datetime(2025, 6, 1, tzinfo=UTC)


def test_something_new_brings_the_shortest_interval_and_silence_the_longest() -> None:
    """Each poll that finds nothing doubles the interval, up to the longest."""
    interval = next_interval(LONGEST, found_new=True, shortest=SHORTEST, longest=LONGEST)
    assert interval == SHORTEST
    waited = []
    for _ in range(8):
        interval = next_interval(interval, found_new=False, shortest=SHORTEST, longest=LONGEST)
        waited.append(interval.total_seconds())
    assert waited == [30, 60, 120, 240, 480, 900, 900, 900]


@given(previous=st.floats(0, 1e6), found_new=st.booleans(), chance=st.floats(0, 1))
def test_an_interval_stays_within_its_bounds(previous: float, found_new: bool, chance: float) -> None:
    """Whatever was stored before, and jitter moves it by a tenth at most."""
    interval = next_interval(
        timedelta(seconds=previous), found_new=found_new, shortest=SHORTEST, longest=LONGEST
    )
    assert SHORTEST <= interval <= LONGEST
    assert abs(with_jitter(interval, lambda: chance) - interval) <= interval * 0.1 + timedelta(microseconds=1)


def test_failures_step_back_five_minutes_fifteen_an_hour() -> None:
    """The first failure retries at the next poll."""
    delays = [failure_delay(n, interval=SHORTEST, stale=False) for n in range(1, 7)]
    assert [delay.total_seconds() for delay in delays] == [15, 300, 900, 3600, 3600, 3600]


def test_a_server_is_stale_after_thirty_failures_over_three_days() -> None:
    """Neither alone is enough; then it is asked once a day."""
    three_days_ago = NOW - timedelta(days=3)
    assert is_stale(30, three_days_ago, now=NOW)
    assert not is_stale(29, three_days_ago, now=NOW)
    assert not is_stale(300, NOW - timedelta(days=2), now=NOW)
    assert failure_delay(30, interval=SHORTEST, stale=True) == STALE_INTERVAL
