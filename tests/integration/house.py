"""The real house in this process, on ports of its own, and what a client sees of it over HTTP."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from indexer.app import House, fetch_servers, open_house
from indexer.config import Settings
from tests.integration.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


def settings_of(
    seed: str,
    overrides: Mapping[str, str],
    dsn: str,
    *,
    crawl: Mapping[str, Any] | None = None,
    trust: str = "off",
) -> Settings:
    """Settings of an indexer that polls often and listens on any free ports."""
    return Settings.model_validate(
        {
            "server": {"listen": "127.0.0.1:0", "internalListen": "127.0.0.1:0"},
            "crawl": {
                "seed": seed,
                "hostOverrides": dict(overrides),
                "minPollInterval": "200ms",
                "incrementalInterval": "500ms",
                **(crawl or {}),
            },
            "trust": {"mode": trust},
            "backends": {"postgresDsn": dsn},
        }
    )


@dataclass(frozen=True)
class Running:
    """A house at work."""

    house: House
    work: asyncio.Task[None]
    api: httpx.AsyncClient
    internal: httpx.AsyncClient

    @property
    def is_alive(self) -> bool:
        """Whether no loop has ended."""
        return not self.work.done()

    async def search(self, kind: str, query: str = "", **parameters: str) -> list[dict[str, Any]]:
        """Every hit of a search, page after page."""
        hits: list[dict[str, Any]] = []
        while True:
            page = {"q": query, "limit": "100", "offset": str(len(hits)), **parameters}
            answer = await self.api.get(f"/api/v1/search/{kind}", params=page)
            answer.raise_for_status()
            hits += answer.json()["hits"]
            if len(answer.json()["hits"]) < 100:
                return hits

    async def bodies(self, query: str = "") -> set[str]:
        """The texts of the posts that a search finds."""
        return {hit["body"] for hit in await self.search("posts", query)}

    async def stats(self) -> dict[str, Any]:
        """What `/api/v1/stats` answers."""
        answer = await self.api.get("/api/v1/stats")
        answer.raise_for_status()
        stats: dict[str, Any] = answer.json()
        return stats

    async def server(self, domain: str) -> dict[str, Any]:
        """A server as `servers --json` prints it."""
        servers = {row["domain"]: row for row in await fetch_servers(self.house.settings)}
        return servers.get(domain, {})

    async def rows(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        """The rows of a statement on the mirror."""
        return [dict(row) for row in await self.house.database.fetch(statement, *arguments)]

    async def dead_letters(self) -> list[tuple[str, str]]:
        """(kind, reason) of the dead letters, oldest first."""
        rows = await self.rows("select kind, reason from mirror.dead_letters order by id")
        return [(row["kind"], row["reason"]) for row in rows]

    async def metrics(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Every sample of `/metrics` by name and labels."""
        return samples_of((await self.internal.get("/metrics")).text)

    async def is_drained(self, *domains: str) -> bool:
        """Whether these feeds were read to their end, and everything read is searchable."""
        feeds = await self.rows("select domain, caught_up from mirror.cursors")
        queued = await self.rows("select 1 from mirror.projection_queue where key like '%://%' limit 1")
        return {row["domain"] for row in feeds if row["caught_up"]} >= set(domains) and not queued

    async def drained(self, *domains: str) -> None:
        """Wait until these feeds were read to their end and all is searchable."""
        await eventually(lambda: self.is_drained(*domains), seconds=60)


def samples_of(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The samples of an exposition by name and labels."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 (not typed)

    families = text_string_to_metric_families(text)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


@asynccontextmanager
async def running_house(settings: Settings) -> AsyncIterator[Running]:
    """Open a house, let it work, and end it in order."""
    async with open_house(settings) as house:
        work = asyncio.create_task(house.run())
        try:

            async def listens() -> bool:
                if work.done():
                    work.result()
                return bool(house.internal_url)

            await eventually(listens)
            async with (
                httpx.AsyncClient(base_url=house.api_url, timeout=20) as api,
                httpx.AsyncClient(base_url=house.internal_url, timeout=20) as internal,
            ):
                yield Running(house, work, api, internal)
        finally:
            work.cancel()
            _, late = await asyncio.wait([work], timeout=20)
            assert not late, "the house does not end"
