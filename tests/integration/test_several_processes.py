"""Several real processes on one database (C42): they share the servers, take over, and fence who slept."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

from indexer.config import Settings
from indexer.mirror import database as stores
from indexer.simulation import faults
from indexer.simulation.faults import Endpoint
from indexer.simulation.network import Network
from indexer.simulation.run import serve
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    SEED,
    post,
    post_key,
    scripted_network,
    scripted_server,
)
from tests.integration.eventually import eventually
from tests.integration.processes import Store, end_in_order, indexer_process, run_until_drained
from tests.replication.stage import open_mirror

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]
TAKEN_OVER_WITHIN = 30.0
PACKAGE = Path(__file__).parents[2] / "indexer"


@asynccontextmanager
async def processes(
    folder: Path, count: int, overrides: Mapping[str, str], dsn: str, seed: str = SEED, **environ: str
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """So many indexers on one database, started together; each with a folder of its own."""
    async with AsyncExitStack() as stack:
        started = []
        for number in range(count):
            own = folder / str(number)
            own.mkdir(exist_ok=True)
            started.append(
                await stack.enter_async_context(indexer_process(own, seed, overrides, dsn, **environ))
            )
        yield started


async def _has(store: Store, key: str) -> bool:
    async with store.snapshot() as connection:
        return bool(
            await connection.fetchval("select exists (select from mirror.records where key = $1)", key)
        )


@pytest.mark.parametrize("count", [2, 3, 5])
async def test_processes_share_the_servers_of_one_database(
    tmp_path: Path, database_url: str, second_database_url: str, count: int
) -> None:
    """On an empty one, at once: one migration, one follower for each server, the end that one alone has."""
    network = Network.generate(seed="share", servers=4, commits=600)
    async with AsyncExitStack() as stack:
        running = await serve(network)
        stack.push_async_callback(running.stop)
        store, seed = Store(database_url), network.seed_domain
        overrides = running.host_overrides
        keeps = {f"INDEXER_CRAWL__{name}_INTERVAL": "1h" for name in ("MIN_POLL", "INCREMENTAL")}
        async with processes(tmp_path, count, overrides, database_url, seed, **keeps) as started:
            await eventually(lambda: store.is_drained(set(network.servers)))
            logs = [(tmp_path / str(number) / "indexer.log").read_text() for number in range(count)]
            assert [process.returncode for process in started] == [None] * count, "\n".join(logs)
            assert [await end_in_order(process) for process in started] == [0] * count
        # A poll of a feed that is drained in one run asks for every page once: nothing is asked for twice.
        for server in network.servers.values():
            asked = Counter(
                request.query.get("since") for request in server.requests_to(Endpoint.REPLICATION)
            )
            assert set(asked.values()) == {1}, asked
        assert await run_until_drained(tmp_path, seed, overrides, second_database_url) == 0
        other = Store(second_database_url)
        for counted in (store, other):
            await counted.tick(Settings())
        shared, alone = await store.tables(), await other.tables()
        # Which server a copy came from, and what never stood at all, depends on which feed was read first.
        for table in set(shared) - {"sources", "retired"}:
            assert shared[table] == alone[table], table


async def test_four_processes_with_a_role_each_do_all_the_work(tmp_path: Path, database_url: str) -> None:
    """Following, projecting, counting and answering, apart from each other."""
    roles = ("follow", "project", "activity", "api")
    async with scripted_network(SEED, ALPHA) as network, AsyncExitStack() as stack:
        network[ALPHA].receive("2025-03-01T00:00:00Z", post(ALICE, "1", "x"))
        started = []
        for role in roles:
            own = tmp_path / role
            own.mkdir()
            process = indexer_process(
                own,
                SEED,
                network.host_overrides,
                database_url,
                role=role,
                INDEXER_CRAWL__ACTIVITY_INTERVAL="200ms",
            )
            started.append(await stack.enter_async_context(process))
        store = Store(database_url)
        await eventually(lambda: store.is_drained({SEED, ALPHA}))

        async def counted() -> int:
            async with store.snapshot() as connection:
                count: int = await connection.fetchval(
                    "select count(*) from mirror.activity"
                    " where subject not in (select subject from mirror.activity_undelivered)"
                )
                return count

        await eventually(counted)
        async with store.snapshot() as connection:
            rows = await connection.fetch("select name, holder from mirror.leases")
        assert {row["name"] for row in rows} == {"discovery", "projection", "activity"}
        assert len({row["holder"] for row in rows}) == 3
        assert [await end_in_order(process) for process in started] == [0] * len(roles)


async def test_what_a_killed_process_held_is_taken_over(tmp_path: Path, database_url: str) -> None:
    """Its servers and its roles, within thirty seconds; also by one that has the same name and folder

    The standby has said that it waits, and says that it has taken over.
    """
    async with scripted_network(SEED, ALPHA) as network:
        overrides = network.host_overrides
        gate = asyncio.Event()
        network[ALPHA].faults.always(faults.hold(gate), on=Endpoint.REPLICATION)
        network[ALPHA].receive("2025-03-01T00:00:00Z", post(ALICE, "1", "x"))
        keeps = {"INDEXER_CRAWL__REQUEST_TIMEOUT": "1h"}
        async with processes(tmp_path, 1, overrides, database_url, **keeps) as (killed,):
            await network[ALPHA].wait_for_requests(1)
            killed.kill()
            await killed.wait()
            began = time.monotonic()
            network[ALPHA].faults.clear()
            async with processes(tmp_path, 1, overrides, database_url, **keeps):
                await eventually(lambda: Store(database_url).is_drained({SEED, ALPHA}), seconds=60)
                assert time.monotonic() - began < TAKEN_OVER_WITHIN
                log = tmp_path / "0" / "indexer.log"

                async def told() -> bool:
                    lines = log.read_text().splitlines()
                    return any("from now on" in line and '"projection"' in line for line in lines)

                await eventually(told)


async def test_a_process_that_slept_changes_nothing_when_it_wakes(tmp_path: Path, database_url: str) -> None:
    """Stopped in the middle of a page for longer than its lease: its page has no effect, the others' have."""
    alpha = scripted_server(ALPHA)
    async with scripted_network(SEED, alpha) as network:
        alpha.receive("2025-03-01T00:00:00Z", post(ALICE, "1", "x"))
        blocker = await asyncpg.connect(database_url)
        try:
            async with processes(tmp_path, 1, network.host_overrides, database_url) as (sleeper,):
                store = Store(database_url)
                await eventually(lambda: store.is_drained({SEED, ALPHA}))
                async with blocker.transaction():
                    # The page has been fetched and waits to be applied.
                    await blocker.execute("lock table mirror.servers in access exclusive mode")
                    alpha.receive("2025-03-01T00:00:01Z", post(ALICE, "2", "x"))
                    waiting = "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock'"
                    await eventually(lambda: blocker.fetchval(waiting))
                    sleeper.send_signal(signal.SIGSTOP)
                other = tmp_path / "other"
                other.mkdir()
                async with indexer_process(other, SEED, network.host_overrides, database_url) as awake:
                    began = time.monotonic()
                    alpha.receive("2025-03-01T00:00:02Z", post(ALICE, "3", "x"))
                    await eventually(lambda: _has(store, post_key(ALICE, "3")), seconds=60)
                    assert time.monotonic() - began < TAKEN_OVER_WITHIN
                    sleeper.send_signal(signal.SIGCONT)
                    alpha.receive("2025-03-01T00:00:03Z", post(ALICE, "4", "x"))
                    await eventually(lambda: _has(store, post_key(ALICE, "4")), seconds=60)
                    await eventually(lambda: store.is_drained({SEED, ALPHA}))
                    assert await end_in_order(awake) == 0
                assert await end_in_order(sleeper) == 0
            tables = await store.tables()
            assert {row[0] for row in tables["records"]} == {post_key(ALICE, str(n)) for n in range(1, 5)}
            assert {row[0]: row[1] for row in tables["counts"]} == {SEED: 0, ALPHA: 4}, "each is counted once"
            assert len(tables["concrnt_posts"]) == 4
        finally:
            await blocker.close()


SESSIONS_OWN = re.compile(
    r"pg_(try_)?advisory_lock|^ *listen |create temp|declare \w+ cursor|set session|\.add_listener",
    re.IGNORECASE | re.MULTILINE,
)


def test_no_statement_belongs_to_a_session() -> None:
    """C42: behind a pooler of transactions each may run on another session, and none is given up."""
    assert SESSIONS_OWN.search("select pg_advisory_lock(7)")
    files = [*PACKAGE.rglob("*.sql"), *PACKAGE.rglob("*.py")]
    assert len(files) > 100
    assert [file.name for file in files if SESSIONS_OWN.search(file.read_text(encoding="utf-8"))] == []


async def test_a_sleeping_transaction_gives_its_locks_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sleeps in it finds, when it wakes, that nothing of it was applied."""
    monkeypatch.setattr(stores, "_IDLE_IN_TRANSACTION", "200ms")
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [])

        async def sleeping(connection: stores.Connection) -> None:
            await connection.execute("update mirror.servers set commits = 99")
            other = await asyncpg.connect(database_url)
            try:  # it waits until the lock is given back
                await other.execute("update mirror.servers set malformed = 7")
            finally:
                await other.close()
            await connection.execute("update mirror.servers set rejected = 99")

        with pytest.raises(stores.StoreUnavailable):
            await mirror.database.transaction("sleeps", sleeping)
        rows = await mirror.rows("select commits, malformed, rejected from mirror.servers")
        assert rows == [{"commits": 0, "malformed": 7, "rejected": 0}]
