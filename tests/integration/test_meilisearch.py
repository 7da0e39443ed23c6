"""The whole indexer over Meilisearch: a double, and a real server when there is one (C02, C30, C46)."""

from __future__ import annotations

import functools
import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import pytest

from indexer import app
from indexer.app import fetch_statistics, run_builds
from indexer.engines.indexes import INDEXES
from indexer.engines.meilisearch import MeilisearchEngine
from indexer.simulation.model import expected_of
from indexer.simulation.network import Network
from indexer.simulation.run import serve
from tests.engines.conftest import MEILI_KEY, MEILI_URL
from tests.engines.meili_double import serve_double
from tests.integration.eventually import eventually
from tests.integration.house import running_house, settings_of
from tests.integration.test_end_to_end import _differences

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.config import Settings
    from indexer.mirror.builds import Build
    from tests.engines.meili_double import MeiliDouble

pytestmark = pytest.mark.anyio

_COMMITS = 1_000


def _over(settings: Settings, url: str, key: str) -> Settings:
    backends = settings.backends.model_copy(update={"meili_host": url, "meili_api_key": key})
    return settings.model_copy(update={"backends": backends})


@asynccontextmanager
async def _real(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, str]]:
    """A real server, with indexes of the test's own that are removed in the end."""
    prefix = f"test_{uuid.uuid4().hex[:12]}_"
    monkeypatch.setattr(app, "MeilisearchEngine", functools.partial(MeilisearchEngine, prefix=prefix))
    yield MEILI_URL, MEILI_KEY
    headers = {"authorization": f"Bearer {MEILI_KEY}"}
    async with httpx.AsyncClient(base_url=MEILI_URL, headers=headers) as client:
        for definition in INDEXES:
            await client.delete(f"/indexes/{prefix}{definition.uid}")


@asynccontextmanager
async def _double(_monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, str]]:
    async with serve_double() as double:
        yield double.url, double.key


_SERVERS = {"double": _double, **({"real": _real} if MEILI_URL else {})}


@pytest.mark.parametrize("server", _SERVERS)
async def test_the_api_over_meilisearch_returns_what_the_logs_say(
    database_url: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every document field by field, before and after a reindex that another process asks for."""
    network = Network.generate(seed="meilisearch", servers=2, commits=_COMMITS)
    shown: list[Build] = []
    async with await serve(network) as served, _SERVERS[server](monkeypatch) as (url, key):
        settings = _over(settings_of(network.seed_domain, served.host_overrides, database_url), url, key)
        async with running_house(settings) as running:
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


async def test_a_start_without_meilisearch(database_url: str) -> None:
    """Feeds are followed all the same, `/ready` says what is missing, and searches answer 503."""
    network = Network.generate(seed="away", servers=2, commits=200)
    double: MeiliDouble
    async with await serve(network) as served, serve_double() as double:
        double.answers = lambda *_: (503, "")
        settings = settings_of(network.seed_domain, served.host_overrides, database_url)
        async with running_house(_over(settings, double.url, double.key)) as running:

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
