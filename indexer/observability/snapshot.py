"""What a scrape shows of the stored state: gauges that belong to PostgreSQL, not to this process.

Whoever serves the scrape reads these values first (one short query, bounded in time) and hands them to
``Metrics.render``. Nothing is remembered between scrapes: a server that left our layer is simply not in the
next snapshot, so its series end with it. ``None`` anywhere means "not known", and a value that is not known
has no sample: a zero would be read as a fact.

Several processes on one database show the same values here: take ``max``, not ``sum``, over processes.
Timestamps are seconds since the epoch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily


@dataclass(frozen=True, slots=True)
class ServerGauges:
    """One server of our layer (behaviour.md section 8)."""

    server: str
    cursor_timestamp: float | None = None
    latest_post_timestamp: float | None = None
    """createdAt of the newest post applied; never moves back."""
    caught_up: bool | None = None
    """Whether the last run drained the feed."""
    caught_up_timestamp: float | None = None
    last_finished_timestamp: float | None = None
    """When a run over the feed last ended, well or not."""
    backoff: bool | None = None
    """Whether the server is skipped at present because of earlier failures."""
    replication_consecutive_failures: int | None = None
    server_consecutive_failures: int | None = None
    last_crawled_timestamp: float | None = None
    disabled: bool | None = None


@dataclass(frozen=True, slots=True)
class IndexGauges:
    """One index of the search engine."""

    documents: int
    indexing: bool


@dataclass(frozen=True, slots=True)
class ScrapeSnapshot:
    """Everything read for one scrape; the default is all that is known while PostgreSQL is away."""

    servers: Sequence[ServerGauges] = ()
    indexes: Mapping[str, IndexGauges] = field(default_factory=dict)
    """By index uid, such as ``concrnt_posts``."""
    queue_depth: int | None = None
    queue_oldest_age_seconds: float | None = None
    """Age of the oldest change not yet searchable; 0 when the queue is empty."""
    dead_letters: int | None = None
    """Malformed and rejected commits kept at present."""


_PER_SERVER = (
    (
        "crawler_replication_cursor_timestamp_seconds",
        "Position of the replication cursor: receipt time on that server.",
        "cursor_timestamp",
    ),
    (
        "crawler_replication_latest_post_timestamp_seconds",
        "createdAt of the newest post applied from that server; never moves back.",
        "latest_post_timestamp",
    ),
    (
        "crawler_replication_caught_up",
        "1 when the last run drained the feed, 0 while catching up.",
        "caught_up",
    ),
    (
        "crawler_replication_caught_up_timestamp_seconds",
        "When the feed was last drained.",
        "caught_up_timestamp",
    ),
    (
        "crawler_replication_last_finished_timestamp_seconds",
        "When a run over the feed last ended, well or not.",
        "last_finished_timestamp",
    ),
    ("crawler_replication_backoff", "1 while the server is skipped after failures.", "backoff"),
    (
        "crawler_replication_consecutive_failures",
        "Failures in a row of the replication feed.",
        "replication_consecutive_failures",
    ),
    (
        "crawler_server_consecutive_failures",
        "Failures in a row of the server as a whole.",
        "server_consecutive_failures",
    ),
    (
        "crawler_server_last_crawled_timestamp_seconds",
        "When the server was last asked.",
        "last_crawled_timestamp",
    ),
    ("crawler_server_disabled", "1 when the server is not followed.", "disabled"),
)

_SINGLE = (
    ("indexer_projection_queue_depth", "Changes that are not yet in the search engine.", "queue_depth"),
    (
        "indexer_projection_queue_oldest_age_seconds",
        "Age of the oldest change that is not yet in the search engine.",
        "queue_oldest_age_seconds",
    ),
    ("indexer_dead_letters", "Malformed and rejected commits kept for the operator.", "dead_letters"),
)


def snapshot_families(snapshot: ScrapeSnapshot) -> Iterator[GaugeMetricFamily]:
    """The gauges of the snapshot. Names without a sample are still declared, as an empty family."""
    for name, documentation, attribute in _PER_SERVER:
        family = GaugeMetricFamily(name, documentation, labels=["server"])
        for gauges in snapshot.servers:
            value = getattr(gauges, attribute)
            if value is not None:
                family.add_metric([gauges.server], float(value))
        yield family
    documents = GaugeMetricFamily("crawler_index_documents", "Documents in the index.", labels=["index"])
    indexing = GaugeMetricFamily(
        "crawler_index_indexing", "1 while the engine works on the index.", labels=["index"]
    )
    for uid, index in snapshot.indexes.items():
        documents.add_metric([uid], float(index.documents))
        indexing.add_metric([uid], float(index.indexing))
    yield documents
    yield indexing
    for name, documentation, attribute in _SINGLE:
        single = GaugeMetricFamily(name, documentation)
        value = getattr(snapshot, attribute)
        if value is not None:
            single.add_metric([], float(value))
        yield single
