"""Dead letters: commits that could not be used, once each, bounded for each server.

They are kept in the transaction that did not use them: a crash leaves both or neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from indexer.mirror.changes import DeadLetter
    from indexer.mirror.database import Connection

_SQL = load("indexer.mirror", "queries/letters.sql")
DEAD_LETTERS_PER_SERVER = 1000


async def keep_dead_letters(
    connection: Connection, domain: str, letters: Sequence[DeadLetter], *, now: datetime
) -> int:
    """Keep commits that could not be used, once each, the newest thousand a server; how many were new."""
    if not letters:
        return 0
    status = await connection.execute(
        _SQL["keep_dead_letters"],
        domain,
        *([getattr(letter, name) for letter in letters] for name in ("digest", "kind", "reason", "text")),
        now,
    )
    new = int(status.split()[-1])
    if new:
        await connection.execute(_SQL["trim_dead_letters"], domain, DEAD_LETTERS_PER_SERVER)
    return new
