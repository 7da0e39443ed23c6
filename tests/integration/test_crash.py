"""Crashes at any moment: nothing is lost, nothing counts twice, no cursor is ahead of its data (C02)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest

from indexer.config import Settings
from indexer.engines.indexes import INDEXES
from indexer.engines.postgres import PostgresEngine
from indexer.instruments import Instruments
from indexer.mirror.database import Database, StoreUnavailable
from indexer.mirror.queue import ProjectionQueue
from indexer.mirror.servers import CursorAdvance
from indexer.observability.metrics import Metrics
from indexer.projection.kinds import Kinds
from indexer.projection.projector import Projector
from indexer.replication.page import digest_of, read_rows
from indexer.replication.trust import TrustMode
from indexer.replication.writer import PageWriter
from indexer.simulation import schemas as wire
from indexer.simulation.faults import Endpoint
from indexer.simulation.model import expected_state
from indexer.simulation.network import Network
from indexer.simulation.run import serve
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    BOB,
    ack,
    community,
    delete,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    reference,
    signed,
)
from tests.integration.eventually import eventually
from tests.integration.processes import Store, end_in_order, indexer_process, run_until_drained
from tests.replication.stage import NOW, SCHEMAS, open_mirror

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from indexer.mirror.database import Connection
    from indexer.simulation.model import ExpectedState
    from indexer.simulation.run import RunningNetwork
    from tests.integration.processes import Tables
    from tests.replication.stage import Mirror

pytestmark = pytest.mark.anyio

_PAGE_LIMIT = 25
_END = datetime(2025, 12, 1, tzinfo=UTC)


# --- the whole process -----------------------------------------------------------------------------


def _network(commits: int, *, servers: int = 3) -> Network:
    """A network whose logs also hold rows that can not be used."""
    network = Network.generate(seed=f"crash {commits}", servers=servers, commits=commits, end=_END)
    for number, server in enumerate(network.servers.values()):
        receipts = [row.receipt_ns for row in server.log]
        for position in range(number, len(receipts), 97):
            bad = b'{"document": "no JSON, %d of %d"}' % (position, number)
            server.log.add(receipts[position], bad)
    return network


async def _kill_again_and_again(
    network: Network, served: RunningNetwork, store: Store, folder: Path, *, kills: int
) -> None:
    """Start an indexer and kill it after some pages, so often; look at what each crash left behind."""
    random = Random(f"kills {kills}")
    pages = sum(len(server.log) for server in network.servers.values()) // _PAGE_LIMIT
    for _ in range(kills):
        for server in network.servers.values():
            server.requests.clear()
        wanted = random.randrange(2, max(2 * pages // (kills + 1), 4))
        async with indexer_process(
            folder, network.seed_domain, served.host_overrides, store.dsn,
            INDEXER_CRAWL__PAGE_LIMIT=str(_PAGE_LIMIT),
        ) as process:  # fmt: skip

            async def asked(wanted: int = wanted) -> bool:
                return sum(len(server.requests) for server in network.servers.values()) >= wanted

            await eventually(asked, seconds=30)
            await asyncio.sleep(random.random() * 0.02)  # into the middle of whatever it does now
            assert process.returncode is None
            process.kill()
        await _no_cursor_is_ahead(network, store)


async def _no_cursor_is_ahead(network: Network, store: Store) -> None:
    """The mirror is what a naive reading of the logs up to the cursors expects."""
    if not await store.is_migrated():
        return
    async with store.snapshot() as connection:
        feeds = {
            row["domain"]: (row["cursor_ns"], set(row["seen"]))
            for row in await connection.fetch("select domain, cursor_ns, seen from mirror.cursors")
        }
        records = {
            row["key"]: (row["cdid"], row["first_created_at"])
            for row in await connection.fetch("select key, cdid, first_created_at from mirror.records")
        }
        follows = {
            (row["acker"], row["ackee"], row["schema"]): row["valid"]
            for row in await connection.fetch("select acker, ackee, schema, valid from mirror.acks")
        }
    expected = await anyio.to_thread.run_sync(_expected_before, network, feeds)
    assert sorted(records.keys() ^ expected.records.keys()) == []
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for key, (cdid, first_created_at) in records.items():
        record = expected.records[key]
        assert (cdid, (first_created_at - epoch) // epoch.resolution) == (record.cdid, record.earliest_us)
    assert follows == {pair: follow.valid for pair, follow in expected.follows.items()}


def _expected_before(network: Network, feeds: dict[str, tuple[int | None, set[int]]]) -> ExpectedState:
    """What is expected of the rows that were received before each cursor.

    At the end of a feed the cursor stays at the first row of the last page: a feed whose last row is among
    the rows applied last was read to its end.
    """
    logs = {}
    for domain, server in network.servers.items():
        cursor, seen = feeds.get(domain, (None, set()))
        rows = [row for row in server.log if not row.hidden]
        is_read = digest_of(rows[-1].signed) in seen
        logs[domain] = [row for row in rows if is_read or (cursor is not None and row.receipt_ns < cursor)]
    return expected_state(logs, now=datetime.now(UTC))


async def _crash_trial(
    stores: tuple[Store, Store], folder: Path, *, commits: int, kills: int, servers: int = 3
) -> tuple[Tables, Tables]:
    """The tables after many crashes, and those of an undisturbed run."""
    network = await anyio.to_thread.run_sync(lambda: _network(commits, servers=servers))
    crashed, undisturbed = stores
    async with await serve(network) as served:
        seed, overrides = network.seed_domain, served.host_overrides
        await _kill_again_and_again(network, served, crashed, folder, kills=kills)
        for store in stores:
            assert await run_until_drained(folder, seed, overrides, store.dsn) == 0
        await _no_cursor_is_ahead(network, crashed)
    visible = {d: sum(not row.hidden for row in server.log) for d, server in network.servers.items()}
    for store in stores:
        assert {domain: count for domain, count, _ in (await store.tables())["counts"]} == visible
        # Marks and records move together: what the killed ticks left is enough to end with the same numbers.
        await store.tick(Settings())
    return await crashed.tables(), await undisturbed.tables()


def _differences(crashed: Tables, undisturbed: Tables) -> dict[str, tuple[int, int, list[Any]]]:
    """Tables that differ: how long they are, and rows that only the first has.

    Whether a reference went with its post or was barred afterwards, and so is retired or not, depends on
    which server's feed was read first, not on crashes.
    """
    for tables in (crashed, undisturbed):
        tables["retired"] = [row for row in tables["retired"] if ".example/" not in row[0]]
    return {
        name: (len(rows), len(undisturbed[name]), [row for row in rows if row not in undisturbed[name]][:2])
        for name, rows in crashed.items()
        if rows != undisturbed[name]
    }


@pytest.mark.timeout(400)
async def test_a_backfill_that_is_killed_again_and_again_ends_as_an_undisturbed_one(
    database_url: str, second_database_url: str, tmp_path: Path
) -> None:
    """Mirror and index are equal, and after no kill is a cursor ahead of its data."""
    stores = Store(database_url), Store(second_database_url)
    crashed, undisturbed = await _crash_trial(stores, tmp_path, commits=2_000, kills=3)
    assert len(undisturbed["dead letters"]) > 10
    assert _differences(crashed, undisturbed) == {}


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_a_long_backfill_survives_forty_kills(
    database_url: str, second_database_url: str, tmp_path: Path
) -> None:
    """Mirror and index are equal, and after no kill is a cursor ahead of its data."""
    stores = Store(database_url), Store(second_database_url)
    crashed, undisturbed = await _crash_trial(stores, tmp_path, commits=40_000, kills=40)
    assert _differences(crashed, undisturbed) == {}


async def test_sigterm_ends_in_order_and_a_second_start_goes_on_where_the_first_stood(
    database_url: str, tmp_path: Path
) -> None:
    """Exit code 0 in the middle of a backfill; the next process does not begin at the start of the log."""
    network = await anyio.to_thread.run_sync(lambda: _network(2_500, servers=1))
    store = Store(database_url)
    (server,) = network.servers.values()
    async with await serve(network) as served:
        seed, overrides = network.seed_domain, served.host_overrides
        async with indexer_process(tmp_path, seed, overrides, store.dsn) as process:
            await asyncio.wait_for(server.wait_for_requests(10), 30)
            assert await end_in_order(process) == 0
        stood = (await store.cursors())[server.domain]
        last = server.log.last_receipt_ns
        assert stood is not None
        assert last is not None
        assert stood < last
        server.requests.clear()
        assert await run_until_drained(tmp_path, seed, overrides, store.dsn) == 0
        first = server.requests_to(Endpoint.REPLICATION)[0]
        assert first.query.get("since")
        await _no_cursor_is_ahead(network, store)


# --- within the page's transaction -----------------------------------------------------------------


class _CutError(ConnectionResetError):
    """The connection is lost."""


class _FailingConnection:
    """A connection that is lost before its n-th statement, savepoints and the commit included."""

    def __init__(self, connection: Connection, statements: Iterator[int]) -> None:
        self._connection = connection
        self._statements = statements

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._connection, name)
        if name in ("execute", "fetch", "fetchval", "fetchrow"):

            async def counted(*arguments: Any) -> Any:
                self.count()
                return await method(*arguments)

            return counted
        return method

    def count(self) -> None:
        if next(self._statements) == 0:
            raise _CutError("connection lost")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self._connection.transaction():
            yield
            self.count()


class _FailingDatabase(Database):
    """A database whose connections are lost before the n-th statement of a transaction."""

    statement = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        statements = iter(range(self.statement, -1, -1))
        try:
            async with super().connection() as connection:
                yield _FailingConnection(connection, statements)  # type: ignore[misc]
        except StopIteration as error:  # past the failure nothing is asked
            raise AssertionError("the work went on after its connection was lost") from error


def _page() -> list[bytes]:
    """A page that touches every table."""
    return [
        profile(ALICE, username="ありす", created_at="2025-03-01T00:00:01Z"),
        post(ALICE, "new", "新しい", created_at="2025-03-01T00:00:02Z"),
        post(ALICE, "kept", "改", created_at="2025-03-01T00:00:03Z"),
        delete(post_key(ALICE, "gone") + "*", author=ALICE, created_at="2025-03-01T00:00:04Z"),
        delete(post_key(ALICE, "one"), author=ALICE, created_at="2025-03-01T00:00:05Z"),
        ack(ALICE, BOB),
        entity(ALICE, ALPHA),
        signed("no JSON"),
    ]


def _before() -> list[bytes]:
    """What stands before that page."""
    return [
        community(ALPHA, "cats", author=ALICE, name="ねこ"),
        post(ALICE, "kept", "元"),
        post(ALICE, "gone", "消える"),
        post(ALICE, "one", "一つ"),
        reference(f"cckv://{ALPHA}/concrnt.world/communities/cats", post_key(ALICE, "one"), author=ALICE),
    ]


async def _everything(mirror: Mirror) -> dict[str, Any]:
    """The state with cursor, queue and counters."""
    return {
        **await mirror.state(),
        "cursor": await mirror.rows("select cursor, seen, latest_post_at from mirror.cursors"),
        "queue": await mirror.rows("select key, former_schemas from mirror.projection_queue order by key"),
    }


async def test_a_connection_lost_between_any_two_statements_leaves_nothing_of_the_page(
    database_url: str,
) -> None:
    """Neither rows nor cursor nor marks; and the retry applies the page whole."""
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, _before())
        before = await _everything(mirror)
        rows = read_rows(_page(), now=NOW, indexed=SCHEMAS.malformed_kinds)
        advance = CursorAdvance(ALPHA, "2025-03-01T00:01:00Z", 1_740_787_260 * 10**9, rows.digests)
        failing = _FailingDatabase(mirror.database.pool)
        writer = PageWriter(failing, schemas=SCHEMAS)
        for number in range(100):
            failing.statement = number
            try:
                await writer.write(rows.rows, advance, behind=0, now=NOW)
            except StoreUnavailable:
                assert await _everything(mirror) == before
            else:
                break
        assert number > 12  # so many statements a page has
        after = await _everything(mirror)
        assert after["cursor"][0]["cursor"] == "2025-03-01T00:01:00Z"
        assert {name for name, part in after.items() if part != before[name]} == after.keys()
        assert await mirror.keys() == {
            f"cckv://{ALPHA}/concrnt.world/communities/cats",
            f"cckv://{ALICE}/concrnt.world/profiles/main",
            post_key(ALICE, "new"),
            post_key(ALICE, "kept"),
        }
        # Reading the page again, as after a crash whose commit had gone through, changes nothing.
        await writer.write(rows.rows, replace(advance, seen=None), behind=len(rows.rows), now=NOW)
        assert {**await _everything(mirror), "queue": after["queue"]} == after


async def test_a_connection_lost_while_a_home_becomes_known_leaves_nothing_of_it(database_url: str) -> None:
    """What is confirmed, withdrawn, counted, buried and due to be read moves with the page or not at all."""
    person = key_pair("alice")
    forged = [
        post(person.ccid, "1", "偽物"),
        delete(post_key(person, "2"), author=person.ccid),
        ack(person.ccid, BOB),
    ]
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(BETA, forged)
        await mirror.write(ALPHA, [post(person.ccid, "1", "本物"), post(person.ccid, "2", "本物")])
        before = await _open_questions(mirror)
        rows = read_rows([entity(person, ALPHA)], now=NOW, indexed=SCHEMAS.malformed_kinds)
        advance = CursorAdvance(ALPHA, "2025-03-01T00:01:00Z", 1_740_787_260 * 10**9, rows.digests)
        failing = _FailingDatabase(mirror.database.pool)
        writer = PageWriter(failing, schemas=SCHEMAS, trust=mirror.judge)
        for number in range(100):
            failing.statement = number
            try:
                await writer.write(rows.rows, advance, behind=0, now=NOW)
            except StoreUnavailable:
                assert await _open_questions(mirror) == before
            else:
                break
        assert number > 12
        after = await _open_questions(mirror)
        assert after["unresolved"] == after["said"] == after["provisional"] == []
        assert {letter["reason"] for letter in after["dead_letters"]} == {"withdrawn"}
        assert after["later"] == [{"domain": BETA, "number": 3}]
        assert [(row["domain"], row["due"]) for row in after["set_aside"]] == [(ALPHA, True), (BETA, False)]


async def _open_questions(mirror: Mirror) -> dict[str, Any]:
    return {
        **await _everything(mirror),
        "unresolved": await mirror.rows("select owner, domain from mirror.unresolved order by 1, 2"),
        "set_aside": await mirror.rows(
            "select owner, domain, due_at is not null as due from mirror.set_aside order by 1, 2"
        ),
        "said": await mirror.rows("select acker, source from mirror.provisional_acks order by 1, 2"),
        "later": await mirror.rows("select domain, number from mirror.rejected_later order by 1"),
        "provisional": await mirror.rows(
            "select key from mirror.records where provisional union all"
            " select target from mirror.tombstones where provisional"
        ),
    }


# --- between the engine and the queue --------------------------------------------------------------


class _ForgetfulQueue(ProjectionQueue):
    """A queue that fails, or is told of another change, just before a mark is cleared."""

    before_done: Any = None

    async def done(self, marks: Sequence[tuple[str, int]], indexed_at: datetime) -> None:
        if self.before_done is not None:
            await self.before_done()
        await super().done(marks, indexed_at)


def _projector(queue: ProjectionQueue, engine: PostgresEngine) -> Projector:
    kinds = Kinds(
        profile_schemas=[wire.PROFILE], community_schemas=[wire.COMMUNITY], post_schemas=[wire.MARKDOWN]
    )

    async def refused(key: str, reason: str) -> None:
        raise AssertionError((key, reason))

    return Projector(
        queue,
        engine,
        kinds,
        dead_letter=refused,
        metrics=Instruments(Metrics("test")),
        unavailable=(StoreUnavailable,),
    )


async def _indexed(mirror: Mirror) -> dict[str, str]:
    rows = await mirror.rows("select key, document::json ->> 'body' as body from search.concrnt_posts")
    return {row["key"]: row["body"] for row in rows}


async def test_a_crash_between_the_engine_and_the_queue_leaves_the_mark(database_url: str) -> None:
    """What was written is written again after the restart; nothing is lost, nothing is doubled."""
    async with open_mirror(database_url) as mirror:
        engine = PostgresEngine(mirror.database.pool, 100)
        await engine.prepare(INDEXES)
        await mirror.write(ALPHA, [post(ALICE, "1", "いち"), post(ALICE, "2", "に")])
        queue = _ForgetfulQueue(mirror.database)

        async def crash() -> None:
            raise KeyError("the process ends here")

        queue.before_done = crash
        with pytest.raises(KeyError):
            await _projector(queue, engine).project_once()
        assert len(await mirror.rows("select key from mirror.projection_queue")) == 2
        await mirror.write(ALPHA, [delete(post_key(ALICE, "2"), author=ALICE)])

        restarted = _projector(ProjectionQueue(mirror.database), engine)
        assert await restarted.project_once() == 2
        assert await restarted.project_once() == 0
        assert await _indexed(mirror) == {post_key(ALICE, "1"): "いち"}


async def test_a_change_between_the_reading_and_the_clearing_of_a_mark_is_written_too(
    database_url: str,
) -> None:
    """The mark has another generation by then and stays (C35 a)."""
    async with open_mirror(database_url) as mirror:
        engine = PostgresEngine(mirror.database.pool, 100)
        await engine.prepare(INDEXES)
        await mirror.write(ALPHA, [post(ALICE, "1", "古い")])
        queue = _ForgetfulQueue(mirror.database)

        async def change() -> None:
            queue.before_done = None
            await mirror.write(ALPHA, [post(ALICE, "1", "新しい", created_at="2025-03-02T00:00:00Z")])

        queue.before_done = change
        projector = _projector(queue, engine)
        assert await projector.project_once() == 1
        assert await _indexed(mirror) == {post_key(ALICE, "1"): "古い"}
        assert await projector.project_once() == 1
        assert await _indexed(mirror) == {post_key(ALICE, "1"): "新しい"}
        assert await projector.project_once() == 0
