"""A hostile server among honest ones: whichever feed is read first, the state of the honest is the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.concrnt.documents import Commit, Kind
from indexer.mirror.changes import EntityPut, EntityStanding
from indexer.replication.left_homes import OF_EACH_SERVER, LeftHomes
from indexer.replication.page import read_rows
from indexer.replication.residents import WAITING_FOR
from indexer.replication.trust import TrustMode, owner_of_commit
from indexer.simulation.hostile import Trick, forgeries
from indexer.simulation.network import Network
from indexer.simulation.scripted import (
    ALPHA,
    BETA,
    GAMMA,
    ack,
    delete,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
)
from tests.replication.stage import NOW, SCHEMAS, open_mirror

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.replication.stage import Mirror

pytestmark = pytest.mark.anyio

MALLORY = "mallory.example"
EVE, ALICE, BOB = key_pair("eve"), key_pair("alice"), key_pair("bob")
OWN = (entity(EVE, MALLORY), profile(EVE, username="いぶ"), post(EVE, "1", "本物"))
OLD, LATE = "2025-02-01T00:00:00Z", "2025-05-01T00:00:00Z"


@dataclass(frozen=True)
class _Honest:
    """The logs of honest servers, and what can be said against them."""

    feeds: Mapping[str, tuple[bytes, ...]]
    homes: Mapping[str, EntityPut]
    tries: Sequence[bytes]


@cache
def honest() -> _Honest:
    end = NOW - timedelta(days=30)
    network = Network.generate(seed="honest", servers=3, commits=160, people=8, end=end)
    feeds = {
        domain: tuple(row.signed for row in server.log if not row.hidden)
        for domain, server in network.servers.items()
    }
    homes = {}
    for commit in (commit for feed in feeds.values() for commit in feed):
        (row,) = read_rows([commit], now=NOW, indexed=SCHEMAS.malformed_kinds).rows
        if isinstance(row, Commit) and row.kind is Kind.ENTITY and row.domain is not None:
            homes[row.author] = EntityPut(
                row.author, row.domain, row.created_at, row.cdid, row.signed, EntityStanding.PROVEN
            )
    said = [commit for feed in feeds.values() for commit in feed]
    tries: list[bytes] = []
    for at in ("2025-12-31T00:00:00Z", "2020-01-01T00:00:00Z"):
        for made in forgeries(said, by=EVE, domain=MALLORY, at=at).values():
            tries += made
    return _Honest(feeds, homes, tries)


async def of_the_honest(mirror: Mirror) -> dict[str, Any]:
    """What stands, but for what belongs to the hostile server and its residents."""
    theirs = [EVE.ccid, MALLORY]
    return {
        "records": await mirror.rows(
            "select key, cdid, source, author, href, provisional from mirror.records"
            " where owner <> all($1::text[]) order by key",
            theirs,
        ),
        "follows": await mirror.rows(
            "select acker, ackee, schema, valid, provisional from mirror.acks"
            " where acker <> all($1::text[]) order by 1, 2, 3",
            theirs,
        ),
        "homes": await mirror.rows(
            "select ccid, domain, cdid from mirror.entities where ccid <> all($1::text[]) order by 1", theirs
        ),
        "deletes": await mirror.rows(
            "select target, scope, cdid, provisional from mirror.tombstones"
            " where owner <> all($1::text[]) and not only_author order by 1, 2, 3",
            theirs,
        ),
    }


async def finish(
    mirror: Mirror, feeds: Mapping[str, Iterable[bytes]], homes: Mapping[str, EntityPut]
) -> None:
    """Do what the background does: the seed answers, logs are read again, what waits is judged."""
    while True:
        asked = [row["owner"] for row in await mirror.rows("select owner from mirror.unresolved")]
        for owner in sorted(set(asked) & homes.keys()):
            await mirror.writer.settle(homes[owner], "seed.example", now=NOW)
        due = await mirror.rows("select owner, domain from mirror.set_aside where due_at is not null")
        for one in due:
            rows = read_rows(list(feeds[one["domain"]]), now=NOW, indexed=SCHEMAS.malformed_kinds).rows
            theirs = [row for row in rows if isinstance(row, Commit) and one["owner"] in _concerned(row)]
            await mirror.writer.write_again(theirs, one["domain"], now=NOW)
            await mirror.database.execute(
                "delete from mirror.set_aside where owner = $1 and domain = $2", one["owner"], one["domain"]
            )
        again = await mirror.writer.judge_again(
            limit=1000, asked_for=[], waiting_since=NOW - WAITING_FOR, now=NOW
        )
        left = await left_homes(mirror)
        if not due and not again.number and not set(asked) & homes.keys() and not left:
            return


def _concerned(row: Commit) -> set[str]:
    """Whom a server lists a commit under."""
    return {owner_of_commit(row), *([row.associate.owner] if row.associate is not None else [])}


async def left_homes(mirror: Mirror) -> bool:
    """Judge what was said by servers that people had left; whether there were any."""

    def rejected(_server: str, _reason: str, _number: int) -> None:
        """Nobody counts."""

    return await LeftHomes(
        mirror.database, mirror.writer, SCHEMAS, on_rejected=rejected, clock=lambda: NOW
    ).run_once()


async def _any_interleaving(dsn: str, said: Sequence[bytes], order: Sequence[int], page: int) -> None:
    trial = honest()
    async with open_mirror(dsn, TrustMode.AUTHORITY) as mirror:
        await mirror.clear()
        for domain, commits in trial.feeds.items():
            await mirror.write(domain, commits)
        await finish(mirror, trial.feeds, trial.homes)
        expected = await of_the_honest(mirror)
        await mirror.clear()
        feeds = {**trial.feeds, MALLORY: (*said, *OWN)}
        left = {domain: list(commits) for domain, commits in feeds.items()}
        domains = list(left)
        turns = [domains[choice % len(domains)] for choice in order]
        turns += [domain for domain in domains for _ in range(len(feeds[domain]) // page + 1)]
        for domain in turns:
            now, left[domain] = left[domain][:page], left[domain][page:]
            if now:
                await mirror.write(domain, now)
        await finish(mirror, feeds, trial.homes)
        assert await of_the_honest(mirror) == expected
        assert {post_key(EVE, "1")} <= await mirror.keys()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), order=st.lists(st.integers(0, 3), max_size=30), page=st.sampled_from([1, 3, 10, 100]))
def test_any_interleaving_with_a_hostile_feed_ends_in_the_honest_state(
    database_url: str, anyio_backend: str, data: st.DataObject, order: list[int], page: int
) -> None:
    """Of what is not the hostile server's own residents', nothing tells that it was there."""
    tries = honest().tries
    said = data.draw(st.lists(st.integers(0, len(tries) - 1), max_size=40), label="said")
    anyio.run(_any_interleaving, database_url, [tries[place] for place in said], order, page)


async def test_every_try_at_once_ends_in_the_honest_state(database_url: str) -> None:
    """All of them, the hostile feed first and last."""
    tries = honest().tries
    assert len(tries) > 1000
    for order in ([3] * 200, []):
        await _any_interleaving(database_url, tries, order, 100)


def _at(day: int) -> str:
    return f"2025-01-{day:02}T00:00:00Z"


def _replayed() -> tuple[list[bytes], list[bytes]]:
    """Alice's log at home, and true commits of it as somebody else may show them: in whatever order hurts."""

    def gone(key: str, day: int) -> bytes:
        return delete(post_key(ALICE, key), author=ALICE, created_at=_at(day))

    x1, x2, no_x = (
        post(ALICE, "x", "1", created_at=_at(2)),
        post(ALICE, "x", "2", created_at=_at(3)),
        gone("x", 4),
    )
    y, no_y = post(ALICE, "y", "1", created_at=_at(2)), gone("y", 4)
    old, new = (profile(ALICE, username=name, created_at=_at(day)) for name, day in (("old", 2), ("new", 3)))
    z1, z2 = (post(ALICE, "z/1", text, created_at=_at(day)) for text, day in (("1", 2), ("2", 5)))
    no_z = gone("z/*", 4)
    home = [entity(ALICE, ALPHA, created_at=_at(1)), x1, y, old, z1, x2, new, no_x, no_y, no_z, z2]
    return home, [no_x, x1, x2, x1, no_y, y, new, old, z2, no_z, z1]


@pytest.mark.parametrize("mode", [TrustMode.AUTHORITY, TrustMode.STRICT])
@pytest.mark.parametrize("page", [1, 3, 100])
async def test_true_commits_shown_in_another_order_change_nothing(
    database_url: str, mode: TrustMode, page: int
) -> None:
    """Deleted documents stay away, replaced ones stay replaced, what followed a delete lives."""
    home, shown = _replayed()
    async with open_mirror(database_url, mode) as mirror:
        for turns in ([(ALPHA, home)], [(ALPHA, home), (MALLORY, shown)], [(MALLORY, shown), (ALPHA, home)]):
            await mirror.clear()
            for source, commits in turns:
                for start in range(0, len(commits), page):
                    await mirror.write(source, commits[start : start + page])
            await finish(mirror, dict(turns), {})
            assert await mirror.keys() == {profile_key(ALICE), post_key(ALICE, "z/1")}
            assert await mirror.value(profile_key(ALICE)) == {"username": "new"}
            assert (await mirror.value(post_key(ALICE, "z/1")))["body"] == "2"


def test_the_hostile_tries_everything() -> None:
    """Each trick is made from such a network, and replays are the true commits themselves."""
    said = [commit for feed in honest().feeds.values() for commit in feed]
    made = forgeries(said, by=EVE, domain=MALLORY)
    assert all(made[trick] for trick in Trick)
    assert set(made[Trick.REPLAY]) == set(said)
    kinds = {msgspec.json.decode(msgspec.json.decode(one)["document"])["kind"] for one in made[Trick.FOLLOW]}
    assert kinds == {"unack", "unacked"}  # against follows; the network has no unfollows


# --- where the order of feeds matters all the same (decisions/0020) ------------------------------------


async def _read_in(mirror: Mirror, feeds: Sequence[tuple[str, Sequence[bytes]]]) -> set[str]:
    await mirror.clear()
    for source, commits in feeds:
        await mirror.write(source, commits)
    return await mirror.keys()


async def test_unproven_words_on_a_server_that_was_left_do_not_count(database_url: str) -> None:
    """Whether they were read before the move was known or after it. Proven ones count in any order."""
    former = (
        ALPHA,
        [entity(ALICE, ALPHA, created_at=OLD), post(ALICE.ccid, "1", "古い"), post(ALICE, "2", "x")],
    )
    new = (BETA, [entity(ALICE, BETA, created_at=LATE), post(ALICE, "3", "y", created_at=LATE)])
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        for feeds in ([former, new], [new, former]):
            await _read_in(mirror, feeds)
            await finish(mirror, dict(feeds), {})
            assert await mirror.keys() == {post_key(ALICE, "2"), post_key(ALICE, "3")}


_WIPE = f"cckv://{ALICE.ccid}/concrnt.world/*"
_MOVED, _LIVED = entity(ALICE, ALPHA, created_at=_at(10)), entity(ALICE, MALLORY, created_at=_at(1))
_TRUE = [
    profile(ALICE, username="alice", created_at=_at(11)),
    *(post(ALICE, str(number), "true", created_at=_at(12)) for number in range(3)),
    ack(ALICE, BOB, created_at=_at(12)),
]
_OLD = [profile(ALICE, username="alice", created_at=_at(2)), post(ALICE, "1", "true", created_at=_at(3))]


def _hacked(day: int) -> bytes:
    return profile(ALICE.ccid, username="HACKED", created_at=_at(day))


def _wipe(day: int) -> bytes:
    return delete(_WIPE, author=ALICE.ccid, created_at=_at(day))


def _unfollow(day: int) -> bytes:
    return ack(ALICE.ccid, BOB, kind="unack", created_at=_at(day))


# What the server that Alice has left says, and what her home does.
_LEFT = {
    "true commits in a bad order": (_replayed()[1], _replayed()[0][1:]),
    "true commits, then a delete of all that is dated back": ([*_TRUE, _wipe(2)], _TRUE),
    "a profile that is dated back over the true one": ([_TRUE[0], _hacked(2)], _TRUE),
    "a delete that is dated before the move": ([_wipe(9)], _OLD),
    "forged over true, and deleted": (
        [
            *_TRUE,
            _hacked(20),
            post(ALICE.ccid, "1", "HACKED", created_at=_at(20)),
            delete(profile_key(ALICE), author=ALICE.ccid, created_at=_at(21)),
            delete(post_key(ALICE, "1"), author=ALICE.ccid, created_at=_at(21)),
        ],
        _TRUE,
    ),
    "all of today": (
        [
            post(ALICE.ccid, "0", "from when she lived there", created_at=_at(2)),
            post(ALICE.ccid, "1", "HACKED", created_at=_at(20)),
            _hacked(20),
            _wipe(21),
            post(ALICE.ccid, "2", "HACKED", created_at=_at(22)),
            _unfollow(22),
            ack(ALICE.ccid, EVE, created_at=_at(22)),
        ],
        _TRUE,
    ),
    "an unfollow that is dated back": ([_unfollow(2)], _TRUE),
    "an unfollow over a true follow": ([_TRUE[-1], _unfollow(13)], _TRUE),
}


async def _seen_of(mirror: Mirror) -> dict[str, Any]:
    return {
        "values": {key: await mirror.value(key) for key in await mirror.keys()},
        "first": await mirror.rows("select key, first_created_at from mirror.records order by key"),
        "follows": await mirror.rows("select ackee, valid from mirror.acks order by ackee"),
        "left": await mirror.rows("select from mirror.left_homes"),
    }


@pytest.mark.parametrize("mode", [TrustMode.AUTHORITY, TrustMode.STRICT])
@pytest.mark.parametrize("page", [1, 3, 100])
@pytest.mark.parametrize("what", _LEFT)
async def test_a_server_that_a_person_has_left_takes_nothing_over(
    database_url: str, mode: TrustMode, page: int, what: str
) -> None:
    """Read first, in turns with the home, or telling of the move itself: as if the home were read first."""
    said, done = _LEFT[what]
    home, left = [_MOVED, *done], [_LIVED, *said]
    middle = len(left) // 2
    orders = [
        [(ALPHA, home), (MALLORY, left)],
        [(MALLORY, left), (ALPHA, home)],
        [(MALLORY, left[:middle]), (ALPHA, home[:2]), (MALLORY, left[middle:]), (ALPHA, home[2:])],
        [(MALLORY, [*left, _MOVED]), (ALPHA, home)],
    ]
    states = []
    async with open_mirror(database_url, mode) as mirror:
        for turns in orders:
            await mirror.clear()
            for source, commits in turns:
                for start in range(0, len(commits), page):
                    await mirror.write(source, commits[start : start + page])
            await finish(mirror, {MALLORY: left, ALPHA: home}, {})
            states.append(await _seen_of(mirror))
    assert states[0]["values"]
    assert "HACKED" not in repr(states[0]["values"])
    assert states[1:] == [states[0]] * 3


async def test_what_is_withdrawn_by_an_old_home_comes_back_with_the_true_one(database_url: str) -> None:
    """Somebody shows an old entity document: what others said provisionally is withdrawn, not forgotten."""
    home = [post(ALICE.ccid, "1", "unsigned"), ack(ALICE.ccid, BOB)]
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, home)
        await mirror.write(MALLORY, [entity(ALICE, BETA, created_at=OLD)])
        assert await mirror.keys() == set()
        await mirror.write(ALPHA, [entity(ALICE, ALPHA, created_at=LATE)])
        await finish(mirror, {ALPHA: home, MALLORY: []}, {})
        assert await mirror.keys() == {post_key(ALICE, "1")}
        assert await mirror.rows("select ackee, valid from mirror.acks") == [
            {"ackee": BOB.ccid, "valid": True}
        ]


async def test_those_who_seem_to_leave_a_server_by_the_thousand_delay_nobody(database_url: str) -> None:
    """Without a trace of them there nothing is noted, and of each server a few are taken a round."""
    many = [key_pair(f"leaver {number}") for number in range(30)]
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        for who in many:
            moves = [entity(who, f"x{day}.example", created_at=_at(day)) for day in range(1, 10)]
            await mirror.write(MALLORY, moves)
        assert await mirror.rows("select from mirror.left_homes") == []
        for who in many:
            await mirror.write(MALLORY, [entity(who, MALLORY, created_at=_at(11)), post(who.ccid, "1", "x")])
            await mirror.write(BETA, [entity(who, BETA, created_at=_at(12))])
        await mirror.write(GAMMA, [entity(ALICE, GAMMA, created_at=_at(1)), _hacked(20)])
        await mirror.write(ALPHA, [_MOVED, _TRUE[0]])
        assert await left_homes(mirror)
        (left,) = await mirror.rows("select count(*) as number from mirror.left_homes")
        assert left["number"] == len(many) - OF_EACH_SERVER
        assert await mirror.rows("select from mirror.records where source = $1", GAMMA) == []


async def test_of_several_servers_without_proof_about_an_unknown_person_the_first_stands(
    database_url: str,
) -> None:
    """Provisional things of servers never replace each other; a home that becomes known settles it."""
    profiles = {domain: (domain, [profile(ALICE.ccid, username=domain)]) for domain in (ALPHA, BETA)}
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        for first, second in ((ALPHA, BETA), (BETA, ALPHA)):
            await _read_in(mirror, [profiles[first], profiles[second]])
            (stands,) = await mirror.rows("select source, provisional from mirror.records")
            assert stands == {"source": first, "provisional": True}
            await mirror.write(BETA, [entity(ALICE, BETA)])
            await finish(mirror, dict(profiles.values()), {})
            (stands,) = await mirror.rows("select source, provisional from mirror.records")
            assert stands == {"source": BETA, "provisional": False}
