"""From a document to the row of its table. Pure."""

from __future__ import annotations

import dataclasses
import math
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from indexer.engines.base import FieldType
from indexer.engines.ids import key_of_document
from indexer.engines.postgres.lexemes import (
    SEPARATOR,
    field_lexemes,
    filter_lexeme,
    name_lexeme,
    short_field,
)
from indexer.engines.postgres.schema import LIST_FIELDS, Table, kept_on_upsert, quoted
from indexer.engines.text import clip, field_terms, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from indexer.engines.base import Document

Row = tuple[Any, ...]
"""The values of :meth:`Table.columns`; lists and lexemes as text (see :func:`upsert_statement`)."""

NAME_TERMS: Final = 8
NAME_CHARACTERS: Final = 64
"""How many words of a name suggestions begin at, and how much of it they know."""

SORTED_CHARACTERS: Final = 128
"""How much of a text sorts: a B-tree takes at most 2,700 bytes."""

_SHORT: Final = 64
_BIGINT: Final = range(-(2**63), 2**63)
_encode = msgspec.json.Encoder().encode


class Unstorable(ValueError):  # noqa: N818 - says what the document is
    """The document can not become JSON text; the message says why and holds nothing of it."""


@dataclasses.dataclass(slots=True)
class Met:
    """What was met while rows were made, besides the rows. It is the caller's own: batches never share it."""

    words: set[str] = dataclasses.field(default_factory=set)
    """Every token of what people write."""
    names: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    """What each document is suggested by, by id: its names from each of their words on."""


class RowMaker:
    """Makes the rows of one table."""

    def __init__(self, table: Table) -> None:
        definition = table.definition
        self._searchable = tuple(
            (position, field, field in definition.texts, field in definition.names)
            for position, field in enumerate(definition.searchable)
        )
        self._filterable = tuple(
            (position, field, field in LIST_FIELDS) for position, field in enumerate(definition.filterable)
        )
        self._sortable = tuple((field, _SORT_VALUE[kind]) for field, kind in definition.sortable.items())

    def row(self, document: Document, met: Met) -> Row:
        """Return the row of a document; ``met`` gathers its words and names.

        Raises:
            Unstorable: the document is no JSON.

        """
        try:
            text = _encode(document).decode()
        except (msgspec.MsgspecError, RecursionError, TypeError, ValueError) as error:
            raise Unstorable(f"not encodable: {type(error).__name__}") from error
        lexemes, texts = self._texts(document, met)
        filters = self._filters(document, lexemes)
        orders = [derive(document.get(field)) for field, derive in self._sortable]
        key = key_of_document(document)
        return (document["id"], key, text, *filters, *orders, SEPARATOR.join(lexemes), "\n".join(texts))

    def _texts(self, document: Document, met: Met) -> tuple[list[str], list[str]]:
        lexemes: list[str] = []
        texts: list[str] = []
        for position, field, is_text, is_name in self._searchable:
            value = document.get(field)
            if not value or not isinstance(value, str):
                continue
            if len(value) <= _SHORT and value.isascii():
                terms, joined = short_field(position, value)
            else:
                terms = field_terms(value)
                joined = field_lexemes(position, terms.lexemes)
            if not joined:
                continue
            lexemes.append(joined)
            if is_text:
                texts.append(terms.text)
            else:
                texts += terms.runs
            if is_name:
                lexemes.append(name_lexeme(terms.text))
                met.names.setdefault(document["id"], set()).update(_beginnings(terms.text))
            if is_text or is_name:
                met.words |= terms.lexemes
        return lexemes, texts

    def _filters(self, document: Document, lexemes: list[str]) -> list[str | None]:
        """Return the filter columns, and add their lexemes."""
        columns: list[str | None] = []
        for position, field, is_list in self._filterable:
            value = document.get(field)
            if is_list:
                values = (
                    [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []
                )
                lexemes += [filter_lexeme(position, entry) for entry in values]
                columns.append(array_text(values))
            elif isinstance(value, str):
                lexemes.append(filter_lexeme(position, value))
                columns.append(value)
            else:
                columns.append(None)
        return columns


def _beginnings(name: str) -> Iterator[str]:
    """Yield a name, given as its tokens in a row, from each of its words on."""
    words = name.split(" ", NAME_TERMS)
    for start in range(min(len(words), NAME_TERMS)):
        yield clip(" ".join(words[start:]), NAME_CHARACTERS)


def upsert_statement(table: Table) -> str:
    """Return the statement that puts many rows, one array parameter per column."""
    columns = list(table.columns())
    names = ", ".join(quoted(name) for name, _ in columns)
    parameters = ", ".join(
        f"${number}::{_parameter_type(sql_type)}[]" for number, (_, sql_type) in enumerate(columns, start=1)
    )
    selected = ", ".join(_selected(name, sql_type) for name, sql_type in columns)
    kept = kept_on_upsert(table)
    updates = ", ".join(
        f"{quoted(name)} = {kept.get(name) or 'excluded.' + quoted(name)}"
        for name, _ in columns
        if name != "id"
    )
    return (
        f"insert into {table.qualified} as stored ({names}) "  # noqa: S608 - names of ours, values are parameters
        f"select {selected} from unnest({parameters}) as given ({names}) "
        f"on conflict (id) do update set {updates}"
    )


def replace_names_statement(table: Table) -> str:
    """Return the statement that gives documents their names: $1 ids, $2 terms, $3 their ids.

    What stays as it is is not touched.
    """
    return f"""
        with given as materialized (
            select term, id from unnest($2::text[], $3::text[]) as given (term, id)
        ), known as materialized (
            select term, id from unnest($1::text[]) as asked (id) join {table.names} using (id)
        ), gone as (
            delete from {table.names} as named
            using (select term, id from known except select term, id from given) as former
            where named.term = former.term and named.id = former.id
        )
        insert into {table.names} (term, id)
        select term, id from given except select term, id from known"""  # noqa: S608 - names of ours


def array_text(values: Sequence[str]) -> str:
    """Write a list of strings as PostgreSQL reads it: ragged lists fit no array parameter."""
    escaped = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return "{" + ",".join(f'"{value}"' for value in escaped) + "}"


def _parameter_type(sql_type: str) -> str:
    return "text" if sql_type.startswith(("text", "tsvector")) else sql_type


def _selected(name: str, sql_type: str) -> str:
    if sql_type == "tsvector":
        return f"array_to_tsvector(string_to_array({quoted(name)}, E'\\x1f'))"
    if sql_type.startswith("text[]"):
        return f"{quoted(name)}::text[]"
    return quoted(name)


def _time(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _text(value: Any) -> str | None:
    # An empty text counts as absent: it would otherwise come first in an ascending list of names.
    if not isinstance(value, str):
        return None
    return clip(fold(clip(value, SORTED_CHARACTERS)), SORTED_CHARACTERS) or None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _BIGINT else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def sort_value(kind: FieldType, value: Any) -> Any:
    """Return what a sort column of this kind holds for a value; None when it is no such value."""
    return _SORT_VALUE[kind](value)


_SORT_VALUE: Final[Mapping[FieldType, Callable[[Any], Any]]] = {
    FieldType.TIME: _time,
    FieldType.TEXT: _text,
    FieldType.INTEGER: _integer,
    FieldType.NUMBER: _number,
}
