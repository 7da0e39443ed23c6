"""The errands in the background: outages in the middle of them, and what others make them cost."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING

import pytest

from indexer.mirror.database import StoreUnavailable
from indexer.replication.proving import FetchedDocuments
from indexer.replication.trust import TrustMode
from indexer.simulation.scripted import (
    ALPHA,
    BETA,
    SEED,
    Delegate,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
)
from tests.replication.network import stage
from tests.replication.stage import NOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.mirror.database import Connection
    from tests.replication.network import Stage

pytestmark = pytest.mark.anyio
ALICE, BOB, EVE = key_pair("alice"), key_pair("bob"), key_pair("eve")
PHONE = Delegate(ALICE, key_pair("alice's phone"))
T0 = "2025-04-01T00:00:00Z"


# --- outages


async def _much_to_do(on: Stage) -> None:
    """Something for each errand: people known to the seed and not, a log to read again, a subkey to fetch."""
    await on.mirror.clear()
    assert on.mirror.judge is not None
    on.mirror.judge.prover.fetched = on.residents._fetched = FetchedDocuments()
    on.clock.now = NOW
    await on.discovery.run()
    await on.follow(ALPHA)
    await on.mirror.database.execute("truncate mirror.records, mirror.retired")
    await on.mirror.write(SEED, [entity(ALICE, ALPHA)])
    await on.mirror.write(BETA, [post(PHONE, "1", "電話から"), *(profile(who.ccid) for who in (BOB, EVE))])
    await on.mirror.database.execute(
        "insert into mirror.set_aside (owner, domain, seen_at, due_at) values ($1, $2, $3, $3)",
        ALICE.ccid,
        ALPHA,
        on.clock(),
    )


async def test_an_outage_at_any_statement_of_a_round_ends_no_loop_and_loses_nothing(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between taking who is to be asked and storing the answers, where many are under way at once."""
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.AUTHORITY) as on:
        on[SEED].receive(T0, entity(BOB, BETA))
        on[ALPHA].receive(T0, PHONE.enactment(), post(ALICE, "2", "やあ"))
        real = on.mirror.database.connection
        left = 0

        @asynccontextmanager
        async def connection() -> AsyncIterator[Connection]:
            nonlocal left
            left -= 1
            if left < 0:
                raise StoreUnavailable("away")
            async with real() as opened:
                yield opened

        for number in count():
            monkeypatch.setattr(on.mirror.database, "connection", real)
            await _much_to_do(on)
            residents = on.another_residents()
            left = number
            monkeypatch.setattr(on.mirror.database, "connection", connection)
            try:
                await residents.run_once()
            except StoreUnavailable:
                monkeypatch.setattr(on.mirror.database, "connection", real)
                while await residents.run_once():
                    pass
            else:
                break
            keys = {post_key(ALICE, "1"), post_key(ALICE, "2"), profile_key(BOB.ccid), profile_key(EVE.ccid)}
            assert keys <= await on.mirror.keys()
            open_still = await on.mirror.rows("select owner from mirror.unresolved")
            assert open_still == [{"owner": EVE.ccid}]
        assert number > 10
