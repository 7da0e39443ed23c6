"""The errands in the background: outages in the middle of them, and what others make them cost."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from indexer.mirror import trust as questions
from indexer.mirror.context import Needs, lock_owners
from indexer.mirror.database import StoreUnavailable
from indexer.replication.proving import FetchedDocuments
from indexer.replication.residents import WAITING_FOR
from indexer.replication.trust import TrustMode
from indexer.simulation import faults
from indexer.simulation.faults import Endpoint
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
    from collections.abc import AsyncIterator, Iterable

    from indexer.concrnt.keys import KeyPair
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
                on.clock.move(minutes=16)
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


async def test_an_outage_of_where_a_subkey_lives_buries_nothing(database_url: str) -> None:
    """It is asked again after a minute, and less and less often; after weeks it still counts."""
    async with stage(database_url, trust=TrustMode.STRICT) as on:
        on.clock.now = NOW
        await on.discovery.run()
        await on.follow(ALPHA)
        await on.mirror.write(GAMMA, [entity(ALICE, ALPHA)])
        await on.mirror.write(BETA, [post(PHONE, "1", "電話から")])
        on[ALPHA].faults.always(faults.status(503), on=Endpoint.RESOLVE)
        asked = []
        for minutes in (0, 1, 2, 4, 8, 60 * 24 * 8, 1):
            on.clock.move(minutes=minutes)
            await on.residents.run_once()
            asked.append(len(on[ALPHA].requests_to(Endpoint.RESOLVE)))
        assert asked == [1, 2, 3, 4, 5, 6, 6]
        assert await on.mirror.rows("select 1 from mirror.dead_letters") == []
        on[ALPHA].faults.clear()
        on[ALPHA].receive(T0, PHONE.enactment())
        on.clock.move(hours=1)
        while await on.residents.run_once():
            pass
        assert await on.mirror.keys() == {post_key(ALICE, "1")}


async def test_what_no_longer_fits_among_what_waits_is_counted_and_buried(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it stands meanwhile: nothing goes without a trace."""
    monkeypatch.setattr(questions, "WAITING_PER_SERVER", 2)
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        await on.mirror.write(GAMMA, [entity(ALICE, GAMMA)])
        await on.mirror.write(BETA, [post(PHONE, number, "電話から") for number in "123"])
        await on.mirror.database.execute("update mirror.waiting set seen_at = seen_at - interval '1 hour'")
        await on.mirror.write(BETA, [post(PHONE, number, "電話から") for number in "45"])
        assert len(await on.mirror.rows("select 1 from mirror.waiting")) == 2
        letters = await on.mirror.rows("select domain, reason from mirror.dead_letters")
        assert letters == [{"domain": BETA, "reason": "unknown_document"}] * 3
        assert (await on.report(BETA)).rejected == 3


async def test_what_postgresql_refuses_of_what_waited_costs_itself_alone(database_url: str) -> None:
    """The others are judged, and the loop goes on."""
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        on.clock.now = NOW
        await on.mirror.write(GAMMA, [entity(ALICE, GAMMA)])
        await on.mirror.write(BETA, [post(PHONE, name, "電話から") for name in ("1", "refused", "2")])
        await on.mirror.write(ALPHA, [post(PHONE, "3", "電話から")])
        await on.mirror.database.execute(
            "alter table mirror.records add constraint refuses check (key not like '%refused')"
        )
        await on.mirror.write(GAMMA, [PHONE.enactment()])
        assert await on.residents.run_once()
        assert {post_key(ALICE, number) for number in "123"} <= await on.mirror.keys()
        assert await on.mirror.rows("select 1 from mirror.waiting") == []
        letters = await on.mirror.rows("select domain, reason from mirror.dead_letters")
        assert letters == [{"domain": BETA, "reason": "not_storable"}]
        assert on.counts.rejected == {"not_storable": 1}
        assert [(await on.report(domain)).rejected for domain in (ALPHA, BETA)] == [0, 1]
        assert not await on.residents.run_once()


# --- people of whom nobody knows


def _said_of(people: Iterable[KeyPair]) -> list[bytes]:
    """Of each a post, a follow, and a delete, none of them proven."""
    return [
        commit
        for who in people
        for commit in (
            post(who.ccid, "1", "x"),
            ack(who.ccid, EVE),
            delete(post_key(who, "2"), author=who.ccid),
        )
    ]


async def _standing_without_question(on: Stage) -> list[dict[str, Any]]:
    """What is provisional, and leads to no question about its owner."""
    return await on.mirror.rows(
        "select * from ("
        " select owner, source from mirror.records where provisional"
        " union all select acker, source from mirror.acks where provisional"
        " union all select owner, source from mirror.tombstones where provisional) as p"
        " where not exists (select from mirror.unresolved u where u.owner = p.owner and u.domain = p.source)"
    )


async def test_however_many_people_a_server_makes_up_a_bounded_number_stands(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stood of the others goes with the questions about them, counted; other feeds lose nothing."""
    monkeypatch.setattr(questions, "QUESTIONS_PER_SERVER", 3)
    made_up = [key_pair(f"made up {number}") for number in range(12)]
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        on.clock.now = NOW
        await on.mirror.write(ALPHA, [*_said_of([ALICE, BOB]), post(made_up[0].ccid, "3", "同じ人")])
        honest = "select key, cdid from mirror.records where source = $1 order by key"
        before = await on.mirror.rows(honest, ALPHA)
        withdrawn = 0
        for start in range(0, 12, 4):
            people = made_up[start : start + 4]
            changes = await on.mirror.write(BETA, _said_of([*people, BOB] if start == 0 else people))
            withdrawn += changes.withdrawn.get(BETA, 0)
            open_of = "select count(*) as number from mirror.unresolved where domain = $1"
            assert await on.mirror.rows(open_of, BETA) == [{"number": 3}]
            assert await _standing_without_question(on) == []
        assert await on.mirror.rows(honest, ALPHA) == before
        assert await on.mirror.rows(open_of, ALPHA) == [{"number": 3}]
        gone = await on.mirror.rows("select owner from mirror.set_aside where domain = $1", BETA)
        kept = await on.mirror.rows("select owner from mirror.unresolved where domain = $1", BETA)
        named = {who.ccid for who in (*made_up, BOB)}
        assert {row["owner"] for row in gone} >= named - {row["owner"] for row in kept}
        letters = "select kind, count(*) as number from mirror.dead_letters group by kind order by kind"
        counts = {row["kind"]: row["number"] for row in await on.mirror.rows(letters)}
        assert counts.keys() == {"ack", "commit", "delete"}
        assert sum(counts.values()) == withdrawn == (await on.report(BETA)).rejected
        marked = {row["key"] for row in await on.mirror.rows("select key from mirror.projection_queue")}
        assert {post_key(who, "1") for who in made_up} <= marked


async def test_who_no_longer_fitted_gets_their_things_once_their_home_is_known(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their server's log is read again for them."""
    monkeypatch.setattr(questions, "QUESTIONS_PER_SERVER", 2)
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        await on.discovery.run()
        on[BETA].receive(T0, post(ALICE.ccid, "1", "やあ"), ack(ALICE.ccid, EVE))
        await on.follow(BETA)
        assert await on.mirror.keys() == {post_key(ALICE, "1")}
        on[BETA].receive("2025-04-02T00:00:00Z", *_said_of(key_pair(f"made up {name}") for name in "12"))
        await on.follow(BETA, after=timedelta(hours=1))
        assert post_key(ALICE, "1") not in await on.mirror.keys()
        follow = "select provisional from mirror.acks where acker = $1"
        assert await on.mirror.rows(follow, ALICE.ccid) == []
        on.clock.now = NOW
        await on.mirror.write(GAMMA, [entity(ALICE, BETA)])
        while await on.residents.run_once():
            pass
        standing = "select provisional from mirror.records where key = $1"
        assert await on.mirror.rows(standing, post_key(ALICE, "1")) == [{"provisional": False}]
        assert await on.mirror.rows(follow, ALICE.ccid) == [{"provisional": False}]


async def test_what_was_said_of_follows_is_kept_no_longer_than_who_is_set_aside(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is set aside is bounded as well; what belongs to open questions stays."""
    monkeypatch.setattr(questions, "QUESTIONS_PER_SERVER", 2)
    monkeypatch.setattr(questions, "SET_ASIDE_PER_SERVER", 2)
    made_up = [key_pair(f"made up {number}") for number in range(9)]
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        for who in made_up:
            await on.mirror.database.execute(
                "update mirror.unresolved set met_at = met_at - interval '1 hour'"
            )
            await on.mirror.database.execute(
                "update mirror.set_aside set seen_at = seen_at - interval '1 hour'"
            )
            await on.mirror.write(BETA, [ack(who.ccid, EVE)])
        standing = await on.mirror.rows("select acker from mirror.acks")
        assert {row["acker"] for row in standing} == {who.ccid for who in made_up[-2:]}
        said = await on.mirror.rows("select acker from mirror.provisional_acks")
        assert {row["acker"] for row in said} == {who.ccid for who in made_up[-5:]}


async def test_of_whom_the_seed_knew_nothing_is_dropped_first(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was not asked about yet keeps their place, though they came before."""
    monkeypatch.setattr(questions, "QUESTIONS_PER_SERVER", 2)
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.AUTHORITY) as on:
        on.clock.now = NOW
        await on.discovery.run()
        await on.mirror.write(BETA, [profile(EVE.ccid)])
        assert await on.residents.run_once()
        await on.mirror.database.execute("update mirror.unresolved set met_at = met_at + interval '1 hour'")
        await on.mirror.write(BETA, [profile(ALICE.ccid), profile(BOB.ccid)])
        assert await on.mirror.keys() == {profile_key(ALICE.ccid), profile_key(BOB.ccid)}


async def test_a_follow_that_one_feed_tells_no_more_stands_by_the_word_of_another(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever said it first does not take it along."""
    monkeypatch.setattr(questions, "QUESTIONS_PER_SERVER", 1)
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        await on.mirror.write(BETA, [ack(ALICE.ccid, EVE)])
        await on.mirror.write(ALPHA, [ack(ALICE.ccid, EVE)])
        await on.mirror.database.execute("update mirror.unresolved set met_at = met_at - interval '1 hour'")
        await on.mirror.write(BETA, [profile(BOB.ccid)])
        follows = await on.mirror.rows("select source, provisional from mirror.acks")
        assert follows == [{"source": ALPHA, "provisional": True}]


async def test_a_page_waits_for_nobody_whose_question_no_longer_fits(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another page is at work on them their question stays, and goes with the next page."""
    monkeypatch.setattr(questions, "QUESTIONS_PER_SERVER", 1)
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        await on.mirror.write(BETA, [profile(ALICE.ccid)])
        await on.mirror.database.execute("update mirror.unresolved set met_at = met_at - interval '1 hour'")
        async with on.mirror.database.connection() as other, other.transaction():
            await lock_owners(other, Needs(owners={ALICE.ccid}))
            await on.mirror.write(BETA, [profile(BOB.ccid)])
            assert profile_key(ALICE.ccid) in await on.mirror.keys()
            assert await _standing_without_question(on) == []
        await on.mirror.write(BETA, [post(BOB.ccid, "1", "x")])
        assert await on.mirror.keys() == {profile_key(BOB.ccid), post_key(BOB, "1")}


async def test_people_are_not_asked_about_twice_when_a_crash_comes_between(database_url: str) -> None:
    """Who was taken to be asked about is due again in a quarter of an hour only."""
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        on.clock.now = NOW
        await on.mirror.write(BETA, [profile(who.ccid) for who in (BOB, EVE)])

        async def taken() -> int:
            return len(
                await on.residents._questions.take_owners_to_ask(now=on.clock(), limit=9, per_feed_and_hour=9)
            )

        assert [await taken(), await taken()] == [2, 0]
        on.clock.move(minutes=15)
        assert await taken() == 2


async def test_an_enactment_is_asked_for_where_a_moved_server_is(database_url: str) -> None:
    """A page that was under way during the move may have stored the old name."""
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        on.clock.now = NOW
        await on.discovery.run()
        await on.follow(ALPHA)
        on[ALPHA].receive(T0, PHONE.enactment())
        await on.mirror.database.execute("insert into mirror.moves values ('old.example', $1, now())", ALPHA)
        await on.mirror.write(GAMMA, [entity(ALICE, ALPHA)])
        await on.mirror.database.execute("update mirror.entities set domain = 'old.example'")
        await on.mirror.write(BETA, [post(PHONE, "1", "電話から")])
        while await on.residents.run_once():
            pass
        assert await on.mirror.keys() == {post_key(ALICE, "1")}


async def test_who_waits_in_hundreds_of_thousands_costs_the_others_nothing(database_url: str) -> None:
    """A round looks at the first of each server by an index, whatever else is open."""
    async with stage(database_url, trust=TrustMode.AUTHORITY) as on:
        on.clock.now = NOW
        await on.mirror.database.execute(
            "insert into mirror.unresolved (owner, domain, met_at, ask_at)"
            " select 'con1' || lpad(g::text, 38, '0'), $1, $2, $2 from generate_series(1, 50000) as g",
            BETA,
            NOW,
        )
        await on.mirror.database.execute(
            "insert into mirror.waiting (domain, digest, href, is_enactment, commit, seen_at)"
            " select $1, sha256(g::text::bytea), 'cckv://nobody.example/' || g, false, '{}', $2"
            " from generate_series(1, 50000) as g",
            BETA,
            NOW,
        )
        await on.mirror.database.execute("analyze mirror.unresolved, mirror.waiting")
        for name, arguments in (
            ("take_owners_to_ask", (NOW, 200, 500)),
            ("take_enactments_to_fetch", (NOW, 100, 300)),
            ("no_longer_waiting", (1000, [], NOW - WAITING_FOR, b"1")),
        ):
            statement = f"explain (analyze, buffers, format json) {questions._SQL[name]}"
            (row,) = await on.mirror.rows(statement, *arguments)
            plan = msgspec.json.decode(row["QUERY PLAN"])[0]["Plan"]
            blocks = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            assert blocks < 6000, name
            assert not any(_reads_all(part) for part in _parts(plan)), name


def _parts(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(part for child in plan.get("Plans", ()) for part in _parts(child))]


def _reads_all(part: dict[str, Any]) -> bool:
    tables = ("unresolved", "waiting")
    return part["Node Type"] == "Seq Scan" and part.get("Relation Name") in tables


async def test_an_enactment_is_asked_for_as_soon_as_it_is_known_where_its_owner_lives(
    database_url: str,
) -> None:
    """Nobody knew at first: what was put off for that is due at once."""
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.STRICT) as on:
        on.clock.now = NOW
        on[ALPHA].receive(T0, PHONE.enactment())
        await on.discovery.run()
        await on.follow(ALPHA)
        await on.mirror.database.execute("truncate mirror.records, mirror.retired")
        await on.mirror.write(BETA, [post(PHONE, "1", "電話から")])
        await on.residents.run_once()
        assert await on.mirror.keys() == set()
        await on.mirror.write(ALPHA, [entity(ALICE, ALPHA)])
        await on.residents.run_once()
        assert await on.mirror.keys() == {post_key(ALICE, "1")}
