"""The steps of a ranking: which there are, and that they are told from the query alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from indexer.engines.indexes import BY_UID, POSTS, USERS
from indexer.engines.postgres.lexemes import Correction
from indexer.engines.postgres.steps import steps_of
from indexer.engines.text import parse_query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from indexer.engines.postgres.steps import Span


def _leaves(span: Span) -> Iterator[tuple[int, Span]]:
    if not span.parts:
        yield span.first, span
    for part in span.parts:
        yield from _leaves(part)


@pytest.mark.parametrize("index", [USERS, POSTS])
@pytest.mark.parametrize(
    "query", ["postgers", "green postgers", "postgers green tea", "猫 postgers", "猫postgers"]
)
def test_a_rank_is_the_same_whatever_words_are_known(index: str, query: str) -> None:
    """A word that is first written between two pages moves no other step; typos come where they belong."""
    definition, cut = BY_UID[index], parse_query(query)
    without = dict(_leaves(steps_of(definition, cut, {})))
    known = dict(_leaves(steps_of(definition, cut, {"postgers": [Correction("postgres", is_prefix=False)]})))
    assert steps_of(definition, cut, {}).end == steps_of(definition, cut, {"postgers": []}).end
    assert without.keys() < known.keys()
    for rank, step in without.items():
        assert step.test.words == known[rank].test.words
    assert all("postgres" in known[rank].test.words for rank in known.keys() - without.keys())


@pytest.mark.parametrize(
    ("query", "counts"),
    [
        ("猫 犬", True),
        ("green tea", True),
        ("🐈 🐕", True),
        ("の は に", False),
        ("猫 の", False),
        ("I am reading", False),
        ("이 고양이", False),
        ("猫", False),
    ],
)
def test_how_close_words_stand_counts_where_it_says_something(query: str, counts: bool) -> None:
    """Single letters stand close to each other in every text; characters that are words do not."""
    patterns = [step.test.patterns for _, step in _leaves(steps_of(BY_UID[POSTS], parse_query(query), {}))]
    assert any(patterns) == counts
