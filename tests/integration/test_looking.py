"""`inspect` and `doctor`, over a network that was read (behaviour.md, section 9)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import asyncpg
import pytest

from indexer.app import fetch_activity, fetch_statistics
from indexer.doctor import examine
from indexer.errors import ExpectedError
from indexer.inspection import inspect
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BOB,
    SEED,
    community,
    community_key,
    delete,
    post,
    post_key,
    profile,
    profile_key,
    reference,
    scripted_network,
)
from tests.engines.meili_double import serve_double
from tests.integration.house import running_house, settings_of

if TYPE_CHECKING:
    from indexer.config import Settings

pytestmark = pytest.mark.anyio

RECEIVED = "2025-03-01T00:00:00Z"


async def _verdicts(settings: Settings) -> dict[str, bool]:
    return {finding.name: finding.ok for finding in await examine(settings)}


async def test_everything_that_is_known_of_a_key(database_url: str) -> None:
    """What stands there, in any spelling; what was deleted; what is below; nothing at all."""
    cats = community_key(ALPHA, "cats")
    async with scripted_network(SEED, ALPHA) as network:
        network[ALPHA].receive(
            RECEIVED,
            profile(ALICE, username="猫"),
            community(ALPHA, "cats", author=ALICE, name="広場"),
            post(ALICE, "1", "a"),
            post(ALICE, "2", "b"),
            reference(cats, post_key(ALICE, "1"), author=ALICE),
            delete(post_key(ALICE, "2"), author=ALICE),
        )
        settings = settings_of(SEED, network.host_overrides, database_url)
        async with running_house(settings) as running:
            await running.drained(ALPHA)
            shown = (await running.search("users"))[0]
        key = profile_key(ALICE)
        for spelling in (key, key.replace("profiles", "%70rofiles")):
            found = await inspect(settings, spelling)
            assert list(found) == ["key", "record", "tombstone", "entries", "queue", "document"]
            assert found["key"] == key
            assert json.loads(found["record"]["signed"])["document"]
            assert found["record"]["sourceServer"] == ALPHA
            assert found["document"]["index"] == "concrnt_users"
            assert found["document"]["username"] == shown["username"]
            assert found["tombstone"] is found["queue"] is None
        gone = await inspect(settings, post_key(ALICE, "2"))
        assert gone["record"] is gone["document"] is gone["entries"] is None
        assert (gone["tombstone"]["scope"], gone["tombstone"]["author"]) == ("key", ALICE)
        below = (await inspect(settings, cats))["entries"]
        assert below["count"] == len(below["newest"]) == 1
        nothing = await inspect(settings, post_key(ALICE, "3"))
        assert {part for part in nothing if nothing[part] is not None} == {"key"}
        for unknown in (post_key(ALICE, "1"), community_key(ALPHA, "none"), BOB):
            with pytest.raises(ExpectedError) as refused:
                await fetch_activity(settings, unknown)
            assert (refused.value.code, refused.value.exit_code) == ("not_found", 1)
        for known in (cats, ALICE):
            assert (await fetch_activity(settings, known))["subject"] == known
        for wrong in ("", "x", "cckv://", f"cckv://{ALICE}", "https://a.example/", "cckv://@a.example/b"):
            with pytest.raises(ExpectedError) as refused:
                await inspect(settings, wrong)
            assert refused.value.exit_code == 2


async def test_who_looks_leaves_meilisearch_as_it_is(database_url: str) -> None:
    """A filled one is well; a wiped one is not, and stays so: `doctor`, `inspect`, `stats` send no task."""
    async with scripted_network(SEED, ALPHA) as network, serve_double() as double:
        network[ALPHA].receive(RECEIVED, profile(ALICE))
        settings = settings_of(SEED, network.host_overrides, database_url)
        backends = settings.backends.model_copy(
            update={"meili_host": double.url, "meili_api_key": double.key}
        )
        settings = settings.model_copy(update={"backends": backends})
        async with running_house(settings) as running:
            await running.drained(ALPHA)
            await running.search("users")
        assert (await _verdicts(settings))["engine"]
        assert (await inspect(settings, profile_key(ALICE)))["document"]
        double.wipe()
        tasks = len(double.tasks)
        assert not (await _verdicts(settings))["engine"]
        assert (await inspect(settings, profile_key(ALICE)))["document"] is None
        assert (await fetch_statistics(settings))["search"]["indexes"] == {}
        assert (len(double.tasks), double.indexes) == (tasks, {})


async def test_the_doctor_finds_what_is_wrong(database_url: str) -> None:
    """All is well after a run; each trouble fails its own check and no other."""
    async with scripted_network(SEED, ALPHA) as network:
        network[ALPHA].receive(RECEIVED, profile(ALICE))
        settings = settings_of(SEED, network.host_overrides, database_url)
        async with running_house(settings) as running:
            await running.drained(ALPHA)
            checks = await examine(settings)
            assert [finding.name for finding in checks if not finding.ok] == []
            assert {finding.advice for finding in checks} == {""}
            healthy = {finding.name: True for finding in checks}
            assert {
                "database",
                "migrations",
                "engine",
                "queue",
                "following",
                "seed",
                "clock",
            } <= healthy.keys()

            other = settings.model_copy(
                update={"crawl": settings.crawl.model_copy(update={"seed": "nowhere.example"})}
            )
            assert await _verdicts(other) == healthy | {"seed": False}
            layer = settings.model_copy(
                update={"crawl": settings.crawl.model_copy(update={"layer": "another"})}
            )
            assert await _verdicts(layer) == healthy | {"seed": False}
        assert not (await _verdicts(settings))["processes"], "the house has ended"
        troubles: list[tuple[str, str, list[Any]]] = [
            (
                "queue",
                "insert into mirror.projection_queue values ('x', 1, $1)",
                [_ago(hours=1)],
            ),
            ("following", "update mirror.servers set next_poll_at = $1, lease_until = null", [_ago(hours=1)]),
            ("logs", "update mirror.servers set state = 'clock_ahead' where domain = $1", [ALPHA]),
            ("servers", "update mirror.servers set state = 'stale' where domain <> $1", ["none"]),
            ("migrations", "delete from mirror.schema_migrations where version = $1", [4]),
        ]
        async with _Trouble(settings) as trouble:
            for name, statement, arguments in troubles:
                before = await _verdicts(settings)
                await trouble.make(statement, arguments)
                after = await _verdicts(settings)
                assert before.get(name) is not False
                assert after[name] is False
        away = settings.model_copy(
            update={
                "backends": settings.backends.model_copy(
                    update={"postgres_dsn": "postgresql://127.0.0.1:1/nothing"}
                )
            }
        )
        verdicts = await _verdicts(away)
        assert (verdicts["database"], verdicts["seed"], "engine" in verdicts) == (False, True, False)


def _ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


class _Trouble:
    """Changes the store behind everybody's back."""

    def __init__(self, settings: Settings) -> None:
        self._dsn = settings.backends.postgres_dsn

    async def __aenter__(self) -> Self:
        self._connection = await asyncpg.connect(self._dsn)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def make(self, statement: str, arguments: list[Any]) -> None:
        await self._connection.execute(statement, *arguments)
