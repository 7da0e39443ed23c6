"""Suggestions: documents by the beginning of a name, or of a word in it, the most active first.

Few names begin so: all of them are looked at. When there are very many (one letter), the most active
documents are walked instead and tested for such a name, so far as :data:`WALKED` of them; what is still
wanted is filled up by the first names in their order. So the time does not grow with how many names there
are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from indexer.engines.postgres.rows import NAME_CHARACTERS
from indexer.engines.postgres.schema import quoted, sort_column
from indexer.engines.text import clip

if TYPE_CHECKING:
    from indexer.engines.postgres.schema import Table
    from indexer.engines.postgres.writing import Connection

LOOKED_AT: Final = 300
WALKED: Final = 2_000

_AFTER_ALL: Final = "\U0010ffff"
_ACTIVITY: Final = "activityScore"


async def find_suggestions(connection: Connection, table: Table, typed: str, limit: int) -> list[str]:
    """Return the JSON texts of documents to suggest; ``typed`` is the query's tokens in a row."""
    begins = clip(typed, NAME_CHARACTERS)
    rows = await connection.fetch(_by_name(table), begins, begins + _AFTER_ALL, limit)
    if not rows or rows[0]["looked_at"] < LOOKED_AT or not _has_activity(table):
        return [row["document"] for row in rows]
    active = await connection.fetch(_by_activity(table), begins, begins + _AFTER_ALL, limit)
    documents = {row["id"]: row["document"] for row in (*active, *rows)}
    return list(documents.values())[:limit]


def _has_activity(table: Table) -> bool:
    return _ACTIVITY in table.definition.sortable


def _order(table: Table) -> str:
    return f"stored.{quoted(sort_column(_ACTIVITY))} desc nulls last, " if _has_activity(table) else ""


def _by_name(table: Table) -> str:
    """$1: what names begin with, $2: what they come before, $3: how many."""
    return f"""
        with looked_at as materialized (
            select term, id from {table.names} where term >= $1 and term < $2
            order by term, id limit {LOOKED_AT}
        ), named as (
            select id, min(term) as term from looked_at group by id
        )
        select stored.id, stored.document, (select count(*) from looked_at) as looked_at
        from named join {table.qualified} as stored using (id)
        order by {_order(table)}named.term, stored.key limit $3"""  # noqa: S608 - names of ours, as below


def _by_activity(table: Table) -> str:
    column = quoted(sort_column(_ACTIVITY))
    return f"""
        select id, document from (
            select id, key, document, {column} as activity from {table.qualified}
            where {column} is not null order by {column} desc limit {WALKED}
        ) as active
        where exists (
            select 1 from {table.names} as named
            where named.id = active.id and named.term >= $1 and named.term < $2
        )
        order by activity desc, key limit $3"""  # noqa: S608
