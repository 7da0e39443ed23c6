"""The edge between asyncpg and the rest: what means "away", and what is a document's own fault."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import asyncpg

from indexer.engines.base import EngineUnavailable, IndexLost

if TYPE_CHECKING:
    from collections.abc import Iterator

# Classes of SQLSTATE. 08 connection, 53 out of something (disk, memory, connections), 57 shut down or
# cancelled, 58 the system under the server, 40 asked to try again, 55 waited too long for a lock; 25006 a
# standby.
_AWAY_CLASSES: Final = ("08", "53", "57", "58", "40", "55", "25006")
# A table, or the whole schema, that went missing: prepare() makes it again, and it has to be filled again.
_LOST_CLASSES: Final = ("42P01", "3F000")
# 22 a value that a type does not take, 54 a size that an index or a tsvector does not take.
_REFUSED_CLASSES: Final = ("22", "54")
# asyncpg has one class for a lost connection and for wrong use of its API; only the words tell them apart.
_LOST_WORDS: Final = ("closed", "closing", "released back")


@contextmanager
def unavailable_when_away() -> Iterator[None]:
    """Turn what means that PostgreSQL is away, or too slow, into EngineUnavailable.

    A table that is gone is an IndexLost.
    """
    try:
        yield
    except asyncpg.PostgresError as error:
        if _has_class(error, _LOST_CLASSES):
            raise IndexLost(f"PostgreSQL: {type(error).__name__}") from error
        if _has_class(error, _AWAY_CLASSES):
            raise EngineUnavailable(f"PostgreSQL: {type(error).__name__}") from error
        raise
    except asyncpg.InterfaceError as error:
        if any(word in str(error) for word in _LOST_WORDS):
            raise EngineUnavailable(f"PostgreSQL: {error}") from error
        raise
    # InternalClientError: a connection that the server has given up, in the moment before it is closed.
    except (OSError, TimeoutError, asyncpg.InternalClientError) as error:
        raise EngineUnavailable(f"PostgreSQL: {type(error).__name__}") from error


def refusal(error: Exception) -> str | None:
    """Return a short reason when the error is a document's own fault, else None.

    The message of the server is left out: it may quote the document.
    """
    if isinstance(error, asyncpg.PostgresError) and _has_class(error, _REFUSED_CLASSES):
        return f"PostgreSQL refuses it: {type(error).__name__} ({error.sqlstate})"
    if isinstance(error, ValueError):  # asyncpg's own DataError: what the wire format does not take
        return "PostgreSQL refuses it: not encodable"
    return None


def _has_class(error: asyncpg.PostgresError, classes: tuple[str, ...]) -> bool:
    return (error.sqlstate or "").startswith(classes)
