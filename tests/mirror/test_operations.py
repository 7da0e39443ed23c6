"""What an operator does by hand: servers and dead letters."""

from __future__ import annotations

import json

import pytest

from indexer.config import load_settings
from indexer.errors import ExpectedError
from indexer.mirror.operations import Operations
from indexer.mirror.servers import LeaseLostError
from indexer.operate import (
    change_server,
    list_dead_letters,
    purge_dead_letters,
    retry_dead_letters,
    show_dead_letter,
)
from indexer.replication.trust import TrustMode
from indexer.simulation.scripted import ALICE, ALPHA, BETA, community, community_key, post, post_key
from tests.replication.stage import NOW, open_mirror

pytestmark = pytest.mark.anyio


async def test_a_paused_server_is_not_claimed_and_its_run_loses_the_lease(database_url: str) -> None:
    """Until it is resumed; then it is due at once."""
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [])
        (lease,) = await mirror.servers.claim_due(now=NOW, limit=5, holder="h", lease_seconds=30)
        operations = Operations(mirror.database)
        assert await operations.pause(ALPHA, now=NOW)
        with pytest.raises(LeaseLostError):
            await mirror.servers.wait(lease, until=NOW, now=NOW, why="late")
        assert await mirror.servers.claim_due(now=NOW, limit=5, holder="h", lease_seconds=30) == []
        assert not await operations.run_now(ALPHA, now=NOW)
        assert await operations.resume(ALPHA, now=NOW)
        assert not await operations.resume(ALPHA, now=NOW)
        claimed = await mirror.servers.claim_due(now=NOW, limit=5, holder="h", lease_seconds=30)
        assert [lease.domain for lease in claimed] == [ALPHA]


async def test_a_reset_server_is_read_from_its_start_and_keeps_what_is_known(database_url: str) -> None:
    """Its failures are forgotten, its rows stay."""
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [post(ALICE, "1", "x")])
        await mirror.database.execute(
            "update mirror.cursors set cursor = '2025-03-01T00:00:00Z', cursor_ns = 7"
        )
        assert await Operations(mirror.database).reset(ALPHA, now=NOW)
        state = await mirror.servers.state_of(ALPHA)
        assert state is not None
        assert (state.cursor, state.replay_until_ns) == (None, 7)
        assert await mirror.keys() == {post_key(ALICE, "1")}
        assert not await Operations(mirror.database).reset(BETA, now=NOW)


async def test_a_dead_letter_that_is_accepted_today_is_applied_and_dropped(database_url: str) -> None:
    """One that is still malformed stays; purging forgets it."""
    settings = load_settings(None, {"INDEXER_BACKENDS__POSTGRES_DSN": database_url})
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [b'{"document": 7}'])
        good = post(ALICE, "1", "やあ")
        await mirror.database.execute(
            "insert into mirror.dead_letters (domain, digest, kind, reason, commit, seen_at)"
            " values ($1, 'x', 'commit', 'future_date', $2, now())",
            ALPHA,
            json.dumps(json.loads(good)),
        )
        listed = await list_dead_letters(settings, ALPHA, 10)
        assert [row["reason"] for row in listed] == ["future_date", "document_not_string"]
        assert await list_dead_letters(settings, BETA, 10) == []
        assert (await show_dead_letter(settings, listed[1]["id"]))["commit"] == '{"document": 7}'
        assert await retry_dead_letters(settings, None, None) == {"retried": 2, "applied": 1}
        assert await mirror.keys() == {post_key(ALICE, "1")}
        assert await purge_dead_letters(settings, ALPHA) == 1
        assert await list_dead_letters(settings, None, 10) == []
        with pytest.raises(ExpectedError):
            await show_dead_letter(settings, 1)
        with pytest.raises(ExpectedError):
            await change_server(settings, "pause", "unknown.example")
        assert await change_server(settings, "pause", f"{ALPHA.upper()}.") == ALPHA
        with pytest.raises(ExpectedError):
            await retry_dead_letters(settings, None, 10**6)


async def test_what_trust_refused_is_refused_again(database_url: str) -> None:
    """A retry judges as feeds are judged; the letter stays, and is counted once."""
    settings = load_settings(None, {"INDEXER_BACKENDS__POSTGRES_DSN": database_url})
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(BETA, [community(ALPHA, "cats", author=ALICE, name="偽物 😀")])
        for _ in range(2):
            assert await retry_dead_letters(settings, None, None) == {"retried": 1, "applied": 0}
        assert await mirror.keys() == set()
        everybody = load_settings(
            None, {"INDEXER_BACKENDS__POSTGRES_DSN": database_url, "INDEXER_TRUST__MODE": "off"}
        )
        assert await mirror.rows("select rejected from mirror.servers") == [{"rejected": 1}]
        assert await retry_dead_letters(everybody, None, None) == {"retried": 1, "applied": 1}
        assert await mirror.value(community_key(ALPHA, "cats")) == {"name": "偽物 😀"}
