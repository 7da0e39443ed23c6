"""What is stored of one owner, and taking it away when its own server has it no more.

A withdrawal is one transaction a batch. It leaves no tombstone: what the owner's server shows again counts
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.concrnt.identifiers import is_domain_owner
from indexer.mirror.context import Needs, lock_owners
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from indexer.mirror.database import Connection, Database

_SQL = load("indexer.mirror", "queries/owners.sql")


@dataclass(frozen=True, slots=True)
class OwnedKey:
    """A key of an owner and its document."""

    key: str
    cdid: str


class Owners:
    """The owners of one mirror. Every method may raise `StoreUnavailable`."""

    def __init__(self, database: Database, *, sure_only: bool) -> None:
        """``sure_only``: a home that a server merely claims is none."""
        self._database = database
        self._sure_only = sure_only

    async def home(self, owner: str) -> str | None:
        """Which server speaks for an owner, by its name of today, as far as it is known."""
        row = await self._database.fetchrow(_SQL["home_of"], owner, self._sure_only, is_domain_owner(owner))
        return None if row is None else str(row["domain"])

    async def keys(self, owner: str, after: str, limit: int) -> list[OwnedKey]:
        """The next keys of an owner."""
        rows = await self._database.fetch(_SQL["keys_of"], owner, after, limit)
        return [OwnedKey(row["key"], row["cdid"]) for row in rows]

    async def withdraw(self, owner: str, gone: Sequence[OwnedKey], *, now: datetime) -> tuple[int, int]:
        """Take documents away; returns how many, and how many references to them went along.

        One that was replaced meanwhile stays.
        """
        keys, cdids = [one.key for one in gone], [one.cdid for one in gone]

        async def work(connection: Connection) -> tuple[int, int]:
            await lock_owners(connection, Needs(deleting_owners={owner}))
            row = await connection.fetchrow(_SQL["withdraw"], keys, cdids, now)
            assert row is not None
            return row["records"], row["refs"]

        return await self._database.transaction("withdraw", work)

    async def forget_follows(self, ccid: str) -> int:
        """Take away whom a person follows; returns how many."""

        async def work(connection: Connection) -> int:
            await lock_owners(connection, Needs(settled_owners={ccid}))
            follows: int = await connection.fetchval(_SQL["forget_follows"], ccid)
            return follows

        return await self._database.transaction("forget_follows", work)
