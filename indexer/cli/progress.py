"""Progress of a network being read in: a live block on a terminal, a line every few seconds elsewhere.

The texts are pure functions of a snapshot. `ProgressDisplay.show` may be called as often as anybody likes; it
decides what is worth printing. When everything was caught up for the first time, it says where the API is.
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from indexer.progress import ProgressSnapshot

_SECONDS_BETWEEN_LINES = 3.0
_REFRESHES_PER_SECOND = 4


def progress_line(snapshot: ProgressSnapshot) -> str:
    """Return the state of the work as one line."""
    parts = [
        f"{snapshot.servers_caught_up}/{snapshot.servers} servers caught up",
        f"{snapshot.pages:,} pages",
        f"{snapshot.commits:,} commits",
        f"{snapshot.commits_per_second:,.0f}/s",
        f"queue {snapshot.queue_depth:,}",
        _time_left(snapshot),
    ]
    return " · ".join(parts)


def progress_block(snapshot: ProgressSnapshot) -> Text:
    """Return the state of the work as a few aligned lines."""
    rows = [
        ("servers", f"{snapshot.servers_caught_up} of {snapshot.servers} caught up"),
        ("pages", f"{snapshot.pages:,}"),
        ("commits", f"{snapshot.commits:,}  ({snapshot.commits_per_second:,.0f} a second)"),
        ("queue", f"{snapshot.queue_depth:,} changes not yet searchable"),
        ("left", _time_left(snapshot)),
    ]
    block = Text()
    for name, value in rows:
        block.append(f"{name:>9}  ", style="dim")
        block.append(f"{value}\n", style="green" if name == "left" and snapshot.caught_up else "")
    return block


def _time_left(snapshot: ProgressSnapshot) -> str:
    if snapshot.caught_up:
        return "caught up"
    if snapshot.seconds_left is None:
        return "time left unknown"
    return f"about {duration(snapshot.seconds_left)} left"


def duration(seconds: float) -> str:
    """Return a time still to wait, rounded up, in one or two units."""
    minutes, rest = divmod(int(seconds) + 1, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def invitation(api_url: str) -> str:
    """Return what to try now that everything is searchable."""
    return "\n".join(
        (
            f"The API explains itself at {api_url}/docs. Try:",
            "",
            f"  curl -sG '{api_url}/api/v1/search/posts' --data-urlencode 'q=猫' -d limit=3",
            f"  curl -s '{api_url}/api/v1/search/users?limit=3'",
            f"  curl -s '{api_url}/api/v1/stats'",
            "",
            "The network goes on growing. Ctrl-C ends it; the next start goes on from here.",
        )
    )


class ProgressDisplay:
    """Shows snapshots on a console as they come; a context manager, so that the terminal stays whole."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._invited = False
        self._last_line = ""
        self._last_line_at = float("-inf")
        self._live = (
            Live(console=console, refresh_per_second=_REFRESHES_PER_SECOND) if console.is_terminal else None
        )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, snapshot: ProgressSnapshot) -> None:
        """Show where the work stands."""
        if self._live is not None:
            self._live.update(progress_block(snapshot))
        else:
            self._print_line(snapshot)
        if snapshot.caught_up and not self._invited:
            self._invited = True
            self._say("caught up", "", invitation(snapshot.api_url), "")

    def _print_line(self, snapshot: ProgressSnapshot) -> None:
        """Print a line when it is time and something changed, and always the first that is caught up."""
        line, now = progress_line(snapshot), self._clock()
        is_news = snapshot.caught_up and not self._invited
        if is_news or (line != self._last_line and now - self._last_line_at >= _SECONDS_BETWEEN_LINES):
            self._last_line, self._last_line_at = line, now
            self._say(line)

    def _say(self, *lines: str) -> None:
        """Print lines whole: a command that is wrapped can not be copied."""
        for line in lines:
            self._console.print(line, soft_wrap=True)
