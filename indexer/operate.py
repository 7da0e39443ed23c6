"""What an operator does by hand, wired.

Servers are paused, resumed, reset, asked now or moved; dead letters are seen, retried or forgotten; single
documents are crawled.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from indexer.api.crawl import IndexedDocument, crawl_answer
from indexer.app import (
    make_judge,
    make_manual_crawl,
    make_peers,
    open_for_reading,
    schemas_of,
    utc_now,
)
from indexer.concrnt.documents import Commit, parse_commit
from indexer.concrnt.identifiers import MalformedName, canonical_fqdn
from indexer.errors import ExpectedError
from indexer.mirror.context import moved_domains
from indexer.mirror.moves import MoveRefusal, Moves
from indexer.mirror.operations import KeptDeadLetter, Operations
from indexer.replication.crawl import CrawlError, document_uri
from indexer.replication.feeds import Feeds
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


_ADVICE = {
    MoveRefusal.UNKNOWN: "the server {old} is not known: `concrnt-indexer servers` lists those that are",
    MoveRefusal.MOVED_ALREADY: "the server {old} has moved already: it is {old_now} now",
    MoveRefusal.NEW_HAS_MOVED: "the server {new} has itself moved elsewhere: it is {new_now} now",
    MoveRefusal.OTHER_LAYER: "the server {new} is of another layer than {old}: it is not the same server",
    MoveRefusal.OTHER_KEY: "the server {new} has another key (CSID) than {old}; if it is the same all the "
    "same, say so with --any-key",
}


async def change_server(settings: Settings, action: str, name: str) -> str:
    """Pause, resume, reset or run_now one server; its name as the list shows it.

    Raises `ExpectedError` when there is nothing to change; a malformed name is refused before the
    store is opened.
    """
    domain = _domain(name)
    async with _operations(settings) as (operations, database):
        if not await getattr(operations, action)(domain, now=utc_now()):
            moved = await _other_name(database, domain)
            why = f"is {moved} now: name that" if moved else _REFUSALS[action]
            raise ExpectedError(f"the server {domain} {why}", code="no_such_server")
    return domain


def _domain(name: str) -> str:
    try:
        return canonical_fqdn(name)
    except MalformedName as error:
        message = f"{name} is no server's name: {error}; give a bare domain"
        raise ExpectedError(message, code="malformed_name", exit_code=2) from error


async def _other_name(database: Database, domain: str) -> str | None:
    """Where a domain has moved to."""
    async with database.connection() as connection:
        return (await moved_domains(connection, [domain])).get(domain)


async def move_server(settings: Settings, old: str, new: str, *, any_key: bool) -> bool:
    """A server has moved to another domain; whether its cursor went along. Raises `ExpectedError`."""
    old, new = _domain(old), _domain(new)
    if old == new:
        raise ExpectedError(f"{old} and {new} are one name", code="same_name", exit_code=2)
    async with open_for_reading(settings) as database:
        moves = Moves(database, indexed_schemas=schemas_of(settings).indexed)
        done = await moves.move(old, new, now=utc_now(), by_operator=True, any_key=any_key)
        if isinstance(done, MoveRefusal):
            old_now, new_now = await _other_name(database, old), await _other_name(database, new)
            message = _ADVICE[done].format(old=old, new=new, old_now=old_now, new_now=new_now)
            raise ExpectedError(message, code=done.value)
    return done.cursor_carried


async def crawl_document(settings: Settings, uri: str) -> dict[str, Any]:
    """Fetch and apply one document, as `crawl --json` prints it. Raises `ExpectedError`."""
    try:
        document_uri(uri)
    except CrawlError as error:
        message = f"{uri} is no document's URI (ccfs://OWNER/concrnt/CDID)"
        raise ExpectedError(message, code=error.fault.value, exit_code=2) from error
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_for_reading(settings))
        peers = await stack.enter_async_context(make_peers(settings))
        judge = make_judge(settings)
        writer = PageWriter(database, schemas=schemas_of(settings), trust=judge)
        try:
            done = await make_manual_crawl(settings, database, Feeds(peers), writer, judge).crawl(uri)
        except CrawlError as error:
            raise ExpectedError(error.message, code=error.fault.value) from error
    return crawl_answer(
        IndexedDocument(done.kind, done.schema, done.key, done.cckv, done.ccfs, done.source_server)
    )


async def list_dead_letters(settings: Settings, domain: str | None, limit: int) -> list[dict[str, Any]]:
    """The newest dead letters, as `dead-letters list --json` prints them."""
    async with _operations(settings) as (operations, _):
        return [_row(letter) for letter in await operations.dead_letters(domain, limit=limit)]


async def show_dead_letter(settings: Settings, identity: int) -> dict[str, Any]:
    """One dead letter, whole. Raises `ExpectedError`."""
    async with _operations(settings) as (operations, _):
        return _row(await _letter(operations, identity))


async def _letter(operations: Operations, identity: int) -> KeptDeadLetter:
    letter = await operations.dead_letter(identity)
    if letter is None:
        raise ExpectedError(f"there is no dead letter {identity}", code="no_such_dead_letter")
    return letter


async def retry_dead_letters(settings: Settings, domain: str | None, identity: int | None) -> dict[str, int]:
    """Apply dead letters again, under the rules of today; what is accepted now is no dead letter any more.

    What trust refused is judged in the mode of today. A commit that was too long to be kept whole stays where
    it is.
    """
    async with _operations(settings) as (operations, database):
        if identity is None:
            letters = await operations.dead_letters_to_retry(domain)
        else:
            letters = [await _letter(operations, identity)]
        writer = PageWriter(database, schemas=schemas_of(settings), trust=make_judge(settings))
        applied = 0
        for letter in letters:
            if await _retry(settings, writer, letter):
                await operations.drop_dead_letter(letter.id)
                applied += 1
        return {"retried": len(letters), "applied": applied}


async def _retry(settings: Settings, writer: PageWriter, letter: KeptDeadLetter) -> bool:
    now = utc_now()
    indexed = schemas_of(settings).malformed_kinds
    commit = parse_commit(letter.commit, now=now, indexed=indexed)
    if not isinstance(commit, Commit):
        return False
    changes = await writer.write_one(commit, letter.domain, now=now)
    return not changes.dead_letters and not changes.waiting


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
