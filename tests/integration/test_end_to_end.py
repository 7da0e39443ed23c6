"""A generated network over real HTTP, the real house, and a naive model of the logs to compare with."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from indexer.simulation.model import expected_of
from indexer.simulation.network import Network
from indexer.simulation.run import serve
from tests.integration.eventually import eventually
from tests.integration.house import Running, running_house, settings_of

if TYPE_CHECKING:
    from indexer.simulation.model import ExpectedRecord, ExpectedState

pytestmark = pytest.mark.anyio

_COMMITS = 3_000
_END = datetime(2026, 6, 1, tzinfo=UTC)
_TEXTS = {
    "users": ("username", "description", "avatar", "banner"),
    "communities": ("name", "shortname", "description", "icon", "banner"),
    "posts": ("body",),
}
_TYPES = {"users": "user", "communities": "community", "posts": "post"}
_NOT_COMPARED = frozenset(
    {"cckv", "createdAt", "indexedAt", "activityScore", "postCount7d", "postCount30d", "activeAuthors7d"}
    | {"lastPostAt", "activityHistory"}
)
_LISTS = {"users": ("subprofiles", "badges"), "communities": (), "posts": ()}

Documents = dict[str, dict[str, Any]]


def _expected_documents(state: ExpectedState, kind: str) -> Documents:
    """What section 5 of behaviour.md makes of the live records, by key."""
    keys: set[str] = set(getattr(state, kind))
    return {key: _expected_document(state.records[key], kind) for key in keys}


def _expected_document(record: ExpectedRecord, kind: str) -> dict[str, Any]:
    value = record.value
    document = {
        "id": urlsafe_b64encode(record.key.encode()).rstrip(b"=").decode(),
        "type": _TYPES[kind],
        "ccfs": f"ccfs://{record.owner}/concrnt/{record.cdid}",
        "owner": record.owner,
        "sourceServer": record.source,
        "schema": record.schema,
        "ancestors": _ancestors(record.key),
        "created_us": record.created_us if kind == "posts" else record.earliest_us,
        **{name: value.get(name, "") for name in _TEXTS[kind]},
        **{name: value.get(name, []) for name in _LISTS[kind]},
    }
    if kind == "posts":
        document |= {"author": record.author, "value": value}
    if kind == "users":
        document |= {"ccid": record.owner}
    return document


def _ancestors(key: str) -> list[str]:
    owner, *steps = key.removeprefix("cckv://").split("/")
    return ["cckv://" + "/".join([owner, *steps[:length]]) for length in range(len(steps))]


def _key_of(identifier: str) -> str:
    return urlsafe_b64decode(identifier + "=" * (-len(identifier) % 4)).decode()


def _seen_document(hit: dict[str, Any], kind: str) -> dict[str, Any]:
    """A hit without what the model knows nothing of, its time as a number."""
    seen = {name: value for name, value in hit.items() if name not in _NOT_COMPARED}
    assert hit["createdAt"].endswith("Z")
    assert hit["indexedAt"].endswith("Z")
    moment = datetime.fromisoformat(hit["createdAt"]) - datetime(1970, 1, 1, tzinfo=UTC)
    return {**seen, "created_us": moment // (moment.resolution)}


async def _differences(running: Running, state: ExpectedState) -> list[str]:
    """How the API's answers differ from the model's, a line each, the first of each kind only.

    `cckv` is as the document spells it, so the key is read from the id.
    """
    found = []
    for kind in _TYPES:
        expected = _expected_documents(state, kind)
        hits = await running.search(kind)
        seen = {_key_of(hit["id"]): _seen_document(hit, kind) for hit in hits}
        if len(seen) != len(hits):
            found.append(f"{kind}: {len(hits)} hits for {len(seen)} keys")
        found += [f"{kind}: missing {key}" for key in list(expected.keys() - seen.keys())[:3]]
        found += [f"{kind}: too many {key}" for key in list(seen.keys() - expected.keys())[:3]]
        unequal = [key for key in expected.keys() & seen.keys() if expected[key] != seen[key]]
        found += [f"{kind}: {expected[key]} is shown as {seen[key]}" for key in unequal[:2]]
    return found


async def test_the_api_returns_what_a_naive_reading_of_the_logs_expects(database_url: str) -> None:
    """Every live profile, community and post, field by field; once more after the network has grown."""
    network = Network.generate(seed="equal", servers=3, commits=_COMMITS, end=_END)
    async with (
        await serve(network) as served,
        running_house(settings_of(network.seed_domain, served.host_overrides, database_url)) as running,
    ):
        await running.drained(*network.servers)
        visible = sum(not row.hidden for server in network.servers.values() for row in server.log)
        expected = expected_of(network.servers, now=datetime.now(UTC))
        assert min(len(expected.users), len(expected.communities), len(expected.posts)) > 10
        assert await _differences(running, expected) == []
        shapes = await running.rows("select distinct scope from mirror.tombstones order by scope")
        assert [row["scope"] for row in shapes] == ["below", "document", "key", "tree"]
        await _figures_agree(running, network, expected, visible=visible)

        before = network.commit_count
        while network.commit_count < before + 300:
            network.grow(datetime.now(UTC))
            await asyncio.sleep(0)

        async def differences() -> list[str]:
            return await _differences(running, expected_of(network.servers, now=datetime.now(UTC)))

        await eventually(differences, until=lambda found: not found)
        assert running.is_alive


async def _figures_agree(
    running: Running, network: Network, expected: ExpectedState, *, visible: int
) -> None:
    """Metrics, `servers --json` and `/api/v1/stats` tell of the same log."""
    per_server = {
        domain: sum(not row.hidden for row in server.log) for domain, server in network.servers.items()
    }
    assert sum(per_server.values()) == visible
    assert {domain: (await running.server(domain))["commits"] for domain in per_server} == per_server

    stats = await running.stats()
    assert stats["servers"]["count"] == stats["cursors"]["count"] == len(network.servers)
    assert stats["cursors"]["failureCount"] == 0
    await eventually(running.stats, until=lambda answer: answer["cursors"]["catchingUpCount"] == 0)
    assert stats["servers"]["lastCrawlAt"].endswith("Z")
    wanted = {f"concrnt_{kind}": len(getattr(expected, kind)) for kind in _TYPES}
    wanted["concrnt_servers"] = len(network.servers)

    async def documents() -> dict[str, int]:
        indexes = (await running.stats())["search"]["indexes"]
        return {uid: index["numberOfDocuments"] for uid, index in indexes.items()}

    await eventually(documents, until=lambda counted: counted == wanted)
    assert "meilisearch" not in stats
    ready = await running.internal.get("/ready")
    assert (ready.status_code, ready.json()["missing"]) == (200, [])

    samples = await running.metrics()
    for domain, count in per_server.items():
        kinds = {
            dict(labels)["kind"]: int(value)
            for (name, labels), value in samples.items()
            if name == "crawler_replication_commits_total" and dict(labels)["server"] == domain
        }
        # An entry is also counted as what else it is, or as nothing else.
        assert sum(kinds.values()) - kinds.get("entry", 0) <= count <= sum(kinds.values())
        assert samples["crawler_replication_caught_up", frozenset({("server", domain)})] == 1
        pages = samples["crawler_replication_pages_total", frozenset({("server", domain)})]
        assert pages >= (count + 99) // 100
    assert {uid: samples["crawler_index_documents", frozenset({("index", uid)})] for uid in wanted} == wanted


_OURS_SO_FAR = {
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
    "crawler_crawl_runs_total": {"result"},
    "crawler_crawl_run_duration_seconds_count": set(),
    "crawler_server_crawls_total": {"server", "result"},
    "crawler_server_crawl_duration_seconds_count": set(),
    "crawler_discovery_runs_total": {"result"},
    "crawler_index_documents": {"index"},
    "crawler_index_indexing": {"index"},
    "crawler_engine_write_duration_seconds_count": {"engine", "op"},
    "crawler_build_info": {"version"},
    "concrnt_peer_requests_total": {"host", "code"},
    "concrnt_peer_request_duration_seconds_count": {"host"},
    "indexer_projection_queue_depth": set(),
    "indexer_projection_queue_oldest_age_seconds": set(),
    "indexer_commit_to_searchable_seconds_count": set(),
    "indexer_dead_letters": set(),
    "indexer_http_requests_total": {"listener", "method", "route", "code"},
    "indexer_database_pool_connections": {"pool", "state"},
}


async def test_every_metric_whose_subject_exists_is_told_with_its_labels(database_url: str) -> None:
    """Names and labels are those of section 8, after a small network was read, one bad row included."""
    network = Network.generate(seed="metrics", servers=2, commits=200)
    for server in network.servers.values():
        last = server.log.last_receipt_ns
        assert last is not None
        server.log.add(last + 1_000, b'{"document": "no JSON"}')
    async with (
        await serve(network) as served,
        running_house(settings_of(network.seed_domain, served.host_overrides, database_url)) as running,
    ):
        await running.drained(*network.servers)
        await running.search("posts")

        async def labels() -> dict[str, set[str]]:
            samples = await running.metrics()
            return {name: {label for label, _ in names} for name, names in samples if name in _OURS_SO_FAR}

        await eventually(labels, until=lambda seen: seen == _OURS_SO_FAR, seconds=10)
        samples = await running.metrics()
        assert samples["indexer_dead_letters", frozenset()] == 2
        for domain in network.servers:
            malformed = frozenset({("server", domain), ("kind", "commit")})
            assert samples["crawler_replication_malformed_total", malformed] == 1
