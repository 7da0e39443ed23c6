"""`doctor`: what is in order, and what to do where something is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from indexer import doctor
from indexer.doctor import diagnose
from indexer.simulation import faults
from indexer.simulation.scripted import ALPHA, SEED, scripted_network
from tests.integration.house import settings_of
from tests.replication.stage import open_mirror

if TYPE_CHECKING:
    from indexer.config import Settings

pytestmark = pytest.mark.anyio


async def _wrong(settings: Settings) -> dict[str, dict[str, Any]]:
    found = await diagnose(settings)
    wrong = {check["name"]: check for check in found["checks"] if not check["ok"]}
    assert found["ok"] is not bool(wrong)
    assert all(check["advice"] for check in wrong.values())
    assert all(set(check) == {"name", "ok", "detail", "advice"} for check in found["checks"])
    return wrong


async def test_what_is_in_order_and_what_is_not(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is named with advice; none hides another."""
    async with scripted_network(SEED, ALPHA) as network:
        settings = settings_of(SEED, network.host_overrides, database_url)
        assert set(await _wrong(settings)) == {"migrations"}
        async with open_mirror(database_url) as mirror:
            assert await _wrong(settings) == {}
            await mirror.write(ALPHA, [])
            await mirror.database.execute("update mirror.servers set state = 'stale'")
            await mirror.database.execute(
                "insert into mirror.projection_queue (key, marked_at) values ('a', now() - interval '1 day')"
            )
            monkeypatch.setattr(doctor, "MINIMUM_FREE_BYTES", 2**62)
            network[SEED].faults.always(faults.status(500))
            assert set(await _wrong(settings)) == {"servers", "queue", "disk", "seed"}


async def test_a_database_that_is_away_is_named(database_url: str) -> None:
    """The seed is asked all the same."""
    async with scripted_network(SEED) as network:
        settings = settings_of(SEED, network.host_overrides, "postgresql://nobody@127.0.0.1:9/none")
        network[SEED].layer = "concrnt-devnet"
        assert set(await _wrong(settings)) == {"database", "seed"}
