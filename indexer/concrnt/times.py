"""Instants as the network writes them: RFC 3339 text, read exactly.

An instant is an ``int``: nanoseconds since 1970-01-01T00:00:00Z, negative before it. Only integers take
part, so nothing is rounded, and neither the host's time zone nor the C library's range has a say. What was
decided:

* The grammar is RFC 3339's (section 5.6): an offset is required, lower-case ``t`` and ``z`` are letters of
  it, a space instead of ``T`` is not, and digits are ASCII.
* ``-00:00`` is UTC. Offsets run to ``±23:59``.
* A leap second (``:60``) is refused, as the network's Go servers do: it has no place on the POSIX line.
* Fraction digits past the ninth are cut, never rounded.
* The instant *in UTC* lies in the years 1–9999, as no database driver holds others.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

NANOSECONDS_PER_SECOND: Final = 1_000_000_000
NANOSECONDS_PER_MILLISECOND: Final = 1_000_000

_NAIVE_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - for arithmetic on texts whose offset is cut off
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_SECONDS_PER_DAY: Final = 86_400
_FIRST_INSTANT: Final = (
    (date(1, 1, 1).toordinal() - _EPOCH_ORDINAL) * _SECONDS_PER_DAY * NANOSECONDS_PER_SECOND
)
_LAST_INSTANT: Final = (
    (date(9999, 12, 31).toordinal() + 1 - _EPOCH_ORDINAL) * _SECONDS_PER_DAY * NANOSECONDS_PER_SECOND
) - 1
_MICROSECOND: Final = timedelta(microseconds=1)

# Longer texts are no times; the bound keeps a megabyte of fraction digits from being looked at.
_MAX_LENGTH: Final = 128

_RFC3339: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)


class MalformedTime(ValueError):  # noqa: N818 - says what the text is
    """The text is no RFC 3339 time, or not one that we can hold."""


class TimeOutOfRange(MalformedTime):
    """The text is a time, but in UTC it lies outside the years 1–9999."""


def parse_instant(text: str) -> int:
    """Read an RFC 3339 time.

    Args:
        text: for example ``2025-03-01T12:00:00.123456789+09:00``.

    Returns:
        Nanoseconds since the epoch, exact.

    Raises:
        TimeOutOfRange: the instant lies outside the years 1–9999 in UTC.
        MalformedTime: anything else that is no RFC 3339 time.

    """
    match = _RFC3339.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise MalformedTime("not an RFC 3339 time")
    whole, fraction, sign, offset_hour, offset_minute = match.groups()
    try:
        since_epoch = datetime.fromisoformat(whole) - _NAIVE_EPOCH
    except ValueError as error:
        raise MalformedTime("no such day") from error
    seconds = since_epoch.days * _SECONDS_PER_DAY + since_epoch.seconds
    if sign is not None:
        offset = int(offset_hour) * 3600 + int(offset_minute) * 60
        seconds += offset if sign == "-" else -offset
    instant = seconds * NANOSECONDS_PER_SECOND
    if fraction is not None:
        instant += int(fraction[:9].ljust(9, "0"))
    if not _FIRST_INSTANT <= instant <= _LAST_INSTANT:
        raise TimeOutOfRange("outside the years 1 to 9999 in UTC")
    return instant


def format_instant(nanoseconds: int) -> str:
    """Write an instant as RFC 3339 in UTC with ``Z``, with as many fraction digits as it needs (0–9).

    Raises:
        TimeOutOfRange: the instant lies outside the years 1–9999.

    """
    if not _FIRST_INSTANT <= nanoseconds <= _LAST_INSTANT:
        raise TimeOutOfRange("outside the years 1 to 9999 in UTC")
    seconds, fraction = divmod(nanoseconds, NANOSECONDS_PER_SECOND)
    whole = (EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat(timespec="seconds")
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{whole}{digits}Z"


def to_datetime(nanoseconds: int) -> datetime:
    """Return the instant as an aware UTC datetime, cut (never rounded) to the microsecond.

    Raises:
        TimeOutOfRange: the instant lies outside the years 1–9999.

    """
    try:
        return EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError as error:
        raise TimeOutOfRange("outside the years 1 to 9999 in UTC") from error


def from_datetime(moment: datetime) -> int:
    """Return an aware datetime as nanoseconds since the epoch.

    Raises:
        ValueError: the datetime is naive: it names no instant.

    """
    if moment.tzinfo is None:
        raise ValueError("a naive datetime names no instant")
    return (moment - EPOCH) // _MICROSECOND * 1000
