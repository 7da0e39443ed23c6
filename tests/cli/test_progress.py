"""Progress of a network being read in."""

from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from indexer.cli.progress import ProgressDisplay, invitation, progress_block, progress_line
from indexer.progress import Pace, ProgressSnapshot, seconds_left

HALFWAY = ProgressSnapshot(
    servers=3,
    servers_caught_up=1,
    pages=1_200,
    commits=60_000,
    commits_per_second=4_321.9,
    queue_depth=5_000,
    seconds_left=75.2,
    caught_up=False,
    api_url="http://localhost:8080",
)
DONE = replace(HALFWAY, servers_caught_up=3, queue_depth=0, seconds_left=0.0, caught_up=True)


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_line_holds_everything_that_matters() -> None:
    """Servers, pages, commits, pace, queue, time left."""
    assert progress_line(HALFWAY) == (
        "1/3 servers caught up · 1,200 pages · 60,000 commits · 4,322/s · queue 5,000 · about 1m16s left"
    )


@pytest.mark.parametrize(
    ("left", "told"),
    [(None, "unknown"), (0.0, "about 1s left"), (59.0, "about 1m00s left"), (7_300, "about 2h01m left")],
)
def test_the_time_left_is_told_in_fitting_units(left: float | None, told: str) -> None:
    """An estimate does not pretend to fractions."""
    assert told in progress_line(replace(HALFWAY, seconds_left=left))
    assert told in progress_block(replace(HALFWAY, seconds_left=left)).plain


def test_caught_up_is_said_in_so_many_words() -> None:
    """Whatever the estimate was."""
    assert progress_line(DONE).endswith("caught up")
    assert "left  caught up" in progress_block(DONE).plain


def test_the_invitation_has_three_lines_to_copy() -> None:
    """And the address of the pages that explain the API."""
    text = invitation("http://localhost:8080")
    assert "http://localhost:8080/docs" in text
    assert sum(line.startswith("  curl ") for line in text.splitlines()) == 3


def test_without_a_terminal_lines_come_every_few_seconds() -> None:
    """At once, then when time has passed and something changed; the end always, and only once."""
    output, clock = StringIO(), Clock()
    with ProgressDisplay(Console(file=output, width=40), clock=clock) as display:
        display.show(HALFWAY)
        display.show(replace(HALFWAY, pages=1_201))
        clock.now = 3.0
        display.show(replace(HALFWAY, pages=1_202))
        clock.now = 3.1
        display.show(DONE)
        clock.now = 60.0
        display.show(DONE)
    lines = output.getvalue().splitlines()
    assert [line for line in lines if "pages" in line] == [
        progress_line(HALFWAY),
        progress_line(replace(HALFWAY, pages=1_202)),
        progress_line(DONE),
    ]
    assert lines.count("caught up") == 1
    assert sum(line.startswith("  curl ") for line in lines) == 3


def test_on_a_terminal_the_block_is_redrawn_in_place() -> None:
    """And what is to be copied stays on the screen above it."""
    output = StringIO()
    with ProgressDisplay(Console(file=output, width=100, force_terminal=True)) as display:
        display.show(HALFWAY)
        display.show(DONE)
        display.show(DONE)
    printed = output.getvalue()
    assert printed.count("/docs") == 1
    assert "60,000" in printed
    assert printed.endswith("\x1b[?25h"), "the cursor is visible again"


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 10**6)), min_size=1, max_size=50))
def test_the_pace_is_never_negative_and_never_infinite(steps: list[tuple[float, int]]) -> None:
    """Whatever the clock and the counter do."""
    pace, at, count = Pace(), 0.0, 0
    for seconds, more in steps:
        at += seconds
        count += more
        assert 0 <= pace.observe(at, count) < float("inf")


def test_the_pace_forgets_what_is_long_past() -> None:
    """A stall shows after one window."""
    pace = Pace(window_seconds=10)
    assert pace.observe(0, 0) == 0
    assert pace.observe(5, 500) == 100
    for second in range(6, 17):
        rate = pace.observe(second, 500)
    assert rate == 0


@pytest.mark.parametrize(
    ("remaining", "per_second", "left"), [(100, 50.0, 2.0), (0, 0.0, 0.0), (-5, 1.0, 0.0), (100, 0.0, None)]
)
def test_the_rest_takes_as_long_as_the_pace_says(
    remaining: int, per_second: float, left: float | None
) -> None:
    """Nobody knows when it does not move."""
    assert seconds_left(remaining, per_second) == left
