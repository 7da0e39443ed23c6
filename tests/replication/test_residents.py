"""The errands in the background: outages in the middle of them, and what others make them cost."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import pytest

from indexer.mirror.database import StoreUnavailable
from indexer.replication.proving import FetchedDocuments
from indexer.replication.trust import TrustMode
from indexer.simulation.scripted import (
    ALPHA,
    BETA,
    GAMMA,
    SEED,
    Delegate,
    ack,
    delete,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
    reference,
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


# --- what waits for a document


def _with_proof(commit: bytes, proof: object) -> bytes:
    return msgspec.json.encode({**msgspec.json.decode(commit), "proof": proof})


_WRONG: list[object] = [7, None, [], {}]
UNREADABLE: list[object] = [
    *({"type": "x", "signature": wrong} for wrong in _WRONG),
    *({"type": "concrnt-ecrecover-direct", name: 7} for name in ("signature", "key", "href", "document")),
    *({"type": "concrnt-ecrecover-direct", "proof": wrong} for wrong in _WRONG),
    *("x", 7, [], ["x"], None, {}),
]


@pytest.mark.parametrize("proof", UNREADABLE)
async def test_a_proof_that_leans_on_what_is_not_to_be_read_ends_at_once(
    database_url: str, proof: object
) -> None:
    """The document counts where its author lives, whatever its proof is; nothing waits for what is there."""
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        await on.mirror.write(ALPHA, [entity(ALICE, ALPHA), _with_proof(post(ALICE, "1", "x"), proof)])
        assert await on.mirror.keys() == {post_key(ALICE, "1")}
        leaning = reference(f"cckv://{BOB.ccid}/home", post_key(ALICE, "1"), author=BOB)
        await on.mirror.write(GAMMA, [entity(BOB, ALPHA)])
        changes = await on.mirror.write(BETA, [leaning])
        assert sum(changes.tally.rejected.values()) == 1
        assert await on.mirror.rows("select 1 from mirror.waiting") == []
        assert not await on.residents.run_once()


@pytest.mark.parametrize("trust", [TrustMode.AUTHORITY, TrustMode.STRICT])
async def test_whatever_has_come_ends_the_waiting_for_it(database_url: str, trust: TrustMode) -> None:
    """Also where it can not be of use after all: one judging, and whatever is not accepted is buried."""
    async with stage(database_url, trust=trust) as on:
        on.clock.now = NOW
        await on.mirror.write(GAMMA, [entity(BOB, ALPHA)])
        leaning = reference(f"cckv://{BOB.ccid}/home", post_key(ALICE, "1"), author=BOB)
        await on.mirror.write(BETA, [leaning])
        (waits,) = await on.mirror.rows("select href from mirror.waiting")
        await on.mirror.write(ALPHA, [entity(ALICE, ALPHA), post(ALICE, "1", "x")])
        broken = "update mirror.records set signed = '{}' where key = $1"
        await on.mirror.database.execute(broken, waits["href"])
        assert await on.residents.run_once()
        assert await on.mirror.rows("select 1 from mirror.waiting") == []
        assert len(await on.mirror.rows("select 1 from mirror.dead_letters where domain = $1", BETA)) == 1
        assert not await on.residents.run_once()


async def test_what_can_not_be_proven_yet_is_worth_no_less_than_what_has_no_proof(database_url: str) -> None:
    """Of people whom nobody knows both are provisional; a subkey's is raised when its enactment comes."""
    said = {
        "posts": [post(PHONE, "1", "電話から"), post(ALICE.ccid, "2", "証明なし")],
        "follows": [ack(PHONE, BOB), ack(ALICE.ccid, EVE.ccid)],
    }
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        on.clock.now = NOW
        await on.mirror.write(ALPHA, [*said["posts"], *said["follows"]])
        before = await on.mirror.rows("select key, provisional from mirror.records order by key")
        assert before == [{"key": post_key(ALICE, number), "provisional": True} for number in "12"]
        follows = await on.mirror.rows("select provisional from mirror.acks")
        assert follows == [{"provisional": True}] * 2
        await on.mirror.write(GAMMA, [PHONE.enactment()])
        await on.residents.run_once()
        rows = await on.mirror.rows(
            "select key, provisional from mirror.records where key like '%/posts/%' order by key"
        )
        assert [row["provisional"] for row in rows] == [False, True]
        follows = await on.mirror.rows("select provisional from mirror.acks order by 1")
        assert follows == [{"provisional": False}, {"provisional": True}]
        assert await on.mirror.rows("select 1 from mirror.waiting") == []


@pytest.mark.parametrize("trust", [TrustMode.AUTHORITY, TrustMode.STRICT])
@pytest.mark.parametrize("lives", ["nobody knows where", "at home", "elsewhere"])
async def test_nothing_that_waited_goes_without_a_trace(
    database_url: str, trust: TrustMode, lives: str
) -> None:
    """After a week without the document it stands, as what has no proof does, or is counted and buried."""
    async with stage(database_url, trust=trust) as on:
        on.clock.now = NOW
        if lives != "nobody knows where":
            await on.mirror.write(GAMMA, [entity(ALICE, {"at home": ALPHA, "elsewhere": GAMMA}[lives])])
        commits = [post(PHONE, "1", "電話から"), delete(post_key(ALICE, "2"), author=PHONE), ack(PHONE, BOB)]
        await on.mirror.write(ALPHA, commits)
        for _ in range(8):
            on.clock.move(days=1)
            while await on.residents.run_once():
                pass
        assert await on.mirror.rows("select 1 from mirror.waiting") == []
        counts = trust is TrustMode.AUTHORITY and lives != "elsewhere"
        assert await on.mirror.keys() == ({post_key(ALICE, "1")} if counts else set())
        letters = await on.mirror.rows("select reason from mirror.dead_letters")
        assert len(letters) == (0 if counts else 3)
        assert sum(on.counts.rejected.values()) == len(letters)
        assert (await on.report(ALPHA)).rejected == len(letters)
