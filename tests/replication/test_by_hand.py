"""Documents that are asked for by hand, against the order in which their server's feed is read."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.concrnt.documents import Commit
from indexer.mirror.pages import apply_changes
from indexer.replication.page import read_rows
from indexer.replication.trust import TrustMode
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    SEED,
    delete,
    document_address,
    entity,
    key_pair,
    post,
    post_key,
    profile_key,
    reference,
)
from tests.integration.eventually import eventually
from tests.replication.network import stage
from tests.replication.stage import NOW, SCHEMAS, Mirror, open_mirror
from tests.replication.test_crawl import by_hand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.mirror.changes import Changes
    from indexer.mirror.database import Connection

TIMES = [f"2025-03-01T00:00:0{second}Z" for second in range(10)]
HOME = f"cckv://{ALICE}/home/timeline"
SIGNING = key_pair("alice")


# --- any crawl, at any point of reading a log


@dataclass(frozen=True)
class Step:
    """One page of the log, or one document by hand."""

    begin: int
    end: int
    behind: int = 0
    by_hand: bool = False


def _commit(kind: str, key: str, text: str, at: str) -> bytes:
    match kind:
        case "delete":
            return delete(post_key(ALICE, key), author=ALICE, created_at=at)
        case "range":
            return delete(profile_key(ALICE) + "/posts/*", author=ALICE, created_at=at)
        case "tree":
            return delete(post_key(ALICE, key) + "*", author=ALICE, created_at=at)
        case "reference":
            return reference(HOME, post_key(ALICE, key), author=ALICE, name=text, created_at=at)
        case "unlisted":
            return delete(f"{HOME}/{text}", author=ALICE, created_at=at)
        case _:
            return post(ALICE, key, text, created_at=at)


_KINDS = ["put", "put", "put", "put", "reference", "reference", "delete", "range", "tree", "unlisted"]


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """One server's log; its createdAt goes up in half of them, and a commit may stand there twice."""
    size = draw(st.integers(1, 8))
    times = draw(st.lists(st.sampled_from(TIMES), min_size=size, max_size=size))
    if draw(st.booleans()):
        times.sort()
    log = [
        _commit(draw(st.sampled_from(_KINDS)), draw(st.sampled_from("ab")), draw(st.sampled_from("xyz")), at)
        for at in times
    ]
    return log + [log[place % size] for place in draw(st.lists(st.integers(0, 7), max_size=2))]


def _is_record(commit: bytes) -> bool:
    (row,) = read_rows([commit], now=NOW, indexed=SCHEMAS.malformed_kinds).rows
    return isinstance(row, Commit) and row.key is not None


@st.composite
def readings(draw: st.DrawFn, log: list[bytes]) -> list[Step]:
    """Pages in order, which may begin again anywhere before, and documents by hand between them."""
    records = [place for place, commit in enumerate(log) if _is_record(commit)]
    steps: list[Step] = []
    position = 0
    while True:
        if records:
            asked = draw(st.lists(st.sampled_from(records), max_size=3))
            steps += [Step(place, place + 1, by_hand=True) for place in asked]
        if position == len(log):
            return steps
        begin = position - draw(st.integers(0, position))
        end = draw(st.integers(position + 1, len(log)))
        steps.append(Step(begin, end, behind=position - begin))
        position = end


async def _by_hand(mirror: Mirror, commit: bytes, source: str = ALPHA) -> Changes:
    (row,) = read_rows([commit], now=NOW, indexed=SCHEMAS.malformed_kinds).rows
    assert isinstance(row, Commit)
    return await mirror.writer.write_one(row, source, now=NOW)


async def _state(mirror: Mirror) -> dict[str, Any]:
    return {
        "records": await mirror.rows(
            "select key, cdid, created_at, source, schema, href, ahead from mirror.records order by key"
        ),
        "retired": await mirror.rows("select key, cdid from mirror.retired order by key, cdid"),
        "deletes": await mirror.rows("select target, scope, cdid from mirror.tombstones order by 1, 2, 3"),
    }


@pytest.mark.timeout(300)
def test_any_document_by_hand_at_any_point_ends_in_the_state_of_reading_alone(database_url: str) -> None:
    """Whatever the page size and wherever a page begins again; also where createdAt does not go up."""
    with asyncio.Runner() as runner:
        opened = open_mirror(database_url)
        mirror = runner.run(opened.__aenter__())

        async def outcome(log: list[bytes], steps: Sequence[Step]) -> dict[str, Any]:
            await mirror.clear()
            for step in steps:
                if step.by_hand:
                    await _by_hand(mirror, log[step.begin])
                else:
                    await mirror.write(ALPHA, log[step.begin : step.end], behind=step.behind)
            return await _state(mirror)

        @settings(max_examples=150, deadline=None)
        @given(logs().flatmap(lambda log: st.tuples(st.just(log), readings(log))))
        def any_point(drawn: tuple[list[bytes], list[Step]]) -> None:
            log, steps = drawn
            alone = [step for step in steps if not step.by_hand]
            assert runner.run(outcome(log, steps)) == runner.run(outcome(log, alone))

        try:
            any_point()
        finally:
            runner.run(opened.__aexit__(None, None, None))


# --- what is asked for stays meanwhile


@pytest.mark.anyio
@pytest.mark.parametrize("trust", [TrustMode.OFF, TrustMode.AUTHORITY])
@pytest.mark.parametrize(
    "between", [[], [delete(post_key(SIGNING, "1"), author=SIGNING, created_at=TIMES[2])]]
)
async def test_what_was_just_written_is_there_while_the_log_catches_up(
    database_url: str, trust: TrustMode, between: list[bytes]
) -> None:
    """An edit, or a document that was deleted and made anew: before, during and after the backfill."""
    first = post(SIGNING, "1", "v1", created_at=TIMES[1])
    newest = post(SIGNING, "1", "v2", created_at=TIMES[3])
    async with stage(database_url, trust=trust) as on:
        on[SEED].relays = [on[ALPHA]]
        for at, commit in zip(TIMES, [entity(SIGNING, ALPHA), first, *between, newest], strict=False):
            on[ALPHA].receive(at, commit)
        await by_hand(on).crawl(document_address(newest, SIGNING))
        for _ in range(2):
            assert await on.mirror.value(post_key(SIGNING, "1")) == {"body": "v2"}
            await on.crawl()
        assert await on.mirror.value(post_key(SIGNING, "1")) == {"body": "v2"}
        again = await by_hand(on).crawl(document_address(newest, SIGNING))
        assert again.key == post_key(SIGNING, "1")
        assert await on.mirror.rows("select 1 from mirror.records where ahead") == []


@pytest.mark.anyio
@pytest.mark.parametrize("page", [1, 2, 3, 4])
async def test_a_copy_of_another_server_and_a_document_by_hand_are_settled_by_created_at(
    database_url: str, page: int
) -> None:
    """Whichever of the three comes first: the copy, the owner's own log, the document by hand."""
    log = [post(ALICE, "1", f"v{n}", created_at=TIMES[n]) for n in range(4)]
    async with open_mirror(database_url) as mirror:
        for copy in log:
            for ahead in log:
                await mirror.clear()
                await mirror.write(BETA, [copy])
                await _by_hand(mirror, ahead)
                for begin in range(0, len(log), page):
                    await mirror.write(ALPHA, log[begin : begin + page])
                assert await mirror.value(post_key(ALICE, "1")) == {"body": "v3"}


@pytest.mark.anyio
@pytest.mark.parametrize("copied", [None, 0, 1, 2])
async def test_a_log_that_is_read_again_before_the_feed_is_there_leaves_the_newest(
    database_url: str, copied: int | None
) -> None:
    """A copy elsewhere, documents by hand, the whole log read again for its owner, at last the feed."""
    log = [post(ALICE, "1", f"v{n}", created_at=TIMES[n]) for n in range(3)]
    gone = [*log, delete(post_key(ALICE, "1"), author=ALICE, created_at=TIMES[3])]
    async with open_mirror(database_url) as mirror:
        for feed, ahead in itertools.product((log, gone), ([], [0], [1], [2], [0, 1], [1, 0])):
            await mirror.clear()
            if copied is not None:
                await mirror.write(BETA, [log[copied]])
            for place in ahead:
                await _by_hand(mirror, log[place])
            rows = read_rows(feed, now=NOW, indexed=SCHEMAS.malformed_kinds).rows
            await mirror.writer.write_again(rows, ALPHA, now=NOW)
            for commit in feed:
                await mirror.write(ALPHA, [commit])
            stands = await mirror.value(post_key(ALICE, "1"))
            assert stands == ({"body": "v2"} if feed is log else None), (feed is log, ahead)


# --- two writers at once


@dataclass
class Held:
    """Holds the first writer between its planning and its statements."""

    planned: asyncio.Event
    go_on: asyncio.Event


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    real = apply_changes
    held = Held(asyncio.Event(), asyncio.Event())

    async def apply(connection: Connection, changes: Changes, **more: Any) -> None:
        if not held.planned.is_set():
            held.planned.set()
            await held.go_on.wait()
        await real(connection, changes, **more)

    monkeypatch.setattr("indexer.replication.writer.apply_changes", apply)
    return held


@pytest.mark.anyio
async def test_a_second_writer_of_a_source_does_not_put_an_older_document_over_a_newer_one(
    database_url: str, held: Held
) -> None:
    """It planned the key as new, and the feed has gone past its document meanwhile."""
    old, new = (post(ALICE, "1", text, created_at=at) for text, at in zip(("v1", "v2"), TIMES, strict=False))
    async with open_mirror(database_url) as mirror:
        rows = read_rows([old], now=NOW, indexed=SCHEMAS.malformed_kinds).rows
        again = asyncio.create_task(mirror.writer.write_again(rows, ALPHA, now=NOW))
        await held.planned.wait()
        await mirror.write(ALPHA, [old, new])
        held.go_on.set()
        await again
        assert await mirror.value(post_key(ALICE, "1")) == {"body": "v2"}


@pytest.mark.anyio
async def test_the_feed_waits_for_a_document_by_hand_of_its_owner(database_url: str, held: Held) -> None:
    """So planning by hand sees all that the feed has brought, also where createdAt does not go up."""
    log = [post(ALICE, "1", "v1", created_at=TIMES[5]), post(ALICE, "1", "v2", created_at=TIMES[1])]
    waiting = "select 1 from pg_locks where locktype = 'advisory' and not granted"
    async with open_mirror(database_url) as mirror:
        hand = asyncio.create_task(_by_hand(mirror, log[0]))
        await held.planned.wait()
        feed = asyncio.create_task(mirror.write(ALPHA, log))

        async def waits() -> bool:
            return bool(await mirror.rows(waiting))

        await eventually(waits)
        held.go_on.set()
        await asyncio.gather(hand, feed)
        assert await mirror.value(post_key(ALICE, "1")) == {"body": "v2"}
