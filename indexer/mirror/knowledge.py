"""What the mirror knows of one person, server key or document: single look-ups, outside of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.mirror.changes import EntityStanding
from indexer.statements import load

if TYPE_CHECKING:
    from indexer.mirror.database import Database

_SQL = load("indexer.mirror", "queries/knowledge.sql")


class Knowledge:
    """Look-ups in one mirror. Every method may raise `StoreUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def home_of(self, ccid: str) -> tuple[str, EntityStanding] | None:
        """The server where a person lives, and how sure that is; None when nobody has said."""
        row = await self._database.fetchrow(_SQL["home"], ccid)
        return (row["domain"], EntityStanding(row["standing"])) if row else None

    async def server_named(self, domain: str) -> str:
        """The server of a domain: itself, unless it has moved."""
        row = await self._database.fetchrow(_SQL["moved_to"], domain)
        return row["new"] if row else domain

    async def server_with_key(self, csid: str) -> str | None:
        """The server that alone claims a server key; one that two servers claim is nobody's."""
        rows = await self._database.fetch(_SQL["servers_with_key"], csid)
        return rows[0]["domain"] if len(rows) == 1 else None

    async def document_stands(self, key: str, cdid: str) -> bool:
        """Whether this document is the one that stands under a canonical key."""
        row = await self._database.fetchrow(_SQL["document_stands"], key, cdid)
        return bool(row and row["stands"])
