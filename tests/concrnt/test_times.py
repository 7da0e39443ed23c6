"""Instants: RFC 3339, exact, whatever the time zones."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indexer.concrnt.times import (
    MalformedTime,
    TimeOutOfRange,
    format_instant,
    from_datetime,
    parse_instant,
    to_datetime,
)

FIRST = -62_135_596_800 * 10**9
LAST = 253_402_300_799 * 10**9 + 999_999_999


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host whose own time is nine hours ahead."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2025-03-01T12:00:00+09:00", 1_740_798_000 * 10**9),
        ("2025-03-01t10:00:00z", 1_740_823_200 * 10**9),
        ("2025-03-01T10:00:00-00:00", 1_740_823_200 * 10**9),
        ("2025-03-01T10:00:00.123456789Z", 1_740_823_200_123_456_789),
        ("2025-03-01T10:00:00.1Z", 1_740_823_200_100_000_000),
        ("2024-02-29T00:00:00Z", 1_709_164_800 * 10**9),
        ("0001-01-01T00:00:00Z", FIRST),
        ("0001-01-01T14:00:00+14:00", FIRST),
        ("9999-12-31T23:59:59.999999999Z", LAST),
        ("9999-12-31T11:59:59.999999999-12:00", LAST),
    ],
)
@pytest.mark.usefixtures("tokyo")
def test_a_time_is_read_to_the_nanosecond_in_any_time_zone(text: str, expected: int) -> None:
    """Every RFC 3339 time is the UTC instant that it names, wherever the host stands."""
    assert parse_instant(text) == expected


def test_fraction_digits_past_the_ninth_are_cut() -> None:
    """Ten nines stay below the next second: nothing is rounded."""
    assert parse_instant("1970-01-01T00:00:00.9999999999Z") == 999_999_999


@pytest.mark.parametrize(
    "text",
    [
        "",
        "infinity",
        "1700000000000",
        "2025-03-01T10:00:00",
        "2025-03-01",
        "2025-02-29T10:00:00Z",
        "2025-13-01T10:00:00Z",
        "2025-00-01T10:00:00Z",
        "0000-01-01T00:00:00Z",
        "2016-12-31T23:59:60Z",
        "2025-03-01T24:00:00Z",
        "2025-03-01T10:60:00Z",
        "2025-03-01 10:00:00Z",
        "2025-03-01T10:00:00.Z",
        "2025-03-01T10:00:00,5Z",
        "2025-03-01T10:00Z",
        "2025-03-01T10:00:00+0900",
        "2025-03-01T10:00:00+24:00",
        "2025-03-01T10:00:00+09:60",
        "2025-03-01T10:00:00 Z",
        " 2025-03-01T10:00:00Z",
        "2025-03-01T10:00:00Z\n",
        "2025-03-01T10:00:00Z\0",
        "٢٠٢٥-٠٣-٠١T١٠:٠٠:٠٠Z",
        "２０２５-03-01T10:00:00Z",
        "+2025-03-01T10:00:00Z",
        "20250301T100000Z",
        "2025-03-01T10:00:00.\ud800Z",
        "2025-03-01T10:00:00." + "1" * 200 + "Z",
    ],
)
def test_what_is_no_rfc_3339_time_is_malformed(text: str) -> None:
    """No offset, no such day, leap seconds, other digits: none of them is guessed at."""
    with pytest.raises(MalformedTime):
        parse_instant(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_an_instant_that_leaves_the_years_in_utc_is_out_of_range(text: str) -> None:
    """An offset may carry a legal date to where no driver can follow."""
    with pytest.raises(TimeOutOfRange):
        parse_instant(text)


@given(
    moment=st.datetimes(timezones=st.just(UTC)),
    offset=st.integers(min_value=-1439, max_value=1439),
)
def test_reading_agrees_with_the_standard_library(moment: datetime, offset: int) -> None:
    """For every microsecond and offset that datetime can hold, the instants are the same."""
    try:
        text = moment.astimezone(timezone(timedelta(minutes=offset))).isoformat()
    except OverflowError:
        return
    assert parse_instant(text) == from_datetime(moment)


@given(st.integers(min_value=FIRST, max_value=LAST))
@example(FIRST)
@example(LAST)
@example(-1)
def test_what_is_written_is_read_again(instant: int) -> None:
    """Formatting and parsing undo each other, to the nanosecond."""
    text = format_instant(instant)
    assert parse_instant(text) == instant
    assert text.endswith("Z")
    assert not text.endswith("0Z") or "." not in text


@given(st.integers(min_value=FIRST, max_value=LAST))
def test_a_datetime_is_cut_towards_the_past(instant: int) -> None:
    """Microseconds are cut, never rounded, also before 1970."""
    assert from_datetime(to_datetime(instant)) == instant // 1000 * 1000


@pytest.mark.parametrize("instant", [FIRST - 1, LAST + 1, 10**40])
def test_instants_outside_the_years_have_no_text_and_no_datetime(instant: int) -> None:
    """Nothing wraps around."""
    with pytest.raises(TimeOutOfRange):
        format_instant(instant)
    with pytest.raises(TimeOutOfRange):
        to_datetime(instant)


def test_a_naive_datetime_names_no_instant() -> None:
    """A datetime without an offset is refused rather than read in the host's zone."""
    with pytest.raises(ValueError, match="naive"):
        from_datetime(datetime(2025, 3, 1))
