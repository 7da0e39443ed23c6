"""The embedded server: who may hold it, what a crash leaves, and sentences for what a person can mend."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import asyncpg
import psutil
import pytest
from structlog.testing import capture_logs

from indexer.mirror.embedded import EmbeddedServer, EmbeddedServerError, keep_running, start_embedded
from tests.integration.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

_HOLDER = """
import sys
from pathlib import Path
from indexer.mirror.embedded import start_embedded
server = start_embedded(Path(sys.argv[1]))
print(server.dsn, flush=True)
sys.stdin.read()
server.stop()
"""


async def _ask(dsn: str, statement: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def _value(dsn: str, statement: str) -> object:
    return anyio.run(_ask, dsn, statement)


def _postmaster(data_dir: Path) -> psutil.Process:
    return psutil.Process(int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0]))


def _holder(data_dir: Path) -> subprocess.Popen[str]:
    """Another process that holds the server until its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", _HOLDER, data_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_second_process_joins_and_the_last_to_let_go_stops_the_server(data_dir: Path) -> None:
    """Whatever user the first one was: also as root, for whom the server runs as another user."""
    server = start_embedded(data_dir)
    postmaster = _postmaster(data_dir)
    if os.geteuid() == 0:
        assert postmaster.uids().real != 0
    assert _value(server.dsn, "select collation for ('a'::text) from pg_database limit 1")
    assert _value(server.dsn, "select 'Z' collate \"default\" < 'a' collate \"default\"")  # by bytes
    with _holder(data_dir) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == server.dsn
        assert _postmaster(data_dir) == postmaster
        server.stop()
        assert _value(server.dsn, "select 1") == 1
        other.communicate("")
    psutil.wait_procs([postmaster], timeout=10)
    assert not postmaster.is_running()


def test_what_a_killed_holder_leaves_is_cleared_away_and_nothing_is_lost(data_dir: Path) -> None:
    """The next start joins the server that still runs; with its end the server ends."""
    with _holder(data_dir) as killed:
        assert killed.stdout is not None
        dsn = killed.stdout.readline().strip()
        _value(dsn, "create table kept as select 7 as number")
        killed.kill()
    postmaster = _postmaster(data_dir)
    assert killed.pid in json.loads((data_dir / "postgres" / ".handle_pids.json").read_text())
    server = start_embedded(data_dir)
    assert _value(server.dsn, "select number from kept") == 7
    server.stop()
    psutil.wait_procs([postmaster], timeout=10)
    assert not postmaster.is_running()


def test_a_killed_server_recovers_at_the_next_start(data_dir: Path) -> None:
    """Its pid file is left behind, and may by then name somebody else's process."""
    with _holder(data_dir) as holder:
        assert holder.stdout is not None
        dsn = holder.stdout.readline().strip()
        _value(dsn, "create table kept as select 7 as number")
        postmaster = _postmaster(data_dir)
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            process.kill()
        psutil.wait_procs(family, timeout=10)
        holder.kill()
    pid_file = data_dir / "postgres" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getppid()), *lines[1:], ""]))
    server = start_embedded(data_dir)
    assert _value(server.dsn, "select number from kept") == 7
    server.stop()


def test_a_folder_that_is_a_file_is_a_sentence(data_dir: Path) -> None:
    """Which folder, and what to set instead; nothing is left behind."""
    (data_dir / "taken").write_text("a file")
    with pytest.raises(EmbeddedServerError, match=r"taken.* can not be written .*; set backends.dataDir"):
        start_embedded(data_dir / "taken")
    assert (data_dir / "taken").read_text() == "a file"


@pytest.mark.parametrize("name", ["with space", "with'quote", 'with"quotes', "with\\backslash"])
def test_a_path_that_the_server_can_not_take_is_a_sentence(data_dir: Path, name: str) -> None:
    """Before anything is made there."""
    with pytest.raises(EmbeddedServerError, match=r"space or a quote .* set backends.dataDir"):
        start_embedded(data_dir / name)
    assert list(data_dir.iterdir()) == []


def test_a_folder_with_other_things_in_it_is_left_alone(data_dir: Path) -> None:
    """It is named, and what is in it stays."""
    (data_dir / "postgres").mkdir()
    (data_dir / "postgres" / "diary.txt").write_text("mine")
    with pytest.raises(EmbeddedServerError, match="not empty and holds no PostgreSQL data"):
        start_embedded(data_dir)
    assert [path.name for path in (data_dir / "postgres").iterdir()] == ["diary.txt"]


def test_a_full_disk_is_a_sentence(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much there is, and how much it takes."""
    usage = shutil.disk_usage(data_dir)._replace(free=10 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(EmbeddedServerError, match=r"10 MiB free; .* needs 256 MiB"):
        start_embedded(data_dir)


def test_processes_that_start_at_once_share_one_server(data_dir: Path) -> None:
    """On an empty folder: one of them sets it up, none fails."""
    holders = [_holder(data_dir) for _ in range(3)]
    told = set()
    for holder in holders:
        assert holder.stdout is not None
        told.add(holder.stdout.readline())
    assert len(told) == 1
    assert told != {""}
    assert [holder.communicate("")[0] for holder in holders] == [""] * 3
    assert [holder.returncode for holder in holders] == [0] * 3


def _kill(process: psutil.Process) -> None:
    process.kill()
    psutil.wait_procs([process], timeout=10)


async def _kept(servers: list[EmbeddedServer], until: Callable[[], Awaitable[bool]]) -> None:
    """Every holder keeps the server running until that holds."""

    async def briefly(_: float) -> None:
        await asyncio.sleep(0.01)

    keeping = [asyncio.ensure_future(keep_running(server, sleep=briefly)) for server in servers]
    await eventually(until, seconds=60)
    for task in keeping:
        task.cancel()
    await asyncio.wait(keeping)


def test_a_server_that_was_killed_is_started_again_by_one_of_its_holders(data_dir: Path) -> None:
    """With the same address, and once, however many miss it; the last to let go still stops it."""
    server = start_embedded(data_dir)
    _value(server.dsn, "create table kept as select 7 as number")
    _kill(_postmaster(data_dir))
    assert not server.is_running()

    async def runs() -> bool:
        return server.is_running()

    anyio.run(_kept, [server] * 3, runs)
    assert _value(server.dsn, "select number from kept") == 7
    postmaster = _postmaster(data_dir)
    assert [server.start_again() for _ in range(3)] == [False] * 3
    with _holder(data_dir) as other:  # another process holds it, and this one starts it again once more
        assert other.stdout is not None
        assert other.stdout.readline().strip() == server.dsn
        _kill(postmaster)
        assert server.start_again()
        server.stop()
        assert _value(server.dsn, "select number from kept") == 7
        postmaster = _postmaster(data_dir)
        other.communicate("")
    psutil.wait_procs([postmaster], timeout=10)
    assert not postmaster.is_running()


def test_a_server_that_does_not_start_is_tried_again_after_longer_and_longer(data_dir: Path) -> None:
    """What is missing is said each time; once it is there again, so is the server."""
    server = start_embedded(data_dir)
    control = data_dir / "postgres" / "global" / "pg_control"
    _kill(_postmaster(data_dir))
    control.rename(control.with_name("gone"))
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            control.with_name("gone").rename(control)
        if len(pauses) == 5:
            raise asyncio.CancelledError

    async def keep() -> None:
        with suppress(asyncio.CancelledError):
            await keep_running(server, sleep=sleep)

    with capture_logs() as lines:
        anyio.run(keep)
    assert pauses == [2.0, 4.0, 8.0, 2.0, 2.0]
    told = [line["why"] for line in lines if line["event"] == "the embedded PostgreSQL can not be started"]
    assert len(told) == 2
    assert "does not start" in told[0]
    assert _value(server.dsn, "select 1") == 1
    server.stop()
