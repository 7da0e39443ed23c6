"""Durations and sizes as people write them.

Durations read as Go's `time.ParseDuration` reads them (`10s`, `1h30m`, `1.5h`, `500ms`) and as a plain
number of seconds (`90`, `0.5`). They are exact and kept to the microsecond, the rest cut. Sizes are `32MiB`,
`10MB` or a plain number of bytes. What could mean two things is refused with the reason: `010` (octal?),
`1_000`, `1:30` (90 in YAML 1.1), `10M`.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from indexer.config.errors import Refused

_LONGEST = 40
_MICROSECONDS = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "µs": Fraction(1),  # the micro sign
    "μs": Fraction(1),  # the Greek letter; Go takes both
    "ms": Fraction(1000),
    "s": Fraction(1_000_000),
    "m": Fraction(60_000_000),
    "h": Fraction(3_600_000_000),
}
_GO_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_GO_DURATION = re.compile(rf"\+?(?:{_GO_PART.pattern})+")
_PLAIN_NUMBER = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")

_BYTES = {"": 1, "b": 1}
_BYTES |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}
_BYTES |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)}
_SIZE = re.compile(r"((?:0|[1-9][0-9]*)(?:\.[0-9]+)?) ?([A-Za-z]*)")


def parse_duration(text: str) -> timedelta:
    """Read a duration of zero or more. Raises `Refused`, also for what a `timedelta` can not hold."""
    if len(text) > _LONGEST:
        raise Refused("is too long to be a duration")
    if _PLAIN_NUMBER.fullmatch(text):
        microseconds = Fraction(text) * 1_000_000
    elif _GO_DURATION.fullmatch(text):
        parts = _GO_PART.findall(text)
        microseconds = sum(
            (Fraction(Decimal(number)) * _MICROSECONDS[unit] for number, unit in parts), Fraction()
        )
    else:
        raise Refused(_why_no_duration(text))
    try:
        return timedelta(microseconds=int(microseconds))
    except OverflowError as error:
        raise Refused("is longer than any duration here can be") from error


def _why_no_duration(text: str) -> str:
    reasons = {
        r"-.*": "is negative",
        r"[Pp][0-9TtDdHhMmSs.,Ww]*": "is written as ISO 8601 does, which is not read here",
        r"[0-9]+(:[0-9]+)+": "is a time of day or a number in base 60, which is no duration",
        r"0[0-9]+": "begins with a zero: decimal to some, octal to others",
        r"[0-9._]*_[0-9._]*.*": "has an underscore among its digits",
        r"\+?[0-9.]+[eE][+-]?[0-9]+": "is written with an exponent",
        r"[+-]?\.?(nan|inf|infinity)": "is no finite number",
        r".*[0-9] *(d|w|y|days?|weeks?|years?|months?)": "counts in days or longer, whose length varies",
        r".*\s.*": "has a space in it",
    }
    for pattern, reason in reasons.items():
        if re.fullmatch(pattern, text, re.IGNORECASE | re.ASCII | re.DOTALL):
            return reason
    return "is no duration"


def format_duration(duration: timedelta) -> str:
    """Write a duration as `parse_duration` reads it, in the largest units that need no fraction."""
    microseconds = duration // timedelta(microseconds=1)
    if microseconds == 0:
        return "0s"
    parts = []
    for unit in ("h", "m", "s", "ms", "us"):
        count, microseconds = divmod(microseconds, int(_MICROSECONDS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def parse_size(text: str) -> int:
    """Read a number of bytes. Raises `Refused`."""
    if len(text) > _LONGEST:
        raise Refused("is too long to be a size")
    match = _SIZE.fullmatch(text)
    if match is None or match[2].lower() not in _BYTES:
        raise Refused(_why_no_size(text))
    size = Fraction(match[1]) * _BYTES[match[2].lower()]
    if size.denominator != 1:
        raise Refused("is no whole number of bytes")
    return int(size)


def _why_no_size(text: str) -> str:
    reasons = {
        r"-.*": "is negative",
        r"0[0-9]+.*": "begins with a zero: decimal to some, octal to others",
        r"[0-9._]*_[0-9._]*.*": "has an underscore among its digits",
        r"[0-9.]+ ?[kmgt]i?": "leaves open whether a unit has 1,000 or 1,024 parts",
    }
    for pattern, reason in reasons.items():
        if re.fullmatch(pattern, text, re.IGNORECASE | re.ASCII | re.DOTALL):
            return reason
    return "is no size"


def format_size(size: int) -> str:
    """Write a number of bytes in the largest binary unit that needs no fraction."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        count, rest = divmod(size, _BYTES[unit.lower()])
        if count and not rest:
            return f"{count}{unit}"
    return str(size)
