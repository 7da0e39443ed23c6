"""Looking up what mistyped words may mean, in an index's table of words.

Candidates come by the pieces of a word that must stand unchanged (typos.py): the first by the order of words,
the last by the order of words read backwards, others by their place. A word that may be unfinished is looked
for as a beginning too; with two typos only where its first piece is right, since all other beginnings could
only be found by reading every word. Which candidates are near enough is told
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

CANDIDATES: Final = 500
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
    whole = "char_length(word) between $1 and $2"
    begun = "char_length(word) >= $1"

    def add(value: str) -> str:
        arguments.append(value)
        return f"${len(arguments)}::text"

    cut = pieces(word, most)
    tests: list[str] = []
    for number, piece in enumerate(cut):
        if number == 0:
            test = f"word >= {add(piece.letters)} and word < {add(piece.letters + _AFTER_ALL)}"
            tests.append(f"{test} and {begun if open_ended else whole}")
        elif number == len(cut) - 1:
            backwards = piece.letters[::-1]
            test = f"reversed >= {add(backwards)} and reversed < {add(backwards + _AFTER_ALL)}"
            tests.append(f"{test} and {whole}")
        if number and (number < len(cut) - 1 or (open_ended and most == 1)):
            places = range(max(piece.start - most, 0), piece.start + most + 1)
            likes = (f"word like {add('_' * place + piece.letters + '%')}" for place in places)
            tests.append(f"({' or '.join(likes)}) and {begun if most == 1 else whole}")
    selects = (
        f"(select word from {table.words} where {test} "  # noqa: S608 - a name of ours
        f"order by abs(char_length(word) - $3), word limit {CANDIDATES})"
        for test in tests
    )
    return " union ".join(selects), arguments
