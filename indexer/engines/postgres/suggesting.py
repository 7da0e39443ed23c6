"""Suggestions: documents by the beginning of a name, or of a word in it, the most active first.

Only the table of names is looked at, and then the few documents that are shown. Few names begin so: all of
them are compared. When there are very many (one letter), the most active names that begin with its first
letter are gone through instead, and what is still wanted is filled up by the first names in their order. So
the time does not grow with how many names there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from indexer.engines.postgres.rows import NAME_CHARACTERS
from indexer.engines.text import clip

if TYPE_CHECKING:
    from indexer.engines.postgres.schema import Table
    from indexer.engines.postgres.writing import Connection

LOOKED_AT: Final = 512

_AFTER_ALL: Final = "\U0010ffff"


async def find_suggestions(connection: Connection, table: Table, typed: str, limit: int) -> list[str]:
    """Return the JSON texts of documents to suggest; ``typed`` is the query's tokens in a row."""
    begins = clip(typed, NAME_CHARACTERS)
    rows = await connection.fetch(_by_name(table), begins, begins + _AFTER_ALL, limit)
    if not rows or rows[0]["looked_at"] < LOOKED_AT:
        return [row["document"] for row in rows]
    active = await connection.fetch(_by_activity(table), begins, begins + _AFTER_ALL, limit)
    documents = {row["id"]: row["document"] for row in (*active, *rows)}
    return list(documents.values())[:limit]


def _by_name(table: Table) -> str:
    """$1: what names begin with, $2: what they come before, $3: how many."""
    return f"""
        with looked_at as materialized (
            select term, id, activity from {table.names} where term >= $1 and term < $2
            order by term, id limit {LOOKED_AT}
        ), named as (
            select id, min(term) as term, max(activity) as activity from looked_at group by id
            order by activity desc nulls last, term, id limit $3
        )
        select named.id, stored.document, (select count(*) from looked_at) as looked_at
        from named join {table.qualified} as stored using (id)
        order by named.activity desc nulls last, named.term, named.id"""  # noqa: S608 - names of ours, as below


def _by_activity(table: Table) -> str:
    # A document may stand here once for each of its words: enough are fetched for all of them.
    return f"""
        with active as materialized (
            select term, id, activity from {table.names}
            where left(term, 1) = left($1, 1) and activity is not null and term >= $1 and term < $2
            order by left(term, 1) desc, activity desc limit $3 * 4
        ), named as (
            select id, min(term) as term, max(activity) as activity from active group by id
            order by activity desc, term, id limit $3
        )
        select named.id, stored.document
        from named join {table.qualified} as stored using (id)
        order by named.activity desc, named.term, named.id"""  # noqa: S608
