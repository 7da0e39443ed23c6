"""Trust (behaviour.md, section 4): a hostile server tries everything; what is true is kept."""

from __future__ import annotations

import asyncio
import time
from itertools import permutations
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.concrnt.proofs import check_commit
from indexer.mirror.context import Needs, lock_owners
from indexer.replication import residents
from indexer.replication.page import read_rows
from indexer.replication.trust import TrustMode
from indexer.simulation import schemas as wire
from indexer.simulation.faults import Endpoint
from indexer.simulation.network import Network
from indexer.simulation.scripted import (
    ALPHA,
    BETA,
    SEED,
    Delegate,
    ack,
    acked,
    community,
    community_key,
    delete,
    document_address,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
    record,
    reference,
    signed,
)
from indexer.simulation.signing import direct_proof
from tests.replication.network import START, stage
from tests.replication.stage import NOW, SCHEMAS, open_mirror

if TYPE_CHECKING:
    from indexer.concrnt.documents import Commit
    from indexer.concrnt.keys import KeyPair
    from indexer.concrnt.proofs import ProofFault, Resolver
    from tests.replication.stage import Mirror

pytestmark = pytest.mark.anyio

MALLORY = "mallory.example"
ALICE, BOB, EVE = key_pair("alice"), key_pair("bob"), key_pair("eve")
PHONE = Delegate(ALICE, key_pair("alice's phone"))
OLD = "2025-02-01T00:00:00Z"
LATE = "2025-05-01T00:00:00Z"


def forged(commit: bytes, by: KeyPair = EVE) -> bytes:
    """The commit, its document as it is, signed by somebody else."""
    text = msgspec.json.decode(commit)["document"]
    return signed(text, proof=direct_proof(text, by))


TRUTH = [
    entity(ALICE, ALPHA),
    profile(ALICE, username="ありす"),
    post(ALICE, "1", "やあ"),
    post(ALICE, "2", "どうも"),
    community(ALPHA, "cats", author=ALICE, name="ねこ"),
    reference(community_key(ALPHA, "cats"), post_key(ALICE, "1"), author=ALICE, name="r"),
    ack(ALICE, BOB),
]
OWN = [entity(EVE, MALLORY), profile(EVE, username="いぶ"), post(EVE, "1", "本物")]


def attacks() -> dict[str, list[bytes]]:
    """What a hostile server says, by what it tries; each unproven and signed by its own key."""
    plain = ALICE.ccid
    tries = {
        "profile": profile(plain, username="偽物", created_at=LATE),
        "post": post(plain, "9", "偽物", created_at=LATE),
        "edit": post(plain, "1", "偽物", created_at=LATE),
        "community": community(ALPHA, "cats", author=plain, name="偽物", created_at=LATE),
        "reference": reference(
            community_key(ALPHA, "cats"), post_key(EVE, "1"), author=EVE, name="x", created_at=LATE
        ),
        "exact delete": delete(post_key(ALICE, "1"), author=plain, created_at=LATE),
        "range delete": delete(f"{profile_key(ALICE)}*", author=plain, created_at=LATE),
        "document delete": delete(document_address(TRUTH[2], ALICE), author=plain, created_at=LATE),
        "community delete": delete(f"{community_key(ALPHA, 'cats')}*", author=plain, created_at=LATE),
        "unack": ack(plain, BOB.ccid, kind="unack", created_at=LATE),
        "ack": ack(plain, EVE.ccid, created_at=LATE),
        "acked": acked(plain, EVE.ccid, created_at=LATE),
        "unacked": acked(plain, BOB.ccid, kind="unacked", created_at=LATE),
        "newer entity": entity(plain, MALLORY, created_at=LATE),
        "older entity": entity(plain, MALLORY, created_at=OLD),
    }
    return {name: [commit, forged(commit)] for name, commit in tries.items()}


def by_her_own_name() -> list[bytes]:
    """Deletes of another's keys that the hostile signs as herself, which the proofs of hold."""
    return [
        delete(post_key(ALICE, "1"), author=EVE, created_at=LATE),
        delete(f"{profile_key(ALICE)}*", author=EVE, created_at=LATE),
        delete(document_address(TRUTH[2], ALICE), author=EVE, created_at=LATE),
        record(post_key(ALICE, "1"), {"body": "x"}, author=EVE, schema=wire.MARKDOWN, created_at=LATE),
        community(ALPHA, "cats", author=EVE, name="x", created_at=LATE),
    ]


async def visible(mirror: Mirror) -> dict[str, Any]:
    """What anybody sees: records, follows and homes, and nothing of how they came to be."""
    return {
        "records": await mirror.rows("select key, cdid, source from mirror.records order by key"),
        "acks": await mirror.rows("select acker, ackee, valid from mirror.acks order by 1, 2"),
        "homes": await mirror.rows("select ccid, domain from mirror.entities where standing > 0 order by 1"),
    }


async def truth(dsn: str) -> dict[str, Any]:
    async with open_mirror(dsn, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, TRUTH)
        await mirror.write(MALLORY, OWN)
        seen = await visible(mirror)
        await mirror.clear()
        return seen


@pytest.mark.parametrize("attack", [*attacks(), "in her own name"])
async def test_a_hostile_server_changes_nothing_of_others(database_url: str, attack: str) -> None:
    """Read after the truth or again and again, each try is rejected, counted and buried; its own is kept."""
    commits = attacks().get(attack) or by_her_own_name()
    expected = await truth(database_url)
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, TRUTH)
        changes = await mirror.write(MALLORY, [*OWN, *commits])
        assert await visible(mirror) == expected
        limited = 1 if attack == "in her own name" else 0  # a range of her own records is hers to delete
        assert sum(changes.tally.rejected.values()) == len(commits) - limited
        for _ in range(2):
            await mirror.write(MALLORY, [*OWN, *commits], behind=len(OWN) + len(commits))
        assert await visible(mirror) == expected
        (counted,) = await mirror.rows(
            "select rejected, (select count(*) from mirror.dead_letters) as letters from mirror.servers"
            " where domain = $1",
            MALLORY,
        )
        assert counted == {"rejected": len(commits) - limited, "letters": len(commits) - limited}


@pytest.mark.parametrize("page_size", [1, 3, 100])
async def test_a_hostile_server_that_comes_first_changes_nothing_either(
    database_url: str, page_size: int
) -> None:
    """What it said before anybody knew where Alice lives is withdrawn once she is known to live elsewhere."""
    commits = [*OWN, *[commit for tries in attacks().values() for commit in tries], *by_her_own_name()]
    expected = await truth(database_url)
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        for start in range(0, len(commits), page_size):
            await mirror.write(MALLORY, commits[start : start + page_size])
        claimed = await mirror.rows(
            "select domain, standing from mirror.entities where ccid = $1", ALICE.ccid
        )
        assert claimed == [{"domain": MALLORY, "standing": 0}]
        asked = await mirror.rows("select owner from mirror.unresolved")
        assert asked == [{"owner": ALICE.ccid}]
        for start in range(0, len(TRUTH), page_size):
            await mirror.write(ALPHA, TRUTH[start : start + page_size])
        assert await visible(mirror) == expected
        assert await mirror.rows("select owner from mirror.unresolved") == []
        left = await mirror.rows("select target from mirror.tombstones where provisional")
        assert left == []


async def test_replayed_true_commits_change_nothing(database_url: str) -> None:
    """Old true commits on another server: older versions, deleted posts, a former home."""
    moved = [
        entity(ALICE, MALLORY, created_at=OLD),
        profile(ALICE, username="v1", created_at=OLD),
        post(ALICE, "3", "消した", created_at=OLD),
        ack(ALICE, BOB, created_at=OLD),
    ]
    log = [*TRUTH, delete(post_key(ALICE, "3"), author=ALICE), ack(ALICE, BOB, kind="unack", created_at=LATE)]
    for feeds in permutations([(ALPHA, log), (MALLORY, moved)]):
        async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
            await mirror.clear()
            for source, commits in feeds:
                await mirror.write(source, commits)
            assert await mirror.value(profile_key(ALICE)) == {"username": "ありす"}
            assert post_key(ALICE, "3") not in await mirror.keys()
            assert (await visible(mirror))["acks"] == [
                {"acker": ALICE.ccid, "ackee": BOB.ccid, "valid": False}
            ]
            assert (await visible(mirror))["homes"] == [{"ccid": ALICE.ccid, "domain": ALPHA}]


async def test_true_copies_on_another_server_are_accepted_by_proof(database_url: str) -> None:
    """Signed by the person or a subkey; posts, deletes, follows; whether the home is known or not."""
    copies = [
        PHONE.enactment(),
        post(ALICE, "1", "やあ"),
        post(PHONE, "2", "電話から"),
        post(ALICE, "3", "消す"),
        delete(post_key(ALICE, "3"), author=PHONE, created_at=LATE),
        ack(ALICE, BOB),
        acked(PHONE, EVE),
        reference(f"cckv://{ALICE.ccid}/t", post_key(ALICE, "1"), author=ALICE, name="r"),
    ]
    for known in (False, True):
        async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
            await mirror.clear()
            if known:
                await mirror.write(ALPHA, [entity(ALICE, ALPHA)])
            changes = await mirror.write(BETA, copies)
            assert changes.tally.rejected == {}
            provisional = await mirror.rows("select key from mirror.records where provisional")
            assert provisional == []
            assert {post_key(ALICE, "1"), post_key(ALICE, "2")} <= await mirror.keys()
            assert post_key(ALICE, "3") not in await mirror.keys()
            assert len((await visible(mirror))["acks"]) == 2


async def test_what_has_no_proof_counts_on_its_owners_server_but_not_in_strict(database_url: str) -> None:
    """Content that moved over from the old network carries `none`."""
    commits = [
        entity(ALICE, ALPHA),
        profile(ALICE.ccid, username="ありす"),
        post(ALICE.ccid, "1", "古い"),
        post(ALICE, "2", "新しい"),
        community(ALPHA, "cats", author=ALICE.ccid, name="ねこ"),
    ]
    for mode, keys in (
        (TrustMode.AUTHORITY, 4),
        (TrustMode.STRICT, 1),
    ):
        async with open_mirror(database_url, mode) as mirror:
            await mirror.clear()
            changes = await mirror.write(ALPHA, commits)
            assert len(await mirror.keys()) == keys
            assert changes.tally.rejected == ({} if mode is TrustMode.AUTHORITY else {"no_proof": 3})


async def test_strict_still_asks_who_may_write_where(database_url: str) -> None:
    """A proof says who wrote it; a foreign server can not put even a proven document under another's key."""
    async with open_mirror(database_url, TrustMode.STRICT) as mirror:
        await mirror.write(ALPHA, [entity(ALICE, ALPHA), post(ALICE, "1", "やあ")])
        changes = await mirror.write(MALLORY, by_her_own_name())
        assert changes.tally.rejected == {"not_owner": 4}
        assert await mirror.keys() == {post_key(ALICE, "1")}


async def test_a_range_delete_by_somebody_else_takes_their_own_records_only(database_url: str) -> None:
    """Bob cleans up after himself in Alpha's community, from another server; nobody else loses anything."""
    cats = community_key(ALPHA, "cats")
    mine = reference(cats, post_key(BOB, "1"), author=BOB, name="bob")
    hers = reference(cats, post_key(ALICE, "1"), author=ALICE, name="alice")
    swept = delete(f"{cats}/*", author=BOB, created_at=LATE)
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, [community(ALPHA, "cats", author=ALICE, name="ねこ"), mine, hers])
        await mirror.write(BETA, [entity(BOB, BETA), swept])
        assert await mirror.keys() == {cats, f"{cats}/alice"}
        # The same delete in the log of the owner's own server takes the rest.
        await mirror.write(ALPHA, [swept])
        assert await mirror.keys() == {cats}


async def test_an_exact_delete_by_the_records_author_is_theirs_to_make(database_url: str) -> None:
    """On any server, with a proof; of somebody else's record it is rejected."""
    cats = community_key(ALPHA, "cats")
    references = [
        reference(cats, post_key(BOB, "1"), author=BOB, name="bob"),
        reference(cats, post_key(ALICE, "1"), author=ALICE, name="alice"),
    ]
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, references)
        changes = await mirror.write(
            BETA, [delete(f"{cats}/{name}", author=BOB, created_at=LATE) for name in ("bob", "alice")]
        )
        assert changes.tally.rejected == {"not_owner": 1}
        assert await mirror.keys() == {f"{cats}/alice"}


async def test_nobodys_server_key_gives_authority_when_two_claim_it(database_url: str) -> None:
    """A CSID is a claim: alone it counts, shared it counts for neither."""
    key = f"cckv://{key_pair(ALPHA).csid}/notice"
    notice = record(key, {}, author=key_pair(ALPHA).csid, schema="https://example.com/x.json")
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        for domain in (ALPHA, MALLORY):
            await mirror.write(domain, [])
        claim = "update mirror.servers set csid = $1 where domain = $2"
        await mirror.database.execute(claim, key_pair(ALPHA).csid, ALPHA)
        await mirror.write(MALLORY, [notice])
        assert await mirror.keys() == set()
        await mirror.write(ALPHA, [notice])
        assert await mirror.keys() == {key}
        await mirror.database.execute(claim, key_pair(ALPHA).csid, MALLORY)
        changes = await mirror.write(MALLORY, [delete(key, author=key_pair(ALPHA).csid, created_at=LATE)])
        assert changes.tally.rejected == {"not_authoritative": 1}


async def test_a_move_takes_authority_along(database_url: str) -> None:
    """Proven, it counts from any server and from its row on; the old server has no say any more."""
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(
            ALPHA,
            [
                entity(ALICE, ALPHA),
                post(ALICE.ccid, "1", "引っ越す前"),
                entity(ALICE, BETA, created_at=LATE),
                post(ALICE.ccid, "2", "引っ越した後", created_at=LATE),
            ],
        )
        assert await mirror.keys() == {post_key(ALICE, "1")}
        await mirror.write(BETA, [post(ALICE.ccid, "3", "新居", created_at=LATE)])
        assert await mirror.keys() == {post_key(ALICE, "1"), post_key(ALICE, "3")}


# --- people of whom nobody knows where they live ---------------------------------------------------


async def test_unknown_people_are_looked_up_through_the_seed_and_false_claims_withdrawn(
    database_url: str,
) -> None:
    """A page of a hundred unknown owners asks nobody inside the page; the truth comes out later."""
    strangers = [key_pair(f"stranger {number}") for number in range(100)]
    async with stage(database_url, SEED, ALPHA, BETA, MALLORY, trust=TrustMode.AUTHORITY) as at:
        at[MALLORY].receive(
            "2025-04-01T00:00:00Z",
            *[profile(one.ccid, username="偽物", created_at=LATE) for one in strangers],
        )
        at[SEED].receive("2025-04-01T00:00:00Z", *[entity(one, ALPHA) for one in strangers[:50]])
        await at.discovery.run()
        await at.follow(MALLORY)
        assert len(await at.mirror.keys()) == 100
        assert at[SEED].requests_to(Endpoint.RESOLVE) == []
        at[ALPHA].receive(
            "2025-04-01T00:00:00Z", *[profile(one.ccid, username="本物") for one in strangers[:50]]
        )
        await at.follow(ALPHA)  # it finds the places taken: nobody knows who is right
        while await at.residents.run_once():
            pass
        await at.residents.run_once()
        for number, one in enumerate(strangers):
            name = "本物" if number < 50 else "偽物"
            assert await at.mirror.value(profile_key(one)) == {"username": name}
        assert len(at[SEED].requests_to(Endpoint.RESOLVE)) == 100
        assert at.counts.rejected["withdrawn"] == 50
        assert (await at.report(MALLORY)).rejected == 50
        # "Unknown" is remembered for a day, also when another feed names them.
        at.clock.move(hours=22)
        at[BETA].receive("2025-04-02T00:00:00Z", *[profile(one.ccid, username="x") for one in strangers[50:]])
        await at.follow(BETA)
        await at.residents.run_once()
        assert len(at[SEED].requests_to(Endpoint.RESOLVE)) == 100
        at.clock.move(hours=2)
        await at.residents.run_once()
        assert len(at[SEED].requests_to(Endpoint.RESOLVE)) == 150


async def test_look_ups_of_people_keep_to_the_budget_of_their_feed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A feed that names ever new people costs so many requests an hour, and other feeds none of theirs."""
    monkeypatch.setattr(residents, "OWNERS_PER_FEED_AND_HOUR", 10)
    async with stage(database_url, SEED, ALPHA, MALLORY, trust=TrustMode.AUTHORITY) as at:
        await at.discovery.run()
        for domain, count in ((MALLORY, 40), (ALPHA, 5)):
            people = [key_pair(f"{domain} {number}") for number in range(count)]
            at[domain].receive("2025-04-01T00:00:00Z", *[profile(one.ccid, username="x") for one in people])
            await at.follow(domain)
        for rounds, asked in ((5, 15), (5, 15)):
            for _ in range(rounds):
                await at.residents.run_once()
            assert len(at[SEED].requests_to(Endpoint.RESOLVE)) == asked
        at.clock.move(hours=1)
        for _ in range(3):
            await at.residents.run_once()
        assert len(at[SEED].requests_to(Endpoint.RESOLVE)) == 25


async def test_a_feed_that_names_everybody_makes_nobody_wait_whom_others_name_too(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alice is asked about at the expense of her own server's feed; nobody is asked about twice."""
    monkeypatch.setattr(residents, "OWNERS_PER_FEED_AND_HOUR", 2)
    people = [ALICE, *[key_pair(f"stranger {number}") for number in range(20)]]
    async with stage(database_url, SEED, ALPHA, MALLORY, trust=TrustMode.AUTHORITY) as at:
        await at.discovery.run()
        at[MALLORY].receive("2025-04-01T00:00:00Z", *[profile(one.ccid, username="偽物") for one in people])
        await at.follow(MALLORY)
        await at.mirror.database.execute(
            "update mirror.unresolved set ask_at = ask_at + interval '1 second' where owner = $1", ALICE.ccid
        )
        at.clock.move(minutes=1)
        await at.residents.run_once()
        at[ALPHA].receive("2025-04-01T00:00:00Z", profile(ALICE.ccid, username="ありす"))
        await at.follow(ALPHA)
        at[SEED].receive("2025-04-01T00:00:00Z", entity(ALICE, ALPHA))
        while await at.residents.run_once():
            pass
        assert await at.mirror.value(profile_key(ALICE)) == {"username": "ありす"}
        assert len(at[SEED].requests_to(Endpoint.RESOLVE)) == 3
        left = await at.mirror.rows("select 1 from mirror.unresolved where owner = $1", ALICE.ccid)
        assert left == []


async def test_neither_a_restart_nor_another_process_begins_a_budget_anew(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People and subkeys alike: what a feed may cause in its hour is one number, whoever asks."""
    monkeypatch.setattr(residents, "OWNERS_PER_FEED_AND_HOUR", 4)
    monkeypatch.setattr(residents, "ENACTMENTS_PER_FEED_AND_HOUR", 3)
    phones = [Delegate(ALICE, key_pair(f"phone {number}")) for number in range(20)]
    strangers = [profile(key_pair(f"stranger {number}").ccid, username="x") for number in range(20)]
    async with stage(database_url, SEED, ALPHA, MALLORY, trust=TrustMode.AUTHORITY) as at:
        await at.discovery.run()
        await at.mirror.write(SEED, [entity(ALICE, ALPHA)])
        await at.follow(ALPHA)
        leaning = [post(phone, str(number), "x") for number, phone in enumerate(phones)]
        at[MALLORY].receive("2025-04-01T00:00:00Z", *strangers, *leaning)
        await at.follow(MALLORY)
        for hour in (1, 2):
            async with asyncio.TaskGroup() as group:
                for one in (at.residents, at.another_residents(), at.another_residents()):
                    group.create_task(one.run_once())
            await at.another_residents().run_once()
            assert len(at[SEED].requests_to(Endpoint.RESOLVE)) == 4 * hour
            assert len(at[ALPHA].requests_to(Endpoint.RESOLVE)) == 3 * hour
            at.clock.move(hours=1)


async def test_the_seeds_answer_makes_the_right_servers_words_count_in_full(database_url: str) -> None:
    """Deletes, edits and follows that were held back by another server's false ones are read again."""
    alice = ALICE.ccid
    async with stage(database_url, SEED, ALPHA, MALLORY, trust=TrustMode.AUTHORITY) as at:
        await at.discovery.run()
        at[MALLORY].receive(
            "2025-04-01T00:00:00Z",
            profile(alice, username="偽物", created_at=LATE),
            post(alice, "1", "偽物", created_at=LATE),
            post(alice, "2", "偽物", created_at=LATE),
            delete(post_key(alice, "3"), author=alice, created_at=LATE),
            ack(alice, BOB, kind="unack", created_at=LATE),
        )
        await at.follow(MALLORY)
        at[ALPHA].receive(
            "2025-04-01T00:00:00Z",
            profile(alice, username="ありす"),
            post(alice, "1", "一"),
            post(alice, "3", "三"),
            post(alice, "2", "二"),
            delete(post_key(alice, "2"), author=alice, created_at="2025-03-02T00:00:00Z"),
            ack(alice, BOB),
        )
        await at.follow(ALPHA)
        at[SEED].receive("2025-04-01T00:00:00Z", entity(ALICE, ALPHA))
        for _ in range(3):
            await at.residents.run_once()
        assert await at.mirror.value(profile_key(alice)) == {"username": "ありす"}
        assert await at.mirror.keys() == {profile_key(alice), post_key(alice, "1"), post_key(alice, "3")}
        assert await at.mirror.value(post_key(alice, "1")) == {"body": "一"}
        assert (await visible(at.mirror))["acks"] == [{"acker": alice, "ackee": BOB.ccid, "valid": True}]
        left = await at.mirror.rows("select 1 from mirror.records where provisional")
        assert left == []


async def test_a_subkey_is_looked_up_at_its_owners_own_server_and_remembered(database_url: str) -> None:
    """In the background; who brings the proof is never asked; absent is remembered too."""
    said = post(PHONE, "1", "電話から")
    other = Delegate(BOB, key_pair("bob's phone"))
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.AUTHORITY) as at:
        at[ALPHA].receive("2025-04-01T00:00:00Z", PHONE.enactment())
        await at.discovery.run()
        await at.follow(ALPHA)
        await at.mirror.database.execute("truncate mirror.records")  # as if it had not been read yet
        await at.mirror.write(SEED, [entity(ALICE, ALPHA), entity(BOB, ALPHA)])
        at[BETA].receive("2025-04-01T00:00:00Z", said, post(PHONE, "2", "x"), post(other, "1", "y"))
        await at.follow(BETA)
        assert await at.mirror.keys() == set()
        assert at.counts.rejected == {}
        await at.residents.run_once()
        assert await at.mirror.keys() == {post_key(ALICE, "1"), post_key(ALICE, "2")}
        assert (await at.report(BETA)).rejected == 1
        asked = len(at[ALPHA].requests_to(Endpoint.RESOLVE))
        assert asked == 2
        assert at[BETA].requests_to(Endpoint.RESOLVE) == []
        at[BETA].receive("2025-04-02T00:00:00Z", post(PHONE, "3", "x"), post(other, "2", "y"))
        await at.follow(BETA)
        assert post_key(ALICE, "3") in await at.mirror.keys()
        assert len(at[ALPHA].requests_to(Endpoint.RESOLVE)) == asked
        assert at.counts.rejected == {"proof_failed": 2}
        assert (await at.report(BETA)).rejected == 2
        assert await at.mirror.rows("select 1 from mirror.waiting") == []


async def test_in_strict_a_reference_waits_for_its_post(database_url: str) -> None:
    """The post lives on another server, whose feed may be read later."""
    cats = community_key(ALPHA, "cats")
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.STRICT) as at:
        await at.discovery.run()
        at[ALPHA].receive("2025-04-01T00:00:00Z", reference(cats, post_key(BOB, "1"), author=BOB, name="r"))
        await at.follow(ALPHA)
        assert at.counts.rejected == {}
        await at.residents.run_once()
        assert await at.mirror.keys() == set()
        at[BETA].receive("2025-04-01T00:00:00Z", entity(BOB, BETA), post(BOB, "1", "やあ"))
        await at.follow(BETA)
        await at.residents.run_once()
        assert await at.mirror.keys() == {post_key(BOB, "1"), f"{cats}/r"}
        assert await at.mirror.rows("select 1 from mirror.waiting") == []


async def test_a_well_behaved_network_ends_the_same_in_every_mode(database_url: str) -> None:
    """Subkeys, distributed posts, derived follows, deletes: nothing true is refused."""
    network = Network.generate(seed="trust", servers=3, commits=1500, end=START)
    states = {}
    for mode in TrustMode:
        servers = network.servers.values()
        async with stage(database_url, *servers, trust=mode, seed=network.seed_domain) as at:
            await at.crawl()
            while await at.residents.run_once():
                pass
            assert at.counts.rejected == {}
            assert {(await at.report(domain)).rejected for domain in network.servers} == {0}
            assert await at.mirror.rows("select key from mirror.records where provisional") == []
            states[mode] = await visible(at.mirror)
            del states[mode]["homes"]  # in `off` none is sure
            await at.mirror.clear()
    assert states[TrustMode.AUTHORITY] == states[TrustMode.OFF]
    # A reference to a post that was deleted before the reference was read can not be proven any more.
    keys = {mode: {row["key"] for row in state["records"]} for mode, state in states.items()}
    assert keys[TrustMode.STRICT] <= keys[TrustMode.OFF]
    assert len(keys[TrustMode.STRICT]) > 0.98 * len(keys[TrustMode.OFF])
    assert states[TrustMode.STRICT]["acks"] == states[TrustMode.OFF]["acks"]


# --- orders, and the loop --------------------------------------------------------------------------

_slow_checks = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


async def _any_order(dsn: str, hostile: list[bytes], order: list[int], page: int) -> None:
    async with open_mirror(dsn, TrustMode.AUTHORITY) as mirror:
        await mirror.clear()
        for commits in (TRUTH, OWN):
            await mirror.write(ALPHA if commits is TRUTH else MALLORY, commits)
        expected = await visible(mirror)
        await mirror.clear()
        feeds = {ALPHA: list(TRUTH), MALLORY: [*hostile, *OWN]}
        for choice in [*order, *([0] * len(TRUTH)), *([1] * (len(hostile) + len(OWN)))]:
            source = (ALPHA, MALLORY)[choice]
            now, feeds[source] = feeds[source][:page], feeds[source][page:]
            if now:
                await mirror.write(source, now)
        assert await visible(mirror) == expected


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@_slow_checks
@given(
    hostile=st.lists(
        st.sampled_from([c for tries in attacks().values() for c in tries] + by_her_own_name()), max_size=8
    ),
    order=st.lists(st.integers(0, 1), max_size=12),
    page=st.integers(1, 4),
)
def test_no_order_of_arrival_lets_a_foreign_server_in(
    database_url: str, anyio_backend: str, hostile: list[bytes], order: list[int], page: int
) -> None:
    """Whatever it says and whenever it is read, the state is that of the truth and of its own residents."""
    anyio.run(_any_order, database_url, hostile, order, page)


async def test_checking_many_proofs_never_holds_up_the_event_loop(database_url: str) -> None:
    """Two thousand signatures in one page, and no task waits for more than 50 ms of work because of them.

    Told by the processor time of the loop's thread: other programs on the machine do not lengthen it.
    """
    commits = [post(ALICE, str(number), "やあ") for number in range(2000)]
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - before)

    async with open_mirror(database_url, TrustMode.STRICT) as mirror:
        judge = mirror.judge
        assert judge is not None
        rows = read_rows(commits, now=NOW, indexed=SCHEMAS.malformed_kinds).rows
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.01)
        async with mirror.database.connection() as connection:
            judgement = await judge.judge(connection, rows, ALPHA, now=NOW)
        watching.cancel()
        assert len(judgement.verdicts) == 2000
        assert longest < 0.05


_WAITERS = "select from pg_locks where locktype = 'advisory' and not granted"


@pytest.mark.parametrize(
    ("mode", "ahead"),
    [
        (TrustMode.AUTHORITY, [entity(ALICE, ALPHA), acked(ALICE, BOB)]),
        (TrustMode.STRICT, [entity(ALICE, ALPHA), profile(ALICE), post(ALICE, "1", "x"), acked(ALICE, BOB)]),
    ],
)
async def test_what_is_proven_in_any_case_is_proven_before_anybody_waits_for_its_owners(
    database_url: str, mode: TrustMode, ahead: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a page whose owners are locked elsewhere, and not once more in its turn; what leans waits."""
    page = [*ahead, acked(PHONE, EVE)]
    checked: list[str] = []
    real = check_commit

    def check(commit: Commit, resolve: Resolver) -> ProofFault | None:
        checked.append(commit.document)
        return real(commit, resolve)

    monkeypatch.setattr("indexer.replication.proving.check_commit", check)
    async with open_mirror(database_url, mode) as mirror:
        await mirror.write(BETA, [])
        async with mirror.database.connection() as other, other.transaction():
            await lock_owners(other, Needs(settled_owners={ALICE.ccid}))
            writing = asyncio.create_task(mirror.write(BETA, page))
            with anyio.fail_after(10):
                while not await mirror.rows(_WAITERS):
                    pass  # asking is what others get their turn by
            assert checked == [msgspec.json.decode(one)["document"] for one in ahead]
        await writing
        assert len(checked) == len(page)
        assert {row["ackee"] for row in await mirror.rows("select ackee from mirror.acks")} == {BOB.ccid}
