"""Reading logs again for single people: what a server's log may cost, and whom."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import TYPE_CHECKING

import pytest

from indexer.mirror.judging import read_again
from indexer.replication import rereading
from indexer.replication.trust import TrustMode
from indexer.simulation import faults
from indexer.simulation.faults import Endpoint
from indexer.simulation.scripted import ALPHA, BETA, SEED, entity, key_pair, post, post_key
from tests.integration.eventually import eventually
from tests.replication.network import stage
from tests.replication.stage import NOW

if TYPE_CHECKING:
    from typing import Any

    from tests.replication.network import Stage

pytestmark = pytest.mark.anyio
ALICE, BOB, EVE = key_pair("alice"), key_pair("bob"), key_pair("eve")
T0 = "2025-04-01T00:00:00Z"


async def _owe(on: Stage, domain: str, *owners: str) -> None:
    """These people's logs are due to be read again there."""
    for owner in owners:
        await on.mirror.database.execute(
            "insert into mirror.set_aside (owner, domain, seen_at, due_at) values ($1, $2, $3, $3)",
            owner,
            domain,
            on.clock(),
        )


async def _follow(on: Stage) -> None:
    await on.discovery.run()
    for domain in (ALPHA, BETA):
        await on.follow(domain)


def _endless(on: Stage, domain: str) -> list[str | None]:
    """A log that always names a further page; returns, growing, the places that were asked for."""
    asked: list[str | None] = []
    place = count(1)

    def page(request: Any) -> Any:
        asked.append(dict(request.query).get("since"))
        at = next(place)
        following = f"2025-03-01T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z"
        return faults.body(json.dumps({"items": [], "prev": None, "next": following}).encode())

    on[domain].faults.script(page, on=Endpoint.REPLICATION)
    return asked


async def _owing(on: Stage) -> set[str]:
    return {row["domain"] for row in await on.mirror.rows("select domain from mirror.set_aside")}


async def test_an_endless_log_costs_its_pages_an_hour_and_nobody_else(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on where it was, in each hour anew, whichever process does it; others' are read meanwhile."""
    monkeypatch.setattr(rereading, "PAGES_PER_VISIT", 5)
    monkeypatch.setattr(rereading, "PAGES_PER_SERVER_AND_HOUR", 12)
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.AUTHORITY) as on:
        on[BETA].receive(T0, entity(BOB, BETA), post(BOB, "1", "やあ"))
        await _follow(on)
        await on.mirror.database.execute("truncate mirror.records, mirror.retired")
        asked = _endless(on, ALPHA)
        await _owe(on, ALPHA, ALICE.ccid, EVE.ccid)
        await _owe(on, BETA, BOB.ccid)
        await on.residents.run_once()
        assert len(asked) == 5, "a visit"
        assert post_key(BOB, "1") in await on.mirror.keys()
        assert await _owing(on) == {ALPHA}
        while await on.another_residents().run_once():
            pass
        assert len(asked) == 12, "the hour's, also after a restart"
        on.clock.move(hours=1)
        while await on.another_residents().run_once():
            pass
        assert len(asked) == 24
        assert asked.count(None) == 2, "each of both logs begins once"
        assert len(set(asked)) == 23


async def test_a_slow_server_is_waited_for_once_and_rests(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many logs it owes: it is visited again after a quarter of an hour."""
    monkeypatch.setattr(rereading, "VISIT_SECONDS", 3.0)
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.AUTHORITY, request_timeout=60) as on:
        on[BETA].receive(T0, entity(BOB, BETA), post(BOB, "1", "やあ"))
        await _follow(on)
        before = len(on.asked(ALPHA))
        on[ALPHA].faults.always(faults.silence(), on=Endpoint.REPLICATION)
        await _owe(on, ALPHA, ALICE.ccid, EVE.ccid)
        await _owe(on, BETA, BOB.ccid)
        while await on.residents.run_once():
            pass
        assert await _owing(on) == {ALPHA}
        assert len(on.asked(ALPHA)) == before + 1
        on.clock.move(minutes=16)
        while await on.residents.run_once():
            pass
        assert len(on.asked(ALPHA)) == before + 2
        assert len(await on.mirror.rows("select 1 from mirror.set_aside")) == 2, "nothing is given up"


async def test_people_are_asked_about_while_a_log_is_read(database_url: str) -> None:
    """Whatever a server's log does: looking people up has a task of its own."""
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.AUTHORITY, request_timeout=60) as on:
        on.clock.now = NOW
        on[SEED].receive(T0, entity(BOB, BETA))
        await _follow(on)
        on[ALPHA].faults.always(faults.silence(), on=Endpoint.REPLICATION)
        await _owe(on, ALPHA, ALICE.ccid)
        await on.mirror.write(BETA, [post(BOB.ccid, "1", "やあ")])

        async def nobody_is_asked_about() -> bool:
            return not await on.mirror.rows("select 1 from mirror.unresolved")

        running = asyncio.create_task(on.residents.run())
        try:
            await eventually(nobody_is_asked_about)
        finally:
            running.cancel()
            await asyncio.wait([running], timeout=5)
        assert running.done()
        assert await _owing(on) == {ALPHA}


async def test_servers_are_visited_in_turn(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that owes ten thousand logs delays those after it by its visit."""
    monkeypatch.setattr(rereading, "SERVERS_AT_ONCE", 1)
    monkeypatch.setattr(rereading, "PAGES_PER_VISIT", 2)
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.AUTHORITY) as on:
        await _follow(on)
        await on.mirror.database.execute(
            "insert into mirror.set_aside (owner, domain, seen_at, due_at)"
            " select 'con1' || lpad(g::text, 38, '0'), $1, $2, $2 from generate_series(1, 10000) as g",
            ALPHA,
            on.clock(),
        )
        on.clock.move(minutes=1)
        await _owe(on, BETA, BOB.ccid)
        await on.residents.run_once()
        assert await on.residents.run_once()
        assert await _owing(on) == {ALPHA}


@pytest.mark.parametrize("pages_before", [0, 1])
async def test_what_is_due_anew_while_it_is_read_is_read_from_its_start(
    database_url: str, pages_before: int
) -> None:
    """A visit ends a log only where nobody said meanwhile that it is to be read again; so its first page."""
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.AUTHORITY) as on:
        await _follow(on)
        await _owe(on, ALPHA, ALICE.ccid)
        questions = on.residents._rereading._questions
        for _ in range(pages_before):
            owed = await questions.take_page(ALPHA, now=on.clock(), per_server_and_hour=9)
            assert owed is not None
            await questions.read_to(owed, T0, 1)
        owed = await questions.take_page(ALPHA, now=on.clock(), per_server_and_hour=9)
        assert owed is not None
        assert owed.read_to == (T0 if pages_before else None)
        async with on.mirror.database.connection() as connection:
            await read_again(connection, [(ALICE.ccid, ALPHA)], now=on.clock())
        await questions.read_to(owed, T0, 2)
        await questions.was_read_again(owed)
        assert await _owing(on) == {ALPHA}
        owed = await questions.take_page(ALPHA, now=on.clock(), per_server_and_hour=9)
        assert owed is not None
        assert owed.read_to is None
