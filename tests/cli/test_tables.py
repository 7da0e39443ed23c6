"""Tables for people."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from indexer.cli.tables import relative, servers_table, statistics_tables
from tests.cli.test_commands import SERVER, STATISTICS

NOW = datetime(2025, 3, 1, 10, 5, tzinfo=UTC)


def _printed(table: RenderableType, width: int = 100) -> str:
    output = StringIO()
    Console(file=output, width=width, markup=False, highlight=False, emoji=False).print(table)
    return output.getvalue()


def _row(**changes: Any) -> dict[str, Any]:
    return {**SERVER, **changes}


def test_the_servers_fit_into_100_columns_with_nothing_lost_but_the_end_of_an_error() -> None:
    """State, counts and times are whole; the error is cut."""
    row = _row(
        domain="a-rather-long-name-of-a-server.some-provider.example",
        state="log_went_back",
        caughtUp=False,
        commits=12_345_678,
        consecutiveFailures=31,
        failureClass="bad_payload",
        lastError="HTML where a page was expected, " * 10,
        nextPollAt=NOW + timedelta(hours=2),
    )
    printed = _printed(servers_table([row, _row()], now=NOW))
    assert max(map(len, printed.splitlines())) <= 100
    for whole in ("log_went_back", "12,345,678", "31", "5m ago", "in 2h", "alpha.example", "4,321"):
        assert whole in printed
    assert "bad_payload" in printed
    assert "…" in printed


def test_text_of_strangers_is_text() -> None:
    """Markup, control characters and line breaks in an error do nothing."""
    printed = _printed(
        servers_table(
            [_row(state="backing_off", failureClass="connect", lastError="[red]x\x1b[31m\n\x00y")], now=NOW
        ),
        width=200,
    )
    assert "[red]x\N{REPLACEMENT CHARACTER}[31m \N{REPLACEMENT CHARACTER}y" in printed
    assert "\x1b" not in printed


def test_a_server_of_which_most_is_rejected_is_seen_at_a_glance() -> None:
    """A word of its own beside its state, not a colour only, and below what the word means."""
    rows = [
        _row(domain="good.example", rejected=9),
        _row(
            domain="mallory.example", commits=1000, rejected=950, distrusted=True, rejectedReason="not_owner"
        ),
    ]
    printed = _printed(servers_table(rows, now=NOW))
    assert max(map(len, printed.splitlines())) <= 100
    good, *_ = (line for line in printed.splitlines() if "good.example" in line)
    assert "DISTRUSTED" not in good
    body, _, legend = printed.partition("DISTRUSTED: ")
    assert "DISTRUSTED" in body
    assert "95% not_owner" in body
    assert "more than half" in legend
    assert "dead-letters list --server" in " ".join(legend.split())
    assert "DISTRUSTED" not in _printed(servers_table(rows[:1], now=NOW))


def test_a_server_may_have_more_rejected_than_it_has_commits() -> None:
    """What is judged again counts again; a share is a share all the same."""
    row = _row(commits=10, rejected=40, distrusted=True, rejectedReason=None)
    assert "100% rejected" in _printed(servers_table([row], now=NOW))


def test_no_servers_are_said_to_be_none() -> None:
    """An empty table explains itself."""
    assert "no server is known yet" in _printed(servers_table([], now=NOW))


@pytest.mark.parametrize(
    ("distance", "told"),
    [
        (timedelta(), "now"),
        (timedelta(milliseconds=-900), "now"),
        (timedelta(seconds=-1), "1s ago"),
        (timedelta(seconds=59), "in 59s"),
        (timedelta(minutes=-3, seconds=-20), "3m ago"),
        (timedelta(hours=2, minutes=59), "in 2h"),
        (timedelta(days=-40), "40d ago"),
    ],
)
def test_times_are_told_from_now_in_their_largest_unit(distance: timedelta, told: str) -> None:
    """Short enough for a column."""
    assert relative(NOW + distance, NOW) == told


def test_a_time_that_never_was_is_a_dash() -> None:
    """Not the beginning of the epoch."""
    assert relative(None, NOW) == "-"


def test_statistics_of_a_network_never_crawled() -> None:
    """Nothing is divided by nothing."""
    statistics = {**STATISTICS, "servers": {"count": 0, "lastCrawlAt": None}}
    assert "never" in "".join(_printed(table) for table in statistics_tables(statistics))
