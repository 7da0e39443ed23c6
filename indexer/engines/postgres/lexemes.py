"""What stands in the ``search`` column: lexemes of texts, names and filters, each in a namespace of its own.

A lexeme is one letter and a token. The letter is lower case for a searchable field, by its place in the
definition (``a`` the first): a query asks for "this token in any field", and may ask for the first fields
alone. It is upper case for a filterable field; the token then is a short hash of the value, and the column
itself is compared as well. ``z`` stands before a whole name. So one GIN index answers words and filters
together, however both are combined.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zlib import crc32

from indexer.engines.text import MAX_WORD_CHARACTERS, TermKind, clip, field_terms
from indexer.engines.typos import allowed_typos

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from indexer.engines.text import FieldTerms, Term

SEPARATOR: Final = "\x1f"
"""Between lexemes on their way into PostgreSQL; no token holds it."""

_NAME: Final = "z"


class Accuracy(IntEnum):
    """How well a word may match: each kind takes in those before."""

    EXACT = 0
    PREFIX = 1
    TYPO = 2
    TYPOS = 3


@dataclass(frozen=True, slots=True)
class Correction:
    """What a mistyped word may mean: a word, or what begins with it."""

    word: str
    is_prefix: bool
    typos: int = 1


@dataclass(frozen=True, slots=True)
class TermMatches:
    """Everything that may count as one term of a query."""

    term: Term
    open_ended: bool
    """Whether what begins with the (only) lexeme will do."""
    corrections: tuple[Correction, ...] = ()
    written: frozenset[int] = frozenset()
    """The fields in which corrections count."""

    def has(self, accuracy: Accuracy) -> bool:
        """Tell whether this accuracy finds more than the ones before it."""
        if accuracy >= Accuracy.TYPO:
            return len(self.corrections_of(accuracy)) > len(self.corrections_of(Accuracy(accuracy - 1)))
        return self.may_have(accuracy)

    def corrections_of(self, accuracy: Accuracy) -> tuple[Correction, ...]:
        """Return what the term may mean at this accuracy: by one typo, or by any that are allowed."""
        if accuracy is Accuracy.TYPO:
            return tuple(correction for correction in self.corrections if correction.typos == 1)
        return self.corrections if accuracy is Accuracy.TYPOS else ()

    def may_have(self, accuracy: Accuracy) -> bool:
        """Tell, from the query alone, whether this accuracy may ever find more than the ones before it."""
        if accuracy >= Accuracy.TYPO:
            typos = accuracy - Accuracy.PREFIX
            return self.term.kind is TermKind.WORD and allowed_typos(self.term.lexemes[0]) >= typos
        return accuracy is Accuracy.EXACT or self.open_ended

    def query(self, fields: int, accuracy: Accuracy) -> str:
        """Write as a tsquery: the term in one of the first so many fields."""
        suffix = ":*" if self.term.is_prefix or (accuracy >= Accuracy.PREFIX and self.open_ended) else ""
        corrections = self.corrections_of(accuracy)
        alternatives: list[str] = []
        for position in range(fields):
            letter = chr(ord("a") + position)
            lexemes = [_quoted(letter + lexeme) + suffix for lexeme in self.term.lexemes]
            alternatives.append(lexemes[0] if len(lexemes) == 1 else f"({' & '.join(lexemes)})")
            alternatives += [
                _quoted(letter + correction.word) + (":*" if correction.is_prefix else "")
                for correction in corrections
                if position in self.written
            ]
        return f"({' | '.join(alternatives)})"


def matches_of(
    terms: Sequence[Term],
    *,
    open_ended: bool,
    corrections: Mapping[str, Sequence[Correction]],
    written: frozenset[int],
) -> tuple[TermMatches, ...]:
    """Return what may count as each term of a query.

    ``corrections`` are by the word that was typed; ``written`` are the fields in which they count.
    """
    last = len(terms) - 1
    return tuple(
        TermMatches(
            term,
            open_ended=open_ended and number == last and term.kind is TermKind.WORD,
            corrections=tuple(corrections.get(term.lexemes[0], ())) if term.kind is TermKind.WORD else (),
            written=written,
        )
        for number, term in enumerate(terms)
    )


def words_query(matches: Iterable[TermMatches], fields: int, accuracy: Accuracy) -> str:
    """Write terms as a tsquery over the first so many fields; empty without terms."""
    return " & ".join(match.query(fields, accuracy) for match in matches)


def name_lexeme(text: str) -> str:
    """Return the lexeme of a whole name, given as its tokens in a row."""
    return _NAME + clip(text, MAX_WORD_CHARACTERS)


def name_query(text: str, *, begins: bool) -> str:
    """Write "is called so" as a tsquery, or "is called what begins so"."""
    return _quoted(name_lexeme(text)) + (":*" if begins else "")


def field_lexemes(position: int, tokens: Iterable[str]) -> str:
    """Return the lexemes of one searchable field, separated; empty when there are no tokens."""
    letter = chr(ord("a") + position)
    joined = (SEPARATOR + letter).join(tokens)
    return letter + joined if joined else ""


@lru_cache(maxsize=8_192)
def short_field(position: int, text: str) -> tuple[FieldTerms, str]:
    """Return the terms and lexemes of a short ASCII field; ids and servers' names come again and again."""
    terms = field_terms(text)
    return terms, field_lexemes(position, terms.lexemes)


@lru_cache(maxsize=8_192)
def filter_lexeme(position: int, value: str) -> str:
    """Return the lexeme of one value of a filterable field."""
    return f"{chr(ord('A') + position)}{crc32(value.encode()):x}"


def all_of(*queries: str) -> str:
    """Write the conjunction of tsqueries; empty ones ask for nothing."""
    return " & ".join(query for query in queries if query)


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
