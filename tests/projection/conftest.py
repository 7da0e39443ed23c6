"""The stage of every engine, a real Meilisearch among them when there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from indexer.engines.indexes import INDEXES
from tests.engines.conftest import OPENERS
from tests.projection.keeping import Stage
from tests.replication.stage import open_mirror

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(params=OPENERS)
async def stage(
    request: pytest.FixtureRequest, database_url: str, anyio_backend: str
) -> AsyncIterator[Stage]:
    """Each engine, prepared, on an empty mirror."""
    async with open_mirror(database_url) as mirror, OPENERS[request.param](database_url) as engine:
        await engine.prepare(INDEXES)
        yield Stage(mirror, engine)
