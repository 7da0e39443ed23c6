"""People who leave, and records that turn private, without a word in any log (C30 e)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from indexer.concrnt.client import PeerClient, PeerError
from indexer.mirror.owners import Owners
from indexer.replication.feeds import Feeds
from indexer.replication.verifying import UnknownHome, verify_owner
from indexer.simulation.faults import Endpoint, body, redirect, status
from indexer.simulation.scripted import (
    ALPHA,
    BETA,
    CAROL,
    ack,
    community,
    community_key,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
    reference,
)
from tests.replication.network import stage

if TYPE_CHECKING:
    from indexer.replication.verifying import Verified
    from indexer.simulation.faults import Fault
    from indexer.simulation.wire import Request
    from tests.replication.network import Stage

pytestmark = pytest.mark.anyio

ALICE, BOB = key_pair("alice"), key_pair("bob")


async def _verify(at: Stage, owner: str, *, only_look: bool = False, sure_only: bool = False) -> Verified:
    async with PeerClient(
        user_agent="test",
        request_timeout=5,
        max_response_bytes=2**20,
        host_overrides=at.network.host_overrides,
        clock=at.clock,
    ) as peers:
        return await verify_owner(
            owner,
            Feeds(peers),
            Owners(at.mirror.database, sure_only=sure_only),
            clock=at.clock,
            only_look=only_look,
        )


async def _fill(at: Stage) -> None:
    """Alice and Bob live at alpha and follow each other; Alice posts to a community of beta."""
    cats = community_key(BETA, "cats")
    at[ALPHA].receive(
        "2025-05-01T00:00:00Z",
        entity(ALICE, domain=ALPHA),
        entity(BOB, domain=ALPHA),
        profile(ALICE, username="ありす"),
        profile(BOB, username="ぼぶ"),
        *(post(ALICE, f"{number}", "ねこ") for number in range(3)),
        post(BOB, "0", "いぬ"),
        ack(ALICE, BOB),
        ack(BOB, ALICE),
    )
    at[BETA].receive(
        "2025-05-01T00:00:00Z",
        community(BETA, "cats", author=BOB, name="ねこ"),
        reference(cats, post_key(ALICE, "0"), author=ALICE),
    )
    await at.crawl()
    await at.crawl()


def _forgets(at: Stage, *parts: str) -> None:
    """Alpha answers 404 for what these texts are part of."""

    def choose(request: Request) -> Fault | None:
        uri = request.query.get("uri", "")
        return status(404) if any(part in uri for part in parts) else None

    at[ALPHA].faults.script(choose, on=Endpoint.RESOLVE)


async def test_a_person_who_has_left_goes_whole(database_url: str) -> None:
    """Records, references to them on other servers, and follows; of others nothing goes."""
    async with stage(database_url) as at:
        await _fill(at)
        before = await at.mirror.keys()
        assert len(before) == 8
        _forgets(at, ALICE.ccid)
        looked = await _verify(at, ALICE.ccid, only_look=True)
        assert looked.has_left
        assert await at.mirror.keys() == before
        found = await _verify(at, ALICE.ccid)
        assert (found.asked, len(found.withdrawn), found.references, found.follows) == (4, 4, 1, 1)
        assert await at.mirror.keys() == {
            profile_key(BOB),
            post_key(BOB, "0"),
            community_key(BETA, "cats"),
        }
        acks = await at.mirror.rows("select acker from mirror.acks where valid")
        assert [row["acker"] for row in acks] == [BOB.ccid]
        marked = await at.mirror.rows("select key from mirror.projection_queue")
        assert before - await at.mirror.keys() <= {row["key"] for row in marked}
        assert (await _verify(at, ALICE.ccid)).asked == 0


async def test_a_single_record_that_turned_private_goes_alone(database_url: str) -> None:
    """The person stays, and so does what is a redirect."""
    async with stage(database_url) as at:
        await _fill(at)
        before = await at.mirror.keys()
        _forgets(at, "posts%2F1", "posts/1")
        found = await _verify(at, ALICE.ccid)
        assert not found.has_left
        assert found.withdrawn == [post_key(ALICE, "1")]
        assert before - await at.mirror.keys() == {post_key(ALICE, "1")}
        at[ALPHA].faults.clear()
        at[ALPHA].faults.always(redirect("https://elsewhere.example/"), on=Endpoint.RESOLVE)
        assert (await _verify(at, ALICE.ccid)).withdrawn == []


async def test_a_server_that_fails_proves_nothing(database_url: str) -> None:
    """Whatever else it answers, nothing is taken away."""
    async with stage(database_url) as at:
        await _fill(at)
        before = await at.mirror.keys()
        for fault in (status(500), status(503), status(401)):
            at[ALPHA].faults.always(fault, on=Endpoint.RESOLVE)
            with pytest.raises(PeerError):
                await _verify(at, ALICE.ccid)
            at[ALPHA].faults.clear()
        assert await at.mirror.keys() == before
        with pytest.raises(UnknownHome):
            await _verify(at, CAROL)
        assert (await _verify(at, BETA)).withdrawn == []


async def test_whom_nobody_surely_speaks_for_is_not_asked_about(database_url: str) -> None:
    """A home by mere claim, where words are judged; a name that somebody else answers to."""
    async with stage(database_url) as at:
        await _fill(at)
        before = await at.mirror.keys()
        _forgets(at, ALICE.ccid)
        await at.mirror.database.execute("update mirror.entities set standing = 0")
        with pytest.raises(UnknownHome):
            await _verify(at, ALICE.ccid, sure_only=True)
        other = json.dumps({"domain": "other.example", "csid": "x", "layer": "x", "endpoints": {}})
        at[ALPHA].faults.always(body(other.encode()), on=Endpoint.WELL_KNOWN)
        with pytest.raises(UnknownHome):
            await _verify(at, ALICE.ccid)
        assert await at.mirror.keys() == before


async def test_a_server_that_moved_is_asked_by_its_new_name(database_url: str) -> None:
    """Of its own records and of its residents'."""
    async with stage(database_url) as at:
        await _fill(at)
        await at.mirror.database.execute("insert into mirror.moves values ($1, $2, now())", ALPHA, BETA)
        assert (await _verify(at, ALICE.ccid, only_look=True)).server == BETA
        assert (await _verify(at, ALPHA, only_look=True)).server == BETA


async def test_references_by_document_go_with_it(database_url: str) -> None:
    """As those by key do."""
    async with stage(database_url) as at:
        await _fill(at)
        await at.mirror.database.execute(
            "update mirror.records r set href = 'ccfs://' || p.owner || '/concrnt/' || p.cdid"
            " from mirror.records p where r.href = p.key"
        )
        _forgets(at, "posts%2F0", "posts/0")
        assert (await _verify(at, ALICE.ccid)).references == 1
