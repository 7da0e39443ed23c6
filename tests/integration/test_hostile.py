"""A hostile server over real HTTP, the real house in `authority` mode: mirror and search hold the truth."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from indexer.replication import residents
from indexer.simulation.faults import Endpoint, hold
from indexer.simulation.hostile import Trick, all_forgeries, forgeries
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
    entity,
    key_pair,
    post,
    post_key,
    profile,
    reference,
    scripted_network,
)
from tests.integration.eventually import eventually
from tests.integration.house import running_house, settings_of

if TYPE_CHECKING:
    from indexer.config import Settings
    from indexer.simulation.scripted import ScriptedNetwork
    from tests.integration.house import Running

pytestmark = pytest.mark.anyio

MALLORY = "mallory.example"
DOMAINS = (SEED, ALPHA, BETA, MALLORY)
ALICE, BOB, EVE = key_pair("alice"), key_pair("bob"), key_pair("eve")
PHONE = Delegate(ALICE, key_pair("alice's phone"))
CATS = community_key(ALPHA, "cats")
THEN = "2025-04-01T00:00:00Z"
LATE = "2025-05-01T00:00:00Z"

OF_ALPHA = [
    entity(ALICE, ALPHA),
    PHONE.enactment(),
    profile(ALICE, username="ありす"),
    post(ALICE, "1", "やあ"),
    post(PHONE, "2", "電話から"),
    post(ALICE.ccid, "3", "昔の投稿"),
    post(ALICE, "4", "消した"),
    delete(post_key(ALICE, "4"), author=ALICE, created_at="2025-03-02T00:00:00Z"),
    community(ALPHA, "cats", author=ALICE, name="ねこ"),
    reference(CATS, post_key(ALICE, "1"), author=ALICE, name="r"),
    ack(ALICE, BOB),
    acked(BOB, ALICE),
]
OF_BETA = [
    entity(BOB, BETA),
    profile(BOB, username="ぼぶ"),
    post(BOB, "1", "こんにちは"),
    reference(CATS, post_key(BOB, "1"), author=BOB, name="b"),  # refused: Alpha's to log
    ack(BOB, ALICE),
    acked(ALICE, BOB),
]
OWN = [entity(EVE, MALLORY), profile(EVE, username="いぶ"), post(EVE, "1", "本物"), ack(EVE, ALICE)]
HONEST = [*OF_ALPHA, *OF_BETA]


def trusting(network: ScriptedNetwork, dsn: str, mode: str = "authority") -> Settings:
    settings = settings_of(SEED, network.host_overrides, dsn)
    trust = settings.trust.model_validate({"mode": mode})
    return settings.model_copy(update={"trust": trust})


async def what_people_see(running: Running) -> dict[str, Any]:
    """The mirror's public state, and every document of every search."""
    seen: dict[str, Any] = {
        "records": await running.rows("select key, cdid, source from mirror.records order by key"),
        "follows": await running.rows("select acker, ackee, valid from mirror.acks order by 1, 2"),
        "homes": await running.rows("select ccid, domain from mirror.entities where standing > 0 order by 1"),
        "deletes": await running.rows(
            "select target from mirror.tombstones where not only_author order by 1"
        ),
    }
    for kind in ("users", "communities", "posts"):
        hits = await running.search(kind)
        seen[kind] = sorted((hit["id"], hit["sourceServer"], str(hit.get("value"))) for hit in hits)
        seen[f"{kind} in words"] = sorted(
            str(hit.get(name)) for hit in hits for name in ("username", "name", "body") if name in hit
        )
    return seen


async def is_settled(running: Running) -> bool:
    """Nothing is open: nobody is to be asked, no log to be read again, all is searchable."""
    (open_,) = await running.rows(
        "select (select count(*) from mirror.unresolved where ask_at <= now())"
        " + (select count(*) from mirror.set_aside where due_at is not null) as number"
    )
    return open_["number"] == 0 and await running.is_drained(*DOMAINS)


async def the_truth(dsn: str) -> dict[str, Any]:
    async with scripted_network(*DOMAINS) as network:
        network[ALPHA].receive(THEN, *OF_ALPHA)
        network[BETA].receive(THEN, *OF_BETA)
        network[MALLORY].receive(THEN, *OWN)
        async with running_house(trusting(network, dsn)) as running:
            await eventually(lambda: is_settled(running))
            return await what_people_see(running)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents, "_ROUND_SECONDS", 0.1)


@pytest.mark.parametrize("comes_first", [True, False], ids=["hostile first", "hostile last"])
async def test_a_hostile_server_changes_nothing_that_people_see(
    database_url: str, second_database_url: str, *, comes_first: bool
) -> None:
    """Whatever it says of others, in words, deletes, follows and homes; its own residents are found."""
    expected = await the_truth(second_database_url)
    assert expected["posts in words"] == sorted(["やあ", "電話から", "昔の投稿", "こんにちは", "本物"])
    assert expected["users in words"] == sorted(["ありす", "ぼぶ", "いぶ"])
    tries = all_forgeries(HONEST, by=EVE, domain=MALLORY, at=LATE)
    async with scripted_network(*DOMAINS) as network:
        gate = asyncio.Event()
        later = (ALPHA, BETA) if comes_first else (MALLORY,)
        for domain in later:
            network[domain].faults.always(hold(gate), on=Endpoint.REPLICATION)
        network[ALPHA].receive(THEN, *OF_ALPHA)
        network[BETA].receive(THEN, *OF_BETA)
        network[MALLORY].receive(THEN, *tries, *OWN)
        network[SEED].receive(THEN, entity(ALICE, ALPHA), entity(BOB, BETA))
        async with running_house(trusting(network, database_url)) as running:
            await running.drained(*set(DOMAINS).difference(later))
            gate.set()
            await eventually(lambda: is_settled(running))
            for domain in DOMAINS:
                network[domain].faults.clear()
            assert await what_people_see(running) == expected
            await _is_seen(running, tries)


async def _is_seen(running: Running, tries: list[bytes]) -> None:
    """The operator sees who it was, how much of it, and why."""
    server = await running.server(MALLORY)
    assert server["distrusted"]
    assert server["rejected"] > len(tries) / 2
    assert not (await running.server(ALPHA))["distrusted"]
    letters = await running.rows("select domain, reason from mirror.dead_letters")
    reasons = {letter["reason"] for letter in letters if letter["domain"] == MALLORY}
    assert {"not_owner", "not_authoritative", "proof_failed"} & reasons
    samples = await running.metrics()
    by_reason = {
        dict(labels)["reason"]: value
        for (name, labels), value in samples.items()
        if name == "crawler_replication_rejected_total" and dict(labels)["server"] == MALLORY
    }
    assert sum(by_reason.values()) == server["rejected"]
    assert server["rejectedReason"] in by_reason


async def test_true_copies_elsewhere_are_accepted_and_replays_change_nothing(
    database_url: str, second_database_url: str
) -> None:
    """What carries a proof is the same wherever it is read; older versions and removed posts stay gone."""
    expected = await the_truth(second_database_url)
    copies = forgeries(OF_ALPHA, by=EVE, domain=MALLORY)[Trick.REPLAY]
    proven = [profile(ALICE, name="second", username="写し"), post(PHONE, "7", "写しから")]
    async with scripted_network(*DOMAINS) as network:
        network[ALPHA].receive(THEN, *OF_ALPHA)
        network[BETA].receive(THEN, *OF_BETA)
        network[MALLORY].receive(THEN, *OWN)
        async with running_house(trusting(network, database_url)) as running:
            await eventually(lambda: is_settled(running))
            network[MALLORY].receive("2025-04-02T00:00:00Z", *copies)
            await eventually(lambda: _has_read(running, MALLORY, len(OWN) + len(copies)))
            await eventually(lambda: is_settled(running))
            assert await what_people_see(running) == expected
            network[MALLORY].receive("2025-04-03T00:00:00Z", *proven)
            await eventually(lambda: running.bodies("写しから"), until=lambda bodies: "写しから" in bodies)
            names = {hit["username"] for hit in await running.search("users")}
            assert "写し" in names


async def _has_read(running: Running, domain: str, commits: int) -> bool:
    return bool((await running.server(domain)).get("commits", 0) >= commits)


@pytest.mark.parametrize(("mode", "found"), [("authority", {"昔の投稿", "やあ"}), ("strict", {"やあ"})])
async def test_what_has_no_proof_is_found_in_authority_and_not_in_strict(
    database_url: str, mode: str, found: set[str]
) -> None:
    """Content of the old network, on its owner's own server."""
    async with scripted_network(*DOMAINS) as network:
        network[ALPHA].receive(
            THEN, entity(ALICE, ALPHA), post(ALICE.ccid, "3", "昔の投稿"), post(ALICE, "1", "やあ")
        )
        async with running_house(trusting(network, database_url, mode)) as running:
            await eventually(lambda: is_settled(running))
            assert await running.bodies() == found


async def test_a_page_of_a_hundred_unknown_people_asks_nobody_inside_it_and_few_afterwards(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is searchable while the seed is not asked; then so many an hour, whatever the feed names."""
    monkeypatch.setattr(residents, "OWNERS_PER_FEED_AND_HOUR", 7)
    strangers = [key_pair(f"stranger {number}") for number in range(100)]
    async with scripted_network(*DOMAINS) as network:
        asked = network[SEED].requests_to
        gate = asyncio.Event()
        network[SEED].faults.always(hold(gate), on=Endpoint.RESOLVE)
        network[MALLORY].receive(THEN, *[profile(one.ccid, username="誰か") for one in strangers])
        async with running_house(trusting(network, database_url)) as running:
            await running.drained(MALLORY)
            assert len(await running.search("users")) == 100  # no answer was waited for
            gate.set()
            await eventually(lambda: _asked_and_answered(running), until=lambda open_: open_ == 93)
            assert len(asked(Endpoint.RESOLVE)) == 7
        async with running_house(trusting(network, database_url)) as running:
            # A restart gives the feed no more of them.
            await eventually(lambda: is_drained_again(running))
            assert len(asked(Endpoint.RESOLVE)) == 7


async def _asked_and_answered(running: Running) -> int:
    (row,) = await running.rows("select count(*) as number from mirror.unresolved where ask_at <= now()")
    return int(row["number"])


async def is_drained_again(running: Running) -> bool:
    """Whether the house has worked long enough to have asked: the feed was polled, and a round ended."""
    if running.house.residents is None:
        return False
    await running.house.residents.run_once()
    return await running.is_drained(MALLORY)
