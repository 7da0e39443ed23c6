"""The names and labels of behaviour.md section 8, and their bounds."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from indexer.observability.metrics import IndexGauges, Metrics, PoolState, ScrapeSnapshot, ServerGauges

DASHBOARD = Path(__file__).parents[2] / "docs" / "dashboards" / "concrnt-indexer.json"

SECTION_8 = {
    "crawler_replication_cursor_timestamp_seconds": {"server"},
    "crawler_replication_latest_post_timestamp_seconds": {"server"},
    "crawler_replication_caught_up": {"server"},
    "crawler_replication_caught_up_timestamp_seconds": {"server"},
    "crawler_replication_last_finished_timestamp_seconds": {"server"},
    "crawler_replication_backoff": {"server"},
    "crawler_replication_consecutive_failures": {"server"},
    "crawler_server_consecutive_failures": {"server"},
    "crawler_server_last_crawled_timestamp_seconds": {"server"},
    "crawler_server_disabled": {"server"},
    "crawler_replication_requests_total": {"server", "result"},
    "crawler_replication_pages_total": {"server"},
    "crawler_replication_commits_total": {"server", "kind"},
    "crawler_replication_malformed_total": {"server", "kind"},
    "crawler_replication_rejected_total": {"server", "reason"},
    "crawler_crawl_runs_total": {"result"},
    "crawler_crawl_run_duration_seconds_count": set(),
    "crawler_server_crawls_total": {"server", "result"},
    "crawler_server_crawl_duration_seconds_count": set(),
    "crawler_discovery_runs_total": {"result"},
    "crawler_activity_refreshes_total": {"subject", "result"},
    "crawler_activity_refresh_duration_seconds_count": {"subject"},
    "crawler_index_documents": {"index"},
    "crawler_index_indexing": {"index"},
    "crawler_meili_write_duration_seconds_count": {"op"},
    "crawler_engine_write_duration_seconds_count": {"engine", "op"},
    "crawler_build_info": {"version"},
    "concrnt_peer_requests_total": {"host", "code"},
    "concrnt_peer_request_duration_seconds_count": {"host"},
    "indexer_projection_queue_depth": set(),
    "indexer_projection_queue_oldest_age_seconds": set(),
    "indexer_commit_to_searchable_seconds_count": set(),
    "indexer_dead_letters": set(),
    "indexer_http_requests_total": {"listener", "method", "route", "code"},
    "indexer_http_request_duration_seconds_count": {"listener", "route"},
    "indexer_database_pool_connections": {"pool", "state"},
    "indexer_database_pool_max_connections": {"pool"},
}

SNAPSHOT = ScrapeSnapshot(
    servers=[
        ServerGauges(
            server="alpha.example",
            cursor_timestamp=1_740_830_400.5,
            latest_post_timestamp=1_740_830_000.0,
            caught_up=True,
            caught_up_timestamp=1_740_830_401.0,
            last_finished_timestamp=1_740_830_402.0,
            backoff=False,
            replication_consecutive_failures=0,
            server_consecutive_failures=2,
            last_crawled_timestamp=1_740_830_403.0,
            disabled=False,
        )
    ],
    indexes={"concrnt_posts": IndexGauges(documents=7, indexing=True)},
    queue_depth=5,
    queue_oldest_age_seconds=1.5,
    dead_letters=3,
)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3")


def samples(
    metrics: Metrics, snapshot: ScrapeSnapshot | None = None
) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples of a scrape by name: labels and value."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(metrics.render(snapshot).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def use_everything(metrics: Metrics) -> None:
    """Touch every metric that this process keeps."""
    metrics.set_known_hosts(["alpha.example"])
    metrics.replication_requests.labels("alpha.example", "ok").inc()
    metrics.count_page(
        "alpha.example", commits={"post": 2}, malformed={"post": 1}, rejected={"not_authoritative": 1}
    )
    metrics.server_crawls.labels("alpha.example", "ok").inc()
    metrics.observe_engine_write("meilisearch", "upsert", 0.1)
    metrics.observe_peer_request("alpha.example", 200, 0.1)
    metrics.observe_http_request("public", "GET", "/health", 200, 0.001)
    metrics.watch_pool("main", lambda: PoolState(size=3, idle=2, maximum=10))


def test_every_metric_has_the_documented_name_and_labels(metrics: Metrics) -> None:
    """A dashboard made for the Go crawler finds every name with exactly the labels it knows."""
    use_everything(metrics)
    found = samples(metrics, SNAPSHOT)
    labels = {name: set(found[name][0][0]) if name in found else None for name in SECTION_8}
    assert labels == SECTION_8


def test_nothing_is_exposed_twice_or_with_creation_times(metrics: Metrics) -> None:
    """There are no _created series, and every family is declared once."""
    use_everything(metrics)
    text = metrics.render(SNAPSHOT).decode()
    declared = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert not re.search(r"_created\b", text)
    assert len(declared) == len(set(declared))


def test_snapshot_values_are_shown_as_they_are(metrics: Metrics) -> None:
    """Booleans are 0 and 1, times are seconds."""
    found = samples(metrics, SNAPSHOT)
    server = {"server": "alpha.example"}
    assert found["crawler_replication_cursor_timestamp_seconds"] == [(server, 1_740_830_400.5)]
    assert found["crawler_replication_caught_up"] == [(server, 1.0)]
    assert found["crawler_replication_backoff"] == [(server, 0.0)]
    assert found["crawler_server_consecutive_failures"] == [(server, 2.0)]
    assert found["crawler_index_documents"] == [({"index": "concrnt_posts"}, 7.0)]
    assert found["crawler_index_indexing"] == [({"index": "concrnt_posts"}, 1.0)]
    assert found["crawler_build_info"] == [({"version": "1.2.3"}, 1.0)]


def test_what_is_not_known_has_no_sample(metrics: Metrics) -> None:
    """A value that is None is absent, not zero."""
    found = samples(metrics, ScrapeSnapshot(servers=[ServerGauges("beta.example")]))
    assert not [name for name, entries in found.items() for labels, _ in entries if "server" in labels]
    assert "indexer_projection_queue_depth" not in found


def test_without_a_snapshot_the_process_shows_itself(metrics: Metrics) -> None:
    """PostgreSQL being away takes the stored gauges away and nothing else."""
    use_everything(metrics)
    found = samples(metrics)
    assert "crawler_replication_caught_up" not in found
    assert found["crawler_replication_pages_total"] == [({"server": "alpha.example"}, 1.0)]
    assert "process_resident_memory_bytes" in found


def test_strangers_choose_no_label_values(metrics: Metrics) -> None:
    """C56: two thousand hosts, paths, methods and statuses do not make a series each."""
    metrics.set_known_hosts(["alpha.example"])
    for number in range(2000):
        metrics.observe_peer_request(f"host{number}.example", number, 0.1)
        metrics.observe_peer_request("alpha.example", f"Made Up {number}", 0.1)
        metrics.observe_http_request("public", f"METHOD{number}", None, 404, 0.1)
    found = samples(metrics)
    assert {labels["host"] for labels, _ in found["concrnt_peer_requests_total"]} == {
        "other",
        "alpha.example",
    }
    assert len(found["concrnt_peer_requests_total"]) < 80
    assert [labels for labels, _ in found["indexer_http_requests_total"]] == [
        {"listener": "public", "method": "other", "route": "other", "code": "404"}
    ]


def test_failure_classes_are_codes_of_known_hosts(metrics: Metrics) -> None:
    """A request that failed counts under its class."""
    metrics.set_known_hosts(["alpha.example"])
    metrics.observe_peer_request("alpha.example", "blocked_address", 0.1)
    assert samples(metrics)["concrnt_peer_requests_total"] == [
        ({"host": "alpha.example", "code": "blocked_address"}, 1.0)
    ]


def test_what_leaves_takes_its_series_along(metrics: Metrics) -> None:
    """C56: after a domain moved or changed its layer, nothing of it is shown; others keep their counts."""
    metrics.set_known_hosts(["alpha.example", "old.example"])
    for server in ("alpha.example", "old.example"):
        metrics.count_page(server, commits={"post": 1}, malformed={"post": 1})
        metrics.observe_peer_request(server, 200, 0.1)
    metrics.set_known_hosts(["alpha.example", "new.example"])
    text = metrics.render().decode()
    assert "old.example" not in text
    assert samples(metrics)["crawler_replication_pages_total"] == [({"server": "alpha.example"}, 1.0)]


def test_two_processes_add_up() -> None:
    """C56: each process counts what it did itself."""
    first, second = Metrics("1"), Metrics("1")
    first.count_page("alpha.example", commits={"post": 2})
    second.count_page("alpha.example", commits={"post": 3})
    counts = [samples(metrics)["crawler_replication_commits_total"][0][1] for metrics in (first, second)]
    assert counts == [2.0, 3.0]


def test_label_values_are_escaped(metrics: Metrics) -> None:
    """A name with quotes or line breaks breaks no line of the exposition."""
    name = 'a"b\\c\nd'
    found = samples(metrics, ScrapeSnapshot(servers=[ServerGauges(name, caught_up=True)]))
    assert found["crawler_replication_caught_up"] == [({"server": name}, 1.0)]


def test_the_dashboard_names_only_what_exists(metrics: Metrics) -> None:
    """Every metric that the Grafana dashboard asks for is one that a scrape may show, with those labels."""
    use_everything(metrics)
    exposed = samples(metrics, SNAPSHOT)
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    named = set(re.findall(r"\b(?:crawler|concrnt|indexer|process)_[a-z_0-9]+", " ".join(expressions)))
    assert len(named) > 25
    assert named - set(exposed) == set()
    assert (
        set(SECTION_8) - {name.replace("_bucket", "_count") for name in named} - {"crawler_build_info"}
        == set()
    )
