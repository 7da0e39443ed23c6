"""The whole indexer over Meilisearch: a double, and a real server when there is one (C02, C30, C46)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from indexer import app
from indexer.app import Role, fetch_statistics, open_house
from indexer.engines.base import EngineUnavailable
from indexer.engines.indexes import INDEXES, USERS
from indexer.maintenance import run_builds, run_comparison
from indexer.simulation.model import expected_of
from indexer.simulation.network import Network
from indexer.simulation.run import serve
from tests.engines.meili_double import serve_double
from tests.integration.engines import MEILISEARCHES, over
from tests.integration.eventually import eventually
from tests.integration.house import running_house, settings_of
from tests.integration.test_end_to_end import _differences

if TYPE_CHECKING:
    from indexer.mirror.builds import Build
    from tests.engines.meili_double import MeiliDouble

pytestmark = pytest.mark.anyio

_COMMITS = 1_000


@pytest.mark.parametrize("server", MEILISEARCHES)
async def test_the_api_over_meilisearch_returns_what_the_logs_say(
    database_url: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every document field by field, before and after a reindex that another process asks for."""
    network = Network.generate(seed="meilisearch", servers=2, commits=_COMMITS)
    shown: list[Build] = []
    async with await serve(network) as served:
        plain = settings_of(network.seed_domain, served.host_overrides, database_url)
        async with MEILISEARCHES[server](plain, monkeypatch) as settings, running_house(settings) as running:
            await running.drained(*network.servers)

            async def differences() -> list[str]:
                return await _differences(running, expected_of(network.servers, now=datetime.now(UTC)))

            await eventually(differences, until=lambda found: not found)
            built = await run_builds(
                settings, ["concrnt_posts", "concrnt_users"], reason="asked", show=shown.extend
            )
            assert {row["index"] for row in built} == {"concrnt_posts", "concrnt_users"}
            assert all(row["documents"] > 0 for row in built)
            assert shown
            await eventually(differences, until=lambda found: not found)

            stats = await running.stats()
            assert stats["search"]["engine"] == "meilisearch"
            assert stats["meilisearch"]["databaseSize"] > 0
            assert (await running.internal.get("/ready")).status_code == 200
            samples = await running.metrics()
            written = [
                labels for name, labels in samples if name == "crawler_meili_write_duration_seconds_count"
            ]
            assert {dict(labels)["op"] for labels in written} <= {"upsert", "delete"}
            assert written
            assert running.is_alive
            assert (await fetch_statistics(settings))["search"]["engine"] == "meilisearch"
            compared = await run_comparison(
                settings, [definition.uid for definition in INDEXES], repairing=False
            )
            assert [row["keys"] for row in compared] == [[], [], [], []]


async def test_a_start_without_meilisearch(database_url: str) -> None:
    """Feeds are followed all the same, `/ready` says what is missing, and searches answer 503."""
    network = Network.generate(seed="away", servers=2, commits=200)
    double: MeiliDouble
    async with await serve(network) as served, serve_double() as double:
        double.answers = lambda *_: (503, "")
        settings = settings_of(network.seed_domain, served.host_overrides, database_url)
        async with running_house(over(settings, double.url, double.key)) as running:

            async def drained() -> bool:
                rows = await running.rows("select caught_up from mirror.cursors")
                return len(rows) == len(network.servers) and all(row["caught_up"] for row in rows)

            await eventually(drained, seconds=30)
            answer = await running.api.get("/api/v1/search/posts")
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
            ready = await running.internal.get("/ready")
            assert [missing["name"] for missing in ready.json()["missing"]] == ["engine"]
            double.answers = lambda *_: (403, "invalid_api_key")
            ready = await running.internal.get("/ready")
            assert "meiliAPIKey" in ready.json()["missing"][0]["detail"]
            double.answers = lambda *_: None
            await running.drained(*network.servers)
            assert running.is_alive


async def test_a_process_that_only_counts_activity_finds_the_engine_that_was_away(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its roles, a process prepares the engine it uses, also when that was away at the start."""
    monkeypatch.setattr(app, "_RETRY_SECONDS", 0.05)
    async with serve_double() as double:
        double.answers = lambda *_: (503, "")
        settings = over(settings_of("seed.example", {}, database_url), double.url, double.key)
        async with open_house(settings) as house:
            house.roles = frozenset({Role.ACTIVITY})
            work = asyncio.create_task(house.run())
            double.answers = lambda *_: None

            async def delivers() -> bool:
                try:
                    return bool(await house.projecting_engine.put_figures(USERS, {"nobody": {}}))
                except EngineUnavailable:
                    return False

            await eventually(delivers)
            assert not work.done()
            work.cancel()
            await asyncio.wait({work})
