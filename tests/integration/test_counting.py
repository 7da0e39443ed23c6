"""What is counted of a feed, page after page."""

from __future__ import annotations

import pytest

from indexer.simulation.scripted import ALICE, ALPHA, SEED, post, scripted_network
from tests.integration.house import running_house, settings_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("page_limit", [2, 3, 4, 5, 7, 100])
async def test_rows_of_an_instant_that_a_page_boundary_parts_are_counted_once(
    database_url: str, page_limit: int
) -> None:
    """They come with both pages: the feed can be asked from an instant on, not from a row on."""
    async with scripted_network(SEED, ALPHA) as network:
        for number in range(40):
            second, instant = number // 2, f"2025-03-01T00:00:{number // 2:02}Z"
            network[ALPHA].receive(instant, post(ALICE, f"{second}-{number}", f"post {number}"))
        settings = settings_of(
            SEED, network.host_overrides, database_url, crawl={"pageLimit": page_limit, "overlap": "3s"}
        )
        async with running_house(settings) as running:
            await running.drained(SEED, ALPHA)
            await network[ALPHA].wait_for_requests(len(network[ALPHA].requests) + 3)  # read some of it again
            assert len(await running.bodies("post")) == 40
            assert (await running.server(ALPHA))["commits"] == 40
            kind = frozenset({("server", ALPHA), ("kind", "post")})
            assert (await running.metrics())["crawler_replication_commits_total", kind] == 40
