"""Showing why a document was found: its texts as HTML, with ``<em>`` around what matched. Pure.

What matched is told from the document and the query alone, by the rules of text.py and typos.py; so every
engine marks alike, whatever it stores. Everything else is escaped: the result is HTML that holds nothing of
the document but text. Marks and cuts fall between characters as people see them.

Long texts are cropped to a window around the first match, with ``…`` where something was left out; where
words are written with spaces the window is moved to one, if there is one near.

Texts and queries come from strangers, so the work is counted, not timed: what one document, and all of one
answer, may cost is bounded, and the same answer has the same marks every time. Words that are spelled as the
query spells them are found for nothing; past the bound the others are no longer marked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Final

from indexer.engines.text import INDEXED_CHARACTERS, TermKind, characters_of, clip, fold, tokens_of
from indexer.engines.typos import allowed_typos, beginning, distance, is_vocabulary, pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from indexer.engines.base import Document, IndexDefinition
    from indexer.engines.text import Query

SHOWN_CHARACTERS: Final = 200
"""How much of a text that is no name is shown."""

BEFORE_CHARACTERS: Final = 50
"""How much of it at most stands before the first match."""

WORK_OF_DOCUMENT: Final = 50_000
"""What the marks of one document may cost: a look at a word or run is 1, about a sixth of a microsecond."""

WORK_OF_ANSWER: Final = 1_500_000

_WORK_OF_MARK: Final = 5
_WORK_OF_DISTANCE: Final = 100
_NEAR_SPACE: Final = 16
_ELLIPSIS: Final = "…"
_fold_character = lru_cache(maxsize=16_384)(fold)

Marks = list[tuple[int, int]]
"""Where the marks are: from which character up to which, in order, apart from each other."""


class Highlighter:
    """Marks what one query found in the documents of one index, for one answer."""

    def __init__(self, definition: IndexDefinition, query: Query) -> None:
        self._definition = definition
        self._exact = frozenset((term.kind, term.lexemes[0]) for term in query.terms)
        self._runs = [term.substring or term.lexemes[0] for term in query.terms if term.kind is TermKind.RUN]
        self._symbols = [term.lexemes[0] for term in query.terms if term.kind is TermKind.SYMBOL]
        self._open_ended = query.terms[-1].lexemes[0] if query.open_ended else None
        self._mistyped = [
            _Mistyped(
                term.lexemes[0], typos, tuple(piece.letters for piece in pieces(term.lexemes[0], typos))
            )
            for term in query.terms
            if term.kind is TermKind.WORD and (typos := allowed_typos(term.lexemes[0]))
        ]
        self._left_of_answer = WORK_OF_ANSWER
        self._left = 0

    def formatted(self, document: Document) -> dict[str, str]:
        """Return the searchable texts of a document as HTML, by field."""
        self._left = share = min(WORK_OF_DOCUMENT, self._left_of_answer)
        texts = {
            field: self._html(field, value)
            for field in self._definition.searchable
            if isinstance(value := document.get(field), str)
        }
        self._left_of_answer -= share - self._left
        return texts

    def _html(self, field: str, value: str) -> str:
        characters = characters_of(clip(value, INDEXED_CHARACTERS))
        is_cropped = field in self._definition.texts and field not in self._definition.names
        with_typos = field in self._definition.written
        marks = self._marks(characters, with_typos=with_typos, is_cropped=is_cropped)
        first, end = _window(characters, marks) if is_cropped else (0, len(characters))
        is_cut = end < len(characters) or len(value) > INDEXED_CHARACTERS
        inside = "".join(_marked(characters, marks, first, end))
        return f"{_ELLIPSIS if first else ''}{inside}{_ELLIPSIS if is_cut else ''}"

    def _marks(self, characters: Sequence[str], *, with_typos: bool, is_cropped: bool) -> Marks:
        """Return what of a text, given by its characters, matched; of a cropped one, what may be shown."""
        text, owner = _folded(characters)
        found: Marks = []
        matched: dict[str, Marks] = {}
        for kind, start, end in tokens_of(text):
            if is_cropped and found and owner[start] >= found[0][0] + SHOWN_CHARACTERS:
                break
            token = text[start:end]
            if token not in matched:
                matched[token] = self._matched(kind, token, with_typos=with_typos)
            found += [(owner[start + begin], owner[start + stop - 1] + 1) for begin, stop in matched[token]]
        return _joined(found)

    def _matched(self, kind: TermKind, token: str, *, with_typos: bool) -> Marks:
        """Return what of a token matched; where the first mark begins comes first."""
        if kind is TermKind.RUN:
            return sorted(self._in_run(token))
        letters = self._letters(kind, token, with_typos=with_typos)
        return [(0, letters)] if letters else []

    def _in_run(self, run: str) -> Iterator[tuple[int, int]]:
        for looked_for in self._runs:
            at = run.find(looked_for) if self._may_spend(1) else -1
            while at >= 0:
                yield at, at + len(looked_for)
                at = run.find(looked_for, at + 1) if self._may_spend(_WORK_OF_MARK) else -1

    def _letters(self, kind: TermKind, token: str, *, with_typos: bool) -> int:
        """Return how many letters of a word or symbol matched, from its first on."""
        if (kind, token) in self._exact:
            return len(token)
        if kind is TermKind.SYMBOL:
            return len(token) if token.startswith(tuple(self._symbols)) else 0
        begins = self._open_ended is not None and token.startswith(self._open_ended)
        most = len(self._open_ended or "") if begins else 0
        if not with_typos or not is_vocabulary(token):
            return most
        for term in self._mistyped:
            if not self._may_spend(1):
                break
            if any(letters in token for letters in term.pieces):
                if not self._may_spend(_WORK_OF_DISTANCE):
                    break
                most = max(most, term.letters(token, open_ended=term.word == self._open_ended))
        return most

    def _may_spend(self, work: int) -> bool:
        if self._left < work:
            return False
        self._left -= work
        return True


@dataclass(frozen=True, slots=True)
class _Mistyped:
    """A word of the query in which typos may be, and the pieces of which a word that it means has one."""

    word: str
    typos: int
    pieces: tuple[str, ...]

    def letters(self, token: str, *, open_ended: bool) -> int:
        """Return how many letters of a word this one means, from its first on."""
        if distance(self.word, token, self.typos) is not None:
            return len(token)
        start = beginning(self.word, token, self.typos) if open_ended else None
        return len(start[0]) if start is not None else 0


def _folded(characters: Sequence[str]) -> tuple[str, Sequence[int]]:
    """Return the search copy of a text, and to which of its characters each of the copy's belongs."""
    text = "".join(characters)
    if text.isascii():
        return fold(text), range(len(text))
    folded: list[str] = []
    owner: list[int] = []
    for number, character in enumerate(characters):
        search_copy = _fold_character(character)
        folded.append(search_copy)
        owner += [number] * len(search_copy)
    return "".join(folded), owner


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
