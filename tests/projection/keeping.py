"""A mirror, an engine, and what projects from one to the other and keeps the indexes whole: for tests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from indexer.engines.base import SearchRequest, SortOrder
from indexer.engines.ids import document_id
from indexer.engines.indexes import INDEXES, POSTS
from indexer.mirror.builds import Builds
from indexer.mirror.queue import ProjectionQueue
from indexer.projection.building import IndexKeeper
from indexer.projection.kinds import Kinds
from indexer.projection.projector import Projector
from indexer.simulation import schemas as wire
from indexer.simulation.scripted import ALICE, ALPHA, post

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from indexer.engines.base import BuildingEngine
    from tests.replication.stage import Mirror

POST_SCHEMAS = (wire.MARKDOWN,)


@dataclass
class Stage:
    """A mirror, an engine, and what projects from one to the other."""

    mirror: Mirror
    engine: BuildingEngine
    dead: list[tuple[str, str]] = field(default_factory=list)
    pauses: int = 0
    post_schemas: Collection[str] = POST_SCHEMAS

    @property
    def builds(self) -> Builds:
        """What is asked for."""
        return Builds(self.mirror.database, self.engine.name)

    def keeper(self) -> IndexKeeper:
        """A new process's keeper, with its projector."""
        kinds = Kinds(
            profile_schemas=[wire.PROFILE],
            community_schemas=[wire.COMMUNITY],
            post_schemas=self.post_schemas,
        )
        projector = Projector(
            ProjectionQueue(self.mirror.database),
            self.engine,
            kinds,
            dead_letter=self._dead_letter,
            metrics=_Silent(),
            sleep=self._sleep,
        )
        return IndexKeeper(self.engine, INDEXES, projector, self.builds, kinds, sleep=self._sleep)

    @asynccontextmanager
    async def process(self) -> AsyncIterator[IndexKeeper]:
        """A process that projects and keeps the indexes, killed in the end."""
        keeper = self.keeper()
        tasks = [asyncio.create_task(keeper.projector.run()), asyncio.create_task(keeper.run())]
        try:
            yield keeper
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for task in tasks:
                if not task.cancelled() and (error := task.exception()):
                    raise error

    async def settled(self) -> None:
        """Wait until nothing is marked and nothing is asked for."""

        async def waiting() -> bool:
            rows = await self.mirror.rows("select 1 from mirror.projection_queue limit 1")
            return bool(rows or await self.builds.builds() or len(await self.builds.filled()) < len(INDEXES))

        while await waiting():  # noqa: ASYNC110 - the mirror tells nobody
            await asyncio.sleep(0.01)

    async def put(self, *bodies: tuple[str, str], hour: int = 0) -> None:
        """Posts come in, each a name and a body."""
        at = f"2025-03-01T{hour:02}:00:00Z"
        await self.mirror.write(ALPHA, [post(ALICE, name, body, created_at=at) for name, body in bodies])

    async def indexed(self) -> dict[str, str]:
        """The bodies of all posts that a search finds, by id."""
        found: dict[str, str] = {}
        while True:
            request = SearchRequest(POSTS, "", {}, SortOrder("createdAt"), len(found), 100)
            hits = (await self.engine.search(request)).hits
            found |= {hit["id"]: hit["body"] for hit in hits}
            if len(hits) < 100:
                return found

    async def stored(self) -> dict[str, str]:
        """The bodies of all posts in the mirror, by id."""
        rows = await self.mirror.rows(
            "select key from mirror.records where schema = any($1)", list(POST_SCHEMAS)
        )
        return {document_id(row["key"]): (await self.mirror.value(row["key"]))["body"] for row in rows}

    async def _dead_letter(self, key: str, reason: str) -> None:
        self.dead.append((key, reason))

    async def _sleep(self, seconds: float) -> None:
        self.pauses += 1
        await asyncio.sleep(min(seconds, 0.02))


class _Silent:
    def engine_write(self, *_: Any) -> None:
        """Nobody listens."""

    def searchable(self, *_: Any) -> None:
        """Nobody listens."""
