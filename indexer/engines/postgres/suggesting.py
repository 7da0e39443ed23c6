"""Suggestions: documents by the beginning of a name, or of a word in it, the most active first.

Only the table of names is looked at, and of documents their activity and then the few that are shown. Few
names begin so: all of them are compared. When there are very many (one letter), the most active documents are
gone through instead until enough have such a name, and what is still wanted is filled up by the first names
in their order. So the time does not grow with how many names there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from indexer.engines.postgres.rows import NAME_CHARACTERS
from indexer.engines.text import clip

if TYPE_CHECKING:
    from indexer.engines.postgres.schema import Table
    from indexer.engines.postgres.writing import Connection

LOOKED_AT: Final = 512
"""How many names that begin so are compared."""

GONE_THROUGH: Final = 4_096
"""How many of the most active documents are asked for their names where more begin so."""

_AFTER_ALL: Final = "\U0010ffff"


async def find_suggestions(connection: Connection, table: Table, typed: str, limit: int) -> list[str]:
    """Return the JSON texts of documents to suggest; ``typed`` is the query's tokens in a row."""
    begins = clip(typed, NAME_CHARACTERS)
    rows = await connection.fetch(_by_name(table), begins, begins + _AFTER_ALL, limit)
    if not rows or rows[0]["looked_at"] < LOOKED_AT or table.activity is None:
        return [row["document"] for row in rows]
    active = await connection.fetch(_by_activity(table), begins, begins + _AFTER_ALL, limit)
    documents = {row["id"]: row["document"] for row in (*active, *rows)}
    return list(documents.values())[:limit]


def _by_name(table: Table) -> str:
    """$1: what names begin with, $2: what they come before, $3: how many."""
    activity = f"stored.{table.activity}" if table.activity else "null::double precision"
    return f"""
        with looked_at as materialized (
            select term, id from {table.names} where term >= $1 and term < $2
            order by term, id limit {LOOKED_AT}
        ), named as (
            select id, min(term) as term from looked_at group by id
        ), shown as (
            select named.id, named.term, {activity} as activity
            from named join {table.qualified} as stored using (id)
            order by activity desc nulls last, named.term, named.id limit $3
        )
        select shown.id, stored.document, (select count(*) from looked_at) as looked_at
        from shown join {table.qualified} as stored using (id)
        order by shown.activity desc nulls last, shown.term, shown.id"""  # noqa: S608 - names of ours, as below


def _by_activity(table: Table) -> str:
    return f"""
        with gone_through as (
            select id, document, {table.activity} as activity from {table.qualified}
            where {table.activity} is not null order by {table.activity} desc limit {GONE_THROUGH}
        )
        select active.id, active.document
        from gone_through as active
        cross join lateral (
            select min(term) as term from {table.names} as named
            where named.id = active.id and term >= $1 and term < $2
        ) as named
        where named.term is not null
        order by active.activity desc, named.term, active.id limit $3"""  # noqa: S608
