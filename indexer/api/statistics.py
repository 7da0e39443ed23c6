"""``/api/v1/stats``: how much there is, and how far behind we are (behaviour.md section 7).

``StatisticsSource`` is what the API needs to know of the mirror, and all of it. The command ``stats --json``
prints what ``statistics_answer`` makes.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from indexer.engines.base import EngineStatistics


@dataclass(frozen=True, slots=True)
class Statistics:
    """Numbers of the mirror, of our layer only."""

    server_count: int
    last_crawl_at: datetime | None
    """When any server was last asked; aware, UTC. None before the first time."""
    cursor_count: int
    failure_count: int
    """Feeds whose last run failed."""
    catching_up_count: int
    """Feeds not yet read to their end."""
    queue_depth: int
    """Changes that are not yet in the search engine."""


class StatisticsSource(Protocol):
    """Whoever can count the mirror."""

    async def statistics(self) -> Statistics:
        """Count. May raise any of the kinds named to the application as meaning "away"."""
        ...


def statistics_answer(statistics: Statistics, engine_name: str, engine: EngineStatistics) -> dict[str, Any]:
    """The answer as it is sent; ``meilisearch`` is there only when the engine has figures of its own."""
    answer: dict[str, Any] = {
        "servers": {"count": statistics.server_count, "lastCrawlAt": statistics.last_crawl_at},
        "cursors": {
            "count": statistics.cursor_count,
            "failureCount": statistics.failure_count,
            "catchingUpCount": statistics.catching_up_count,
        },
        "search": {
            "engine": engine_name,
            "indexes": {
                uid: {"numberOfDocuments": index.number_of_documents, "isIndexing": index.is_indexing}
                for uid, index in engine.indexes.items()
            },
            "queueDepth": statistics.queue_depth,
        },
    }
    if engine.raw is not None:
        answer["meilisearch"] = engine.raw
    return answer
