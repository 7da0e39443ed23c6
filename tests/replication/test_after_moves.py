"""What was signed under a server's old name, after the server has moved: judged, crawled, and raced."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from indexer.mirror.knowledge import Knowledge
from indexer.mirror.moves import MoveRefusal, Moves
from indexer.mirror.pages import apply_changes
from indexer.replication.crawl import ManualCrawl
from indexer.replication.page import read_rows
from indexer.replication.rejudge import judge_stored
from indexer.replication.trust import TrustMode
from indexer.simulation.scripted import (
    ALPHA,
    BETA,
    GAMMA,
    SEED,
    community,
    community_key,
    document_address,
    entity,
    key_pair,
    post,
    post_key,
    scripted_server,
)
from tests.replication.network import LAYER, stage
from tests.replication.stage import NOW, SCHEMAS, open_mirror

if TYPE_CHECKING:
    from tests.replication.stage import Mirror

pytestmark = pytest.mark.anyio
ALICE, BOB = key_pair("alice"), key_pair("bob")
T0 = "2025-03-01T00:00:00Z"


async def move(mirror: Mirror) -> None:
    done = await Moves(mirror.database, indexed_schemas=SCHEMAS.indexed).move(
        ALPHA, BETA, now=NOW, by_operator=True
    )
    assert not isinstance(done, MoveRefusal)


async def test_judging_again_forgets_no_resident_of_a_server_that_moved(database_url: str) -> None:
    """Their documents say the old name."""
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, [entity(ALICE.ccid, ALPHA)])
        await move(mirror)
        await judge_stored(mirror.database, mirror.judge, SCHEMAS, now=NOW)
        assert await mirror.rows("select ccid, domain from mirror.entities") == [
            {"ccid": ALICE.ccid, "domain": BETA}
        ]


@pytest.mark.parametrize("trust", [TrustMode.OFF, TrustMode.AUTHORITY])
async def test_a_crawl_by_hand_asks_a_server_by_the_name_that_it_has_now(
    database_url: str, trust: TrustMode
) -> None:
    """What the old domain owns is the new one's, whoever holds the old domain."""
    cats = community(ALPHA, "cats", author=ALICE, name="ねこ")
    old, new = scripted_server(ALPHA, [(T0, cats)]), scripted_server(BETA, [(T0, cats)])
    async with stage(database_url, SEED, old, new, trust=trust) as on:
        await on.mirror.write(ALPHA, [])
        await move(on.mirror)
        judge = on.mirror.judge
        crawl = ManualCrawl(
            on.schedule._feeds,
            on.mirror.servers,
            Knowledge(on.mirror.database),
            on.mirror.writer,
            judge.prover.fetched if judge else None,
            seed=SEED,
            layer=LAYER,
            schemas=SCHEMAS,
            clock=on.clock,
        )
        done = await crawl.crawl(document_address(cats, ALPHA))
        assert done.source_server == BETA
        assert old.requests == []


async def test_the_old_name_has_no_say_any_more(database_url: str) -> None:
    """Neither about its own keys, nor about residents, nor about people whom nobody knows."""
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, [entity(ALICE, ALPHA)])
        await move(mirror)
        commits = [
            community(ALPHA, "cats", author=ALICE.ccid, name="ねこ"),
            post(ALICE.ccid, "1", "偽物"),
            post(BOB.ccid, "1", "偽物"),
        ]
        rows = read_rows(commits, now=NOW, indexed=SCHEMAS.malformed_kinds).rows
        changes = await mirror.writer.write_again(rows, ALPHA, now=NOW)
        assert [letter.reason for letter in changes.dead_letters] == ["not_authoritative"] * 3
        assert await mirror.keys() == set()
        await mirror.write(BETA, [community(ALPHA, "cats", author=ALICE.ccid, name="ねこ")])
        assert await mirror.keys() == {community_key(ALPHA, "cats")}


async def test_a_page_under_way_during_a_move_brings_no_old_name_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It told of a home by the old name, and is committed after the move."""
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, [])
        await mirror.write(GAMMA, [])
        applied, go = asyncio.Event(), asyncio.Event()

        async def slowly(connection: Any, changes: Any, **more: Any) -> None:
            await apply_changes(connection, changes, **more)
            applied.set()
            await go.wait()

        with monkeypatch.context() as patch:
            patch.setattr("indexer.replication.writer.apply_changes", slowly)
            page = asyncio.create_task(mirror.write(GAMMA, [entity(ALICE, ALPHA)]))
            await applied.wait()
            await move(mirror)
            go.set()
            await page
        await mirror.write(BETA, [post(ALICE.ccid, "1", "本人のサーバーで")])
        assert await mirror.keys() == {post_key(ALICE, "1")}
        home = await Knowledge(mirror.database).home_of(ALICE.ccid)
        assert home is not None
        assert home[0] == BETA
