"""The metrics of one process (behaviour.md section 8).

``Metrics`` owns a registry of its own; nothing is registered globally, so tests and several applications in
one process do not meet. Counters and histograms are attributes, named after their metric without prefix and
suffix. Names and labels beginning with ``crawler_`` and ``concrnt_`` are those of the older Go crawler, whose
dashboards keep working; ``indexer_`` are ours.

Who chooses label values matters: no label takes a value that a stranger invents. Peers are counted by host
only when they are known servers, requests by route template and by methods of a closed set, statuses when
they are registered ones. What leaves (``set_known_hosts``) takes its series along.

Counters count what *this* process did, so those of several processes add up.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from indexer.observability.snapshot import IndexGauges, ScrapeSnapshot, ServerGauges, snapshot_families

__all__ = [
    "CONTENT_TYPE",
    "IndexGauges",
    "Metrics",
    "PoolState",
    "ScrapeSnapshot",
    "ServerGauges",
]

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The media type of what ``Metrics.render`` returns."""

OTHER = "other"
"""The one label value for everything that is not in the closed set."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_STATUSES = frozenset(status.value for status in HTTPStatus)
_FAILURE_CLASS = re.compile(r"[a-z][a-z0-9_]{0,31}")

_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# One histogram for each known server: few buckets keep twenty thousand servers affordable.
_PEER_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WRITE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_RUN_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_SEARCHABLE_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)


@dataclass(frozen=True, slots=True)
class PoolState:
    """Connections of one database pool: open ones, those of them that are idle, and how many may be open."""

    size: int
    idle: int
    maximum: int


class Metrics:
    """Every metric of this process. Safe to use from threads; ``render`` may run in one."""

    def __init__(self, version: str) -> None:
        """``version`` is shown by ``crawler_build_info``."""
        # The Go crawler has no _created series, and they would double ours.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._known_hosts: frozenset[str] = frozenset()
        self._pools = _Pools()
        self.registry.register(self._pools)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._declare_following()
        self._declare_indexing()
        self._declare_network()
        build_info = Gauge(
            "crawler_build_info", "Always 1; the version is the label.", ["version"], registry=self.registry
        )
        build_info.labels(version).set(1)

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(name, documentation, labels, registry=self.registry)

    def _histogram(
        self, name: str, documentation: str, *labels: str, buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(name, documentation, labels, registry=self.registry, buckets=buckets)

    def _declare_following(self) -> None:
        self.replication_requests = self._counter(
            "crawler_replication_requests_total",
            "Requests to replication feeds: ok, transient (429 and 503) or error.",
            "server",
            "result",
        )
        self.replication_pages = self._counter("crawler_replication_pages_total", "Pages applied.", "server")
        self.replication_commits = self._counter(
            "crawler_replication_commits_total",
            "Commits applied: user, community, post, entry, delete, ack or ignored. "
            "A record directly under a domain-owned key counts as entry besides its own kind.",
            "server",
            "kind",
        )
        self.replication_malformed = self._counter(
            "crawler_replication_malformed_total",
            "Commits dropped as malformed: commit, profile, community, post, delete or ack.",
            "server",
            "kind",
        )
        self.replication_rejected = self._counter(
            "crawler_replication_rejected_total", "Commits that trust refused.", "server", "reason"
        )
        self.replication_partial_instants = self._counter(
            "indexer_replication_partial_instants_total",
            "Instants of a feed that hold more rows than can be read.",
            "server",
        )
        self.crawl_runs = self._counter(
            "crawler_crawl_runs_total", "Rounds over all servers: ok or error.", "result"
        )
        self.crawl_run_duration = self._histogram(
            "crawler_crawl_run_duration_seconds", "Duration of a round.", buckets=_RUN_BUCKETS
        )
        self.server_crawls = self._counter(
            "crawler_server_crawls_total", "Runs of one server's follower: ok or error.", "server", "result"
        )
        self.server_crawl_duration = self._histogram(
            "crawler_server_crawl_duration_seconds",
            "Duration of a run of one server's follower.",
            buckets=_RUN_BUCKETS,
        )
        self.discovery_runs = self._counter(
            "crawler_discovery_runs_total", "Readings of the list of known servers: ok or error.", "result"
        )
        for counter in (self.crawl_runs, self.discovery_runs):
            for result in ("ok", "error"):
                counter.labels(result)

    def _declare_indexing(self) -> None:
        self.activity_refreshes = self._counter(
            "crawler_activity_refreshes_total", "Activity ticks: ok or error.", "subject", "result"
        )
        self.activity_refresh_duration = self._histogram(
            "crawler_activity_refresh_duration_seconds",
            "Duration of an activity tick.",
            "subject",
            buckets=_RUN_BUCKETS,
        )
        for subject in ("community", "user"):
            self.activity_refresh_duration.labels(subject)
            for result in ("ok", "error"):
                self.activity_refreshes.labels(subject, result)
        self.meili_write_duration = self._histogram(
            "crawler_meili_write_duration_seconds",
            "Writes to Meilisearch, until the task ended.",
            "op",
            buckets=_WRITE_BUCKETS,
        )
        self.engine_write_duration = self._histogram(
            "crawler_engine_write_duration_seconds",
            "Writes to the search engine, until searchable.",
            "engine",
            "op",
            buckets=_WRITE_BUCKETS,
        )
        self.commit_to_searchable = self._histogram(
            "indexer_commit_to_searchable_seconds",
            "From the mirror's transaction to the search engine, for each document.",
            buckets=_SEARCHABLE_BUCKETS,
        )

    def _declare_network(self) -> None:
        self.peer_requests = self._counter(
            "concrnt_peer_requests_total",
            "Requests to other servers by status or class of failure.",
            "host",
            "code",
        )
        self.peer_request_duration = self._histogram(
            "concrnt_peer_request_duration_seconds",
            "Duration of requests to other servers.",
            "host",
            buckets=_PEER_BUCKETS,
        )
        self.http_requests = self._counter(
            "indexer_http_requests_total",
            "Requests answered by our listeners.",
            "listener",
            "method",
            "route",
            "code",
        )
        self.http_request_duration = self._histogram(
            "indexer_http_request_duration_seconds",
            "Time until the answer was sent, by route template.",
            "listener",
            "route",
            buckets=_REQUEST_BUCKETS,
        )

    def set_known_hosts(self, hosts: Iterable[str]) -> None:
        """Name the servers that may be label values; forget the series of all others.

        Call it with every server of our layer whenever discovery has run. Hosts that are not named here are
        counted as ``other`` in ``concrnt_peer_*``.
        """
        known = frozenset(hosts)
        self._known_hosts = known
        for metric in (self.peer_requests, self.peer_request_duration):
            _forget(metric, "host", known | {OTHER})
        for counter in (
            self.replication_requests,
            self.replication_pages,
            self.replication_commits,
            self.replication_malformed,
            self.replication_rejected,
            self.replication_partial_instants,
            self.server_crawls,
        ):
            _forget(counter, "server", known)

    def count_page(
        self,
        server: str,
        *,
        commits: Mapping[str, int],
        malformed: Mapping[str, int] | None = None,
        rejected: Mapping[str, int] | None = None,
    ) -> None:
        """Count one applied page: commits by kind, malformed ones by kind, rejected ones by reason."""
        self.replication_pages.labels(server).inc()
        for kind, number in commits.items():
            self.replication_commits.labels(server, kind).inc(number)
        for kind, number in (malformed or {}).items():
            self.replication_malformed.labels(server, kind).inc(number)
        for reason, number in (rejected or {}).items():
            self.replication_rejected.labels(server, reason).inc(number)

    def observe_peer_request(self, host: str, code: int | str, seconds: float) -> None:
        """Count a request to another server; ``code`` is its status, or the class of the failure."""
        label = host if host in self._known_hosts else OTHER
        self.peer_requests.labels(label, _peer_code(code)).inc()
        self.peer_request_duration.labels(label).observe(seconds)

    def observe_engine_write(self, engine: str, op: str, seconds: float) -> None:
        """Time one write of the engine; Meilisearch's also appear under the Go crawler's name."""
        self.engine_write_duration.labels(engine, op).observe(seconds)
        if engine == "meilisearch":
            self.meili_write_duration.labels(op).observe(seconds)

    def observe_http_request(
        self, listener: str, method: str, route: str | None, status: int, seconds: float
    ) -> None:
        """Count an answered request; ``route`` is the template of the route, None when there is none."""
        known_route = route if route is not None else OTHER
        known_method = method if method in _METHODS else OTHER
        self.http_requests.labels(listener, known_method, known_route, str(status)).inc()
        self.http_request_duration.labels(listener, known_route).observe(seconds)

    def watch_pool(self, name: str, read: Callable[[], PoolState]) -> None:
        """Show the database pool ``name`` at every scrape; ``read`` looks at memory only and never waits."""
        self._pools.readers[name] = read

    def render(self, snapshot: ScrapeSnapshot | None = None) -> bytes:
        """Text exposition of everything; without a snapshot, of what this process knows by itself."""
        return generate_latest(_Scrape(self.registry, snapshot or ScrapeSnapshot()))


class _Pools(Collector):
    """Reads the watched pools at scrape time: no bookkeeping when connections come and go."""

    def __init__(self) -> None:
        self.readers: dict[str, Callable[[], PoolState]] = {}

    def collect(self) -> Iterator[Metric]:
        connections = GaugeMetricFamily(
            "indexer_database_pool_connections",
            "Open connections of the pool, idle or in use.",
            labels=["pool", "state"],
        )
        maximum = GaugeMetricFamily(
            "indexer_database_pool_max_connections", "Most connections the pool may open.", labels=["pool"]
        )
        for name, read in self.readers.copy().items():
            state = read()
            connections.add_metric([name, "idle"], state.idle)
            connections.add_metric([name, "in_use"], state.size - state.idle)
            maximum.add_metric([name], state.maximum)
        yield connections
        yield maximum


class _Scrape(Collector):
    """The registry and one snapshot as a single collector."""

    def __init__(self, registry: CollectorRegistry, snapshot: ScrapeSnapshot) -> None:
        self._registry = registry
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        yield from self._registry.collect()
        yield from snapshot_families(self._snapshot)


def _peer_code(code: int | str) -> str:
    """A registered status, or the name of a failure class: a stranger chooses statuses, so not any number."""
    if isinstance(code, int):
        return str(code) if code in _STATUSES else OTHER
    return code if _FAILURE_CLASS.fullmatch(code) else OTHER


def _forget(metric: Counter | Histogram, label: str, keep: frozenset[str]) -> None:
    """Drop every series of the metric whose ``label`` is not among those to keep."""
    present = {
        sample.labels[label]
        for family in metric.collect()
        for sample in family.samples
        if label in sample.labels
    }
    for value in present - keep:
        metric.remove_by_labels({label: value})
