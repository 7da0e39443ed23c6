"""Showing why a document was found: its texts as HTML, with ``<em>`` around what matched. Pure.

What matched is told from the document and the query alone, by the rules of text.py and typos.py; so every
engine marks alike, whatever it stores. Everything else is escaped: the result is HTML that holds nothing of
the document but text. Marks and cuts fall between characters as people see them.

Long texts are cropped to a window around the first match, with ``…`` where something was left out; where
words are written with spaces the window is moved to one, if there is one near.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Final

from indexer.engines.text import INDEXED_CHARACTERS, TermKind, characters_of, clip, fold, tokens_of
from indexer.engines.typos import allowed_typos, beginning, distance, is_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from indexer.engines.base import Document, IndexDefinition
    from indexer.engines.text import Query, Term

SHOWN_CHARACTERS: Final = 200
"""How much of a text that is no name is shown."""

BEFORE_CHARACTERS: Final = 50
"""How much of it at most stands before the first match."""

_NEAR_SPACE: Final = 16
_ELLIPSIS: Final = "…"
_fold_character = lru_cache(maxsize=16_384)(fold)

Marks = list[tuple[int, int]]
"""Where the marks are: from which character up to which, in order, apart from each other."""


@dataclass(frozen=True, slots=True)
class Highlighter:
    """Marks what one query found in the documents of one index."""

    definition: IndexDefinition
    query: Query

    def formatted(self, document: Document) -> dict[str, str]:
        """Return the searchable texts of a document as HTML, by field."""
        return {
            field: self._html(field, value)
            for field in self.definition.searchable
            if isinstance(value := document.get(field), str)
        }

    def _html(self, field: str, value: str) -> str:
        characters = characters_of(clip(value, INDEXED_CHARACTERS))
        marks = self.marks(characters, with_typos=field in self.definition.written)
        first, end = 0, len(characters)
        if field in self.definition.texts and field not in self.definition.names:
            first, end = _window(characters, marks)
        is_cut = end < len(characters) or len(value) > INDEXED_CHARACTERS
        inside = "".join(_marked(characters, marks, first, end))
        return f"{_ELLIPSIS if first else ''}{inside}{_ELLIPSIS if is_cut else ''}"

    def marks(self, characters: Sequence[str], *, with_typos: bool = True) -> Marks:
        """Return what of a text, given by its characters, matched."""
        folded: list[str] = []
        owner: list[int] = []
        for number, character in enumerate(characters):
            search_copy = _fold_character(character)
            folded.append(search_copy)
            owner += [number] * len(search_copy)
        text = "".join(folded)
        found: Marks = []
        matched: dict[str, int] = {}
        for kind, start, end in tokens_of(text):
            token = text[start:end]
            if kind is TermKind.RUN:
                spans = self._in_run(token)
            else:
                if token not in matched:
                    matched[token] = self._matched_letters(kind, token, with_typos=with_typos)
                spans = [(0, matched[token])] if matched[token] else []
            found += [(owner[start + begin], owner[start + stop - 1] + 1) for begin, stop in spans]
        return _joined(found)

    def _in_run(self, run: str) -> Marks:
        spans: Marks = []
        for term in self.query.terms:
            if term.kind is TermKind.RUN:
                looked_for = term.substring or term.lexemes[0]
                at = run.find(looked_for)
                while at >= 0:
                    spans.append((at, at + len(looked_for)))
                    at = run.find(looked_for, at + 1)
        return spans

    def _matched_letters(self, kind: TermKind, token: str, *, with_typos: bool) -> int:
        """Return how many letters of a word or symbol matched, from its first on."""
        last = len(self.query.terms) - 1
        most = 0
        for number, term in enumerate(self.query.terms):
            if term.kind is kind:
                open_ended = self.query.open_ended and number == last
                most = max(most, _letters(term, token, open_ended=open_ended, with_typos=with_typos))
        return most


def _letters(term: Term, token: str, *, open_ended: bool, with_typos: bool) -> int:
    word = term.lexemes[0]
    if token == word or (term.kind is TermKind.SYMBOL and token.startswith(word)):
        return len(token)
    if term.kind is TermKind.SYMBOL:
        return 0
    if open_ended and token.startswith(word):
        return len(word)
    typos = allowed_typos(word) if with_typos and is_vocabulary(token) else 0
    if not typos:
        return 0
    if distance(word, token, typos) is not None:
        return len(token)
    start = beginning(word, token, typos) if open_ended else None
    return len(start[0]) if start is not None else 0


def _joined(spans: Marks) -> Marks:
    joined: Marks = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _window(characters: Sequence[str], marks: Marks) -> tuple[int, int]:
    """Return from where to where a text is shown."""
    if len(characters) <= SHOWN_CHARACTERS:
        return 0, len(characters)
    first = max(marks[0][0] - BEFORE_CHARACTERS, 0) if marks else 0
    first = min(first, len(characters) - SHOWN_CHARACTERS)
    end = first + SHOWN_CHARACTERS
    if first:
        first = _behind_space(characters, first, marks[0][0])
    if end < len(characters):
        spaces = (at for at in range(end, end - _NEAR_SPACE, -1) if characters[at].isspace())
        end = next(spaces, end)
    return first, end


def _behind_space(characters: Sequence[str], first: int, limit: int) -> int:
    near = range(first, min(first + _NEAR_SPACE, limit))
    return next((at + 1 for at in near if characters[at].isspace()), first)


def _marked(characters: Sequence[str], marks: Marks, first: int, end: int) -> Iterator[str]:
    at = first
    for start, stop in marks:
        begin, finish = max(start, first), min(stop, end)
        if begin >= finish:
            continue
        yield escape("".join(characters[at:begin]))
        yield f"<em>{escape(''.join(characters[begin:finish]))}</em>"
        at = finish
    yield escape("".join(characters[at:end]))
