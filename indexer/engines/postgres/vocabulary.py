"""Looking up what mistyped words may mean, in an index's table of words.

Candidates come by the pieces of a word that must stand unchanged (typos.py): the first by the order of words,
the last by the order of words read backwards, others by their place. A word that may be unfinished is looked
for as a beginning too; with two typos only where its first piece is right, since all other beginnings could
only be found by reading every word. Which candidates are near enough is told
here, and only the nearest are asked for. Answers are kept for a while: a person types on, and words are many
but come rarely.

Some candidates are found only by reading every word, and strangers choose what words there are and what is
asked. So only the first words of a query are looked up, and for all of them together there is a time, after
which it is searched without the rest. That a word ran out of it is kept like an answer.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import asyncpg

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
LOOKED_UP: Final = 8
"""How many words of a query may be mistyped: the first ones that are long enough."""

LOOK_UP_MILLISECONDS: Final = 300
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
        asked = [
            (word, query.open_ended and number == last)
            for number, term in enumerate(query.terms)
            if term.kind is TermKind.WORD and allowed_typos(word := term.lexemes[0])
        ]
        until = self.monotonic() + LOOK_UP_MILLISECONDS / 1_000
        return {
            word: await self._of(connection, word, open_ended, until)
            for word, open_ended in asked[:LOOKED_UP]
        }

    async def _of(self, connection: Connection, word: str, open_ended: bool, until: float) -> _Corrections:
        key = (word, open_ended)
        now = self.monotonic()
        known = self._answers.get(key)
        if known is not None and now - known[0] < KEPT_SECONDS:
            return known[1]
        words = await self._look_up(connection, word, open_ended, round((until - now) * 1_000))
        answer = nearest(word, words, open_ended=open_ended)
        self._answers[key] = (now, answer)
        self._answers.move_to_end(key)
        if len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        return answer

    async def _look_up(
        self, connection: Connection, word: str, open_ended: bool, milliseconds: int
    ) -> list[str]:
        """Find candidates in so much time; none when it is over."""
        if milliseconds < 1:
            return []
        sql, arguments = _candidates(self.table, word, open_ended=open_ended)
        try:
            async with connection.transaction():  # what is given up must not end the search's own transaction
                await connection.execute(
                    "select set_config('statement_timeout', $1, true)", str(milliseconds)
                )
                rows = await connection.fetch(sql, *arguments)
                await connection.execute("select set_config('statement_timeout', '0', true)")
        except asyncpg.QueryCanceledError:
            return []
        return [row["word"] for row in rows]


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
    return tuple(Correction(word, open_ended, distances[word]) for word in best[:CORRECTIONS])


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
