"""From what the search engine holds to what an answer shows, at the moment of the answer. Pure.

The engine holds what does not move with time: a rank, the days that have entries, and under `activityBasis`
what the score of any moment is made from. An answer shows the score now, and every day up to today.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from indexer.activity.score import Basis

if TYPE_CHECKING:
    from collections.abc import Mapping


class ActivityPresenter:
    """Shows the activity fields of hits.

    Args:
        history_days: how many UTC days are shown, today included.

    """

    def __init__(self, history_days: int) -> None:
        self._history_days = history_days

    def __call__(self, hit: dict[str, Any], now: datetime) -> dict[str, Any]:
        """Return a hit as it is shown; one that no tick has reached stays as it is."""
        basis = hit.get("activityBasis")
        if basis is None:
            return hit
        shown = {name: value for name, value in hit.items() if name != "activityBasis"}
        shown["activityScore"] = basis_of(basis).score(now)
        shown["activityHistory"] = self._days(hit["activityHistory"], now, hit["type"] == "community")
        return shown

    def _days(self, stored: list[list[Any]], now: datetime, with_authors: bool) -> list[dict[str, Any]]:
        counts = {day: tuple(rest) for day, *rest in stored}
        today = now.astimezone(UTC).date()
        history = []
        for back in range(self._history_days - 1, -1, -1):
            day = (today - timedelta(days=back)).isoformat()
            posts, authors = (*counts.get(day, ()), 0, 0)[:2]
            told = {"date": day, "posts": posts}
            history.append({**told, "authors": authors} if with_authors else told)
        return history


def basis_of(stored: Mapping[str, Any]) -> Basis:
    """Read what a score is made from."""
    at = stored.get("at")
    return Basis(
        half_life_seconds=stored["halfLife"],
        newest_at=None if at is None else datetime.fromisoformat(at),
        weight=stored["weight"],
        held=stored["held"],
    )
