"""Any interleaving, repetition and delay of several servers' feeds ends in one mirror (section 3, rule 2)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    GAMMA,
    ack,
    delete,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
    reference,
)
from tests.replication.naive import NaiveNetwork
from tests.replication.stage import Mirror, open_mirror

Page = tuple[str, int, int, int]
"""(server, from, to, how many of its rows were read before)."""
SERVERS = (ALPHA, BETA, GAMMA)
BOB = key_pair("bob").ccid
START = datetime(2025, 3, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Said:
    """One commit, and the servers in whose feeds it stands."""

    commit: bytes
    on: tuple[str, ...]


def _commit(kind: str, key: str, text: str, at: int) -> bytes:
    created_at = (START + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%SZ")
    match kind:
        case "delete":
            return delete(post_key(ALICE, key), author=ALICE, created_at=created_at)
        case "range":
            return delete(profile_key(ALICE) + "/posts/*", author=ALICE, created_at=created_at)
        case "tree":
            return delete(post_key(ALICE, key) + "*", author=ALICE, created_at=created_at)
        case "profile":
            return profile(ALICE, username=text, created_at=created_at)
        case "ack" | "unack":
            return ack(ALICE, BOB, kind=kind, created_at=created_at)
        case _:
            return post(ALICE, key, text, created_at=created_at)


@st.composite
def networks(draw: st.DrawFn) -> list[Said]:
    """What was said, oldest first, as conforming servers log it: createdAt goes up along each log.

    Never twice the same: of equals a log's order decides within it and the CDID between servers.
    """
    kinds = st.sampled_from(["put", "put", "put", "delete", "range", "tree", "profile", "ack", "unack"])
    said = []
    at = 0
    for _ in range(draw(st.integers(1, 10))):
        at += draw(st.integers(1, 2))
        commit = _commit(draw(kinds), draw(st.sampled_from("ab")), draw(st.sampled_from("xyz")), at)
        on = draw(st.lists(st.sampled_from(SERVERS), min_size=1, max_size=3, unique=True))
        said.append(Said(commit, tuple(on)))
    return said


@st.composite
def readings(draw: st.DrawFn, said: list[Said]) -> list[Page]:
    """Pages in any order between the servers.

    Within a feed a page follows the one before it, or begins again anywhere before.
    """
    feeds = {server: [one for one in said if server in one.on] for server in SERVERS}
    position = dict.fromkeys(SERVERS, 0)
    pages = []
    while unfinished := [server for server in SERVERS if position[server] < len(feeds[server])]:
        server = draw(st.sampled_from(unfinished))
        begin = position[server] - draw(st.integers(0, position[server]))
        end = draw(st.integers(position[server] + 1, len(feeds[server])))
        pages.append((server, begin, end, position[server] - begin))
        position[server] = end
    return pages


async def _read(mirror: Mirror, said: list[Said], pages: list[Page]) -> None:
    for server, begin, end, behind in pages:
        feed = [one.commit for one in said if server in one.on]
        await mirror.write(server, feed[begin:end], behind=behind)


def _settled(seen: dict[str, Any]) -> dict[str, Any]:
    """All but the first createdAt: of a key that was edited after it came again it may be any edit's."""
    records = [{**row, "first_created_at": None} for row in seen["records"]]
    return {**seen, "records": records}


def _assert_of_this_life(records: list[dict[str, Any]], naive: NaiveNetwork) -> None:
    """A first createdAt is never of a life that a delete ended."""
    lives = naive.earliest()
    for row in records:
        assert lives[row["key"]] <= row["first_created_at"] <= row["created_at"], row["key"]


async def _seen(mirror: Mirror) -> dict[str, Any]:
    """What must be the same whatever the order, and the first createdAt."""
    return {
        "records": await mirror.rows(
            "select key, cdid, created_at, first_created_at from mirror.records order by key"
        ),
        "acks": await mirror.rows("select acker, ackee, valid, created_at from mirror.acks order by 1, 2"),
        "deletes": await mirror.rows(
            "select distinct target, scope, cdid from mirror.tombstones order by 1, 3"
        ),
    }


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["delete", "range", "tree", "reference"])
@pytest.mark.parametrize("page_size", [1, 3])
async def test_a_late_delete_ends_the_life_before(database_url: str, kind: str, page_size: int) -> None:
    """Read last, it takes the first createdAt that a copy of before it left; the document is made again."""
    said = [_commit("put", "a", "x", 1), _commit("put" if kind == "reference" else kind, "a", "x", 2)]
    newest = _commit("put", "a", "y", 3)
    if kind == "reference":
        where, href = "cckv://alpha.example/concrnt.world/communities/c", post_key(ALICE, "a")
        said[0], newest = (
            reference(where, href, author=ALICE, name="1", created_at=f"2025-03-01T00:00:0{at}Z")
            for at in (1, 3)
        )
        said[1] = _commit("delete", "a", "", 2)
    async with open_mirror(database_url) as mirror:
        await mirror.write(BETA, [newest])
        await mirror.database.execute("truncate mirror.projection_queue")
        for start in range(0, len(said), page_size):
            await mirror.write(GAMMA, said[start : start + page_size])
        (row,) = await mirror.rows("select first_created_at, created_at, schema from mirror.records")
        assert row["first_created_at"] == row["created_at"] == START + timedelta(seconds=3)
        marked = await mirror.rows("select key from mirror.projection_queue")
        assert len(marked) == (kind != "reference")


@pytest.mark.timeout(300)
def test_any_order_of_feeds_ends_as_the_naive_model(database_url: str) -> None:
    """Copies and deletes of the same keys on three servers, read interleaved, repeated and late."""
    with asyncio.Runner() as runner:
        opened = open_mirror(database_url)
        mirror = runner.run(opened.__aenter__())

        async def outcome(said: list[Said], pages: list[Page]) -> dict[str, Any]:
            await mirror.clear()
            await _read(mirror, said, pages)
            return await _seen(mirror)

        @settings(max_examples=25, deadline=None)
        @given(networks().flatmap(lambda said: st.tuples(st.just(said), readings(said), readings(said))))
        def any_order(drawn: tuple[list[Said], list[Page], list[Page]]) -> None:
            said, one, other = drawn
            seen = runner.run(outcome(said, one))
            again = runner.run(outcome(said, other))
            assert _settled(again) == _settled(seen)
            naive = NaiveNetwork()
            for each in said:
                naive.hear(each.commit)
            assert {(row["key"], row["cdid"]) for row in seen["records"]} == naive.standing()
            _assert_of_this_life([*seen["records"], *again["records"]], naive)
            assert {row["valid"] for row in seen["acks"]} == naive.follows()

        try:
            any_order()
        finally:
            runner.run(opened.__aexit__(None, None, None))
