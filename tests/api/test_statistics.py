"""/api/v1/stats: exactly the documented shape."""

import pytest

from tests.api.fakes import Served

pytestmark = pytest.mark.anyio

EXPECTED = {
    "servers": {"count": 3, "lastCrawlAt": "2025-03-14T12:30:00.250000Z"},
    "cursors": {"count": 2, "failureCount": 1, "catchingUpCount": 1},
    "search": {
        "engine": "fake",
        "indexes": {
            "concrnt_users": {"numberOfDocuments": 1, "isIndexing": False},
            "concrnt_communities": {"numberOfDocuments": 1, "isIndexing": False},
            "concrnt_posts": {"numberOfDocuments": 1, "isIndexing": False},
            "concrnt_servers": {"numberOfDocuments": 1, "isIndexing": False},
        },
        "queueDepth": 7,
    },
}


async def test_shape(api: Served) -> None:
    """Counts of the mirror and of the engine; nothing of Meilisearch when it is not there."""
    assert (await api.get("/api/v1/stats")).json() == EXPECTED


async def test_the_engines_own_figures(api: Served) -> None:
    """They appear under meilisearch, as they are."""
    api.engine.raw = {"databaseSize": 447819776, "indexes": {}}
    assert (await api.get("/api/v1/stats")).json() == {**EXPECTED, "meilisearch": api.engine.raw}
