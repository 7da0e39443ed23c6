"""From a query to the steps of its ranking. Pure.

The order of the steps, each inside the one before:

1. *words*: all parts of the query (what stands between spaces), then all but the last, and so on down to the
   first alone, without which nothing matches;
2. *accuracy*: the name that is the query, whole; words as they are; the last word as a beginning; one typo;
   two. A query in a script without spaces has no beginnings: there, names that begin with it come before the
   rest;
3. *field*: everything found in the first searchable field, in the first two, and so on;
4. *closeness*, where all words match and there are several: side by side in order, within a dozen characters,
   within a line of text, anywhere. Not with single letters among them (``の は に``): they stand close to
   each other in every text, and to tell how close takes longest.

Ranks are told from the query alone: words that may be mistyped have theirs whether or not any correction is
known by now. So a cursor means the same on another day, and in another process.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from indexer.engines.postgres.lexemes import Accuracy, matches_of, name_query, words_query
from indexer.engines.text import MAX_WORD_CHARACTERS, TermKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from indexer.engines.base import IndexDefinition
    from indexer.engines.postgres.lexemes import Correction, TermMatches
    from indexer.engines.text import Query

NEAR_CHARACTERS: Final = (12, 48)
"""How far apart neighbours of the query may stand to be near, or in the same line."""


@dataclass(frozen=True, slots=True)
class Test:
    """A condition: a tsquery (empty is met by all), texts that hold these substrings and these patterns."""

    words: str
    substrings: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """The ranks from ``first`` up to, but not including, ``end``.

    ``test`` is met by all of its documents, and maybe by better ones; of these each meets one of ``better``.
    ``parts`` make it up, best first; a single step has none.
    """

    first: int
    end: int
    test: Test
    better: tuple[Test, ...] = ()
    parts: tuple[Span, ...] = ()


@dataclass(slots=True)
class _Draft:
    """A span before it is numbered. Of its parts each matches all that the one before matches.

    One that is reserved finds nothing more than that now: its ranks stay free.
    """

    test: Test
    parts: list[_Draft]
    is_reserved: bool = False

    @property
    def width(self) -> int:
        """How many ranks it takes."""
        return sum(part.width for part in self.parts) or 1


def steps_of(
    definition: IndexDefinition, query: Query, corrections: Mapping[str, Sequence[Correction]]
) -> Span:
    """Return the span of all that a query matches."""
    if not query.terms:
        return Span(0, 1, Test(""))
    matches = matches_of(
        query.terms,
        open_ended=query.open_ended,
        corrections=corrections,
        written=frozenset(map(definition.searchable.index, definition.written)),
    )
    levels = [
        _level(definition, query, matches[:size], is_whole=number == 0)
        for number, size in enumerate(reversed(query.parts))
    ]
    return _numbered(_Draft(levels[-1].test, levels), 0, ())


def _level(
    definition: IndexDefinition, query: Query, matches: Sequence[TermMatches], *, is_whole: bool
) -> _Draft:
    """Draft the steps of one number of words."""
    substrings = tuple(match.term.substring for match in matches if match.term.substring is not None)
    parts: list[_Draft] = []
    if is_whole and definition.names and len(query.text) < MAX_WORD_CHARACTERS:
        parts += _names(query)
    for accuracy in Accuracy:
        if any(match.may_have(accuracy) for match in matches):
            near = _patterns(matches, accuracy) if is_whole and definition.texts else ()
            fields = [
                _field(Test(words_query(matches, count, accuracy), substrings), near)
                for count in range(1, len(definition.searchable) + 1)
            ]
            is_reserved = not any(match.has(accuracy) for match in matches)
            parts.append(_Draft(fields[-1].test, fields, is_reserved))
    return _Draft(parts[-1].test, parts)


def _names(query: Query) -> list[_Draft]:
    steps = [_Draft(Test(name_query(query.text, begins=False)), [])]
    if query.terms[-1].kind is TermKind.RUN:
        steps.append(_Draft(Test(name_query(query.text, begins=True)), []))
    return steps


def _field(test: Test, near: Sequence[tuple[str, ...]]) -> _Draft:
    steps = [_Draft(replace(test, patterns=patterns), []) for patterns in near]
    return _Draft(test, [*steps, _Draft(test, [])] if steps else [])


def _patterns(matches: Sequence[TermMatches], accuracy: Accuracy) -> tuple[tuple[str, ...], ...]:
    """Write "neighbours of the query stand close together" as regular expressions, closest first."""
    if len(matches) < 2 or any(map(_is_letter, matches)):
        return ()
    # Short texts of few words: so many pairs say enough, and tests stay cheap.
    pairs = list(pairwise(_spelled(match, accuracy) for match in matches[:4]))
    side_by_side = tuple(f"(?p){left} ?{right}" for left, right in pairs)
    near = (
        tuple(f"(?p)(?:{left}.{{0,{most}}}{right}|{right}.{{0,{most}}}{left})" for left, right in pairs)
        for most in NEAR_CHARACTERS
    )
    return (side_by_side, *near)


def _is_letter(match: TermMatches) -> bool:
    """Tell whether a term is a single letter: kana, Latin, a syllable; not a character that is a word."""
    (lexeme, *others) = match.term.lexemes
    if others or len(lexeme) > 1 or match.term.kind is TermKind.SYMBOL:
        return False
    return not unicodedata.name(lexeme, "").startswith("CJK")


def _spelled(match: TermMatches, accuracy: Accuracy) -> str:
    """Write what counts as a term as it stands in a text."""
    term = match.term
    if term.kind is not TermKind.WORD:
        return re.escape(term.substring or term.lexemes[0])
    open_ended = match.open_ended and accuracy >= Accuracy.PREFIX
    spelled = [term.lexemes[0] + ("" if open_ended else r"(?![^ \n])")]
    spelled += [
        correction.word + ("" if correction.is_prefix else r"(?![^ \n])")
        for correction in match.corrections_of(accuracy)
    ]
    return f"(?<![^ \\n])(?:{'|'.join(spelled)})" + (r"[^ \n]*" if open_ended else "")


def _numbered(draft: _Draft, first: int, better: tuple[Test, ...]) -> Span:
    while len(draft.parts) == 1:
        draft = draft.parts[0]
    parts: list[Span] = []
    end = first
    elder: tuple[Test, ...] = ()
    for part in draft.parts:
        if part.is_reserved:
            end += part.width
            continue
        parts.append(_numbered(part, end, better + elder))
        end = parts[-1].end
        elder = (part.test,)
    return Span(first, max(end, first + 1), draft.test, better, tuple(parts))
