"""Writing our own cut of a text so that Meilisearch keeps it as it is. Pure.

Meilisearch cuts and folds by rules of its own, which depend on the tokenizers that it was built with and on
the language it believes to see: Japanese is cut into dictionary words, or not at all, accents go, a short
Japanese query may be taken for Chinese. So it never sees such letters. Our cut (``indexer/engines/text.py``)
is written as words between spaces, each character being either

* a *plain* one, which no tokenizer touches: ASCII letters and digits, and the basic letters of Cyrillic and
  Greek;
* or two Egyptian hieroglyphs, which stand for its code point: letters to every Unicode rule, with neither
  case nor decomposition nor language. Equal characters are written equal, beginnings stay beginnings.

A *word* begins with :data:`FIRST`, so that a typo in its first letter is one like all others (Meilisearch
counts it twice) and two words never pass for one. From its first character that is no letter on, each
character is written three times: numbers and ids are then too far apart for typos.

A run of an unspaced script is written as one word a character. A query asks for such words as a *phrase*, in
quotes: all of them, next to each other, exactly. So any substring is found, and nothing else. Between two
tokens of which one is a run or a symbol stands :data:`GAP`, so that no phrase reaches across; and before
every field but names, so that only of names it counts that they are, or begin with, what is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from indexer.engines.text import TermKind, field_tokens, term_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.engines.text import Query, Term

LETTERS_VERSION: Final = 2
"""Raised when the same text would be written otherwise."""

FIRST: Final = "q"
"""What every word begins with."""

MAX_WORD_BYTES: Final = 200
"""Meilisearch leaves out words of more than 250 bytes; what exceeds this is cut off, in queries as well."""

QUERY_TERMS: Final = 10
"""Meilisearch reads no more terms of a query; what follows is not asked for."""

_TIMES: Final = 3
_FIRST_HIEROGLYPH: Final = 0x13000
_BITS: Final = 10
_PLAIN: Final = frozenset(
    [chr(code) for code in (*range(0x30, 0x3A), *range(0x61, 0x7B))]
    + [chr(code) for code in range(0x430, 0x460) if chr(code) not in "йёђѓїќѝў"]
    + [chr(code) for code in range(0x3B1, 0x3CA) if chr(code) != "ς"]
)


class _Written(dict[str, str]):
    """How each character is written, remembered."""

    def __missing__(self, character: str) -> str:
        code = ord(character)
        written = (
            character
            if character in _PLAIN
            else chr(_FIRST_HIEROGLYPH + (code >> _BITS))
            + chr(_FIRST_HIEROGLYPH + (code & ((1 << _BITS) - 1)))
        )
        self[character] = written
        return written


_WRITTEN: Final = _Written()
GAP: Final = chr(_FIRST_HIEROGLYPH + (1 << _BITS) - 1)
"""A word that is in no query: it stands for no character."""


def write_word(word: str) -> str:
    """Write one word, at most :data:`MAX_WORD_BYTES` long."""
    if word.isascii() and word.isalpha():
        return (FIRST + word)[:MAX_WORD_BYTES]
    written = FIRST
    size = len(FIRST)
    times = 1
    for character in word:
        if not character.isalpha():
            times = _TIMES
        letters = _WRITTEN[character] * times
        size += len(letters.encode())
        if size > MAX_WORD_BYTES:
            break
        written += letters
    return written


def write_unit(unit: str) -> str:
    """Write a character of an unspaced script, or a symbol; both may be several code points."""
    return "".join(_WRITTEN[character] for character in unit)


def write_field(text: str, *, is_name: bool) -> str:
    """Write one field of a document as it is searched; empty when nothing in it is."""
    words: list[str] = [] if is_name else [GAP]
    first = len(words)
    after_word = True
    for kind, parts in field_tokens(text):
        is_word = kind is TermKind.WORD
        if len(words) > first and not (is_word and after_word):
            words.append(GAP)
        words.extend(map(write_word if is_word else write_unit, parts))
        after_word = is_word
    return " ".join(words) if len(words) > first else ""


def write_levels(query: Query) -> list[str]:
    """Write a query with all of its parts, then without the last one, and so on down to the first alone.

    A blank query has one level. The last word of the whole query is open-ended where the query is: no space
    follows it.
    """
    if not query.terms:
        return [""]
    sizes = [size for size in query.parts if size <= QUERY_TERMS] or [QUERY_TERMS]
    return [
        _write(query.terms[:size], is_open=query.open_ended and size == len(query.terms))
        for size in reversed(sizes)
    ]


def _write(terms: Sequence[Term], *, is_open: bool) -> str:
    written = [
        _phrase(term) if term.kind is not TermKind.WORD else write_word(*term.lexemes) for term in terms
    ]
    return " ".join(written) + ("" if is_open else " ")


def _phrase(term: Term) -> str:
    parts: Sequence[str] = term_units(term) if term.kind is TermKind.RUN else term.lexemes
    return '"' + " ".join(map(write_unit, parts)) + '"'
