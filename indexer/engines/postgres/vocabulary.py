"""Looking up what mistyped words may mean, in an index's table of words.

Candidates come by the pieces of a word that must stand unchanged (typos.py): the first by the order of words,
the last by the order of words read backwards, others by their place. Which candidates are near enough is told
here, and only the nearest are asked for. Answers are kept for a while: a person types on, and words are many
but come rarely.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from indexer.engines.postgres.lexemes import Correction
from indexer.engines.text import TermKind
from indexer.engines.typos import allowed_typos, beginning, distance, pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from indexer.engines.postgres.schema import Table
    from indexer.engines.postgres.writing import Connection
    from indexer.engines.text import Query

CORRECTIONS: Final = 16
"""How many words one mistyped word may mean."""

CANDIDATES: Final = 1_000
KEPT_SECONDS: Final = 30.0
KEPT_ANSWERS: Final = 1_000

_AFTER_ALL: Final = "\U0010ffff"
_Corrections = tuple[Correction, ...]


@dataclass(slots=True)
class Vocabulary:
    """The words of one index. ``monotonic`` is in seconds."""

    table: Table
    monotonic: Callable[[], float]
    _answers: OrderedDict[tuple[str, bool], tuple[float, _Corrections]] = field(default_factory=OrderedDict)

    async def corrections(self, connection: Connection, query: Query) -> Mapping[str, _Corrections]:
        """Return what each word of a query may mean besides itself, by word."""
        last = len(query.terms) - 1
        found: dict[str, _Corrections] = {}
        for number, term in enumerate(query.terms):
            word = term.lexemes[0]
            if term.kind is TermKind.WORD and allowed_typos(word):
                found[word] = await self._of(connection, word, open_ended=query.open_ended and number == last)
        return found

    async def _of(self, connection: Connection, word: str, *, open_ended: bool) -> _Corrections:
        key = (word, open_ended)
        now = self.monotonic()
        known = self._answers.get(key)
        if known is not None and now - known[0] < KEPT_SECONDS:
            return known[1]
        sql, arguments = _candidates(self.table, word, open_ended=open_ended)
        rows = await connection.fetch(sql, *arguments)
        answer = nearest(word, (row["word"] for row in rows), open_ended=open_ended)
        self._answers[key] = (now, answer)
        self._answers.move_to_end(key)
        if len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        return answer


def nearest(typed: str, words: Iterable[str], *, open_ended: bool) -> _Corrections:
    """Return the words, or beginnings of words, that are near enough to what was typed; nearest first."""
    most = allowed_typos(typed)
    distances: dict[str, int] = {}
    for word in words:
        if open_ended:
            start = beginning(typed, word, most)
            if start is not None and start[1] and not word.startswith(typed):
                distances[start[0]] = start[1]
        else:
            apart = distance(typed, word, most)
            if apart:
                distances[word] = apart
    best = sorted(distances, key=lambda word: (distances[word], abs(len(word) - len(typed)), word))
    return tuple(Correction(word, is_prefix=open_ended) for word in best[:CORRECTIONS])


def _candidates(table: Table, word: str, *, open_ended: bool) -> tuple[str, list[str | int]]:
    """Write the statement that finds the words that may be near to ``word``."""
    most = allowed_typos(word)
    arguments: list[str | int] = [len(word) - most, len(word) + most, len(word)]
    sized = "char_length(word) >= $1" + ("" if open_ended else " and char_length(word) <= $2")
    if open_ended:
        sized += " and $2 > 0"  # keeps the numbers of parameters alike

    def add(value: str) -> str:
        arguments.append(value)
        return f"${len(arguments)}::text"

    cut = pieces(word, most)
    selects: list[str] = []
    for number, piece in enumerate(cut):
        if number == 0:
            test = f"word >= {add(piece.letters)} and word < {add(piece.letters + _AFTER_ALL)}"
        elif number == len(cut) - 1 and not open_ended:
            backwards = piece.letters[::-1]
            test = f"reversed >= {add(backwards)} and reversed < {add(backwards + _AFTER_ALL)}"
        else:
            places = range(max(piece.start - most, 0), piece.start + most + 1)
            likes = (f"word like {add('_' * place + piece.letters + '%')}" for place in places)
            test = f"({' or '.join(likes)})"
        selects.append(
            f"(select word from {table.words} where {test} and {sized} "  # noqa: S608 - a name of ours
            f"order by abs(char_length(word) - $3), word limit {CANDIDATES})"
        )
    return " union ".join(selects), arguments
