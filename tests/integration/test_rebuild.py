"""`rebuild`: what is stored is judged in the mode of today, and documents are made anew; nobody is asked."""

from __future__ import annotations

import pytest

from indexer.engines.indexes import INDEXES
from indexer.maintenance import run_builds, run_comparison
from indexer.simulation.scripted import (
    ALPHA,
    BETA,
    SEED,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
)
from tests.integration.engines import ENGINES
from tests.integration.house import settings_of
from tests.replication.stage import open_mirror

pytestmark = pytest.mark.anyio

UIDS = [definition.uid for definition in INDEXES]
ALICE = key_pair("alice")


async def _read_believing(database_url: str) -> None:
    """Alice lives at alpha and posts; beta says what she never did. Everybody is believed."""
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [entity(ALICE, ALPHA), profile(ALICE), post(ALICE, "true", "ほんとう")])
        forged = post(ALICE.ccid, "forged", "うそ")  # by her name, without a proof
        await mirror.write(BETA, [forged])


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_changed_mode_of_trust_applies_to_what_is_stored(
    database_url: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was believed goes from mirror and index; nobody is asked."""
    await _read_believing(database_url)
    believing = settings_of(SEED, {}, database_url)
    async with ENGINES[engine](believing, monkeypatch) as settings:
        built = await run_builds(settings, UIDS, reason="reindex", show=lambda _: None)
        assert {row["index"]: row["documents"] for row in built}["concrnt_posts"] == 2
        doubting = settings.model_copy(
            update={"trust": settings_of(SEED, {}, database_url, trust="authority").trust}
        )
        built = await run_builds(doubting, UIDS, reason="rebuild", show=lambda _: None, judging=True)
        assert {row["index"]: row["documents"] for row in built}["concrnt_posts"] == 1
        compared = await run_comparison(doubting, UIDS, repairing=False)
        assert all(row["ok"] for row in compared)
    async with open_mirror(database_url) as mirror:
        assert await mirror.keys() == {profile_key(ALICE), post_key(ALICE, "true")}
