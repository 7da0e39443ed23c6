"""What looking for mistyped words may cost: little, whatever is asked and whatever was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from indexer.engines.indexes import INDEXES, POSTS
from indexer.engines.postgres import vocabulary, writing
from indexer.engines.postgres.vocabulary import LOOKED_UP, Vocabulary
from tests.engines.conftest import postgres_engine
from tests.engines.samples import found, post, put

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.engines.postgres import PostgresEngine

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(database_url: str, anyio_backend: str) -> AsyncIterator[PostgresEngine]:
    """An engine with one post."""
    async with postgres_engine(database_url) as opened:
        await opened.prepare(INDEXES)
        await put(opened, post("a", "lantern federation"))
        yield opened


async def test_no_query_looks_up_more_than_a_few_words(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither words of their own nor the parts of one long word."""
    looked_up: list[str] = []
    look_up = Vocabulary._look_up

    async def counted(self: Vocabulary, connection: object, word: str, *more: object) -> list[str]:
        looked_up.append(word)
        return await look_up(self, connection, word, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Vocabulary, "_look_up", counted)
    words = ["unknownword" + letter for letter in "abcdefghijklmnopqrstuvwxyz"]
    for joint in ("-", " "):
        looked_up.clear()
        engine._vocabularies[POSTS]._answers.clear()
        await found(engine, joint.join(words))
        assert 0 < len(looked_up) <= LOOKED_UP


async def test_who_looks_too_long_is_answered_without(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search goes on as typed, in the same transaction; later words are not looked up at all."""
    candidates = vocabulary._candidates

    def slow(*arguments: object, **named: object) -> tuple[str, list[str | int]]:
        sql, values = candidates(*arguments, **named)  # type: ignore[arg-type]
        return f"select word from ({sql}) as found, pg_sleep(60)", values

    with monkeypatch.context() as patched:
        patched.setattr(vocabulary, "_candidates", slow)
        patched.setattr(vocabulary, "LOOK_UP_MILLISECONDS", 50)
        assert await found(engine, "lantern federatoin") == ["a"]  # the first word as typed
        assert await found(engine, "latnern federatoin") == []
    assert await found(engine, "lanetrn") == ["a"]


async def test_the_table_of_words_is_bounded(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is full, documents are still written and found by what they say."""
    await engine._pool.execute("analyze search.concrnt_posts_words")
    monkeypatch.setattr(writing, "MOST_WORDS", 1)
    await engine.prepare(INDEXES)
    await put(engine, post("b", "kitten"))
    assert await found(engine, "kitten") == ["b"]
    assert await engine._pool.fetchval("select count(*) from search.concrnt_posts_words") == 2
