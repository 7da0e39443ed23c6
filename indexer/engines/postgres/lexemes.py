"""What stands in the ``search`` column: the lexemes of texts and of filters, each in a namespace of its own.

A lexeme is one letter and a token. The letter is lower case for a searchable field, by its place in the
definition (``a`` the first): a query asks for "this token in any field", and may ask for the first field
alone. It is upper case for a filterable field; the token then is a short hash of the value, and the column
itself is compared as well. So one GIN index answers words and filters together, however both are combined.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zlib import crc32

from indexer.engines.text import TermKind, field_terms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from indexer.engines.text import Query, Term

SEPARATOR: Final = "\x1f"
"""Between lexemes on their way into PostgreSQL; no token holds it."""


def field_lexemes(position: int, tokens: Iterable[str]) -> str:
    """Return the lexemes of one searchable field, separated; empty when there are no tokens."""
    letter = chr(ord("a") + position)
    joined = (SEPARATOR + letter).join(tokens)
    return letter + joined if joined else ""


@lru_cache(maxsize=8_192)
def short_field_lexemes(position: int, text: str) -> str:
    """Return the lexemes of a short ASCII field; ids and names of servers come again and again."""
    return field_lexemes(position, field_terms(text).lexemes)


@lru_cache(maxsize=8_192)
def filter_lexeme(position: int, value: str) -> str:
    """Return the lexeme of one value of a filterable field."""
    return f"{chr(ord('A') + position)}{crc32(value.encode()):x}"


def words_query(query: Query, fields: int, *, with_prefix: bool) -> str:
    """Write the terms of a query as a tsquery over so many fields; empty without terms.

    ``with_prefix``: an open-ended query's last word matches what begins with it as well.
    """
    last = len(query.terms) - 1
    return " & ".join(
        _term_query(term, fields, open_ended=with_prefix and query.open_ended and number == last)
        for number, term in enumerate(query.terms)
    )


def _term_query(term: Term, fields: int, *, open_ended: bool) -> str:
    suffix = ":*" if term.is_prefix or (open_ended and term.kind is TermKind.WORD) else ""
    alternatives = (
        " & ".join(_quoted(chr(ord("a") + position) + lexeme) + suffix for lexeme in term.lexemes)
        for position in range(fields)
    )
    return "(" + " | ".join(f"({alternative})" for alternative in alternatives) + ")"


def all_of(*queries: str) -> str:
    """Write the conjunction of tsqueries; empty ones ask for nothing."""
    return " & ".join(query for query in queries if query)


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
