"""Batches into the same tables at once leave what the same batches leave one after the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from indexer.engines.base import EngineUnavailable
from indexer.engines.indexes import COMMUNITIES, INDEXES, POSTS, USERS
from indexer.engines.postgres.writing import TableWriter
from tests.engines.conftest import postgres_engine
from tests.engines.samples import batch_of, community, post, user

if TYPE_CHECKING:
    from collections.abc import Iterable

    import asyncpg

    from indexer.engines.base import Document, WriteBatch, WriteResult
    from indexer.engines.postgres import PostgresEngine

pytestmark = pytest.mark.anyio

DOCUMENTS = 150
LETTERS = "abcdefghij"


def _word(number: int) -> str:
    return "word" + "".join(LETTERS[int(digit)] for digit in f"{number:03}")


def _batches() -> list[WriteBatch]:
    """Each with documents of its own; every word is in all of them, and some in one alone."""
    batches = []
    for name in "abcd":
        documents: list[Document] = []
        for number in range(DOCUMENTS):
            text = f"{_word(number)} {_word(number)}{name}"
            documents += [
                post(f"{name}{number}", text),
                user(profile=f"{name}{number}", username=text),
                community(f"{name}{number}", description=text),
            ]
        batches.append(batch_of(documents))
    return batches


async def _tables(pool: asyncpg.Pool[Any]) -> dict[str, list[str]]:
    """Every row of every table of the engine."""
    names = await pool.fetch(
        "select relname from pg_class where relnamespace = 'search'::regnamespace and relkind = 'r'"
    )
    found = {}
    for (name,) in names:
        rows = await pool.fetch(f'select t::text as row from search."{name}" as t')
        found[name] = sorted(row["row"] for row in rows)
    return found


async def _one_after_the_other(engine: PostgresEngine) -> None:
    for batch in _batches():
        await engine.write(batch)


async def _all_at_once(engine: PostgresEngine) -> list[WriteResult | BaseException]:
    return await asyncio.gather(*map(engine.write, _batches()), return_exceptions=True)


@pytest.mark.parametrize("fails", [0, 1, 3])
async def test_batches_at_once_equal_batches_in_a_row(
    database_url: str, fails: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, names and words; also when transactions fail late, and are tried again."""
    async with postgres_engine(database_url) as engine:
        await engine.prepare(INDEXES)
        await _one_after_the_other(engine)
        expected = await _tables(engine._pool)
        for uid in (COMMUNITIES, POSTS, USERS):
            await engine.begin_build(uid)
            await engine.swap_build(uid)
        put, left = TableWriter.put, fails

        async def sometimes(
            self: TableWriter, connection: Any, documents: Iterable[Document]
        ) -> tuple[list[Any], set[str]]:
            nonlocal left
            written = await put(self, connection, documents)
            if left and self._index == USERS:  # the last table of a batch
                left -= 1
                raise EngineUnavailable("gone")
            return written

        monkeypatch.setattr(TableWriter, "put", sometimes)
        outcomes = await _all_at_once(engine)
        assert sum(isinstance(outcome, EngineUnavailable) for outcome in outcomes) == fails
        if fails:
            await _all_at_once(engine)
        found = await _tables(engine._pool)
    assert found.keys() == expected.keys()
    for name, rows in expected.items():
        assert found[name] == rows, name
    assert len(expected["concrnt_users_names"]) > DOCUMENTS
    assert len(expected["concrnt_posts_words"]) > DOCUMENTS
