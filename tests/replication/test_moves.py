"""Servers that move to another domain, by an operator's word or by a redirect; and layers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from indexer.config import load_settings
from indexer.errors import ExpectedError
from indexer.instruments import MirrorFigures
from indexer.mirror.moves import MoveRefusal, Moves
from indexer.mirror.servers import LeaseLostError
from indexer.operate import change_server, move_server
from indexer.replication.moving import domain_in
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
    community,
    community_key,
    delete,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
    scripted_server,
)
from tests.replication.network import LAYER, Stage, stage
from tests.replication.stage import NOW, SCHEMAS, open_mirror

if TYPE_CHECKING:
    from indexer.simulation.server import SimulatedServer

pytestmark = pytest.mark.anyio
ALICE, BOB, EVE = key_pair("alice"), key_pair("bob"), key_pair("eve")
PHONE = Delegate(ALICE, key_pair("alice's phone"))
T0, T1, T2 = (f"2025-03-01T00:00:0{second}Z" for second in range(3))
TO_BETA = f"https://{BETA}/.well-known/concrnt"
LOG = [
    (T0, entity(ALICE, ALPHA)),
    (T0, profile(ALICE, username="ありす")),
    (T0, post(ALICE, "1", "やあ")),
    (T0, post(ALICE, "2", "どうも")),
    (T0, community(ALPHA, "cats", author=ALICE, name="ねこ")),
    (T0, ack(ALICE, BOB)),
    (T0, b'{"document": 7}'),
    (T1, delete(post_key(ALICE, "2"), author=ALICE, created_at=T1)),
]


def old_and_new() -> tuple[SimulatedServer, SimulatedServer]:
    """A server with a log, and the same server under another domain: same key, same log."""
    old = scripted_server(ALPHA, LOG)
    new = scripted_server(BETA, LOG)
    new.csid = old.csid
    return old, new


def moves_of(on: Stage) -> Moves:
    return Moves(on.mirror.database, indexed_schemas=SCHEMAS.indexed)


@pytest.mark.parametrize("trust", [TrustMode.OFF, TrustMode.AUTHORITY, TrustMode.STRICT])
async def test_an_operators_word_carries_everything_over(database_url: str, trust: TrustMode) -> None:
    """Cursor, sources, deletes, follows, homes, counts, dead letters; and following goes on."""
    old, new = old_and_new()
    async with stage(database_url, SEED, old, trust=trust) as on:
        await on.crawl()
        before = await on.mirror.state()
        report = await on.report(ALPHA)
    async with stage(database_url, SEED, new, trust=trust) as on:
        done = await moves_of(on).move(ALPHA, BETA, now=on.clock(), by_operator=True)
        assert not isinstance(done, MoveRefusal)
        assert done.cursor_carried
        after = await on.mirror.state()
        for table in ("records", "tombstones", "entities", "dead_letters", "counted"):
            expected = [
                {
                    name: BETA if name in ("source", "domain") and value == ALPHA else value
                    for name, value in row.items()
                }
                for row in before[table]
            ]
            assert sorted(map(repr, after[table])) == sorted(map(repr, expected)), table
        for table in ("acks", "retired"):
            assert after[table] == before[table]
        moved = await on.report(BETA)
        assert (moved.cursor, moved.commits, moved.malformed) == (
            report.cursor,
            report.commits,
            report.malformed,
        )
        on[BETA].receive(T2, post(ALICE, "3", "新居"), community(ALPHA, "dogs", author=ALICE, name="いぬ"))
        await on.crawl()
        assert on.asked(BETA)[0]["since"] is not None, "read on from the old cursor"
        keys = await on.mirror.keys()
        assert post_key(ALICE, "3") in keys, "its residents' words count"
        assert community_key(ALPHA, "dogs") in keys
        assert post_key(ALICE, "2") not in keys
        assert (await on.report(BETA)).rejected == report.rejected


async def test_a_redirect_to_a_domain_with_the_same_key_does_the_same_by_itself(database_url: str) -> None:
    """Read, not followed; the old domain is never asked or discovered again, and its gauges end.

    The new log is read from its start, and what was read before changes nothing.
    """
    old, new = old_and_new()
    async with stage(database_url, SEED, old, new, trust=TrustMode.AUTHORITY) as on:
        on[SEED].known_servers = [old.well_known()]
        await on.crawl()
        before_it = await on.mirror.state()
        old.faults.always(faults.redirect(TO_BETA), on=Endpoint.WELL_KNOWN)
        on[SEED].known_servers = None
        before = len(old.requests)
        await on.follow(ALPHA, after=timedelta(minutes=11))
        await on.schedule.run_once()
        assert "since" not in on.asked(BETA)[0]
        after = await on.mirror.state()
        for table in ("records", "retired", "tombstones", "acks", "entities", "dead_letters"):
            assert repr(after[table]) == repr(before_it[table]).replace(f"'{ALPHA}'", f"'{BETA}'"), table
        new.receive(T2, post(ALICE, "3", "新居"))
        for _ in range(3):
            await on.crawl(after=timedelta(days=2))
        assert len(old.requests) == before + 1
        assert post_key(ALICE, "3") in await on.mirror.keys()
        snapshot = await MirrorFigures(on.mirror.database, layer=LAYER).scrape()
        assert {gauges.server for gauges in snapshot.servers} == {SEED, BETA}
        marks = await on.mirror.rows("select key from mirror.projection_queue where key = $1", ALPHA)
        assert marks, "its search document goes"


@pytest.mark.parametrize(
    ("location", "changed"),
    [
        (TO_BETA, {"csid": key_pair("somebody").csid}),
        (TO_BETA, {"csid": ""}),
        (TO_BETA, {"layer": "concrnt-devnet"}),
        (TO_BETA, {"domain_shown": GAMMA}),
        (f"http://{BETA}/.well-known/concrnt", {}),
        (f"https://{BETA}:8443/.well-known/concrnt", {}),
        (f"https://user@{BETA}/.well-known/concrnt", {}),
        ("https://127.0.0.1/.well-known/concrnt", {}),
        ("https://nowhere.example/", {}),
    ],
)
async def test_any_other_redirect_is_a_failure(
    database_url: str, location: str, changed: dict[str, str]
) -> None:
    """Another key, another layer, another name, another port: the old server stays what it was."""
    old, new = old_and_new()
    for name, value in changed.items():
        setattr(new, name, value)
    async with stage(database_url, SEED, old, new) as on:
        on[SEED].known_servers = [old.well_known()]
        await on.crawl()
        old.faults.always(faults.redirect(location), on=Endpoint.WELL_KNOWN)
        await on.follow(ALPHA, after=timedelta(minutes=11))
        report = await on.report(ALPHA)
        assert (report.failure_class, report.state) == ("redirect", "backing_off")
        assert await on.mirror.rows("select 1 from mirror.moves") == []


async def test_a_move_puts_no_words_into_others_mouths(database_url: str) -> None:
    """A hostile server claims another's key and redirects to it: what it said provisionally is withdrawn."""
    old, new = scripted_server(ALPHA), scripted_server(BETA)
    old.csid = new.csid
    new.receive(T0, entity(BOB, BETA), post(BOB, "1", "本物"))
    old.receive(
        T0, post(BOB.ccid, "9", "偽物"), delete(post_key(BOB, "1"), author=BOB.ccid), post(EVE, "1", "自分の")
    )
    async with stage(database_url, SEED, old, new, trust=TrustMode.AUTHORITY) as on:
        on[SEED].known_servers = [old.well_known()]
        await on.crawl()
        assert post_key(BOB, "9") in await on.mirror.keys()
        old.faults.always(faults.redirect(TO_BETA), on=Endpoint.WELL_KNOWN)
        await on.follow(ALPHA, after=timedelta(minutes=11))
        await on.crawl()
        await on.residents.run_once()
        assert await on.mirror.keys() == {post_key(BOB, "1"), post_key(EVE, "1")}
        assert await on.mirror.value(post_key(BOB, "1")) == {"body": "本物"}


@pytest.mark.parametrize("known", ["not at all", "by name", "discovered and down since"])
async def test_a_redirect_says_nothing_of_what_the_new_log_holds(database_url: str, known: str) -> None:
    """A thief who claims a key and is further on by its own clock gives away no cursor, counts or letters."""
    thief, victim = scripted_server(ALPHA), scripted_server(BETA)
    thief.csid = victim.csid
    thief.receive("2025-05-31T00:00:00Z", entity(EVE, ALPHA), b'{"document": 7}')
    victim.receive(T0, entity(ALICE, BETA), post(ALICE, "1", "前から"))
    victim.receive("2025-05-31T12:00:00Z", post(ALICE, "2", "あとから"))
    async with stage(database_url, SEED, thief, victim, trust=TrustMode.AUTHORITY) as on:
        on[SEED].known_servers = [thief.well_known()]
        if known == "discovered and down since":
            victim.faults.always(faults.status(500), on=Endpoint.REPLICATION)
            on[SEED].known_servers = [thief.well_known(), victim.well_known()]
        await on.crawl()
        if known == "by name":
            await on.discovery.add([BETA])
        thief.faults.always(faults.redirect(TO_BETA), on=Endpoint.WELL_KNOWN)
        on[SEED].known_servers = None
        await on.follow(ALPHA, after=timedelta(minutes=11))
        assert await on.mirror.rows("select old, new from mirror.moves") == [{"old": ALPHA, "new": BETA}]
        report = await on.report(BETA)
        assert (report.cursor, report.commits, report.malformed) == (None, 0, 0)
        assert await on.mirror.rows("select 1 from mirror.dead_letters") == []
        victim.faults.clear()
        await on.crawl(after=timedelta(minutes=20))
        assert await on.mirror.keys() == {post_key(ALICE, "1"), post_key(ALICE, "2")}
        assert (await on.report(BETA)).state == "following"


async def test_a_thief_who_copies_a_log_hides_nothing_of_it(database_url: str) -> None:
    """Its pages are the victim's, row for row; they are read all the same, as said by who may say it."""
    log = [(T0, entity(ALICE, BETA)), (T1, post(ALICE.ccid, "1", "署名なし"))]
    thief, victim = scripted_server(ALPHA, log), scripted_server(BETA, log)
    thief.csid = victim.csid
    victim.faults.always(faults.next_cursor(None), on=Endpoint.REPLICATION)
    async with stage(database_url, SEED, thief, victim, trust=TrustMode.AUTHORITY) as on:
        on[SEED].known_servers = [thief.well_known()]
        await on.crawl()
        assert await on.mirror.keys() == set()
        thief.faults.always(faults.redirect(TO_BETA), on=Endpoint.WELL_KNOWN)
        on[SEED].known_servers = None
        await on.follow(ALPHA, after=timedelta(minutes=11))
        await on.crawl(after=timedelta(minutes=20))
        assert await on.mirror.keys() == {post_key(ALICE, "1")}


async def test_what_waits_for_a_document_does_not_move_by_a_redirect(database_url: str) -> None:
    """Else a thief's forgery would be judged as the words of the server whose key it claims."""
    thief, victim = scripted_server(ALPHA), scripted_server(BETA)
    thief.csid = victim.csid
    victim.receive(T0, entity(ALICE, BETA))
    thief.receive(T0, entity(EVE, ALPHA), post(PHONE, "9", "偽物"))
    async with stage(database_url, SEED, thief, victim, trust=TrustMode.AUTHORITY) as on:
        on[SEED].known_servers = [thief.well_known(), victim.well_known()]
        await on.crawl()
        assert len(await on.mirror.rows("select 1 from mirror.waiting")) == 1
        thief.faults.always(faults.redirect(TO_BETA), on=Endpoint.WELL_KNOWN)
        await on.follow(ALPHA, after=timedelta(minutes=11))
        assert await on.mirror.rows("select 1 from mirror.moves") != []
        await on.residents.run_once()
        await on.crawl()
        assert await on.mirror.keys() == set()


@pytest.mark.parametrize("by_operator", [True, False])
@pytest.mark.parametrize("followed", [True, False])
async def test_what_stands_is_not_undone_by_reading_the_new_log(
    database_url: str, *, by_operator: bool, followed: bool
) -> None:
    """A foreign copy that came first, and was confirmed, is newer than what the log begins with."""
    first, second = post(ALICE, "1", "前", created_at=T1), post(ALICE, "1", "後", created_at=T2)
    log = [(T0, entity(ALICE, ALPHA)), (T1, first), (T2, second)]
    old, new = scripted_server(ALPHA, log), scripted_server(BETA, log)
    new.csid = old.csid
    async with stage(database_url, SEED, old, new, trust=TrustMode.AUTHORITY) as on:
        await on.mirror.write(GAMMA, [second])
        on[SEED].known_servers = [old.well_known()]
        await on.crawl()
        assert await on.mirror.value(post_key(ALICE, "1")) == {"body": "後"}
        if followed:
            await on.discovery.add([BETA])
            await on.mirror.servers.begin(BETA)
            await on.mirror.database.execute(
                "update mirror.cursors set cursor = $2, cursor_ns = 1 where domain = $1",
                BETA,
                "1970-01-01T00:00:00.000000001Z",
            )
        done = await moves_of(on).move(ALPHA, BETA, now=on.clock(), by_operator=by_operator)
        if not followed and not by_operator:
            assert done is MoveRefusal.NO_ROOM
            await on.discovery.add([BETA])
            done = await moves_of(on).move(ALPHA, BETA, now=on.clock(), by_operator=by_operator)
        assert not isinstance(done, MoveRefusal)
        on[SEED].known_servers = None
        await on.crawl(after=timedelta(minutes=20))
        assert (await on.report(BETA)).state == "following"
        assert await on.mirror.value(post_key(ALICE, "1")) == {"body": "後"}


@pytest.mark.parametrize("trust", [TrustMode.OFF, TrustMode.AUTHORITY, TrustMode.STRICT])
async def test_after_a_move_the_new_name_is_the_source_of_what_others_sent_first(
    database_url: str, trust: TrustMode
) -> None:
    """Its residents' documents and its own, though their keys and homes say the old name."""
    cats = community(ALPHA, "cats", author=ALICE, name="ねこ")
    log = [entity(ALICE, ALPHA), post(ALICE, "1", "やあ"), cats]
    async with stage(database_url, trust=trust) as on:
        await on.mirror.database.execute("insert into mirror.moves values ($1, $2, now())", ALPHA, BETA)
        await on.mirror.write(GAMMA, log[1:])
        copied = {post_key(ALICE, "1"), *([community_key(ALPHA, "cats")] if trust is TrustMode.OFF else [])}
        assert await on.mirror.keys() == copied
        await on.mirror.write(BETA, log)
        theirs = await on.mirror.rows("select key from mirror.records where source = $1", BETA)
        assert {row["key"] for row in theirs} == {post_key(ALICE, "1"), community_key(ALPHA, "cats")}


@pytest.mark.parametrize("by_operator", [True, False])
async def test_whatever_both_names_have_brought_the_move_is_made(
    database_url: str, *, by_operator: bool
) -> None:
    """Each table in which both have a row under one key: open questions, what was set aside, letters."""
    commits = [
        entity(BOB.ccid, GAMMA),
        post(ALICE.ccid, "1", "だれか"),
        post(EVE.ccid, "1", "署名が偽物", created_at=T1),
        post(PHONE, "2", "待つ"),
        ack(ALICE.ccid, BOB),
        delete(post_key(ALICE, "3"), author=ALICE.ccid),
        profile(BOB.ccid, username="偽"),
        b'{"document": 7}',
    ]
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        for domain in (ALPHA, BETA):
            await mirror.write(domain, commits)
        asked = await mirror.rows("select owner from mirror.unresolved where domain = $1", BETA)
        assert len(asked) > 1
        done = await Moves(mirror.database, indexed_schemas=SCHEMAS.indexed).move(
            ALPHA, BETA, now=NOW, by_operator=by_operator
        )
        assert not isinstance(done, MoveRefusal)
        for table in ("unresolved", "waiting", "dead_letters", "set_aside", "rejected_later"):
            left = await mirror.rows(f"select 1 from mirror.{table} where domain = $1", ALPHA)
            assert left == [], table
        assert await mirror.rows("select owner from mirror.unresolved where domain = $1", BETA) == asked


@pytest.mark.parametrize("chain", [(ALPHA, BETA, ALPHA), (ALPHA, BETA, GAMMA)])
async def test_redirects_lead_on_once_a_week_and_never_back(
    database_url: str, chain: tuple[str, str, str]
) -> None:
    """One stranger's domains that redirect to each other cost one move, however often they are asked."""
    servers = {domain: scripted_server(domain, [(T0, entity(ALICE, ALPHA))]) for domain in chain}
    for server in servers.values():
        server.csid = servers[ALPHA].csid
    async with stage(database_url, SEED, *servers.values(), trust=TrustMode.AUTHORITY) as on:
        on[SEED].known_servers = [servers[ALPHA].well_known()]
        await on.crawl()
        on[SEED].known_servers = None
        moves = moves_of(on)
        servers[ALPHA].faults.next(faults.redirect(TO_BETA), on=Endpoint.WELL_KNOWN)
        await on.crawl(after=timedelta(minutes=11))
        onward = faults.redirect(f"https://{chain[2]}/.well-known/concrnt")
        servers[BETA].faults.always(onward, on=Endpoint.WELL_KNOWN)
        for _ in range(3):
            await on.crawl(after=timedelta(hours=30))
        assert (await on.report(BETA)).failure_class == "redirect"
        rows = await on.mirror.rows("select old, new from mirror.moves")
        assert rows == [{"old": ALPHA, "new": BETA}]
        asked = len(servers[chain[2]].requests)
        await on.crawl(after=timedelta(days=6))
        made = {(row["old"], row["new"]) for row in await on.mirror.rows("select * from mirror.moves")}
        if chain[2] == ALPHA:
            assert made == {(ALPHA, BETA)}
            assert len(servers[ALPHA].requests) == asked, "nobody is asked whom we would not follow"
            done = await moves.move(BETA, ALPHA, now=on.clock(), by_operator=True)
            assert not isinstance(done, MoveRefusal)
        else:
            assert made == {(ALPHA, GAMMA), (BETA, GAMMA)}


async def test_a_redirect_brings_no_more_servers_than_discovery_does(database_url: str) -> None:
    """Where discovery has no room, the old server is what it was."""
    old, new = old_and_new()
    async with stage(database_url, SEED, old, new, max_servers=2) as on:
        on[SEED].known_servers = [old.well_known()]
        await on.crawl()
        old.faults.always(faults.redirect(TO_BETA), on=Endpoint.WELL_KNOWN)
        await on.follow(ALPHA, after=timedelta(minutes=11))
        assert (await on.report(ALPHA)).failure_class == "redirect"
        assert await on.mirror.rows("select 1 from mirror.moves") == []
        assert set(await on.mirror.servers.domains("")) == {SEED, ALPHA}


@pytest.mark.parametrize("state", ["waiting", "backing_off", "stale", "paused"])
async def test_a_move_wakes_nobody_who_is_to_be_left_alone(database_url: str, state: str) -> None:
    """A server that asked for quiet, fails or is paused is asked when it would have been."""
    async with open_mirror(database_url) as mirror:
        for domain in (ALPHA, BETA):
            await mirror.write(domain, [])
        later = NOW + timedelta(hours=1)
        await mirror.database.execute(
            "update mirror.servers set state = $2, next_poll_at = $3 where domain = $1", BETA, state, later
        )
        done = await Moves(mirror.database, indexed_schemas=[]).move(ALPHA, BETA, now=NOW, by_operator=True)
        assert not isinstance(done, MoveRefusal)
        assert await mirror.servers.claim_due(now=NOW, limit=5, holder="h", lease_seconds=30) == []
        assert await mirror.rows("select state from mirror.servers") == [{"state": state}]


async def test_a_domain_that_is_followed_already_keeps_its_own_cursor(database_url: str) -> None:
    """It may be another log; reading twice changes nothing. Only an operator adds up what was counted."""
    for by_operator in (False, True):
        old, new = old_and_new()
        async with stage(database_url, SEED, old, new) as on:
            await on.mirror.clear()
            await on.crawl()
            counted = {domain: await on.report(domain) for domain in (ALPHA, BETA)}
            cursor = counted[BETA].cursor
            done = await moves_of(on).move(ALPHA, BETA, now=on.clock(), by_operator=by_operator)
            assert not isinstance(done, MoveRefusal)
            assert not done.cursor_carried
            report = await on.report(BETA)
            assert report.cursor == cursor
            added = counted[ALPHA].commits if by_operator else 0
            assert report.commits == counted[BETA].commits + added
            letters = await on.mirror.rows("select domain from mirror.dead_letters")
            assert letters == [{"domain": BETA}]


async def test_a_run_under_way_is_fenced_by_a_move(database_url: str) -> None:
    """Its page has no effect, on either domain."""
    async with open_mirror(database_url) as mirror:
        for domain in (ALPHA, BETA):
            await mirror.write(domain, [])
        leases = await mirror.servers.claim_due(now=NOW, limit=5, holder="h", lease_seconds=30)
        moves = Moves(mirror.database, indexed_schemas=SCHEMAS.indexed)
        await moves.move(ALPHA, BETA, now=NOW, by_operator=True)
        for lease in leases:
            with pytest.raises(LeaseLostError):
                await mirror.servers.wait(lease, until=NOW, now=NOW, why="late")


async def test_a_pause_goes_with_the_server(database_url: str) -> None:
    """What an operator has stopped does not begin again under another name."""
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [])
        await mirror.database.execute("update mirror.servers set state = 'paused'")
        await Moves(mirror.database, indexed_schemas=[]).move(ALPHA, BETA, now=NOW, by_operator=True)
        assert await mirror.rows("select domain, state from mirror.servers") == [
            {"domain": BETA, "state": "paused"}
        ]


async def test_nonsense_is_refused_with_advice_and_a_move_can_be_undone(database_url: str) -> None:
    """Unknown, moved already, into another layer, into another key, into itself, malformed."""
    settings = load_settings(None, {"INDEXER_BACKENDS__POSTGRES_DSN": database_url})
    async with open_mirror(database_url) as mirror:
        for domain in (ALPHA, BETA, GAMMA):
            await mirror.write(domain, [])
        await mirror.database.execute("update mirror.servers set csid = 'ccs' || domain, layer = 'l'")
        await mirror.database.execute("update mirror.servers set layer = 'm' where domain = $1", GAMMA)
        codes = {}
        for old, new in (
            ("nowhere.example", ALPHA),
            (ALPHA, BETA),
            (ALPHA, GAMMA),
            (ALPHA, f"{ALPHA}."),
            (ALPHA, "https://beta.example/"),
            ("10.0.0.5", ALPHA),
        ):
            with pytest.raises(ExpectedError) as raised:
                await move_server(settings, old, new, any_key=False)
            codes[old, new] = raised.value.code
        assert list(codes.values()) == [
            "unknown",
            "other_key",
            "other_layer",
            "same_name",
            "malformed_name",
            "malformed_name",
        ]
        assert await move_server(settings, ALPHA, BETA, any_key=True) is False
        for old, new, code in ((ALPHA, BETA, "moved_already"), (GAMMA, ALPHA, "new_has_moved")):
            with pytest.raises(ExpectedError) as raised:
                await move_server(settings, old, new, any_key=True)
            assert raised.value.code == code
            assert f"it is {BETA} now" in raised.value.message
        with pytest.raises(ExpectedError, match=f"is {BETA} now"):
            await change_server(settings, "reset", ALPHA)
        await move_server(settings, BETA, ALPHA, any_key=True)
        servers = await mirror.rows("select domain from mirror.servers order by 1")
        assert servers == [{"domain": ALPHA}, {"domain": GAMMA}]
        assert await mirror.rows("select old, new from mirror.moves") == [{"old": BETA, "new": ALPHA}]


async def test_a_server_that_changes_its_layer_leaves_the_gauges_and_comes_back(database_url: str) -> None:
    """It is asked again at discovery; what it said stays; nothing of it is read meanwhile."""
    async with stage(database_url, SEED, ALPHA) as on:
        on[ALPHA].receive(T0, profile(ALICE, username="ありす"))
        await on.crawl()
        figures = MirrorFigures(on.mirror.database, layer=LAYER)
        assert ALPHA in {gauges.server for gauges in (await figures.scrape()).servers}
        on[ALPHA].layer = "concrnt-devnet"
        on[ALPHA].receive(T1, post(ALICE, "1", "よその"))
        await on.crawl(after=timedelta(minutes=11))
        assert (await on.report(ALPHA)).state == "wrong_layer"
        assert ALPHA not in {gauges.server for gauges in (await figures.scrape()).servers}
        assert ALPHA not in await on.mirror.servers.domains(LAYER)
        assert await on.mirror.keys() == {profile_key(ALICE)}
        on[ALPHA].layer = LAYER
        await on.crawl(after=timedelta(minutes=11))
        assert (await on.report(ALPHA)).state == "following"
        assert await on.mirror.keys() == {profile_key(ALICE), post_key(ALICE, "1")}


@pytest.mark.parametrize(
    ("location", "domain"),
    [
        (TO_BETA, BETA),
        ("https://Beta.Example.:443/x?y#z", BETA),
        ("https://日本.example/", "xn--wgv71a.example"),
        ("/.well-known/other", None),
        ("//beta.example/", None),
        ("ftp://beta.example/", None),
        ("https://beta.example:99999/", None),
        ("https://[::1]/", None),
        ("https://2130706433/", None),
        ("https://", None),
        ("", None),
        ("\ud800", None),
    ],
)
def test_a_redirect_names_a_server_or_none(location: str, domain: str | None) -> None:
    """Only a plain HTTPS host."""
    assert domain_in(location) == domain
