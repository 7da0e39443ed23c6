"""Figures: fields that change by themselves, written apart from their document.

A document's row keeps its figures twice: as the last fields of `document`, so that searches read one column
as ever, and as they are in `figures`, so that each of the two can be replaced without the other. An upsert
brings a document without figures and leaves those that are there; `FigureWriter.put` replaces figures and
leaves the document. Neither reads the other's JSON: the texts are joined and cut (`bare_document` and
`kept_on_upsert` in schema.py).

Text arrays and JSON texts are parameters; only names of ours are composed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from indexer.engines.postgres.rows import sort_value
from indexer.engines.postgres.schema import bare_document, sort_column

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from indexer.engines.base import Document
    from indexer.engines.postgres.schema import Table
    from indexer.engines.postgres.writing import Connection

PORTION: Final = 1_000
_encode = msgspec.json.Encoder().encode


class FigureWriter:
    """Writes figures into one table."""

    def __init__(self, table: Table) -> None:
        definition = table.definition
        self._fields = tuple((field, definition.sortable[field]) for field in definition.figures)
        columns = [(sort_column(field), sql_type) for field, sql_type in self._types(table)]
        given = ", ".join(f"${number}::{kind}[]" for number, (_, kind) in enumerate(columns, start=3))
        names = ", ".join(f'"{name}"' for name, _ in columns)
        updates = ", ".join(f'"{name}" = given."{name}"' for name, _ in columns)
        self._present = (
            f"select id from {table.qualified} where id = any($1::text[])"  # noqa: S608 - a name of ours
            " order by id for update"
        )
        self._update = (
            f"update {table.qualified} as stored set {updates}, figures = given.figures, "  # noqa: S608
            f"document = left({bare_document(table)}, -1) || ',' || given.figures || '}}' "
            f"from unnest($1::text[], $2::text[], {given}) as given (id, figures, {names}) "
            "where stored.id = given.id and stored.figures is distinct from given.figures"
        )

    @staticmethod
    def _types(table: Table) -> list[tuple[str, str]]:
        types = dict(table.columns())
        return [(field, types[sort_column(field)]) for field in table.definition.figures]

    async def put(self, connection: Connection, figures: Mapping[str, Document]) -> Collection[str]:
        """Set figures; returns the ids that have no document."""
        missing: set[str] = set()
        ids = sorted(figures)
        for start in range(0, len(ids), PORTION):
            portion = ids[start : start + PORTION]
            rows = await connection.fetch(self._present, portion)
            present = [row["id"] for row in rows]
            missing.update(portion)
            missing.difference_update(present)
            if present:
                await connection.execute(self._update, *self._columns(present, figures))
        return missing

    def _columns(self, ids: list[str], figures: Mapping[str, Document]) -> list[list[object]]:
        texts = [_encode(figures[identifier]).decode()[1:-1] for identifier in ids]
        orders = [
            [sort_value(kind, figures[identifier].get(field)) for identifier in ids]
            for field, kind in self._fields
        ]
        return [list(ids), list(texts), *orders]
