"""One public application is served for each module of tests; each test finds it as new."""

from collections.abc import AsyncIterator

import pytest

from tests.api.fakes import Served, Trouble, served_public


@pytest.fixture(scope="module")
async def public_server() -> AsyncIterator[Served]:
    async with served_public(timeout_seconds=0.5, public_url="https://search.example/") as served:
        yield served


@pytest.fixture
def api(public_server: Served) -> Served:
    """The served public application, with nothing wrong and nothing remembered."""
    public_server.engine.reset()
    public_server.mirror.trouble = Trouble()
    public_server.ranking.trouble = Trouble()
    public_server.ranking.ranked = []
    return public_server
