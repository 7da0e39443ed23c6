"""The activity of a community or a person: behaviour.md, section 6, as plain functions. Pure.

The score is ``Σ 2^(−age / half-life)`` over the entries of 30 days. With the time ``t`` of an entry it
equals ``2^(rank − now / half-life)``, where ``rank = log2 Σ 2^(t / half-life)`` does not move with time: it
is what is stored and sorted by.

Powers of two of times overflow every float (``2^(1.7e9)`` for a half-life of a second), so no sum is ever
taken at an absolute time: a *weight* is the sum of ``2^((t − newest) / half-life)`` relative to the newest
entry that counts, which is between 1 and their number. What is over a thousand half-lives older than the
newest adds nothing that a float could hold. The score is the weight, aged from ``newest`` to now: ages are
exact to the microsecond, so it is right to 1e-9 for half-lives from a second to a century.

An entry of the future is *held* at weight 1 until its time has come. In an order by rank it stands as an
entry of the moment at which it was looked at, so subjects that hold entries are looked at by every tick.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MONTH: Final = timedelta(days=30)
WEEK: Final = timedelta(days=7)
NO_RANK: Final = -1e300
"""The rank of a subject without entries that count: after all others, and finite as JSON needs it."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: when (aware), and by whom."""

    at: datetime
    author: str = ""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a score is made from at any moment.

    ``weight`` is relative to ``newest_at``, the newest entry that counts; 0 and None when there is none.
    """

    half_life_seconds: float
    newest_at: datetime | None = None
    weight: float = 0.0
    held: int = 0

    def score(self, now: datetime) -> float:
        """Return the score at a moment."""
        if self.newest_at is None or not self.weight:
            return float(self.held)
        return self.weight * aged(now - self.newest_at, self.half_life_seconds) + self.held

    def rank(self, now: datetime) -> float:
        """Return what orders by score, as looked at at a moment; it moves with time only by what is held."""
        parts = []
        if self.newest_at is not None and self.weight:
            parts.append(_seconds(self.newest_at - _EPOCH) / self.half_life_seconds + math.log2(self.weight))
        if self.held:
            parts.append(_seconds(now - _EPOCH) / self.half_life_seconds + math.log2(self.held))
        return _log2_of_sum(parts) if parts else NO_RANK


@dataclass(frozen=True, slots=True)
class Day:
    """The entries of one UTC day."""

    date: date
    posts: int
    authors: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """Everything that is told of a subject, as of one moment. ``days`` leaves out days without entries."""

    basis: Basis
    posts_7d: int
    posts_30d: int
    authors_7d: int
    last_at: datetime | None
    days: tuple[Day, ...]


def aged(age: timedelta, half_life_seconds: float) -> float:
    """Return the weight of an entry of this age: 0.5 at one half-life, 1 when it is in the future."""
    return float(2.0 ** -(max(_seconds(age), 0.0) / half_life_seconds))


def numbers(
    entries: Iterable[Entry], *, now: datetime, half_life_seconds: float, history_days: int
) -> Numbers:
    """Count a subject from scratch: the plain reading of section 6.

    Args:
        entries: all of them, in any order.
        now: aware.
        half_life_seconds: after which an entry counts half.
        history_days: how many UTC days are told, today included.

    """
    all_entries = list(entries)
    counted = [entry for entry in all_entries if now - entry.at <= MONTH]
    past = [entry.at for entry in counted if entry.at <= now]
    newest = max(past, default=None)
    weight = 0.0 if newest is None else math.fsum(aged(newest - at, half_life_seconds) for at in past)
    week = [entry for entry in counted if now - entry.at <= WEEK]
    return Numbers(
        basis=Basis(half_life_seconds, newest, weight, len(counted) - len(past)),
        posts_7d=len(week),
        posts_30d=len(counted),
        authors_7d=len({entry.author for entry in week}),
        last_at=max((entry.at for entry in all_entries), default=None),
        days=_days(all_entries, now, history_days),
    )


def _days(entries: list[Entry], now: datetime, history_days: int) -> tuple[Day, ...]:
    today = now.astimezone(UTC).date()
    first = today - timedelta(days=history_days - 1)
    by_day: dict[date, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_day[min(entry.at.astimezone(UTC).date(), today)].append(entry)
    return tuple(
        Day(day, len(found), len({entry.author for entry in found}))
        for day, found in sorted(by_day.items())
        if day >= first
    )


def _log2_of_sum(exponents: list[float]) -> float:
    """Return log2 of the sum of powers of two, whose exponents may be far beyond a float's."""
    greatest = max(exponents)
    return greatest + math.log2(math.fsum(2.0 ** max(each - greatest, -1000.0) for each in exponents))


def _seconds(span: timedelta) -> float:
    return span / timedelta(microseconds=1) / 1e6
