"""Durations and sizes as people write them."""

import contextlib
from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.config.errors import Refused
from indexer.config.quantities import format_duration, format_size, parse_duration, parse_size

durations = st.timedeltas(min_value=timedelta(), max_value=timedelta(days=36_500))
sizes = st.integers(min_value=0, max_value=2**50)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("1h30m", 5400),
        ("168h", 604_800),
        ("1.5h", 5400),
        ("500ms", 0.5),
        (".5s", 0.5),
        ("1.s", 1),
        ("+5s", 5),
        ("2us", 0.000_002),
        ("2µs", 0.000_002),
        ("2μs", 0.000_002),
        ("1500ns", 0.000_001),
        ("010s", 10),
        ("1m1m", 120),
        ("0", 0),
        ("90", 90),
        ("0.25", 0.25),
        ("8760h", 31_536_000),
    ],
)
def test_durations_read_as_go_writes_them(text: str, seconds: float) -> None:
    """Go's spellings and plain seconds have their one reading; less than a microsecond is cut."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PT5M", "ISO 8601"),
        ("P1D", "ISO 8601"),
        ("-5m", "negative"),
        ("-0s", "negative"),
        ("1:30", "base 60"),
        ("1:30:00", "base 60"),
        ("010", "begins with a zero"),
        ("00", "begins with a zero"),
        ("1_000", "underscore"),
        ("1_000s", "underscore"),
        ("1e400", "exponent"),
        ("1e3", "exponent"),
        ("NaN", "no finite number"),
        (".nan", "no finite number"),
        ("inf", "no finite number"),
        ("-.inf", "negative"),
        ("7d", "in days or longer"),
        ("2 weeks", "in days or longer"),
        ("10 s", "space"),
        (" 10s", "space"),
        ("", "no duration"),
        ("s", "no duration"),
        (".s", "no duration"),
        ("10S", "no duration"),
        ("5mm", "no duration"),
        ("١٠s", "no duration"),
        ("10s\n", "space"),
        ("9" * 39 + "h", "longer than any"),
        ("9" * 50, "too long"),
    ],
)
def test_what_has_two_readings_or_none_is_refused_with_its_reason(text: str, reason: str) -> None:
    """Each refused spelling says why."""
    with pytest.raises(Refused, match=reason):
        parse_duration(text)


@given(durations)
def test_a_duration_that_is_written_reads_as_itself(duration: timedelta) -> None:
    """format_duration and parse_duration are inverse, to the microsecond."""
    assert parse_duration(format_duration(duration)) == duration


@given(st.integers(0, 10**6), st.integers(0, 999_999))
def test_plain_numbers_are_seconds(whole: int, micro: int) -> None:
    """A number without a unit is exact seconds."""
    assert parse_duration(f"{whole}.{micro:06d}") == timedelta(seconds=whole, microseconds=micro)


@given(
    st.lists(
        st.tuples(st.integers(0, 999), st.sampled_from(["h", "m", "s", "ms", "us", "ns"])),
        min_size=1,
        max_size=6,
    )
)
def test_the_parts_of_a_duration_add_up(parts: list[tuple[int, str]]) -> None:
    """Parts may come in any order and repeat; the sum is exact and then cut to the microsecond."""
    nanoseconds = {"h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
    total = sum(count * nanoseconds[unit] for count, unit in parts)
    text = "".join(f"{count}{unit}" for count, unit in parts)
    assert parse_duration(text) == timedelta(microseconds=total // 1000)


@given(st.text(max_size=60))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    """No text makes the parser fail in another way, and nothing negative comes out."""
    with contextlib.suppress(Refused):
        assert parse_duration(text) >= timedelta()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("32MiB", 33_554_432),
        ("10MB", 10_000_000),
        ("10mb", 10_000_000),
        ("1024", 1024),
        ("1024B", 1024),
        ("64 KiB", 65_536),
        ("1.5GiB", 1_610_612_736),
        ("0", 0),
        ("2kB", 2000),
        ("1TiB", 2**40),
    ],
)
def test_sizes_read_in_binary_and_decimal_units(text: str, size: int) -> None:
    """MiB has 1,024 parts, MB has 1,000."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10M", "1,000 or 1,024"),
        ("10Mi", "1,000 or 1,024"),
        ("010", "begins with a zero"),
        ("1_000", "underscore"),
        ("-1MiB", "negative"),
        ("0.3KiB", "no whole number of bytes"),
        ("MiB", "no size"),
        ("", "no size"),
        ("1e6", "no size"),
        ("10MiBs", "no size"),
        ("٣MB", "no size"),
        ("9" * 50, "too long"),
    ],
)
def test_unclear_sizes_are_refused_with_their_reason(text: str, reason: str) -> None:
    """Each refused spelling says why."""
    with pytest.raises(Refused, match=reason):
        parse_size(text)


@given(sizes)
def test_a_size_that_is_written_reads_as_itself(size: int) -> None:
    """format_size and parse_size are inverse."""
    assert parse_size(format_size(size)) == size


@given(st.integers(1, 10**6), st.sampled_from(["KiB", "MB", "GiB"]))
def test_sizes_are_exact(count: int, unit: str) -> None:
    """No floating point is involved."""
    factor = {"KiB": 1024, "MB": 10**6, "GiB": 2**30}[unit]
    assert parse_size(f"{Fraction(count)}{unit}") == count * factor


@given(st.text(max_size=60))
def test_any_text_is_a_size_or_refused(text: str) -> None:
    """No text makes the parser fail in another way."""
    with contextlib.suppress(Refused):
        assert parse_size(text) >= 0
