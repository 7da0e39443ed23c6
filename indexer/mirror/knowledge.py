"""What the mirror knows of one person, server key or document: single look-ups, outside of pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from indexer.concrnt.uri import covering_targets
from indexer.mirror.changes import EntityStanding
from indexer.statements import load

if TYPE_CHECKING:
    import asyncpg

    from indexer.mirror.database import Database

_WORD = re.compile(r"_(\w)")
_SQL = load("indexer.mirror", "queries/knowledge.sql")


class Knowledge:
    """Look-ups in one mirror. Every method may raise `StoreUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def home_of(self, ccid: str) -> tuple[str, EntityStanding] | None:
        """The server where a person lives, and how sure that is; None when nobody has said."""
        row = await self._database.fetchrow(_SQL["home"], ccid)
        return (row["domain"], EntityStanding(row["standing"])) if row else None

    async def server_with_key(self, csid: str) -> str | None:
        """The server that alone claims a server key; one that two servers claim is nobody's."""
        rows = await self._database.fetch(_SQL["servers_with_key"], csid)
        return rows[0]["domain"] if len(rows) == 1 else None

    async def document_stands(self, key: str, cdid: str) -> bool:
        """Whether this document is the one that stands under a canonical key."""
        row = await self._database.fetchrow(_SQL["document_stands"], key, cdid)
        return bool(row and row["stands"])

    async def inspect(self, key: str) -> dict[str, dict[str, Any] | None]:
        """What is stored of a canonical key: `record, tombstone, entries, queue`; None where nothing is."""
        record = await self._database.fetchrow(_SQL["record"], key)
        tombstone = await self._database.fetchrow(_SQL["newest_tombstone"], list(covering_targets(key)), key)
        entries = await self._database.fetchrow(_SQL["entries"], key)
        queued = await self._database.fetchrow(_SQL["queued"], key)
        return {
            "record": _fields(record),
            "tombstone": _fields(tombstone),
            "entries": _fields(entries) if entries and entries["count"] else None,
            "queue": _fields(queued),
        }


def _fields(row: asyncpg.Record | None) -> dict[str, Any] | None:
    """A row as programs read it: names in camel case."""
    return (
        None
        if row is None
        else {_WORD.sub(lambda found: found[1].upper(), name): value for name, value in row.items()}
    )
