"""The stage of the replication tests: a mirror, and pages written into it as a follower does."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from indexer.mirror.database import Database
from indexer.mirror.migrate import migrate
from indexer.mirror.servers import CursorAdvance, Servers
from indexer.replication.judge import Judge
from indexer.replication.page import read_rows
from indexer.replication.plan import Schemas
from indexer.replication.trust import TrustMode
from indexer.replication.writer import PageWriter
from indexer.simulation import schemas as wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from indexer.mirror.changes import Changes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMAS = Schemas(
    profiles=frozenset({wire.PROFILE}),
    communities=frozenset({wire.COMMUNITY}),
    posts=frozenset({wire.MARKDOWN}),
    acks=frozenset({wire.FOLLOW}),
)


@dataclass(frozen=True)
class Mirror:
    """A migrated mirror and what writes into it."""

    database: Database
    servers: Servers
    writer: PageWriter
    judge: Judge | None = None

    async def clear(self) -> None:
        """Empty every table."""
        await self.database.execute(
            "truncate mirror.records, mirror.retired, mirror.tombstones, mirror.acks, mirror.entities,"
            " mirror.provisional_acks, mirror.unresolved, mirror.set_aside, mirror.waiting,"
            " mirror.rejected_later, mirror.look_ups, mirror.dead_letters, mirror.projection_queue,"
            " mirror.moves, mirror.cursors, mirror.servers restart identity"
        )

    async def write(self, source: str, commits: Sequence[bytes], *, behind: int = 0) -> Changes:
        """Write one page of a server's feed."""
        rows = read_rows(commits, now=NOW, indexed=SCHEMAS.malformed_kinds)
        advance = CursorAdvance(source, None, None, rows.digests)
        await self.servers.discover([source], now=NOW, aliases_since=NOW, at_most=10, per_parent=10)
        await self.servers.begin(source)
        return await self.writer.write(rows.rows, advance, behind=behind, now=NOW)

    async def rows(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        """The rows of a statement, as dictionaries."""
        return [dict(row) for row in await self.database.fetch(statement, *arguments)]

    async def keys(self) -> set[str]:
        """The live keys."""
        return {row["key"] for row in await self.rows("select key from mirror.records")}

    async def value(self, key: str) -> Any:
        """The value of the document under a key, None when there is none."""
        rows = await self.rows("select signed from mirror.records where key = $1", key)
        return json.loads(json.loads(rows[0]["signed"])["document"])["value"] if rows else None

    async def state(self) -> dict[str, Any]:
        """Everything that must not depend on how a feed was cut into pages."""
        return {
            "records": await self.rows(
                "select key, cdid, created_at, first_created_at, source, schema, href, author, parent"
                " from mirror.records order by key"
            ),
            "retired": await self.rows("select key, cdid, deleted_by from mirror.retired order by key, cdid"),
            "tombstones": await self.rows(
                "select target, scope, cdid, source from mirror.tombstones order by target, scope, cdid"
            ),
            "acks": await self.rows(
                "select acker, ackee, schema, valid, created_at from mirror.acks order by 1, 2, 3"
            ),
            "entities": await self.rows("select ccid, domain, cdid from mirror.entities order by ccid"),
            "dead_letters": await self.rows(
                "select domain, kind, reason, digest from mirror.dead_letters order by domain, digest"
            ),
            "counted": await self.rows(
                "select domain, commits, malformed from mirror.servers order by domain"
            ),
        }


@asynccontextmanager
async def open_mirror(dsn: str, trust: TrustMode = TrustMode.OFF) -> AsyncIterator[Mirror]:
    """A migrated mirror in a fresh database, where everybody is believed unless `trust` says otherwise."""
    database = await Database.connect(dsn, size=4)
    judge = None
    try:
        await migrate(database)
        if trust is not TrustMode.OFF:
            judge = Judge(trust, follows=SCHEMAS.acks)
        yield Mirror(database, Servers(database), PageWriter(database, schemas=SCHEMAS, trust=judge), judge)
    finally:
        await database.close()
