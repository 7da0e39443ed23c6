"""Figures about the mirror, for answers, gauges and commands. Each is one statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.concrnt.documents import Reason
from indexer.statements import load

if TYPE_CHECKING:
    from datetime import datetime

    from indexer.mirror.database import Database

_SQL = load("indexer.mirror", "queries/statistics.sql")
FEWEST_REJECTED = 10
"""So many commits have to be rejected before a feed is called distrusted: one mistake is none."""


@dataclass(frozen=True, slots=True)
class Totals:
    """How much there is. Servers and cursors are those of the layer asked for."""

    servers: int
    last_crawled_at: datetime | None
    cursors: int
    failing: int
    catching_up: int
    queue_depth: int
    oldest_mark: datetime | None
    dead_letters: int
    commits: int


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server and its feed. Times are UTC; `cursor` is the server's own text."""

    domain: str
    csid: str | None
    layer: str | None
    state: str
    failure_class: str | None
    consecutive_failures: int
    last_error: str | None
    last_error_at: datetime | None
    last_crawled_at: datetime | None
    last_seen_at: datetime | None
    next_poll_at: datetime
    commits: int
    malformed: int
    rejected: int
    distrusted: bool
    """More than half of what the feed said, of all or of late, was rejected."""
    rejected_reason: str | None
    """Why most of it was, as far as the dead letters tell; None when it is not distrusted."""
    cursor: str | None
    cursor_ns: int | None
    caught_up: bool
    caught_up_at: datetime | None
    last_finished_at: datetime | None
    latest_post_at: datetime | None
    partial_instants: int
    has_feed: bool


async def totals(database: Database, *, layer: str) -> Totals:
    """Count the mirror; `layer` "" means any. Raises `StoreUnavailable`."""
    row = (await database.fetch(_SQL["totals"], layer))[0]
    return Totals(**dict(row))


async def server_reports(database: Database, *, layer: str) -> list[ServerReport]:
    """Every server of a layer, those not asked yet included, by domain. Raises `StoreUnavailable`."""
    rows = await database.fetch(_SQL["server_reports"], layer, FEWEST_REJECTED, list(Reason))
    return [
        ServerReport(
            **{**dict(row), "cursor_ns": None if row["cursor_ns"] is None else int(row["cursor_ns"])}
        )
        for row in rows
    ]
