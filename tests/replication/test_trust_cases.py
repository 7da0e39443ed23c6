"""Inputs that broke other indexers, read in `authority` and in `strict`: two servers about one thing."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from indexer.replication.trust import Refusal, TrustMode
from indexer.simulation.scripted import (
    ALPHA,
    BETA,
    ack,
    acked,
    delete,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
    signed,
)
from tests.replication.stage import open_mirror

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.replication.stage import Mirror

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", [TrustMode.AUTHORITY, TrustMode.STRICT])]

ALICE, BOB = key_pair("alice"), key_pair("bob")
T = [f"2025-03-0{day}T00:00:00Z" for day in range(1, 6)]
HOME = entity(ALICE, ALPHA, created_at=T[0])
Feeds = tuple[tuple[str, "Sequence[bytes]"], ...]


async def read_all(mirror: Mirror, feeds: Feeds, *, page: int) -> None:
    """Read feeds one after the other, then all of them three times again, as overlaps do."""
    await mirror.clear()
    for times in range(4):
        for source, commits in feeds:
            for start in range(0, len(commits), page):
                rows = commits[start : start + page]
                await mirror.write(source, rows, behind=len(rows) if times else 0)


@pytest.mark.parametrize("page", [1, 2, 100])
async def test_deleted_things_stay_deleted_whoever_brings_a_proven_copy(
    database_url: str, mode: TrustMode, page: int
) -> None:
    """In all orders of the two feeds: what was made anew lives, what was deleted does not come back."""
    base = post_key(ALICE, "1").removesuffix("/1")
    of_alpha = [
        HOME,
        post(ALICE, "1", "初め", created_at=T[1]),
        delete(f"{base}/*", author=ALICE, created_at=T[2]),
        post(ALICE, "1", "もう一度", created_at=T[3]),
        delete(post_key(ALICE, "2"), author=ALICE, created_at=T[4]),
    ]
    of_beta = [post(ALICE, "2", "昔", created_at=T[0]), post(ALICE, "1", "初め", created_at=T[1])]
    async with open_mirror(database_url, mode) as mirror:
        for feeds in permutations([(ALPHA, of_alpha), (BETA, of_beta)]):
            await read_all(mirror, feeds, page=page)
            assert await mirror.keys() == {post_key(ALICE, "1")}
            assert await mirror.value(post_key(ALICE, "1")) == {"body": "もう一度"}


async def test_an_older_proven_copy_never_wins(database_url: str, mode: TrustMode) -> None:
    """A lagging server's older version; two versions of one instant end the same in both orders."""
    newer, older = (profile(ALICE, username=name, created_at=at) for name, at in (("v2", T[3]), ("v1", T[2])))
    twins = [profile(ALICE, username=name, created_at=T[3]) for name in ("一", "二")]
    async with open_mirror(database_url, mode) as mirror:
        for feeds in permutations([(ALPHA, [HOME, newer]), (BETA, [older])]):
            await read_all(mirror, feeds, page=100)
            assert await mirror.value(profile_key(ALICE)) == {"username": "v2"}
        ends = []
        for feeds in permutations([(ALPHA, [HOME, twins[0]]), (BETA, [twins[1]])]):
            await read_all(mirror, feeds, page=100)
            ends.append(await mirror.value(profile_key(ALICE)))
        assert ends[0] == ends[1]


async def test_a_date_far_ahead_harms_only_itself(database_url: str, mode: TrustMode) -> None:
    """A delete and a follow of 2099 are malformed, with proofs, and on the owner's own server too."""
    far = "2099-01-01T00:00:00Z"
    of_alpha = [
        HOME,
        post(ALICE, "1", "前", created_at=T[1]),
        delete(f"{profile_key(ALICE)}*", author=ALICE, created_at=far),
        ack(ALICE, BOB, created_at=far),
        entity(ALICE, BETA, created_at=far),
        post(ALICE, "2", "後", created_at=T[2]),
        ack(ALICE, BOB, kind="unack", created_at=T[2]),
    ]
    of_beta = [post(ALICE, "3", "写し", created_at=T[3])]
    async with open_mirror(database_url, mode) as mirror:
        for feeds in permutations([(ALPHA, of_alpha), (BETA, of_beta)]):
            await read_all(mirror, feeds, page=100)
            assert await mirror.keys() == {post_key(ALICE, number) for number in "123"}
            assert await mirror.rows("select valid from mirror.acks") == [{"valid": False}]
            assert await mirror.rows("select domain from mirror.entities") == [{"domain": ALPHA}]
            letters = await mirror.rows("select distinct reason from mirror.dead_letters")
            assert letters == [{"reason": "future_date"}]


async def test_one_follow_told_by_both_servers_in_any_order(database_url: str, mode: TrustMode) -> None:
    """The acker's server says it, the ackee's derives it; repeated and out of order, the newest stands."""
    of_alpha = [
        HOME,
        ack(ALICE, BOB, kind="unack", created_at=T[0]),
        ack(ALICE, BOB, created_at=T[1]),
        ack(ALICE, BOB, kind="unack", created_at=T[2]),
    ]
    of_beta = [
        acked(ALICE, BOB, created_at=T[1]),
        acked(ALICE, BOB, kind="unacked", created_at=T[2]),
        acked(ALICE, BOB, created_at=T[3]),
    ]
    async with open_mirror(database_url, mode) as mirror:
        for feeds in permutations([(ALPHA, of_alpha), (BETA, of_beta)]):
            await read_all(mirror, feeds, page=1)
            (follow,) = await mirror.rows("select acker, ackee, valid, provisional from mirror.acks")
            assert follow == {"acker": ALICE.ccid, "ackee": BOB.ccid, "valid": True, "provisional": False}


async def test_what_is_refused_costs_one_row_and_one_dead_letter(database_url: str, mode: TrustMode) -> None:
    """Between good rows; ten readings make no ten letters; reasons are of a closed list, texts are cut."""
    bad = [
        post(ALICE.ccid, "9", "偽物"),
        signed({"kind": "delete", "author": ALICE.ccid, "schema": "", "value": post_key(ALICE, "1")}),
        post(ALICE.ccid, "8", "長" * 30_000),
    ]
    good = [post(ALICE, str(number), "やあ") for number in range(3)]
    mixed = [commit for pair in zip(good, bad, strict=True) for commit in pair]
    async with open_mirror(database_url, mode) as mirror:
        await mirror.write(ALPHA, [HOME])
        for _ in range(10):
            await mirror.write(BETA, mixed)
        assert await mirror.keys() == {post_key(ALICE, str(number)) for number in range(3)}
        letters = await mirror.rows("select reason, length(commit) as length from mirror.dead_letters")
        assert len(letters) == 3
        assert {letter["reason"] for letter in letters} - set(Refusal) <= {"no_created_at"}
        assert max(letter["length"] for letter in letters) <= 16 * 1024
