"""Cursors that nobody gave: whatever is forged, it is refused or leads somewhere, and raises nothing else."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace

import msgspec
import pytest

from indexer.engines.base import InvalidCursor, SearchRequest, SortOrder
from indexer.engines.indexes import INDEXES, POSTS, USERS
from indexer.engines.postgres.cursors import Position, write_cursor
from tests.engines.conftest import postgres_engine
from tests.engines.samples import NEWEST_FIRST, post, put, user

pytestmark = pytest.mark.anyio

BOUND = 20
REQUESTS = (
    SearchRequest(POSTS, "hello world", sort=NEWEST_FIRST),
    SearchRequest(POSTS, "hello"),
    SearchRequest(POSTS, "", sort=SortOrder("createdAt", descending=False)),
    SearchRequest(USERS, "hello", sort=SortOrder("activityScore")),
    SearchRequest(USERS, "hello", sort=SortOrder("postCount7d", descending=False)),
    SearchRequest(USERS, "", sort=SortOrder("username")),
)
RANKS = (0, 1, 7, 100, 2**31 - 1, 2**31, -1, 10**30, 1.5, "x", None)
VALUES: tuple[object, ...] = (
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2025-01-01", "2025-01-01T00:00:00+00:00"),
    *("infinity", "", "a" * 2_900, "x\0", 1, 2**63, -(2**63), 10**30, 0.5, 1e308, None, True, [], {"a": 1}),
)
KEYS = ("", "a", "z" * 2_900, "a\0", None, 5)


def _forged(request: SearchRequest, *parts: object) -> str:
    """A cursor with the right seal that says something else."""
    genuine = write_cursor(request, Position(0, None, "x" * 20))
    (seal, *_) = msgspec.json.decode(urlsafe_b64decode(genuine + "=" * (-len(genuine) % 4)))
    return urlsafe_b64encode(msgspec.json.encode([seal, *parts])).rstrip(b"=").decode()


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: f"{request.index} {request.query}")
async def test_forged_cursors(database_url: str, request_: SearchRequest) -> None:
    """Any rank, value and key, over results below and above the bound."""
    refused = 0
    async with postgres_engine(database_url, BOUND) as engine:
        await engine.prepare(INDEXES)
        await put(
            engine,
            *(post(f"{number}", "hello world") for number in range(BOUND * 2)),
            *(
                user(
                    profile=f"{number}", username=f"hello {number}", activityScore=number, postCount7d=number
                )
                for number in range(BOUND * 2)
            ),
        )
        forged = [
            *(_forged(request_, rank, value, "a") for rank in RANKS for value in VALUES),
            *(_forged(request_, 0, value, key) for value in VALUES for key in KEYS),
        ]
        for cursor in forged:
            try:
                await engine.search(replace(request_, cursor=cursor))
            except InvalidCursor:
                refused += 1
    assert 0 < refused < len(forged)
