"""What the rooms count, as the metrics that dashboards know.

Each room names the narrow protocol of what it counts; this is their one implementation over `Metrics`. It
also reads the gauges that are stored in PostgreSQL, and the figures of `/api/v1/stats`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from indexer.api.statistics import Statistics
from indexer.mirror.statistics import ServerReport, server_reports, totals
from indexer.observability.metrics import ScrapeSnapshot, ServerGauges
from indexer.replication.trust import WITHDRAWN

if TYPE_CHECKING:
    from indexer.mirror.changes import Changes
    from indexer.mirror.database import Database
    from indexer.observability.metrics import Metrics


class Instruments:
    """Counts for the follower, the schedule, discovery and the projector."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.pages = 0
        """Pages applied by this process."""

    def pages_applied(self, server: str, pages: int, changes: Changes) -> None:
        """So many pages were applied."""
        self.pages += pages
        self.metrics.replication_pages.labels(server).inc(pages - 1)
        tally = changes.tally
        self.metrics.count_page(
            server, commits=tally.kinds, malformed=tally.malformed, rejected=tally.rejected
        )
        for other, number in changes.withdrawn.items():
            self.rejected_later(other, WITHDRAWN, number)

    def rejected_later(self, server: str, reason: str, number: int) -> None:
        """What a server said was rejected or withdrawn after its page had been applied."""
        self.metrics.replication_rejected.labels(server, reason).inc(number)

    def request(self, server: str, result: str) -> None:
        """A request to a feed ended."""
        self.metrics.replication_requests.labels(server, result).inc()

    def instant_not_whole(self, server: str) -> None:
        """An instant held more rows than can be read."""
        self.metrics.replication_partial_instants.labels(server).inc()

    def discovery_run(self, result: str) -> None:
        """A discovery run ended."""
        self.metrics.discovery_runs.labels(result).inc()

    def peer_request(self, host: str, code: str, seconds: float) -> None:
        """A request to another server ended with a status, or with the class of its failure."""
        self.metrics.observe_peer_request(host, int(code) if code.isdecimal() else code, seconds)

    def server_crawled(self, server: str, result: str, seconds: float) -> None:
        """A run over one server ended."""
        self.metrics.server_crawls.labels(server, result).inc()
        self.metrics.server_crawl_duration.observe(seconds)

    def crawl_run(self, result: str, seconds: float) -> None:
        """The servers that were started together have ended."""
        self.metrics.crawl_runs.labels(result).inc()
        self.metrics.crawl_run_duration.observe(seconds)

    def engine_write(self, engine: str, seconds: float, upserts: int, deletes: int) -> None:
        """A batch was written; one that only removes is told apart."""
        self.metrics.observe_engine_write(engine, "upsert" if upserts or not deletes else "delete", seconds)

    def activity_refreshed(self, subject: str, result: str, seconds: float) -> None:
        """A tick over communities or people ended."""
        self.metrics.activity_refreshes.labels(subject, result).inc()
        self.metrics.activity_refresh_duration.labels(subject).observe(seconds)

    def searchable(self, seconds: float) -> None:
        """A change became searchable."""
        self.metrics.commit_to_searchable.observe(seconds)


class MirrorFigures:
    """The figures of one layer, for the statistics answer and for scrapes."""

    def __init__(self, database: Database, *, layer: str) -> None:
        self._database = database
        self._layer = layer

    async def statistics(self) -> Statistics:
        """Count for `/api/v1/stats`."""
        counted = await totals(self._database, layer=self._layer)
        return Statistics(
            server_count=counted.servers,
            last_crawl_at=counted.last_crawled_at,
            cursor_count=counted.cursors,
            failure_count=counted.failing,
            catching_up_count=counted.catching_up,
            queue_depth=counted.queue_depth,
        )

    async def scrape(self) -> ScrapeSnapshot:
        """Read the gauges of a scrape."""
        reports = await server_reports(self._database, layer=self._layer)
        counted = await totals(self._database, layer=self._layer)
        oldest = counted.oldest_mark
        return ScrapeSnapshot(
            servers=[_gauges(report) for report in reports],
            queue_depth=counted.queue_depth,
            queue_oldest_age_seconds=0.0 if oldest is None else _age(oldest),
            dead_letters=counted.dead_letters,
        )


def _age(moment: datetime) -> float:
    return max((datetime.now(UTC) - moment).total_seconds(), 0.0)


def _gauges(report: ServerReport) -> ServerGauges:
    return ServerGauges(
        server=report.domain,
        cursor_timestamp=None if report.cursor_ns is None else report.cursor_ns / 1e9,
        latest_post_timestamp=_seconds(report.latest_post_at),
        caught_up=report.caught_up if report.has_feed else None,
        caught_up_timestamp=_seconds(report.caught_up_at),
        last_finished_timestamp=_seconds(report.last_finished_at),
        backoff=report.state in ("backing_off", "stale"),
        replication_consecutive_failures=report.consecutive_failures,
        server_consecutive_failures=report.consecutive_failures,
        last_crawled_timestamp=_seconds(report.last_crawled_at),
        disabled=report.state == "paused",
    )


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
