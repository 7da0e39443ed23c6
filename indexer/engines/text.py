"""Folding and cutting of text for search (behaviour.md, section 5): pure, on documents and queries alike.

**Folding** happens in search copies only, never in what is shown, in ids or in filters. The rule, for every
character: invisible ones go (variation selectors, soft hyphens, direction marks, joiners outside emoji), then
NFKC, full case folding, NFKC again. So width, normal form and case are one; ``①`` is ``1``, ``㍿`` is
``株式会社``, ``Ⅳ`` is ``iv``, and ``İ`` is ``i`` with a dot above (which is not ``i``). Accents stay, and
katakana and hiragana stay apart.

**Cutting** knows three kinds of token:

* a *word*: letters, digits and their marks of scripts that are written with spaces;
* a *run*: characters of scripts that are not (Han, kana, Hangul, Thai, ...), together, whatever their
  mixture. It is indexed as pairs of neighbours and its last character alone, where a character is what people
  see as one; so a single character is the beginning of a lexeme wherever it stands;
* a *symbol*: an emoji with all that is joined to it (also without its skin tone), or another non-ASCII
  symbol.

Words are cut where the script changes. Everything else separates. In a query, what stands between two spaces
is one *part* all the same (``alpha.example``, ``db設計``): it counts whole or not at all. All sizes are
bounded here, so that one document can never exceed what an engine takes; what is cut off is not found, and
nothing else changes.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, Final
from unicodedata import normalize

import regex  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TEXT_VERSION: Final = 2
"""Raised when folding or cutting changes: what was indexed before then has to be derived again."""

INDEXED_CHARACTERS: Final = 16_384
"""How much of one field is indexed. Three fields of only distinct pairs still fit a tsvector (1 MiB)."""

MAX_WORD_CHARACTERS: Final = 128
MAX_UNIT_CODE_POINTS: Final = 32

QUERY_CHARACTERS: Final = 2_048
QUERY_TERMS: Final = 32
QUERY_PARTS: Final = 10
"""How many parts between spaces count; further ones are not asked for."""
QUERY_RUN_UNITS: Final = 64

_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\u30fc\u3006\p{Bopomofo}\p{Hangul}\p{Yi}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Javanese}\p{Balinese}"
    r"\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}"
)
_EMOJI = r"\p{Extended_Pictographic}[\p{Emoji_Modifier}\p{M}\U000e0020-\U000e007f]*"
_TOKEN = regex.compile(
    rf"([[{_UNSPACED}]--[\p{{P}}\p{{S}}\p{{Nd}}]][[{_UNSPACED}\p{{M}}]--[\p{{P}}\p{{S}}\p{{Nd}}]]*)"
    rf"|([\w--[{_UNSPACED}_]--\p{{S}}]+|[\p{{Nd}}]+)"
    rf"|(\p{{Regional_Indicator}}{{2}}|{_EMOJI}(?:\u200d{_EMOJI})*|[[\p{{S}}]--[\x00-\x7f\ufffd]])",
    regex.V1,
)
_RUN = regex.compile(rf"[{_UNSPACED}]", regex.V1)
_INVISIBLES = (
    r"\u00ad\u034f\u061c\u180b-\u180f\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
)
_INVISIBLE = regex.compile(
    rf"[{_INVISIBLES}]|(?<!{_EMOJI})\u200d|\u200d(?!\p{{Extended_Pictographic}})", regex.V1
)
_MAYBE_INVISIBLE = re.compile(rf"[{_INVISIBLES}\u200d]")
_SKIN_TONE = regex.compile(r"\p{Emoji_Modifier}")
# Characters that may be more than one code point: with marks, conjoining jamo, the vowels of Thai and Lao.
_CLUSTERS = regex.compile(r"[\p{M}\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff\p{Thai}\p{Lao}]")
_CHARACTER = regex.compile(r"\X")
_ASCII_WORD = re.compile("[0-9a-z]+")
_LONGEST_CLUSTER: Final = 256


class TermKind(Enum):
    """What a term of a query is."""

    WORD = "word"
    RUN = "run"
    SYMBOL = "symbol"


_KINDS: Final = (TermKind.RUN, TermKind.WORD, TermKind.SYMBOL)
"""By the number of their group in the expression of a token."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a query. A document matches when one of its fields has all the lexemes.

    ``is_prefix``: lexemes that begin with the (only) lexeme will do. ``substring`` is set where lexemes alone
    may deceive (a run of three characters or more): a run of the document must contain it.
    """

    kind: TermKind
    lexemes: tuple[str, ...]
    is_prefix: bool = False
    substring: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A query, cut. All terms must match; a last word matches as a prefix too, when ``open_ended``.

    ``is_blank`` tells a query of nothing but space, which asks for everything, from one of signs that nothing
    is found by, which finds nothing. Both have no terms. ``parts``: how many terms the first part between
    spaces has, how many the first two have, and so on; the last is all of them. ``text``: the tokens in a
    row, as :attr:`FieldTerms.text` has them.
    """

    terms: tuple[Term, ...]
    is_blank: bool
    open_ended: bool
    parts: tuple[int, ...] = ()
    text: str = ""


@dataclass(slots=True)
class FieldTerms:
    """What one field is found by: its lexemes, and its runs of three characters or more.

    ``text`` is the field as search sees it: all its tokens in a row, a space between each.
    """

    lexemes: set[str]
    runs: list[str]
    text: str


def fold(text: str) -> str:
    """Return the search copy of a text."""
    if text.isascii():
        return text.lower()
    if _MAYBE_INVISIBLE.search(text):
        text = _INVISIBLE.sub("", text)
    return normalize("NFKC", normalize("NFKC", text).casefold())


def clip(text: str, limit: int) -> str:
    """Return at most ``limit`` code points of a text, cut between characters as people see them."""
    if len(text) <= limit:
        return text
    start = max(0, limit - _LONGEST_CLUSTER)
    end = limit
    for character in _CHARACTER.finditer(text, start, limit + _LONGEST_CLUSTER):
        if character.end() > limit:
            end = character.start()
            break
    # A single "character" of hundreds of marks is cut hard.
    return text[: end if end > start else limit]


def field_terms(text: str) -> FieldTerms:
    """Cut one field of a document."""
    if text.isascii():  # ids, links and English: only words, and ten times as fast
        words = _ascii_words(text[:INDEXED_CHARACTERS].lower())
        return FieldTerms(set(words), [], " ".join(words))
    lexemes: set[str] = set()
    runs: list[str] = []
    tokens = _TOKEN.findall(clip(fold(clip(text, INDEXED_CHARACTERS)), INDEXED_CHARACTERS))
    for run, word, symbol in tokens:
        if run:
            units = _units(run)
            lexemes.update(map(operator.add, units, units[1:]))
            lexemes.add(units[-1])
            if len(units) > 2:
                runs.append(run)
        elif word:
            lexemes.add(clip(word, MAX_WORD_CHARACTERS))
        else:
            lexemes.update(_symbol_lexemes(symbol))
    return FieldTerms(lexemes, runs, " ".join(["".join(token) for token in tokens]))


def field_tokens(text: str) -> Iterator[tuple[TermKind, Sequence[str]]]:
    """Cut one field of a document into its tokens, in their order.

    A word is one text, a run its characters as people see them, a symbol itself and, when it has one, its
    form without skin tone.
    """
    if text.isascii():
        for word in _ascii_words(text[:INDEXED_CHARACTERS].lower()):
            yield TermKind.WORD, (word,)
        return
    for run, word, symbol in _TOKEN.findall(clip(fold(clip(text, INDEXED_CHARACTERS)), INDEXED_CHARACTERS)):
        if run:
            yield TermKind.RUN, _units(run)
        elif word:
            yield TermKind.WORD, (clip(word, MAX_WORD_CHARACTERS),)
        else:
            yield TermKind.SYMBOL, _symbol_lexemes(symbol)


def term_units(term: Term) -> Sequence[str]:
    """Return the characters that a run of a query asks for, one after the other."""
    return _units(term.substring or term.lexemes[0])


def _ascii_words(folded: str) -> list[str]:
    words = _ASCII_WORD.findall(folded)
    if len(folded) <= MAX_WORD_CHARACTERS:
        return words
    return [word[:MAX_WORD_CHARACTERS] for word in words]


def parse_query(text: str) -> Query:
    """Cut a query. Never fails; what exceeds the bounds of this module is not asked for."""
    folded = fold(clip(text.strip(), QUERY_CHARACTERS))
    spelled = (_TOKEN.findall(part) for part in folded.split())
    tokens = [(number, token) for number, part in enumerate(filter(None, spelled)) for token in part]
    asked = [(number, token) for number, token in tokens[:QUERY_TERMS] if number < QUERY_PARTS]
    # A word said twice asks no more; the last stays last, since it may be unfinished.
    part_of: dict[Term, int] = {}
    for number, token in reversed(asked):
        part_of.setdefault(_term(*token), number)
    terms = tuple(part_of)[::-1]
    sizes = Counter(part_of.values())
    return Query(
        terms=terms,
        is_blank=not folded.strip(),
        open_ended=len(asked) == len(tokens) and bool(terms) and terms[-1].kind is TermKind.WORD,
        parts=tuple(accumulate(sizes[number] for number in sorted(sizes))),
        text=" ".join("".join(token) for _, token in asked),
    )


def tokens_of(folded: str) -> Iterator[tuple[TermKind, int, int]]:
    """Yield (kind, start, end) of every token of a folded text."""
    for found in _TOKEN.finditer(folded):
        yield _KINDS[found.lastindex - 1], found.start(), found.end()


def is_spaced(lexeme: str) -> bool:
    """Tell whether a lexeme is a word, of a script that is written with spaces."""
    return lexeme.isascii() or _RUN.match(lexeme) is None


def characters_of(text: str) -> list[str]:
    """Cut a text into characters as people see them."""
    return list(text) if text.isascii() else _CHARACTER.findall(text)


def _term(run: str, word: str, symbol: str) -> Term:
    if run:
        units = _units(run)[:QUERY_RUN_UNITS]
        if len(units) == 1:
            return Term(TermKind.RUN, (units[0],), is_prefix=True)
        pairs = tuple(dict.fromkeys(map(operator.add, units, units[1:])))
        return Term(TermKind.RUN, pairs, substring="".join(units) if len(units) > 2 else None)
    if word:
        return Term(TermKind.WORD, (clip(word, MAX_WORD_CHARACTERS),))
    return Term(TermKind.SYMBOL, (_symbol_lexemes(symbol)[0],))


def _units(run: str) -> Sequence[str]:
    """Return a run's characters as people see them."""
    if not _CLUSTERS.search(run):
        return run
    return [character[:MAX_UNIT_CODE_POINTS] for character in _CHARACTER.findall(run)]


def _symbol_lexemes(symbol: str) -> tuple[str, ...]:
    whole = symbol[:MAX_UNIT_CODE_POINTS]
    plain = _SKIN_TONE.sub("", whole)
    return (whole,) if plain == whole or not plain else (whole, plain)
