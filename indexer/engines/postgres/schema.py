"""The tables of the engine: one per index, in the schema ``search``, made from an IndexDefinition.

Columns of every table:

``id`` The primary key. ``key`` What ends every order, by bytes. ``document`` JSON text exactly as answers
show it. Text, not jsonb: nothing asks inside it, jsonb would rewrite numbers and the order of fields, and
refuse what JSON allows. ``f_<field>`` A filterable field as it is: filters compare exactly. A list of strings
is ``text[]``. ``s_<field>`` A sortable field; null when the document lacks it. Text is folded and cut for
sorting. ``search`` The lexemes (see lexemes.py), without positions. ``texts`` The fields that people write,
as search sees them, one a line; of other fields only their runs. In it substrings are rechecked, which pairs
of characters only suggest, and it tells how close together words stand.

Beside it, where the index has names, ``<index>_names``: what suggestions are looked up by, one row for each
word that a name can be begun at, and nothing that changes by itself. And ``<index>_words``: every word that a
mistyped one may mean, once. Words are never removed: one that no document has any more finds nothing.

The one GIN index serves words and filters alike. It keeps its pending list: writing is four times as fast
with it, and a search reads at most the list's 4 MB more.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from indexer.engines.base import FieldType
from indexer.engines.text import TEXT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from indexer.engines.base import IndexDefinition

ROW_VERSION: Final = 2
"""Raised when rows are derived from documents in another way: stored rows are then derived again."""

ACTIVITY: Final = "activityScore"
"""The field by which suggestions are ordered, where an index has it."""

LIST_FIELDS: Final = frozenset({"ancestors"})
"""Filterable fields that are lists of strings."""

# A usual row has 2.5 kB. Compressing it to fit the default of 2 kB would cost a third of the time of writing,
# and again at every test of a row in a search.
_STORAGE: Final = "toast_tuple_target = 4096"
_PENDING: Final = "fastupdate = on, gin_pending_list_limit = 4096"

_SORT_TYPES: Final[Mapping[FieldType, str]] = {
    FieldType.TIME: "timestamptz",
    FieldType.TEXT: 'text collate "C"',
    FieldType.INTEGER: "bigint",
    FieldType.NUMBER: "double precision",
}


@dataclass(frozen=True, slots=True)
class Table:
    """The table of one index."""

    definition: IndexDefinition

    @property
    def name(self) -> str:
        """The table's name without its schema."""
        return self.definition.uid

    @property
    def qualified(self) -> str:
        """The table's name in SQL."""
        return f"search.{quoted(self.name)}"

    @property
    def fingerprint(self) -> str:
        """Changes whenever rows have to be derived again from their documents."""
        definition = self.definition
        parts = (
            TEXT_VERSION,
            ROW_VERSION,
            definition.searchable,
            definition.filterable,
            sorted((field, kind.value) for field, kind in definition.sortable.items()),
            definition.texts,
            definition.names,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def columns(self) -> Iterator[tuple[str, str]]:
        """Yield (name, SQL type) of every column, in the order of a row."""
        yield "id", 'text collate "C"'
        yield "key", 'text collate "C"'
        yield "document", "text"
        for field in self.definition.filterable:
            yield filter_column(field), 'text[] collate "C"' if field in LIST_FIELDS else 'text collate "C"'
        for field, kind in self.definition.sortable.items():
            yield sort_column(field), _SORT_TYPES[kind]
        yield "search", "tsvector"
        yield "texts", 'text collate "C"'

    def all_columns(self) -> Iterator[tuple[str, str]]:
        """Yield the columns of a row and those that rows do not bring: see figures.py."""
        yield from self.columns()
        if self.definition.figures:
            yield "figures", "text"

    def create(self) -> str:
        """Return the statement that makes the table."""
        columns = ", ".join(f"{quoted(name)} {sql_type}" for name, sql_type in self.all_columns())
        return f"create table {self.qualified} ({columns}, primary key (id)) with ({_STORAGE})"

    def add_column(self, name: str, sql_type: str) -> str:
        """Return the statement that adds one column."""
        return f"alter table {self.qualified} add column {quoted(name)} {sql_type}"

    def drop_column(self, name: str) -> str:
        """Return the statement that removes a column of an older version."""
        return f"alter table {self.qualified} drop column {quoted(name)}"

    @property
    def words(self) -> str:
        """The table of words in SQL."""
        return f"search.{quoted(self.name + '_words')}"

    @property
    def names(self) -> str | None:
        """The table of names in SQL; None when the index has none."""
        return f"search.{quoted(self.name + '_names')}" if self.definition.names else None

    @property
    def activity(self) -> str | None:
        """The column by which suggestions are ordered; None when the index has no activity."""
        return quoted(sort_column(ACTIVITY)) if ACTIVITY in self.definition.sortable else None

    def companions(self) -> Iterator[tuple[str, str]]:
        """Yield (name, statement that makes it) of the tables and indexes beside this table, in order."""
        words = f"{self.name}_words"
        columns = (
            'word text collate "C" primary key, '
            'reversed text collate "C" generated always as (reverse(word)) stored'
        )
        yield words, f"create table {self.words} ({columns})"
        yield f"{words}_reversed", f"create index {quoted(words + '_reversed')} on {self.words} (reversed)"
        if self.names is not None:
            names = f"{self.name}_names"
            columns = 'term text collate "C", id text collate "C", primary key (term, id)'
            yield names, f"create table {self.names} ({columns})"
            # Half as large as a B-tree of ids, and half as dear to write.
            yield f"{names}_by_id", f"create index {quoted(names + '_by_id')} on {self.names} using hash (id)"

    def indexes(self) -> Iterator[tuple[str, str]]:
        """Yield (name, statement that makes it) of every index besides the primary key."""
        search = f"{self.name}_search"
        yield (
            search,
            f"create index {quoted(search)} on {self.qualified} using gin (search) with ({_PENDING})",
        )
        for field in self.definition.sortable:
            name = f"{self.name}_by_{field}"
            yield name, f"create index {quoted(name)} on {self.qualified} ({quoted(sort_column(field))})"


def is_table(statement: str) -> bool:
    """Tell whether one of :meth:`Table.companions` makes a table."""
    return statement.startswith("create table")


def filter_column(field: str) -> str:
    """Return the column that a filter on a field compares."""
    return f"f_{field}"


def sort_column(field: str) -> str:
    """Return the column that an order by a field uses."""
    return f"s_{field}"


def quoted(name: str) -> str:
    """Write an identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def bare_document(table: Table) -> str:
    """Write the document of the row `stored` without its figures, in SQL."""
    if not table.definition.figures:
        return "stored.document"
    return (
        "case when stored.figures is null then stored.document "
        "else left(stored.document, length(stored.document) - length(stored.figures) - 2) || '}' end"
    )


def kept_on_upsert(table: Table) -> dict[str, str]:
    """Return what columns of the row `stored` become in an upsert that does not simply replace them."""
    if not table.definition.figures:
        return {}
    kept = {
        column: f'coalesce(excluded."{column}", stored."{column}")'
        for column in map(sort_column, table.definition.figures)
    }
    kept["document"] = (
        "case when stored.figures is null then excluded.document "
        "else left(excluded.document, -1) || ',' || stored.figures || '}' end"
    )
    return kept
