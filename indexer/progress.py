"""What there is to tell about a network that is being read in. Who does the work fills it, others show it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_SHORTEST_SECONDS = 0.01  # two observations closer than this tell no pace


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """How far the work is at one moment.

    `seconds_left` is an estimate, None while there is none. `caught_up` means that every server's feed was
    read to its end and that all of it is searchable. `api_url` is where the public API answers, without a
    final slash.
    """

    servers: int
    servers_caught_up: int
    pages: int
    commits: int
    commits_per_second: float
    queue_depth: int
    seconds_left: float | None
    caught_up: bool
    api_url: str


class Pace:
    """How fast a count grows, over the last few observations, so that a stall shows and a burst passes."""

    def __init__(self, *, window_seconds: float = 10.0) -> None:
        self._window = window_seconds
        self._observed: deque[tuple[float, int]] = deque()

    def observe(self, at: float, count: int) -> float:
        """Note a count at a moment (seconds of any clock that never goes back); return counts per second."""
        self._observed.append((at, count))
        while len(self._observed) > 2 and self._observed[1][0] <= at - self._window:
            self._observed.popleft()
        began, first = self._observed[0]
        elapsed = at - began
        return max(0.0, (count - first) / elapsed) if elapsed >= _SHORTEST_SECONDS else 0.0


def seconds_left(remaining: int, per_second: float) -> float | None:
    """Return how long the rest takes at this pace; None when it does not move."""
    if remaining <= 0:
        return 0.0
    return remaining / per_second if per_second > 0 else None
