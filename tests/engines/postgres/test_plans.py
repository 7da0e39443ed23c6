"""How PostgreSQL goes about hot queries: EXPLAIN, over enough rows for it to matter."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec
import pytest

from indexer.engines.base import SearchRequest, SortOrder
from indexer.engines.indexes import BY_UID, INDEXES, POSTS
from indexer.engines.postgres.schema import Table
from indexer.engines.postgres.searching import Statement, TablePlan, plan_search
from indexer.engines.text import parse_query
from indexer.statements import load
from tests.engines.conftest import postgres_engine
from tests.engines.samples import NEWEST_FIRST, post, put

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from indexer.engines.postgres.steps import Span

    Connection = asyncpg.Connection[asyncpg.Record]

pytestmark = pytest.mark.anyio

ROWS = 4_000
BOUND = 500


@pytest.fixture
async def connection(database_url: str, anyio_backend: str) -> AsyncIterator[Connection]:
    """A connection to a database with many posts, most of them with ``の``."""
    chance = random.Random(7)
    letters = "今日雨降東京猫設計会社電車仕事写真散歩天気空海山川花火"
    async with postgres_engine(database_url) as engine:
        await engine.prepare(INDEXES)
        await put(
            engine,
            *(
                post(
                    f"{number:05}",
                    "".join(chance.choices(letters, k=30)) + ("の" if number % 3 else "") + f" word{number}",
                    createdAt=f"2025-{number % 12 + 1:02}-{number % 28 + 1:02}T{number % 24:02}:00:00Z",
                    sourceServer=f"s{number % 3}.example",
                )
                for number in range(ROWS)
            ),
        )
    opened = await asyncpg.connect(database_url)
    yield opened
    await opened.close()


def _plan(query: str = "", **fields: Any) -> TablePlan:
    request = SearchRequest(POSTS, query, sort=fields.pop("sort", NEWEST_FIRST), **fields)
    return plan_search(Table(BY_UID[POSTS]), request, parse_query(query))


def _best_step(plan: TablePlan) -> Span:
    span = plan.root
    while span.parts:
        span = span.parts[0]
    return span


async def _explain(connection: Connection, statement: Statement) -> list[dict[str, Any]]:
    """The nodes of the plan, as run."""
    async with connection.transaction():
        await connection.execute(load("indexer.engines.postgres", "statements.sql")["search_settings"])
        text = await connection.fetchval(
            f"explain (analyze, format json) {statement.sql}", *statement.arguments
        )
    return list(_nodes(msgspec.json.decode(text)[0]["Plan"]))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize(
    "plan",
    [
        _plan("の"),
        _plan(),
        _plan(sort=SortOrder("createdAt", descending=False)),
        _plan("の", filters={"sourceServer": "s1.example"}),
    ],
)
async def test_a_page_of_many_walks_the_order(
    connection: Connection, plan: TablePlan, analyzed: bool
) -> None:
    """The first page of much reads a few rows along the index of the order, with statistics or without."""
    if analyzed:
        await connection.execute("analyze search.concrnt_posts")
    nodes = await _explain(connection, plan.walked(_best_step(plan), None, missing=False, offset=0, limit=20))
    scans = [node for node in nodes if "Scan" in node["Node Type"]]
    assert [scan.get("Index Name") for scan in scans] == ["concrnt_posts_by_createdAt"]
    assert scans[0]["Actual Rows"] + scans[0].get("Rows Removed by Filter", 0) < ROWS / 10


@pytest.mark.parametrize(
    "plan", [_plan("word77"), _plan("猫設計会"), _plan("天気", filters={"sourceServer": "s1.example"})]
)
async def test_few_matches_come_through_the_search_index(connection: Connection, plan: TablePlan) -> None:
    """What matches little is fetched through the GIN index, words and filters together, and sorted."""
    await connection.execute("analyze search.concrnt_posts")
    nodes = await _explain(connection, plan.ranked(plan.root, None, 0, 20, BOUND + 1))
    assert "concrnt_posts_search" in {node.get("Index Name") for node in nodes}
    assert "Seq Scan" not in {node["Node Type"] for node in nodes}
