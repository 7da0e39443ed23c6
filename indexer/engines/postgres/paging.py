"""Running a planned search: which way leads to the page, and how tiers and absent fields follow each other.

Few matches are fetched and sorted whole. Of many, only a page is looked for, tier by tier; within a tier the
documents that have the sort field come first, then those that lack it, both by key in the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncpg

    from indexer.engines.postgres.searching import Statement, TablePlan
    from indexer.engines.postgres.writing import Connection


@dataclass(frozen=True, slots=True)
class Page:
    """JSON texts of a page's documents, and how many match in all, up to the bound."""

    documents: list[str]
    total: int


async def find_page(connection: Connection, plan: TablePlan, bound: int) -> Page:
    """Find the page that a plan asks for among the first ``bound`` matches, in one snapshot."""
    return await _Finder(connection, plan, bound).find()


class _Finder:
    def __init__(self, connection: Connection, plan: TablePlan, bound: int) -> None:
        self._connection = connection
        self._plan = plan
        self._bound = bound

    async def find(self) -> Page:
        offset = min(max(self._plan.request.offset, 0), self._bound)
        limit = min(max(self._plan.request.limit, 0), self._bound - offset)
        if self._plan.is_unconditional:
            total = await self._count(self._plan.counted(0, bound=self._bound))
            return Page(await self._walk(0, offset, limit), total)
        page = await self._ranked(None, offset, limit)
        if page.total <= self._bound:
            return page
        return Page(await self._find_among_many(offset, limit), self._bound)

    async def _find_among_many(self, offset: int, limit: int) -> list[str]:
        documents: list[str] = []
        last = len(self._plan.tiers) - 1
        for tier in range(last):
            page = await self._ranked(tier, offset, limit - len(documents))
            if page.total > self._bound:
                return documents + await self._walk(tier, offset, limit - len(documents))
            documents += page.documents
            if len(documents) == limit:
                return documents
            offset = max(offset - page.total, 0)
        return documents + await self._walk(last, offset, limit - len(documents))

    async def _ranked(self, tier: int | None, offset: int, limit: int) -> Page:
        # One more than the bound tells "more than the bound" from "exactly the bound".
        rows = await self._fetch(self._plan.ranked(tier, offset, limit, self._bound + 1))
        return Page([row["document"] for row in rows if row["document"] is not None], rows[0]["total"])

    async def _walk(self, tier: int, offset: int, limit: int) -> list[str]:
        present = await self._walk_part(tier, offset, limit, missing=False)
        if len(present) == limit or self._plan.request.sort is None:
            return present
        if present:
            offset = 0
        elif offset:
            offset -= await self._count(self._plan.counted(tier, bound=offset, present_only=True))
        return present + await self._walk_part(tier, offset, limit - len(present), missing=True)

    async def _walk_part(self, tier: int, offset: int, limit: int, *, missing: bool) -> list[str]:
        rows = await self._fetch(self._plan.walked(tier, missing=missing, offset=offset, limit=limit))
        return [row["document"] for row in rows]

    async def _count(self, statement: Statement) -> int:
        rows = await self._fetch(statement)
        count: int = rows[0]["count"]
        return count

    async def _fetch(self, statement: Statement) -> list[asyncpg.Record]:
        return await self._connection.fetch(statement.sql, *statement.arguments)
