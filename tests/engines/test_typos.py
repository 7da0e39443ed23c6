"""Typos: how far words are apart, and that no candidate is missed on the way."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.engines.typos import allowed_typos, beginning, distance, is_vocabulary, pieces

WORDS = st.text("abc", min_size=1, max_size=10)


def reference(word: str, other: str) -> int:
    """Optimal string alignment, by the book."""
    table = [[max(i, j) if not min(i, j) else 0 for j in range(len(other) + 1)] for i in range(len(word) + 1)]
    for i in range(1, len(word) + 1):
        for j in range(1, len(other) + 1):
            cost = int(word[i - 1] != other[j - 1])
            best = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + cost)
            if i > 1 and j > 1 and word[i - 1] == other[j - 2] and word[i - 2] == other[j - 1]:
                best = min(best, table[i - 2][j - 2] + 1)
            table[i][j] = best
    return table[-1][-1]


@given(WORDS, WORDS)
def test_distance(word: str, other: str) -> None:
    """It is the distance by the book, up to the bound."""
    expected = reference(word, other)
    for most in (1, 2):
        assert distance(word, other, most) == (expected if expected <= most else None)


@given(WORDS, WORDS)
def test_beginning(typed: str, word: str) -> None:
    """It is the nearest of all beginnings."""
    nearest = min(reference(typed, word[:size]) for size in range(len(word) + 1))
    for most in (1, 2):
        found = beginning(typed, word, most)
        if nearest > most:
            assert found is None
        else:
            assert found is not None
            assert word.startswith(found[0])
            assert found[1] == nearest == reference(typed, found[0])


@pytest.mark.parametrize(
    ("word", "typos"),
    [("hund", 0), ("katze", 1), ("schlange", 1), ("schlangen", 2), ("x" * 25, 0), ("2025a", 0), ("12345", 0)],
)
def test_how_many_are_allowed(word: str, typos: int) -> None:
    """None below five letters, one from five, two from nine; none in numbers and ids."""
    assert allowed_typos(word) == typos


def test_every_word_near_enough_shares_a_piece() -> None:
    """Whatever is mistyped, one piece stands unchanged, moved by no more places than there are typos."""
    chance = random.Random(5)
    for _ in range(20_000):
        word = "".join(chance.choices("abcd", k=chance.randint(5, 14)))
        most = allowed_typos(word)
        mistyped = _mistype(word, most, chance)
        if distance(mistyped, word, most) is None:  # letters moved twice are no single typo
            continue
        cut = pieces(word, most)
        assert len(cut) == most + 1
        assert any(
            mistyped[place : place + len(piece.letters)] == piece.letters
            for piece in cut
            for place in range(max(piece.start - most, 0), piece.start + most + 1)
        ), (word, mistyped)


def _mistype(word: str, times: int, chance: random.Random) -> str:
    for _ in range(times):
        at = chance.randrange(len(word) - 1)
        letter = chance.choice("abcde")
        word = chance.choice(
            (
                word[:at] + word[at + 1 :],
                word[:at] + letter + word[at:],
                word[:at] + letter + word[at + 1 :],
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            )
        )
    return word


def test_vocabulary() -> None:
    """Ids, numbers and short words are none of it."""
    assert [word for word in ("cat", "cats", "café", "v2beta", "x" * 25, "2025") if is_vocabulary(word)] == [
        "cats",
        "café",
    ]
