"""Told to stop, a process ends within 15 seconds with exit code 0, whatever hangs; told twice, at once."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio.to_thread
import asyncpg
import httpx
import msgspec
import psutil
import pytest

from indexer.mirror.embedded import start_embedded
from indexer.simulation import faults
from indexer.simulation.faults import Endpoint
from indexer.simulation.scripted import ALICE, ALPHA, SEED, post, post_key, scripted_network
from tests.integration.eventually import eventually
from tests.integration.processes import COMMAND, Store, end_in_order, indexer_process
from tests.integration.test_outage import hanging

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from indexer.simulation.scripted import ScriptedNetwork

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]
SECONDS = 15.0
_KEEPS = {"INDEXER_CRAWL__REQUEST_TIMEOUT": "1h", "INDEXER_TRUST__MODE": "authority"}
Process = asyncio.subprocess.Process


@asynccontextmanager
async def at_work(folder: Path, dsn: str) -> AsyncIterator[tuple[Process, ScriptedNetwork]]:
    """A process that has read one post of alpha and made it searchable."""
    async with scripted_network(SEED, ALPHA) as network:
        network[ALPHA].receive("2025-03-01T00:00:00Z", post(ALICE, "1", "x"))
        async with indexer_process(folder, SEED, network.host_overrides, dsn, **_KEEPS) as process:
            await eventually(lambda: Store(dsn).is_drained({SEED, ALPHA}))
            yield process, network


async def ended(process: Process, *signals: signal.Signals) -> tuple[int, float]:
    """Send signals; the exit code, and how long it took."""
    began = time.monotonic()
    for number in signals:
        process.send_signal(number)
        await asyncio.sleep(0.5)  # signals that come together are one
    code = await asyncio.wait_for(process.wait(), SECONDS + 5)
    return code, time.monotonic() - began


async def _waits_for_a_lock(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    waiting = "select exists (select from pg_stat_activity where wait_event_type = 'Lock')"
    return bool(await connection.fetchval(waiting))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_that_does_not_answer_holds_up_no_shutdown(
    tmp_path: Path, database_url: str, number: signal.Signals
) -> None:
    """Leases are given up, and the next process begins at once."""
    async with at_work(tmp_path, database_url) as (process, network):
        network[ALPHA].faults.always(faults.silence())
        await network[ALPHA].wait_for_requests(len(network[ALPHA].requests_to(Endpoint.REPLICATION)) + 1)
        code, seconds = await ended(process, number)
        assert (code, seconds < SECONDS) == (0, True)
        async with Store(database_url).snapshot() as connection:
            held = "select (select count(*) from mirror.leases), count(lease_until) from mirror.servers"
            assert tuple(await connection.fetchrow(held) or ()) == (0, 0)


async def test_the_page_in_hand_is_finished(tmp_path: Path, database_url: str) -> None:
    """It waits for a lock when the signal comes, and is in the mirror when the process has ended."""
    async with at_work(tmp_path, database_url) as (process, network):
        connection = await asyncpg.connect(database_url)
        try:
            async with connection.transaction():
                await connection.execute("lock table mirror.records in exclusive mode")
                network[ALPHA].receive("2025-03-01T00:00:01Z", post(ALICE, "2", "x"))
                await eventually(lambda: _waits_for_a_lock(connection))
                ending = asyncio.ensure_future(ended(process, signal.SIGTERM))
                await asyncio.sleep(1)  # the signal has come; the page still waits
            code, seconds = await ending
            assert (code, seconds < SECONDS) == (0, True)
            keys = {row["key"] for row in await connection.fetch("select key from mirror.records")}
        finally:
            await connection.close()
        assert keys == {post_key(ALICE, "1"), post_key(ALICE, "2")}


async def test_a_page_and_an_engine_that_hang_hold_up_no_shutdown(tmp_path: Path, database_url: str) -> None:
    """Both wait for a lock that nobody gives back; nothing of the page is left."""
    async with at_work(tmp_path, database_url) as (process, network):
        connection = await asyncpg.connect(database_url)
        try:
            async with connection.transaction():
                await connection.execute("lock table search.concrnt_posts in access exclusive mode")
                network[ALPHA].receive("2025-03-01T00:00:01Z", post(ALICE, "2", "x"))
                await eventually(lambda: _waits_for_a_lock(connection))
                await connection.execute("lock table mirror.retired in access exclusive mode")
                network[ALPHA].receive("2025-03-01T00:00:02Z", post(ALICE, "3", "x"))
                two = "select count(*) >= 2 from pg_stat_activity where wait_event_type = 'Lock'"
                await eventually(lambda: connection.fetchval(two))
                code, seconds = await ended(process, signal.SIGTERM)
                assert (code, seconds < SECONDS) == (0, True)
            keys = {row["key"] for row in await connection.fetch("select key from mirror.records")}
        finally:
            await connection.close()
        assert keys == {post_key(ALICE, "1"), post_key(ALICE, "2")}


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_database_that_hangs_holds_up_no_shutdown(
    tmp_path: Path, data_dir: Path, signals: int
) -> None:
    """One signal: 15 seconds, exit 0. A second: at once."""
    server = await anyio.to_thread.run_sync(start_embedded, data_dir)
    try:
        async with at_work(tmp_path, server.dsn) as (process, network):
            with hanging(data_dir):
                network[ALPHA].receive("2025-03-01T00:00:01Z", post(ALICE, "2", "x"))
                code, seconds = await ended(process, *([signal.SIGTERM] * signals))
            assert code == (0 if signals == 1 else 1)
            assert seconds < (SECONDS if signals == 1 else 3)
    finally:
        await anyio.to_thread.run_sync(server.stop)


def _postmaster(data_dir: Path) -> psutil.Process | None:
    try:
        return psutil.Process(int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0]))
    except (OSError, ValueError, psutil.Error):
        return None


async def _says(folder: Path, words: str) -> bool:
    return words in (folder / "indexer.log").read_text()


async def test_what_a_killed_process_leaves_is_joined_by_the_next(tmp_path: Path, data_dir: Path) -> None:
    """Its embedded PostgreSQL runs on; the next one takes it, and ends it with itself."""
    (tmp_path / "indexer.log").touch()
    async with scripted_network(SEED) as network:
        environ = {"INDEXER_BACKENDS__DATA_DIR": str(data_dir)}
        async with indexer_process(tmp_path, SEED, network.host_overrides, "", **environ) as process:
            await eventually(lambda: _says(tmp_path, "listening"), seconds=60)
            process.kill()
            await process.wait()
        left = _postmaster(data_dir)
        assert left is not None
        assert left.is_running()
        (tmp_path / "indexer.log").write_text("")
        async with indexer_process(tmp_path, SEED, network.host_overrides, "", **environ) as process:
            await eventually(lambda: _says(tmp_path, "listening"), seconds=60)
            assert _postmaster(data_dir) == left
            assert await end_in_order(process) == 0
        await anyio.to_thread.run_sync(lambda: psutil.wait_procs([left], timeout=10))
        assert not left.is_running()


async def _listening(folder: Path) -> dict[str, str]:
    """What a process said of where it listens."""
    await eventually(lambda: _says(folder, "listening"), seconds=60)
    lines = (folder / "indexer.log").read_text().splitlines()
    told: dict[str, str] = msgspec.json.decode(next(line for line in lines if "listening" in line))
    return told


async def test_an_embedded_server_that_was_killed_is_back_by_itself(tmp_path: Path, data_dir: Path) -> None:
    """The process says that it is away, brings it back, and what was committed meanwhile is searchable."""
    async with scripted_network(SEED, ALPHA) as network, httpx.AsyncClient(timeout=10) as client:
        network[ALPHA].receive("2025-03-01T00:00:00Z", post(ALICE, "1", "前のねこ"))
        environ = {"INDEXER_BACKENDS__DATA_DIR": str(data_dir)}
        async with indexer_process(tmp_path, SEED, network.host_overrides, "", **environ) as process:
            told = await _listening(tmp_path)

            async def found(word: str) -> bool:
                answer = await client.get(f"{told['api']}/api/v1/search/posts", params={"q": word})
                assert answer.status_code in (200, 503)
                return answer.status_code == 200 and len(answer.json()["hits"]) == 1

            await eventually(lambda: found("ねこ"), seconds=30)
            killed = _postmaster(data_dir)
            assert killed is not None
            killed.kill()
            network[ALPHA].receive("2025-03-01T00:00:01Z", post(ALICE, "2", "留守の間のいぬ"))
            await eventually(lambda: found("いぬ"), seconds=60)
            assert await found("ねこ")
            assert (await client.get(f"{told['internal']}/ready")).status_code == 200
            after = _postmaster(data_dir)
            assert after not in (None, killed)
            assert await end_in_order(process) == 0
        assert _postmaster(data_dir) is None


_ON_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


async def test_a_closed_terminal_ends_it_and_its_embedded_server(data_dir: Path) -> None:
    """As SIGTERM does, though nothing can be written there any more."""
    outer, inner = pty.openpty()
    async with scripted_network(SEED):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _ON_A_TERMINAL, COMMAND, "up"),
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("INDEXER_")},
                "INDEXER_BACKENDS__DATA_DIR": str(data_dir),
                "INDEXER_CRAWL__SEED": SEED,
                "INDEXER_SERVER__LISTEN": "127.0.0.1:0",
                "INDEXER_SERVER__INTERNAL_LISTEN": "127.0.0.1:0",
            },
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)
        told = b""
        async with asyncio.timeout(60):
            while b"listening" not in told:
                told += await anyio.to_thread.run_sync(os.read, outer, 65536)
        postmaster = _postmaster(data_dir)
        os.close(outer)
        assert await asyncio.wait_for(process.wait(), SECONDS) == 0
        assert postmaster is not None
        await anyio.to_thread.run_sync(lambda: psutil.wait_procs([postmaster], timeout=10))
        assert not postmaster.is_running()
