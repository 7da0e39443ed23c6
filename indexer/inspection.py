"""`inspect KEY`: everything that is known of one key, from the mirror to the search engine.

Reads only. The parts are read one after the other, so a change under way may show in one and not in another;
`queue` tells that it is coming.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indexer.activity.answer import ActivityPresenter
from indexer.app import make_engine, open_for_reading, utc_now
from indexer.concrnt.uri import MalformedURI, compose_document, parse_ccuri
from indexer.engines.base import EngineUnavailable, Standing
from indexer.engines.ids import document_id
from indexer.engines.indexes import COMMUNITIES, INDEXES, POSTS, USERS
from indexer.errors import ExpectedError
from indexer.mirror.inspecting import Inspection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.config import Settings
    from indexer.mirror.database import Database


def key_of(text: str) -> str:
    """Return the canonical key that a person names, in any spelling, with or without a hint.

    Raises `ExpectedError`.
    """
    try:
        uri = parse_ccuri(text)
    except MalformedURI as error:
        raise _no_key(text) from error
    if not uri.is_key:
        raise _no_key(text)
    return uri.key


def _no_key(text: str) -> ExpectedError:
    return ExpectedError(f"{text} is no key (cckv://owner/…)", code="no_key", exit_code=2)


async def inspect(settings: Settings, text: str) -> dict[str, Any]:
    """Look up a key, as `inspect --json` prints it (behaviour.md, section 9): null where there is nothing.

    Raises `ExpectedError`.
    """
    key = key_of(text)
    async with open_for_reading(settings) as database:
        inspection = Inspection(database)
        record = await inspection.record(key)
        tombstone = await inspection.tombstone(key)
        total, entries = await inspection.entries(key)
        queued = await inspection.queued(key)
        return {
            "key": key,
            "record": _record(dict(record)) if record else None,
            "tombstone": _tombstone(dict(tombstone)) if tombstone else None,
            "entries": {
                "count": total,
                "newest": [
                    {
                        "key": entry.key,
                        "author": entry.author,
                        "schema": entry.schema,
                        "createdAt": entry.first_created_at,
                    }
                    for entry in entries
                ],
            }
            if entries
            else None,
            "queue": {
                "generation": queued["generation"],
                "markedAt": queued["marked_at"],
                "formerSchemas": queued["former_schemas"],
            }
            if queued
            else None,
            "document": await _document(settings, database, key),
        }


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "owner": row["owner"],
        "author": row["author"],
        "schema": row["schema"],
        "parent": row["parent"],
        "href": row["href"],
        "ccfs": compose_document(row["owner"], row["cdid"]),
        "sourceServer": row["source"],
        "provisional": row["provisional"],
        "createdAt": row["created_at"],
        "firstCreatedAt": row["first_created_at"],
        "indexedAt": row["indexed_at"],
        "signed": row["signed"],
    }


def _tombstone(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "target": row["target"],
        "scope": row["scope"],
        "author": row["author"],
        "cdid": row["cdid"],
        "sourceServer": row["source"],
        "provisional": row["provisional"],
        "onlyItsAuthors": row["only_author"],
        "createdAt": row["created_at"],
    }


async def _document(settings: Settings, database: Database, key: str) -> dict[str, Any] | None:
    engine = make_engine(settings, database)
    identifier = document_id(key)
    present = ActivityPresenter(settings.crawl.activity_history_days)
    try:
        standing = await engine.look(INDEXES)
        for index in (USERS, COMMUNITIES, POSTS):
            if standing[index] is Standing.MISSING:
                continue
            found = await engine.fetch_documents(index, [identifier])
            if identifier in found:
                return {"index": index, **present(found[identifier], utc_now())}
    except EngineUnavailable as error:
        raise ExpectedError(str(error), code="engine_away") from error
    finally:
        await engine.close()
    return None
