"""What an operator does by hand, wired.

Servers are paused, resumed, reset or asked now; dead letters are seen, retried or forgotten.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from indexer.app import closing_judge, open_for_reading, schemas_of, utc_now
from indexer.concrnt.documents import Malformed
from indexer.errors import ExpectedError
from indexer.mirror.operations import KeptDeadLetter, Operations
from indexer.mirror.servers import CursorAdvance
from indexer.replication.page import read_rows
from indexer.replication.writer import PageWriter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.config import Settings
    from indexer.mirror.database import Database

_REFUSALS = {
    "pause": "is not known",
    "resume": "is not known, or not paused",
    "run_now": "is not known, or paused",
    "reset": "is not known",
}


async def change_server(settings: Settings, action: str, domain: str) -> None:
    """Pause, resume, reset or run_now one server. Raises `ExpectedError` when there is nothing to change."""
    async with _operations(settings) as (operations, _):
        done = await getattr(operations, action)(domain, now=utc_now())
        if not done:
            raise ExpectedError(f"the server {domain} {_REFUSALS[action]}", code="no_such_server")


async def list_dead_letters(settings: Settings, domain: str | None, limit: int) -> list[dict[str, Any]]:
    """The newest dead letters, as `dead-letters list --json` prints them."""
    async with _operations(settings) as (operations, _):
        return [_row(letter) for letter in await operations.dead_letters(domain, limit=limit)]


async def show_dead_letter(settings: Settings, identity: int) -> dict[str, Any]:
    """One dead letter, whole. Raises `ExpectedError`."""
    async with _operations(settings) as (operations, _):
        letter = await operations.dead_letter(identity)
        if letter is None:
            raise ExpectedError(f"there is no dead letter {identity}", code="no_such_dead_letter")
        return _row(letter)


async def retry_dead_letters(settings: Settings, domain: str | None, identity: int | None) -> dict[str, int]:
    """Apply dead letters again, under the rules of today; what is accepted now is no dead letter any more.

    What trust refused is judged in the mode of today. A commit that was too long to be kept whole stays where
    it is.
    """
    async with _operations(settings) as (operations, database):
        if identity is None:
            letters = await operations.dead_letters_to_retry(domain)
        else:
            letter = await operations.dead_letter(identity)
            letters = [letter] if letter else []
        with closing_judge(settings) as judge:
            writer = PageWriter(database, schemas=schemas_of(settings), trust=judge)
            applied = 0
            for letter in letters:
                if await _retry(settings, writer, letter):
                    await operations.drop_dead_letter(letter.id)
                    applied += 1
        return {"retried": len(letters), "applied": applied}


async def _retry(settings: Settings, writer: PageWriter, letter: KeptDeadLetter) -> bool:
    now = utc_now()
    indexed = schemas_of(settings).malformed_kinds
    rows = read_rows([letter.commit.encode()], now=now, indexed=indexed)
    if any(isinstance(row, Malformed) for row in rows.rows):
        return False
    advance = CursorAdvance(letter.domain, None, None, None)
    changes = await writer.write(rows.rows, advance, behind=len(rows.rows), now=now)
    return not changes.dead_letters


async def purge_dead_letters(settings: Settings, domain: str | None) -> int:
    """Forget dead letters; how many there were."""
    async with _operations(settings) as (operations, _):
        return await operations.purge_dead_letters(domain)


def _row(letter: KeptDeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "server": letter.domain,
        "kind": letter.kind,
        "reason": letter.reason,
        "seenAt": letter.seen_at,
        "commit": letter.commit,
    }


@asynccontextmanager
async def _operations(settings: Settings) -> AsyncIterator[tuple[Operations, Database]]:
    async with open_for_reading(settings) as database:
        yield Operations(database), database
