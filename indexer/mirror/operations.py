"""What an operator does by hand to servers and dead letters.

Each is one transaction, and running it again is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.statements import load

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from indexer.mirror.database import Connection, Database

_SQL = load("indexer.mirror", "queries/operations.sql")
SERVERS_SQL = load("indexer.mirror", "queries/servers.sql")


@dataclass(frozen=True, slots=True)
class KeptDeadLetter:
    """A commit that could not be used. `commit` is ASCII text, cut in lists."""

    id: int
    domain: str
    kind: str
    reason: str
    seen_at: datetime
    commit: str


class Operations:
    """Servers and dead letters under an operator's hands. Every method may raise `StoreUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pause(self, domain: str, *, now: datetime) -> bool:
        """Follow a server no more; False when it is not known."""
        return await self._change(domain, now, ("pause", domain))

    async def resume(self, domain: str, *, now: datetime) -> bool:
        """Follow a paused server again; False when it is not known or not paused."""
        return await self._change(domain, now, ("resume", domain, now))

    async def run_now(self, domain: str, *, now: datetime) -> bool:
        """Ask a server at once; False when it is not known or paused."""
        return await self._change(domain, now, ("run_now", domain, now))

    async def reset(self, domain: str, *, now: datetime) -> bool:
        """Forget a server's failures and read its feed from the start again; False when it is not known."""
        return await self._change(domain, now, ("reset_server", domain, now), ("reset_cursor", domain))

    async def _change(self, domain: str, now: datetime, *steps: tuple[object, ...]) -> bool:
        async def work(connection: Connection) -> bool:
            first, *others = steps
            if await connection.fetchval(_SQL[str(first[0])], *first[1:]) is None:
                return False
            for statement, *arguments in others:
                await connection.execute(_SQL[str(statement)], *arguments)
            await connection.execute(SERVERS_SQL["mark_server"], domain, now)
            return True

        return await self._database.transaction("operate", work)

    async def dead_letters(self, domain: str | None, *, limit: int) -> list[KeptDeadLetter]:
        """The newest dead letters, of one server or of all; their commits are cut to 200 characters."""
        rows = await self._database.fetch(_SQL["list_dead_letters"], domain, limit)
        return [_letter(row) for row in rows]

    async def dead_letter(self, identity: int) -> KeptDeadLetter | None:
        """One dead letter, whole."""
        row = await self._database.fetchrow(_SQL["dead_letter"], identity)
        return _letter(row) if row else None

    async def dead_letters_to_retry(self, domain: str | None) -> list[KeptDeadLetter]:
        """All dead letters of one server, or of all, in the order they came."""
        return [_letter(row) for row in await self._database.fetch(_SQL["dead_letters_to_retry"], domain)]

    async def drop_dead_letter(self, identity: int) -> None:
        """Forget one dead letter: it was applied after all."""
        await self._database.execute(_SQL["drop_dead_letter"], identity)

    async def purge_dead_letters(self, domain: str | None) -> int:
        """Forget dead letters, of one server or of all; how many there were."""

        async def work(connection: Connection) -> int:
            status = await connection.execute(_SQL["purge_dead_letters"], domain)
            return int(status.split()[-1])

        return await self._database.transaction("purge_dead_letters", work)


def _letter(row: asyncpg.Record) -> KeptDeadLetter:
    """The statements list the fields of `KeptDeadLetter`, under their names."""
    return KeptDeadLetter(**dict(row))
