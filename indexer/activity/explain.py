"""What a score is made of: the entries that count, their ages and their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from indexer.activity.score import MONTH, Basis, aged
from indexer.concrnt.identifiers import is_ccid
from indexer.concrnt.uri import MalformedURI, parse_ccuri
from indexer.errors import ExpectedError
from indexer.mirror.activity import activity_of, entries_of, is_subject, kind_of

if TYPE_CHECKING:
    from datetime import datetime

    from indexer.mirror.activity import ActivityRow, Counting
    from indexer.mirror.database import Database

SHOWN_ENTRIES: Final = 100


def subject_of(text: str) -> str:
    """Return the subject that a person names: a CCID, or any spelling of a key. Raises `ExpectedError`."""
    if is_ccid(text):
        return text
    try:
        key = parse_ccuri(text)
    except MalformedURI as error:
        raise _no_subject(text) from error
    if not key.is_key:
        raise _no_subject(text)
    return key.key


def _no_subject(text: str) -> ExpectedError:
    return ExpectedError(
        f"{text} is neither a community's key (cckv://domain/…) nor a person's CCID (con…)",
        code="no_subject",
        exit_code=2,
    )


async def explain(database: Database, subject: str, counting: Counting, *, now: datetime) -> dict[str, Any]:
    """Explain a subject: what is stored of it, and the entries that count now, newest first.

    Raises `ExpectedError` when the text names no subject or none that is known, `StoreUnavailable`.
    """
    subject = subject_of(subject)
    found = await activity_of(database, subject)
    if found is None and not await is_subject(database, subject, counting.post_schemas):
        what = "person" if is_ccid(subject) else "community"
        raise ExpectedError(f"no {what} {subject} is known", code="not_found")
    entries, count = await entries_of(
        database, subject, since=now - MONTH, post_schemas=counting.post_schemas, limit=SHOWN_ENTRIES
    )
    explained: dict[str, Any] = {
        "subject": subject,
        "kind": kind_of(subject).value,
        "now": now,
        "halfLifeSeconds": counting.half_life_seconds,
        "stored": None,
        "entriesThatCount": count,
        "entries": [
            {
                "key": entry.key,
                "author": entry.author,
                "schema": entry.schema,
                "at": entry.at,
                "ageSeconds": max((now - entry.at).total_seconds(), 0.0),
                "weight": aged(now - entry.at, counting.half_life_seconds),
            }
            for entry in entries
        ],
    }
    if found is not None:
        row, standing = found
        explained["stored"] = _stored(row, now) | {
            "refreshedAt": standing["refreshed_at"],
            "changesAt": standing["due_at"],
            "waitsForTick": standing["marked"],
            "inSearchEngine": standing["delivered"],
        }
    return explained


def _stored(row: ActivityRow, now: datetime) -> dict[str, Any]:
    basis = Basis(row.half_life_seconds, row.newest_at, row.weight, row.held)
    stored: dict[str, Any] = {
        "activityScore": basis.score(now),
        "rank": row.rank,
        "postCount7d": row.posts_7d,
        "postCount30d": row.posts_30d,
        "lastPostAt": row.last_at,
        "entriesHeldForTheFuture": row.held,
    }
    if row.authors_7d is not None:
        stored["activeAuthors7d"] = row.authors_7d
    return stored
