"""How far two words are apart, and how far they may be (behaviour.md, section 5): pure, for every engine.

A typo is one letter too many, too few, another in its place, or two neighbours swapped. A word of a query may
have one from five letters, two from nine; shorter ones, numbers and scripts without spaces have none. The
rule goes by what was typed: a beginning of four letters is taken as typed.

Which known words can match is found without comparing with all of them: of the pieces of :func:`pieces`, one
more than there may be typos, at least one stands unchanged in the other word, moved by at most as many places
as there are typos elsewhere. Between pieces lies a letter that belongs to none, so that a swap never reaches
two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ONE_FROM: Final = 5
TWO_FROM: Final = 9
LONGEST: Final = 24
"""Longer words are ids and links, not words that people mistype."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word that may stand unchanged in another: its letters, and where they begin."""

    letters: str
    start: int


def allowed_typos(word: str) -> int:
    """Return how many typos a word of a query may have."""
    if not ONE_FROM <= len(word) <= LONGEST or not word.isalpha():
        return 0
    return 1 if len(word) < TWO_FROM else 2


def is_vocabulary(word: str) -> bool:
    """Tell whether a word of a document can be what a mistyped word means."""
    return ONE_FROM - 1 <= len(word) <= LONGEST and word.isalpha()


def pieces(word: str, typos: int) -> tuple[Piece, ...]:
    """Cut a word into one piece more than there may be typos, one letter left out between each."""
    count = typos + 1
    letters, longer = divmod(len(word) - typos, count)
    cut: list[Piece] = []
    start = 0
    for number in range(count):
        size = letters + (number < longer)
        cut.append(Piece(word[start : start + size], start))
        start += size + 1
    return tuple(cut)


def distance(word: str, other: str, most: int) -> int | None:
    """Return how many typos lie between two words; None when more than ``most``."""
    if abs(len(word) - len(other)) > most:
        return None
    row = _last_row(word, other, most)
    return row[-1] if row and row[-1] <= most else None


def beginning(typed: str, word: str, most: int) -> tuple[str, int] | None:
    """Return the beginning of ``word`` that is nearest to ``typed``, and its distance; None when too far."""
    row = _last_row(typed, word[: len(typed) + most], most)
    if not row:
        return None
    nearest = min(range(len(row)), key=lambda size: (row[size], abs(size - len(typed))))
    return (word[:nearest], row[nearest]) if row[nearest] <= most else None


def _last_row(word: str, other: str, most: int) -> list[int]:
    """Return the distances of ``word`` to every beginning of ``other``; empty when all exceed ``most``.

    The distance is that of optimal string alignment: no letter is moved twice. What exceeds ``most`` is only
    known to do so: nothing is computed away from the diagonal.
    """
    too_far = most + 1
    size = len(other)
    older: list[int] = []
    before: list[int] = []
    row = [min(j, too_far) for j in range(size + 1)]
    nearest_before = 0
    for i, letter in enumerate(word, start=1):
        older, before = before, row
        row = [too_far] * (size + 1)
        nearest = too_far
        if i <= most:
            row[0] = nearest = i
        for j in range(max(1, i - most), min(size, i + most) + 1):
            theirs = other[j - 1]
            if letter == theirs:
                cost = before[j - 1]
            else:
                cost = 1 + min(before[j], row[j - 1], before[j - 1])
                if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == theirs:
                    cost = min(cost, older[j - 2] + 1)
            nearest = min(nearest, cost)
            row[j] = cost
        if nearest > most and nearest_before > most:  # a swap reaches back over two rows
            return []
        nearest_before = nearest
    return row
