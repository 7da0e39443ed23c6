"""An engine over the double of Meilisearch, prepared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from indexer.engines.indexes import INDEXES
from indexer.engines.meilisearch import MeilisearchEngine
from tests.engines.conftest import MAX_TOTAL_HITS
from tests.engines.meili_double import MeiliDouble, serve_double

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass
class Stage:
    """A server and an engine on it."""

    double: MeiliDouble
    engine: MeilisearchEngine

    async def another(self) -> MeilisearchEngine:
        """The engine of a process that starts now."""
        await self.engine.close()
        self.engine = MeilisearchEngine(self.double.url, self.double.key, MAX_TOTAL_HITS)
        await self.engine.prepare(INDEXES)
        return self.engine


@pytest.fixture
async def stage(anyio_backend: str) -> AsyncIterator[Stage]:
    """A prepared engine."""
    async with serve_double() as double:
        stage = Stage(double, MeilisearchEngine(double.url, double.key, MAX_TOTAL_HITS))
        await stage.engine.prepare(INDEXES)
        yield stage
        await stage.engine.close()
