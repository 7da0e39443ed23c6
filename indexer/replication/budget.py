"""Budgets for look-ups that strangers can cause."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

_HOUR = timedelta(hours=1)


@dataclass(slots=True)
class HourlyBudget:
    """So many look-ups for each feed in an hour. Kept in memory: a restart begins the hour anew."""

    limit: int
    _since: datetime | None = None
    _spent: Counter[str] = field(default_factory=Counter)

    def take(self, feed: str, *, now: datetime) -> bool:
        """Spend one, when there is one left."""
        self._turn(now)
        if self._spent[feed] >= self.limit:
            return False
        self._spent[feed] += 1
        return True

    def _turn(self, now: datetime) -> None:
        if self._since is None or now - self._since >= _HOUR:
            self._since, self._spent = now, Counter()
