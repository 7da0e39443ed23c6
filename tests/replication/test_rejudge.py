"""What is stored, judged again after a change of mode."""

from __future__ import annotations

import pytest

from indexer.replication.judge import Judge
from indexer.replication.rejudge import judge_stored
from indexer.replication.trust import TrustMode
from indexer.simulation.scripted import (
    ALPHA,
    BETA,
    community,
    community_key,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
)
from tests.replication.stage import NOW, SCHEMAS, open_mirror

pytestmark = pytest.mark.anyio
ALICE, EVE = key_pair("alice"), key_pair("eve")
LATE = "2025-05-01T00:00:00Z"


@pytest.mark.parametrize("mode", [TrustMode.AUTHORITY, TrustMode.STRICT])
async def test_a_stricter_mode_removes_what_it_would_not_have_accepted(
    database_url: str, mode: TrustMode
) -> None:
    """Forged records go and are marked; true copies and, in `authority`, what has no proof at home stay."""
    truth = [
        entity(ALICE, ALPHA),
        profile(ALICE.ccid, username="古い"),
        post(ALICE, "1", "本物"),
        community(ALPHA, "cats", author=ALICE, name="ねこ"),
    ]
    hostile = [
        entity(ALICE.ccid, BETA, created_at="2025-01-01T00:00:00Z"),
        post(ALICE.ccid, "2", "偽物", created_at=LATE),
        post(ALICE, "3", "写し"),
        community(ALPHA, "dogs", author=EVE, name="偽物"),
        profile(EVE.ccid, username="誰"),
    ]
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, truth)
        await mirror.write(BETA, hostile)
        assert len(await mirror.keys()) == 7
        await mirror.database.execute("truncate mirror.projection_queue")
        judge = Judge(mode, follows=SCHEMAS.acks)
        for _ in range(2):
            await judge_stored(mirror.database, judge, SCHEMAS, now=NOW)
        judge.close()
        kept = {post_key(ALICE, "1"), post_key(ALICE, "3"), community_key(ALPHA, "cats")}
        if mode is TrustMode.AUTHORITY:
            kept |= {profile_key(ALICE), profile_key(EVE)}
        assert await mirror.keys() == kept
        marks = await mirror.rows("select key from mirror.projection_queue where key like 'cckv:%'")
        assert post_key(ALICE, "2") in {row["key"] for row in marks}
        provisional = await mirror.rows("select key from mirror.records where provisional")
        asked = await mirror.rows("select owner from mirror.unresolved")
        if mode is TrustMode.AUTHORITY:
            assert provisional == [{"key": profile_key(EVE)}]
            assert asked == [{"owner": EVE.ccid}]
        homes = await mirror.rows("select ccid, domain, standing from mirror.entities")
        assert homes == [{"ccid": ALICE.ccid, "domain": ALPHA, "standing": 2}]
