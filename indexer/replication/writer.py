"""A page into the mirror: plan it on what is stored and apply it, with its cursor, in one transaction.

Ordering: owners' locks, then the stored state, then the plan, then its effects and the cursor. A crash
at any point leaves the page whole or not at all. Should PostgreSQL refuse a page for what one row holds,
the page is applied row by row within one transaction: the row that it refuses goes to the dead letters,
the rest stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from indexer.concrnt.documents import Commit, MalformedKind, Reason
from indexer.mirror.changes import Changes, Tally
from indexer.mirror.context import load_context, lock_owners
from indexer.mirror.database import REFUSED, describe
from indexer.mirror.pages import apply_changes, keep_dead_letters
from indexer.mirror.servers import advance_cursor, check_lease
from indexer.replication.plan import dead_letter, needs, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from indexer.mirror.database import Connection, Database
    from indexer.mirror.servers import CursorAdvance
    from indexer.replication.page import Row
    from indexer.replication.plan import Schemas

log = structlog.get_logger(__name__)


class PageWriter:
    """Writes pages of feeds into one mirror."""

    def __init__(
        self, database: Database, *, schemas: Schemas, on_marked: Callable[[], None] = lambda: None
    ) -> None:
        """`on_marked` is called after a page that left marks in the projection queue."""
        self._database = database
        self._on_marked = on_marked
        self._schemas = schemas
        self._indexed = sorted(schemas.indexed)

    async def write(
        self, rows: Sequence[Row], advance: CursorAdvance, *, behind: int, now: datetime
    ) -> Changes:
        """Apply rows in log order, the first `behind` of which were read before, and move the cursor.

        Returns what was done, for counters. Raises `StoreUnavailable`.
        """

        async def work(connection: Connection) -> Changes:
            await check_lease(connection, advance.lease)
            await lock_owners(connection, needs(rows))
            changes = await self._apply(connection, rows, advance.domain, behind=behind, now=now)
            await self._advance(connection, advance, changes.tally)
            return changes

        async def work_row_by_row(connection: Connection) -> Changes:
            await check_lease(connection, advance.lease)
            await lock_owners(connection, needs(rows))
            tally = Tally()
            for position, row in enumerate(rows):
                done = await self._apply_row(
                    connection, row, advance.domain, read_before=position < behind, now=now
                )
                tally += done
            await self._advance(connection, advance, tally)
            return Changes(source=advance.domain, tally=tally)

        try:
            changes = await self._database.transaction("apply_page", work, durable=False)
        except REFUSED as error:
            log.warning("a page is applied row by row", server=advance.domain, why=describe(error))
            changes = await self._database.transaction("apply_rows", work_row_by_row, durable=False)
        self._on_marked()
        return changes

    async def _apply(
        self, connection: Connection, rows: Sequence[Row], source: str, *, behind: int, now: datetime
    ) -> Changes:
        context = await load_context(connection, needs(rows))
        changes = plan(rows, context, source=source, behind=behind, schemas=self._schemas)
        await apply_changes(connection, changes, indexed_schemas=self._indexed, now=now)
        return changes

    async def _apply_row(
        self, connection: Connection, row: Row, source: str, *, read_before: bool, now: datetime
    ) -> Tally:
        try:
            async with connection.transaction():
                changes = await self._apply(connection, [row], source, behind=int(read_before), now=now)
                return changes.tally
        except REFUSED as error:
            log.warning("PostgreSQL refuses a row", server=source, why=describe(error))
            if not isinstance(row, Commit):
                return Tally()
            letter = dead_letter(row, MalformedKind.COMMIT, Reason.NOT_STORABLE)
            new = await keep_dead_letters(connection, source, [letter], now=now)
            return Tally(commits=new, malformed={"commit": new})

    async def _advance(self, connection: Connection, advance: CursorAdvance, tally: Tally) -> None:
        await advance_cursor(
            connection,
            replace(
                advance,
                latest_post_at=tally.latest_post_at,
                commits=tally.commits,
                malformed=sum(tally.malformed.values()),
            ),
        )
