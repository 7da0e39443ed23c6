"""How fast a network is read in: `make bench`, or `python -m bench.backfill --commits 50000 100000`.

For each size: a simulated network in a process of its own, a fresh embedded PostgreSQL, and `concrnt-indexer
up` as operators run it; the time from the start of the indexer until every commit is searchable, the peak
memory of its process, and how long its event loop was ever held up (`watched.py`). With `--trust off
authority strict` the same network is read in each mode, in turns and each time in another order, and what the
others cost is told against the first: the median of the ratios of each round. With `--activity with without`
likewise with the indexes and triggers that activity needs, and without them. In the same run the yardstick:
bare upserts of the same commits through asyncpg, 100 a transaction, into a table with as many indexes.
Machines are shared and noisy: compare within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx

from bench.watched import Stalls
from indexer.mirror.database import Database
from indexer.mirror.embedded import start_embedded
from indexer.mirror.migrate import migrate

_WITHOUT_ACTIVITY = """
drop trigger records_added on mirror.records; drop trigger records_removed on mirror.records;
drop trigger records_changed on mirror.records;
drop index mirror.records_posts, mirror.records_entries, mirror.records_author_entries;
"""
_PAGE = 100
_LONGEST_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Figures:
    """One backfill. Seconds, commits, bytes."""

    commits: int
    seconds: float
    first_page_seconds: float
    peak_bytes: int
    cpu_seconds: float
    documents: int
    stalls: Stalls

    @property
    def per_second(self) -> float:
        """Commits a second from the start of the process."""
        return self.commits / self.seconds


async def _network(commits: int, folder: Path) -> tuple[asyncio.subprocess.Process, dict[str, object]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "indexer.simulation", "--commits", str(commits), "--state-dir", str(folder)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    return process, json.loads(await process.stdout.readline())


def _visible(folder: Path) -> list[bytes]:
    """The commits that anyone may read, as the logs hold them."""
    rows = []
    for log in folder.glob("*.log"):
        for line in log.read_bytes().splitlines():
            _, mark, commit = line.split(b" ", 2)
            if mark == b"v":
                rows.append(commit)
    return rows


async def backfill(network: dict[str, object], commits: int, dsn: str, trust: str) -> Figures:
    """Run the indexer on a network, in a mode of trust, until all of it is searchable."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("INDEXER_")},
        "INDEXER_CRAWL__SEED": str(network["seed"]),
        "INDEXER_CRAWL__HOST_OVERRIDES": json.dumps(network["hostOverrides"]),
        "INDEXER_BACKENDS__POSTGRES_DSN": dsn,
        "INDEXER_SERVER__LISTEN": "127.0.0.1:18080",
        "INDEXER_SERVER__INTERNAL_LISTEN": "127.0.0.1:18081",
        "INDEXER_OBSERVABILITY__LOG_LEVEL": "warning",
        "INDEXER_TRUST__MODE": trust,
    }
    with tempfile.NamedTemporaryFile(suffix=".json") as watched:
        return await _backfill(commits, dsn, environment, Path(watched.name))


async def _backfill(commits: int, dsn: str, environment: dict[str, str], watched: Path) -> Figures:
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.watched", str(watched)),
        env=environment,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            first, seconds, documents = await _until_searchable(dsn, commits, started)
        peak, cpu = _peak_bytes(process.pid), _cpu_seconds(process.pid)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
    stalls = Stalls(**json.loads(await asyncio.to_thread(watched.read_text)))
    return Figures(commits, seconds, first, peak, cpu, documents, stalls)


async def _until_searchable(dsn: str, commits: int, started: float) -> tuple[float, float, int]:
    first: float | None = None
    connection = await asyncpg.connect(dsn)
    try:
        while True:
            await asyncio.sleep(0.1)
            if await connection.fetchval("select to_regclass('mirror.projection_queue') is null"):
                continue
            counted = await connection.fetchval(
                "select coalesce(sum(commits), 0)::bigint from mirror.servers"
            )
            if counted and first is None:
                first = time.perf_counter() - started
            if counted >= commits and not await connection.fetchval(
                "select exists (select from mirror.projection_queue where key like 'cckv:%')"
            ):
                break
        seconds = time.perf_counter() - started
    finally:
        await connection.close()
    async with httpx.AsyncClient() as client:
        answer = (await client.get("http://127.0.0.1:18080/api/v1/stats")).json()
    documents = sum(index["numberOfDocuments"] for index in answer["search"]["indexes"].values())
    return first or seconds, seconds, documents


def _cpu_seconds(pid: int) -> float:
    """The time that the process itself has computed: less noisy than the clock on a shared machine."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


async def bare_upserts(rows: list[bytes], dsn: str) -> float:
    """Commits a second that bare asyncpg upserts reach: the yardstick of the run."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        'create table bare (key text collate "C" primary key, owner text, schema text, parent text,'
        " author text, signed text);"
        "create index on bare (owner); create index on bare (schema, key); create index on bare (parent)"
    )
    prepared = []
    for number, row in enumerate(rows):
        document = json.loads(json.loads(row)["document"])
        key = str(document.get("key") or f"none/{number}")
        values = (key, key.split("/")[2] if "//" in key else "", str(document.get("schema")))
        prepared.append((*values, key.rpartition("/")[0], str(document.get("author")), row.decode()))
    started = time.perf_counter()
    for start in range(0, len(prepared), _PAGE):
        page = list({values[0]: values for values in prepared[start : start + _PAGE]}.values())
        async with connection.transaction():
            await connection.execute(
                "insert into bare select * from unnest($1::text[], $2::text[], $3::text[], $4::text[],"
                " $5::text[], $6::text[]) on conflict (key) do update set signed = excluded.signed",
                *(list(column) for column in zip(*page, strict=True)),
            )
    seconds = time.perf_counter() - started
    await connection.close()
    return len(rows) / seconds


async def _measure(commits: int, repeats: int, modes: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory(prefix="concrnt-bench-") as name:
        folder = Path(name)
        process, network = await _network(commits, folder / "network")
        server = await asyncio.to_thread(start_embedded, folder)
        try:
            rows = _visible(folder / "network")
            figures: dict[tuple[str, str], list[Figures]] = {mode: [] for mode in modes}
            bare = []
            for number in range(repeats):
                for mode in modes[number % len(modes) :] + modes[: number % len(modes)]:
                    trust, activity = mode
                    dsn = await _fresh_database(server.dsn, f"bench_{trust}_{activity}_{number}")
                    await _prepare(dsn, activity)
                    figures[mode].append(await backfill(network, len(rows), dsn, trust))
                bare.append(await bare_upserts(rows, await _fresh_database(server.dsn, f"bare_{number}")))
            for mode in modes:
                _report(_name(mode), figures[mode], bare)
            for mode in modes[1:]:
                _compare(_name(mode), figures[mode], _name(modes[0]), figures[modes[0]])
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            await asyncio.to_thread(server.stop)


async def _fresh_database(dsn: str, name: str) -> str:
    connection = await asyncpg.connect(dsn)
    await connection.execute(f'create database "{name}" template template0')
    await connection.close()
    return dsn.replace("/concrnt?", f"/{name}?")


async def _prepare(dsn: str, activity: str) -> None:
    """Make the tables; without activity nothing of it is kept up when records change."""
    database = await Database.connect(dsn, size=1)
    try:
        await migrate(database)
        if activity == "without":
            await database.execute(_WITHOUT_ACTIVITY)
    finally:
        await database.close()


def _name(mode: tuple[str, str]) -> str:
    return f"{mode[0]}, {mode[1]} activity"


def _report(mode: str, figures: list[Figures], bare: list[float]) -> None:
    median = statistics.median(f.per_second for f in figures)
    steady = statistics.median(f.commits / (f.seconds - f.first_page_seconds + 1e-9) for f in figures)
    yardstick = statistics.median(bare)
    counts = f"{figures[0].commits:,} commits, {figures[0].documents:,} documents, {len(figures)} runs"
    print(f"{counts}, trust: {mode}")
    print(f"  from start to all searchable   {statistics.median(f.seconds for f in figures):8.1f} s")
    print(f"  each run                       {' '.join(f'{each.seconds:.1f}' for each in figures)} s")
    print(f"  commits a second, from start   {median:8,.0f}")
    print(f"  commits a second, from page 1  {steady:8,.0f}")
    print(f"  processor time of the indexer  {statistics.median(f.cpu_seconds for f in figures):8.2f} s")
    loop = statistics.median(f.stalls.loop_seconds for f in figures)
    print(f"  of it the loop's, from page 1  {loop:8.2f} s")
    print(f"  peak memory of the indexer     {max(f.peak_bytes for f in figures) / 2**20:8.0f} MiB")
    longest = max(f.stalls.longest_seconds for f in figures)
    busiest = max(f.stalls.longest_busy_seconds for f in figures)
    print(
        f"  event loop held up at most     {longest * 1000:8.0f} ms, {busiest * 1000:.0f} ms by its own work"
    )
    print(f"  wake-ups over 50 ms late       {sum(f.stalls.late for f in figures):8d}")
    print(f"  bare upserts a second          {yardstick:8,.0f}")
    print(f"  share of bare upserts          {median / yardstick:8.2f}")


def _compare(mode: str, figures: list[Figures], base: str, of_base: list[Figures]) -> None:
    pairs = list(zip(figures, of_base, strict=True))
    speed = [one.per_second / other.per_second for one, other in pairs]
    cpu = [one.cpu_seconds / other.cpu_seconds for one, other in pairs]
    loop = [one.stalls.loop_seconds / other.stalls.loop_seconds for one, other in pairs]
    for name, ratios in (("speed", speed), ("processor time", cpu), ("that of the loop's thread", loop)):
        middle = statistics.median(ratios)
        print(f"{mode} against {base}: {name} {middle:.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure how fast a network is read in.")
    parser.add_argument("--commits", type=int, nargs="+", default=[50_000, 100_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--trust", nargs="+", default=["authority"], choices=["off", "authority", "strict"])
    parser.add_argument("--activity", nargs="+", default=["with"], choices=["with", "without"])
    arguments = parser.parse_args()
    modes = [(trust, activity) for trust in arguments.trust for activity in arguments.activity]
    for commits in arguments.commits:
        asyncio.run(_measure(commits, arguments.repeats, modes))


if __name__ == "__main__":
    main()
