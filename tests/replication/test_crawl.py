"""The manual crawl (behaviour.md, section 7): one document, asked for by hand."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpcore
import pytest

from indexer.concrnt.client import PeerClient
from indexer.instruments import Instruments
from indexer.mirror.knowledge import Knowledge
from indexer.observability.metrics import Metrics
from indexer.replication import crawl as crawling
from indexer.replication.crawl import Crawled, CrawlError, CrawlFault, ManualCrawl
from indexer.replication.feeds import Feeds
from indexer.replication.trust import TrustMode
from indexer.simulation import faults
from indexer.simulation import schemas as wire
from indexer.simulation.faults import Endpoint
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    GAMMA,
    SEED,
    Author,
    Delegate,
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
    scripted_server,
)
from tests.replication.network import LAYER, Stage, stage
from tests.replication.stage import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

pytestmark = pytest.mark.anyio
T0, T1, T2 = (f"2025-03-01T00:00:0{second}Z" for second in range(3))
SIGNING = key_pair("alice")
PHONE = Delegate(SIGNING, key_pair("alice's phone"))
CDID = "06ae2wq8y1c5h4n9m3k7r0t2yz"


def by_hand(on: Stage, feeds: Feeds | None = None, *, layer: str = LAYER, seconds: float = 5) -> ManualCrawl:
    """What crawls by hand, on the stage's mirror and network."""
    judge = on.mirror.judge
    return ManualCrawl(
        feeds or on.schedule._feeds,
        on.mirror.servers,
        Knowledge(on.mirror.database),
        on.mirror.writer,
        judge.prover.fetched if judge is not None else None,
        seed=SEED,
        layer=layer,
        schemas=SCHEMAS,
        clock=on.clock,
        seconds=seconds,
    )


async def refused(crawl: ManualCrawl, uri: str) -> CrawlFault:
    """Why a crawl is refused; fails when it is not."""
    with pytest.raises(CrawlError) as raised:
        await crawl.crawl(uri)
    return raised.value.fault


def address(commit: bytes, owner: Author = ALICE) -> str:
    return document_address(commit, owner)


# --- what is indexed


@pytest.mark.parametrize("trust", TrustMode)
async def test_a_document_is_fetched_from_where_its_owner_lives(database_url: str, trust: TrustMode) -> None:
    """By the mirror's knowledge where there is any, else by the seed's; judged in every mode."""
    async with stage(database_url, trust=trust) as on:
        on[SEED].relays = [on[ALPHA]]
        written = post(SIGNING, "1", "やあ")
        on[ALPHA].receive(T0, entity(SIGNING, ALPHA), written, profile(SIGNING, username="ありす"))
        uri = address(written, SIGNING)
        done = await by_hand(on).crawl(uri)
        key = post_key(SIGNING, "1")
        assert done == Crawled("post", wire.MARKDOWN, key, key, uri, ALPHA)
        assert await on.mirror.keys() == {key}
        await on.crawl()
        again = await by_hand(on).crawl(uri)
        assert again == done
        asked = len(on[SEED].requests_to(Endpoint.RESOLVE))
        main = address(profile(SIGNING, username="ありす"), SIGNING)
        flat = main.replace("/concrnt/", "/")
        assert (await by_hand(on).crawl(flat)).kind == "user"
        assert len(on[SEED].requests_to(Endpoint.RESOLVE)) == asked
        rows = await on.mirror.rows("select key, source, provisional from mirror.records order by key")
        assert [(row["source"], row["provisional"]) for row in rows] == [(ALPHA, False), (ALPHA, False)]


async def test_a_community_is_fetched_from_the_domain_that_owns_it(database_url: str) -> None:
    """Also of a server that nobody has named yet; it does not become known by that."""
    async with stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.AUTHORITY) as on:
        made = community(BETA, "cats", author=ALICE, name="ねこ")
        on[BETA].receive(T0, made)
        done = await by_hand(on).crawl(address(made, BETA))
        assert (done.kind, done.key, done.source_server) == ("community", community_key(BETA, "cats"), BETA)
        assert await on.mirror.rows("select 1 from mirror.servers") == []


async def test_what_a_proof_leans_on_is_fetched_too(database_url: str) -> None:
    """In `strict` mode a document that a subkey signed needs the subkey's enactment."""
    async with stage(database_url, trust=TrustMode.STRICT) as on:
        on[SEED].relays = [on[ALPHA]]
        written = post(PHONE, "1", "電話から")
        on[ALPHA].receive(T0, entity(SIGNING, ALPHA), PHONE.enactment(), written)
        assert (await by_hand(on).crawl(address(written, SIGNING))).source_server == ALPHA
        assert await on.mirror.rows("select 1 from mirror.waiting") == []


async def test_a_crawl_is_counted_with_no_server_and_marks_what_changed(database_url: str) -> None:
    """The feed will bring the same document, and counts it then."""
    async with stage(database_url) as on:
        await on.crawl()
        written = community(ALPHA, "cats", author=ALICE, name="ねこ")
        on[ALPHA].receive(T0, written)
        await by_hand(on).crawl(address(written, ALPHA))
        assert (await on.report(ALPHA)).commits == 0
        marks = await on.mirror.rows("select key from mirror.projection_queue where key like 'cckv:%'")
        assert marks == [{"key": community_key(ALPHA, "cats")}]
        await on.follow(ALPHA)
        assert (await on.report(ALPHA)).commits == 1


# --- what is older or gone (C09, C11)


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_deleted_document_stays_deleted(database_url: str, keeps: bool) -> None:
    """C09: whether or not its server still shows it, and though nobody has seen it before."""
    server = scripted_server(ALPHA, keeps_deleted_documents=keeps)
    async with stage(database_url, SEED, server) as on:
        gone, never_seen = post(ALICE, "1", "消えた"), post(ALICE, "2", "見えない")
        on[ALPHA].receive(T0, entity(ALICE, ALPHA), gone, never_seen)
        on[ALPHA].receive(T1, delete(profile_key(ALICE) + "/*", author=ALICE, created_at=T1))
        await on.crawl()
        before = await on.mirror.state()
        for commit in (gone, never_seen):
            fault = await refused(by_hand(on), address(commit))
            assert fault is (CrawlFault.SUPERSEDED if keeps else CrawlFault.ABSENT)
        assert await on.mirror.state() == before


async def test_an_older_version_changes_nothing(database_url: str) -> None:
    """C11: the newer one stays, whoever asks for the older."""
    server = scripted_server(ALPHA, keeps_deleted_documents=True)
    async with stage(database_url, SEED, server) as on:
        first = profile(ALICE, username="v1", created_at=T0)
        second = profile(ALICE, username="v2", created_at=T1)
        on[ALPHA].receive(T0, entity(ALICE, ALPHA), first)
        on[ALPHA].receive(T1, second)
        await on.crawl()
        on[ALPHA].faults.always(faults.body(first), on=Endpoint.RESOLVE)
        assert await refused(by_hand(on), address(first)) is CrawlFault.SUPERSEDED
        assert await on.mirror.value(profile_key(ALICE)) == {"username": "v2"}


# --- what is refused


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "ccfs://",
        "nonsense",
        f"cckv://{ALICE}/a",
        "https://alpha.example/",
        f"ccfs://{ALICE}/blob/{'0' * 64}",
        f"ccfs://{ALICE}/concrnt/short",
        f"ccfs://@alpha.example/concrnt/{CDID}",
        f"ccfs://127.0.0.1/concrnt/{CDID}",
        f"ccfs://[::1]/concrnt/{CDID}",
        f"ccfs://169.254.169.254/concrnt/{CDID}",
        f"ccfs://0x7f.1/concrnt/{CDID}",
        f"ccfs://2130706433/concrnt/{CDID}",
        f"ccfs://alpha.example:443/concrnt/{CDID}",
        f"ccfs://user:word@alpha.example/concrnt/{CDID}",
        f"ccfs://alpha.example\ud800/concrnt/{CDID}",
        f"ccfs://alpha.example\0/concrnt/{CDID}",
    ],
)
async def test_what_is_no_documents_uri_is_refused(database_url: str, uri: str) -> None:
    """Nobody is asked (C14, C48)."""
    async with stage(database_url) as on:
        assert await refused(by_hand(on), uri) is CrawlFault.NO_DOCUMENT_URI
        assert [server.requests for server in on.network.servers.values()] == [[]] * 4


async def test_every_refusal_has_its_fault_and_leaves_nothing(database_url: str) -> None:
    """Schemas that are not indexed, communities of people, other documents, rubbish, silence."""
    like = record(f"cckv://{ALPHA}/likes/1", {}, author=ALICE, schema=wire.LIKE)
    own = community(ALICE, "cats", author=ALICE, name="ねこ")
    dated = community(ALPHA, "later", author=ALICE, name="x", created_at="2099-01-01T00:00:00Z")
    fine = community(ALPHA, "cats", author=ALICE, name="ねこ")
    other = community(ALPHA, "dogs", author=ALICE, name="いぬ")
    foreign = community(BETA, "cats", author=ALICE, name="ねこ")
    trials: list[tuple[str, faults.Fault | None, CrawlFault]] = [
        (address(like, ALPHA), faults.body(like), CrawlFault.NOT_INDEXED),
        (address(delete(post_key(ALICE, "1"), author=ALICE)), None, CrawlFault.ABSENT),
        (address(own), faults.body(own), CrawlFault.REJECTED),
        (address(dated, ALPHA), faults.body(dated), CrawlFault.MALFORMED),
        (address(fine, ALPHA), faults.body(other), CrawlFault.OTHER_DOCUMENT),
        (address(foreign, ALPHA), faults.body(foreign), CrawlFault.OTHER_DOCUMENT),
        (address(fine, ALPHA), faults.body(entity(ALICE, ALPHA)), CrawlFault.OTHER_DOCUMENT),
        (address(fine, ALPHA), None, CrawlFault.ABSENT),
        (address(fine, ALPHA), faults.status(403), CrawlFault.ABSENT),
        (address(fine, ALPHA), faults.status(410), CrawlFault.ABSENT),
        (address(fine, ALPHA), faults.html(), CrawlFault.AWAY),
        (address(fine, ALPHA), faults.body(b"null"), CrawlFault.AWAY),
        (address(fine, ALPHA), faults.body(b'{"cckv": "cckv://a/b"}'), CrawlFault.AWAY),
        (address(fine, ALPHA), faults.no_content(), CrawlFault.AWAY),
        (address(fine, ALPHA), faults.status(500), CrawlFault.AWAY),
        (address(fine, ALPHA), faults.status(400), CrawlFault.AWAY),
        (address(fine, ALPHA), faults.slow_down(60), CrawlFault.AWAY),
        (address(fine, ALPHA), faults.redirect("http://127.0.0.1:7700/"), CrawlFault.AWAY),
        (address(fine, ALPHA), faults.reset(), CrawlFault.AWAY),
        (address(fine, ALPHA), faults.silence(), CrawlFault.AWAY),
    ]
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, entity(ALICE, ALPHA))
        await on.crawl()
        before = await on.mirror.state()
        crawl = by_hand(on, seconds=0.5)
        for uri, fault, expected in trials:
            on[ALPHA].faults.clear()
            if fault is not None:
                on[ALPHA].faults.always(fault, on=Endpoint.RESOLVE)
            assert await refused(crawl, uri) is expected, (uri, expected)
        assert await on.mirror.state() == before


async def test_servers_that_are_not_ours_are_not_asked_for_documents(database_url: str) -> None:
    """Another layer, an alias, a paused server, an owner of whom nobody knows where they live."""
    other = scripted_server(GAMMA, layer="concrnt-devnet")
    async with stage(database_url, SEED, ALPHA, BETA, other, trust=TrustMode.AUTHORITY) as on:
        made = {
            domain: community(domain, "cats", author=ALICE, name="ねこ") for domain in (ALPHA, BETA, GAMMA)
        }
        on[BETA].domain_shown = ALPHA
        await on.mirror.servers.discover(
            [ALPHA], now=on.clock(), aliases_since=on.clock(), at_most=1, per_parent=1
        )
        await on.mirror.database.execute("update mirror.servers set state = 'paused'")
        crawl = by_hand(on)
        for domain, commit in made.items():
            assert await refused(crawl, address(commit, domain)) is CrawlFault.NOT_FOLLOWED
            assert on[domain].requests_to(Endpoint.RESOLVE) == []
        for _ in range(3):
            assert await refused(crawl, f"ccfs://{ALICE}/concrnt/{CDID}") is CrawlFault.ABSENT
        assert len(on[SEED].requests_to(Endpoint.RESOLVE)) == 1, "unknown is remembered"
        on.clock.now += timedelta(minutes=6)
        assert await refused(crawl, f"ccfs://{ALICE}/concrnt/{CDID}") is CrawlFault.ABSENT
        assert len(on[SEED].requests_to(Endpoint.RESOLVE)) == 2
        assert await refused(crawl, f"ccfs://{key_pair('nobody').csid}/concrnt/{CDID}") is CrawlFault.ABSENT


async def test_trust_refuses_by_hand_what_it_refuses_of_a_feed(database_url: str) -> None:
    """In `strict` mode what proves nothing; and no dead letter is kept of what a stranger asked for."""
    async with stage(database_url, trust=TrustMode.STRICT) as on:
        made = community(ALPHA, "cats", author=ALICE, name="ねこ")
        on[ALPHA].receive(T0, made)
        assert await refused(by_hand(on), address(made, ALPHA)) is CrawlFault.REJECTED
        state = await on.mirror.state()
        assert (state["records"], state["dead_letters"]) == ([], [])


# --- where we connect (C14), and what strangers can make grow (C56)


class Network(httpcore.AsyncNetworkBackend):
    """A network on which every connection fails as a test says; what was dialled is remembered."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.dialled: list[str] = []

    async def connect_tcp(self, host: str, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        self.dialled.append(host)
        raise self.failure


@asynccontextmanager
async def strange_network(
    addresses: Mapping[str, Sequence[str]], network: Network, metrics: Metrics | None = None
) -> AsyncIterator[Feeds]:
    """Feeds through a guarded client whose names resolve as a test says, others to a public address."""

    async def resolve(host: str, _port: int) -> Sequence[str]:
        return addresses.get(host, ["93.184.215.14"])

    async with PeerClient(
        user_agent="test",
        request_timeout=1,
        max_response_bytes=1024,
        resolve=resolve,
        network=network,
        on_request=Instruments(metrics).peer_request if metrics is not None else None,
    ) as peers:
        yield Feeds(peers)


async def test_no_owner_leads_inside(database_url: str) -> None:
    """C14: names that resolve to private addresses, to one public and one private, to translated ones."""
    names = {
        "inside.example": ["10.0.0.5"],
        "loop.example": ["127.0.0.1"],
        "mapped.example": ["::ffff:127.0.0.1"],
        "translated.example": ["64:ff9b::7f00:1"],
        "carrier.example": ["100.64.0.1"],
        "meta.example": ["169.254.169.254"],
        "both.example": ["93.184.215.14", "10.0.0.5"],
    }
    network = Network(httpcore.ConnectError("refused"))
    async with stage(database_url) as on, strange_network(names, network) as feeds:
        crawl = by_hand(on, feeds)
        for name in names:
            assert await refused(crawl, f"ccfs://{name}/concrnt/{CDID}") is CrawlFault.BLOCKED_ADDRESS
        assert network.dialled == []


async def test_an_answer_does_not_tell_open_from_closed_ports(database_url: str) -> None:
    """C14: refused, silent, not to be spoken with: one sentence."""
    messages = set()
    async with stage(database_url) as on:
        for failure in (
            httpcore.ConnectError("refused"),
            httpcore.ConnectTimeout("silent"),
            httpcore.RemoteProtocolError("no HTTP"),
            OSError("unreachable"),
        ):
            async with strange_network({}, Network(failure)) as feeds:
                with pytest.raises(CrawlError) as raised:
                    await by_hand(on, feeds).crawl(f"ccfs://open.example/concrnt/{CDID}")
                messages.add((raised.value.fault, raised.value.message))
    assert len(messages) == 1


async def test_strangers_hosts_make_no_series_and_no_rows(database_url: str) -> None:
    """C56: two thousand crawls that name two thousand hosts."""
    metrics = Metrics("0")
    network = Network(httpcore.ConnectError("refused"))
    async with stage(database_url) as on, strange_network({}, network, metrics) as feeds:
        await on.crawl()
        metrics.set_known_hosts(await on.mirror.servers.domains(LAYER))
        before = len(metrics.render().splitlines())
        crawl = by_hand(on, feeds)
        rows = await on.mirror.state()
        for number in range(2000):
            assert await refused(crawl, f"ccfs://h{number}.example/concrnt/{CDID}") is CrawlFault.AWAY
        assert len(network.dialled) == 2000
        assert len(metrics.render().splitlines()) - before < 30
        assert b'host="other"' in metrics.render()
        assert await on.mirror.state() == rows


# --- bounds


async def test_so_many_crawls_run_at_once(database_url: str) -> None:
    """One more is told to come back; a place is free again when one has ended, however it ended."""
    async with stage(database_url) as on:
        gate = asyncio.Event()
        on[ALPHA].faults.always(faults.hold(gate), on=Endpoint.WELL_KNOWN)
        crawl = by_hand(on)
        uri = f"ccfs://{ALPHA}/concrnt/{CDID}"
        waiting = [asyncio.ensure_future(refused(crawl, uri)) for _ in range(crawling.AT_ONCE)]
        await on[ALPHA].wait_for_requests(crawling.AT_ONCE, to=Endpoint.WELL_KNOWN)
        assert await refused(crawl, uri) is CrawlFault.BUSY
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        gate.set()
        assert await asyncio.gather(*waiting[1:]) == [CrawlFault.ABSENT] * (crawling.AT_ONCE - 1)
        assert await refused(crawl, uri) is CrawlFault.ABSENT


async def test_one_host_is_asked_so_often_an_hour(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many clients ask; the others are asked all the same, and the next hour begins anew."""
    monkeypatch.setattr(crawling, "PER_HOST_AND_HOUR", 3)
    async with stage(database_url) as on:
        crawl = by_hand(on)
        uris = {domain: f"ccfs://{domain}/concrnt/{CDID}" for domain in (ALPHA, BETA)}
        found = [await refused(crawl, uris[ALPHA]) for _ in range(4)]
        assert found == [CrawlFault.ABSENT] * 3 + [CrawlFault.BUSY]
        assert await refused(crawl, uris[BETA]) is CrawlFault.ABSENT
        on.clock.now += timedelta(hours=1)
        assert await refused(crawl, uris[ALPHA]) is CrawlFault.ABSENT


async def test_made_up_people_do_not_use_up_the_seeds_own_documents(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed is asked about so many people an hour, and for its documents as often as any host."""
    monkeypatch.setattr(crawling, "PEOPLE_AND_HOUR", 3)
    async with stage(database_url) as on:
        crawl = by_hand(on)
        people = [f"ccfs://con{number:039}/concrnt/{CDID}" for number in range(4)]
        found = [await refused(crawl, uri) for uri in people]
        assert CrawlFault.BUSY not in found[:3]
        assert found[3] is CrawlFault.BUSY
        assert await refused(crawl, f"ccfs://{SEED}/concrnt/{CDID}") is CrawlFault.ABSENT
