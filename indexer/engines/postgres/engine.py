"""The engine over PostgreSQL: tables, writes and searches behind the Protocol of ``engines/base.py``.

What it owns: the schema ``search`` of the database that its pool leads to, whole. It knows nothing of other
schemas, but counts on the queue's being in the same server: a batch is acknowledged before it is on disk (see
statements.sql, ``write_settings``).

Ordering and crashes: a batch is one transaction, so it is searchable whole or not at all. Concurrent batches
that share an id are applied one after the other, in no promised order: callers keep them apart.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from indexer.engines.base import (
    EngineStatistics,
    EngineUnavailable,
    FoundIds,
    IndexLost,
    IndexStatistics,
    InvalidCursor,
    SearchResult,
    Standing,
    WriteResult,
    build_uid,
    check_fields,
    is_build,
)
from indexer.engines.postgres import building
from indexer.engines.postgres.cursors import read_cursor, write_cursor
from indexer.engines.postgres.errors import unavailable_when_away
from indexer.engines.postgres.figures import FigureWriter
from indexer.engines.postgres.paging import Exceeding, Page, find_page
from indexer.engines.postgres.preparing import look_at_tables, prepare_tables
from indexer.engines.postgres.schema import Table
from indexer.engines.postgres.searching import plan_search
from indexer.engines.postgres.suggesting import find_suggestions
from indexer.engines.postgres.vocabulary import Vocabulary
from indexer.engines.postgres.writing import TableWriter
from indexer.engines.text import parse_query
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    import asyncpg

    from indexer.engines.base import (
        Document,
        IndexDefinition,
        RejectedDocument,
        SearchRequest,
        WriteBatch,
    )
    from indexer.engines.postgres.cursors import Position
    from indexer.engines.postgres.searching import TablePlan
    from indexer.engines.postgres.writing import Connection
    from indexer.engines.text import Query

_SQL: Final = load("indexer.engines.postgres", "statements.sql")

ACQUIRE_SECONDS: Final = 5.0
SEARCH_SECONDS: Final = 10.0
WRITE_SECONDS: Final = 300.0
IDS_AT_ONCE: Final = 5_000
COUNT_AGE_SECONDS: Final = 2.0
"""How old the counts of statistics() may be: counting reads a whole index."""

_decode_document = msgspec.json.Decoder(dict[str, Any]).decode


class PostgresEngine:
    """A search engine in a PostgreSQL database.

    Args:
        pool: connections to the database; the caller opens and closes it.
        max_total_hits: how deep offset paging goes, and how far totals count.
        monotonic: seconds for measuring.

    """

    name = "postgres"
    shape = "rows"
    """Rows are derived again by prepare(), so documents need not be written again."""

    def __init__(
        self,
        pool: asyncpg.Pool[asyncpg.Record],
        max_total_hits: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._max_total_hits = max_total_hits
        self._monotonic = monotonic
        self._tables: dict[str, Table] = {}
        self._writers: dict[str, TableWriter] = {}
        self._build_identities: dict[str, str] = {}
        self._vocabularies: dict[str, Vocabulary] = {}
        self._exceeding = Exceeding(monotonic)
        self._counts: tuple[float, EngineStatistics] | None = None

    async def prepare(self, indexes: Sequence[IndexDefinition]) -> None:
        """Make what is missing, and derive rows again where their derivation changed."""
        tables = {definition.uid: Table(definition) for definition in indexes}
        writers = {uid: TableWriter(table) for uid, table in tables.items()}
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                await prepare_tables(connection, tables, writers)
        builds = [(self._tables[name], self._writers[name]) for name in self._build_identities]
        self._tables = {**tables, **{table.name: table for table, _ in builds}}
        self._writers = {**writers, **{table.name: writer for table, writer in builds}}
        self._vocabularies = {uid: Vocabulary(table, self._monotonic) for uid, table in tables.items()}

    async def look(self, indexes: Sequence[IndexDefinition]) -> Mapping[str, Standing]:
        """Learn which tables are there, and whether they are as this version makes them."""
        tables = {definition.uid: Table(definition) for definition in indexes}
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                standing = await look_at_tables(connection, tables)
        self._tables = {uid: table for uid, table in tables.items() if standing[uid] is not Standing.MISSING}
        return standing

    async def write(self, batch: WriteBatch) -> WriteResult:
        """Write a batch in one transaction."""
        rejected: list[RejectedDocument] = []
        words: dict[str, set[str]] = {}
        with unavailable_when_away():
            async with (
                self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection,
                asyncio.timeout(WRITE_SECONDS),
                connection.transaction(),
            ):
                await connection.execute(_SQL["write_settings"])
                # Indexes in one order too: see writing.py on waiting in a circle.
                uids = sorted({*batch.deletes, *batch.upserts})
                writers = {uid: self._writer(uid) for uid in uids}
                identities = await building.lock_for_writing(
                    connection, [self._table(uid) for uid in uids], self._build_identities
                )
                for uid in uids:
                    writers[uid].know_table(identities[uid])
                for uid in sorted(batch.deletes):
                    await writers[uid].delete(connection, batch.deletes[uid])
                for uid in sorted(batch.upserts):
                    refused, written = await writers[uid].put(connection, batch.upserts[uid])
                    rejected += refused
                    words[uid] = written
        for uid, written in words.items():
            writers[uid].settle(written, identities[uid])
        self._counts = None
        return WriteResult(rejected)

    async def put_figures(self, index: str, figures: Mapping[str, Document]) -> Collection[str]:
        """Set figures in one transaction."""
        writer = FigureWriter(self._table(index))
        with unavailable_when_away():
            async with (
                self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection,
                asyncio.timeout(WRITE_SECONDS),
                connection.transaction(),
            ):
                await connection.execute(_SQL["write_settings"])
                return await writer.put(connection, figures)

    async def search(self, request: SearchRequest) -> SearchResult:
        """Answer one page; never raises for what query and filters hold.

        Raises:
            InvalidCursor: the cursor belongs to no such request.
            ValueError: the request names an index or a field that its definition does not.

        """
        started = self._monotonic()
        page = await self._page(request)
        return SearchResult(
            hits=[_decode_document(hit.shown) for hit in page.hits],
            estimated_total=page.total,
            processing_ms=round((self._monotonic() - started) * 1000),
            next_cursor=_cursor_behind(request, page),
        )

    async def find_ids(self, request: SearchRequest, among: Collection[str] | None = None) -> FoundIds:
        """Answer ids; raises as search() does."""
        if among is None:
            page = await self._page(request, shown="id")
            return FoundIds([hit.shown for hit in page.hits], page.total)
        query = self._query(request)
        if query is None:
            return FoundIds([], 0)
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                plan = await self._plan(connection, request, query, "id")
                statement = plan.among(sorted(among))
                rows = await connection.fetch(statement.sql, *statement.arguments, timeout=SEARCH_SECONDS)
        return FoundIds([row["id"] for row in rows], len(rows))

    async def fetch_documents(self, index: str, ids: Collection[str]) -> Mapping[str, Document]:
        """Return documents by id."""
        statement = f"select id, document from {self._table(index).qualified} where id = any($1::text[])"  # noqa: S608
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                rows = await connection.fetch(statement, list(ids), timeout=SEARCH_SECONDS)
        return {row["id"]: _decode_document(row["document"]) for row in rows}

    async def suggest(self, indexes: Sequence[str], text: str, limit: int) -> dict[str, list[Document]]:
        """Find names by their beginning, without a transaction: it is asked at every key."""
        tables = {index: self._table(index) for index in indexes}
        typed = parse_query(text).text
        if any(table.names is None for table in tables.values()):
            raise ValueError(f"no names in one of {', '.join(tables)}")
        if not typed:
            return {index: [] for index in tables}
        with unavailable_when_away():
            async with (
                self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection,
                asyncio.timeout(SEARCH_SECONDS),
            ):
                found = {
                    index: await find_suggestions(connection, table, typed, limit)
                    for index, table in tables.items()
                }
        return {index: list(map(_decode_document, documents)) for index, documents in found.items()}

    async def statistics(self) -> EngineStatistics:
        """Count the documents; an answer may be two seconds old."""
        if self._counts is not None and self._monotonic() - self._counts[0] < COUNT_AGE_SECONDS:
            return self._counts[1]
        counted_at = self._monotonic()
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                counts = {
                    uid: await connection.fetchval(f"select count(*) from {table.qualified}")  # noqa: S608
                    for uid, table in self._tables.items()
                    if uid not in self._build_identities
                }
        statistics = EngineStatistics(
            {uid: IndexStatistics(count, is_indexing=False) for uid, count in counts.items()}
        )
        self._counts = (counted_at, statistics)
        return statistics

    async def ping(self) -> None:
        """Return when the database answers."""
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                await connection.fetchval("select 1", timeout=ACQUIRE_SECONDS)

    def taken_over(self) -> Collection[str]:
        """Nobody else fills tables of ours."""
        return ()

    async def list_ids(self, uid: str) -> AsyncIterator[Sequence[str]]:
        """Yield ids in their order."""
        statement = (
            f"select id from {self._table(uid).qualified} where id > $1 order by id limit {IDS_AT_ONCE}"  # noqa: S608
        )
        ids = [""]
        while True:
            with unavailable_when_away():
                async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                    rows = await connection.fetch(statement, ids[-1], timeout=SEARCH_SECONDS)
            if not rows:
                return
            ids = [row["id"] for row in rows]
            yield ids

    async def identities(self) -> Mapping[str, str]:
        """Tell which tables are there."""
        names = [name for uid in self._tables for name in (uid, build_uid(uid))]
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                return await building.identities(connection, names)

    async def begin_build(self, uid: str) -> str:
        """Make an empty table beside the live one."""
        build = building.build_table(self._table(uid))
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                await building.begin(connection, build)
                identity = (await building.identities(connection, [build.name]))[build.name]
        self._tables[build.name], self._writers[build.name] = build, TableWriter(build)
        self._build_identities[build.name] = identity
        return identity

    async def swap_build(self, uid: str) -> None:
        """Carry the figures over, then rename in one transaction; when that has happened already, nothing."""
        live, build = self._table(uid), self._table(build_uid(uid))
        identity = self._build_identities[build.name]
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                present = await building.identities(connection, [uid, build.name])
                if present.get(uid) != identity:
                    if present.get(build.name) != identity:
                        raise IndexLost(f"another process builds {uid}")
                    async with asyncio.timeout(WRITE_SECONDS):
                        await building.carry_figures(connection, live, build)
                    async with asyncio.timeout(WRITE_SECONDS):
                        await building.swap(connection, live, build, identity)
        self._forget_build(build.name)
        # What was known of words was known of the table that went.
        self._writers[uid] = TableWriter(live)
        self._vocabularies[uid] = Vocabulary(live, self._monotonic)

    async def drop_build(self, uid: str) -> None:
        """Remove what is left of a build."""
        build = building.build_table(self._table(uid))
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                await building.drop(connection, build)
        self._forget_build(build.name)

    def _forget_build(self, name: str) -> None:
        for known in (self._tables, self._writers, self._build_identities):
            known.pop(name, None)
        self._counts = None

    async def close(self) -> None:
        """Nothing to give up: the pool is the caller's."""

    async def _page(self, request: SearchRequest, shown: str = "document") -> Page:
        query = self._query(request)
        after = read_cursor(self._table(request.index).definition, request)
        if query is None:
            return Page([], 0, is_last=True)
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                return await self._find(connection, request, query, after, shown)

    def _query(self, request: SearchRequest) -> Query | None:
        """Check a request and cut its query; None when nothing can match."""
        check_fields(self._table(request.index).definition, request)
        query = parse_query(request.query)
        if (query.terms or query.is_blank) and all(map(_is_storable, request.filters.values())):
            return query
        return None

    async def _plan(
        self, connection: Connection, request: SearchRequest, query: Query, shown: str
    ) -> TablePlan:
        corrections = await self._vocabularies[request.index].corrections(connection, query)
        return plan_search(self._table(request.index), request, query, corrections, shown=shown)

    async def _find(
        self,
        connection: Connection,
        request: SearchRequest,
        query: Query,
        after: Position | None,
        shown: str,
    ) -> Page:
        # One snapshot for the count and the page.
        transaction = connection.transaction(isolation="repeatable_read", readonly=True)
        async with asyncio.timeout(SEARCH_SECONDS), transaction:
            await connection.execute(_SQL["search_settings"])
            plan = await self._plan(connection, request, query, shown)
            if after is not None and after.rank >= plan.root.end:
                raise InvalidCursor("the cursor is none that was given here")
            return await find_page(connection, plan, after, self._max_total_hits, self._exceeding)

    def _table(self, uid: str) -> Table:
        if not self._tables:
            raise EngineUnavailable("the engine is not prepared yet")
        if uid not in self._tables:
            if is_build(uid):
                raise IndexLost(f"nothing is being built: {uid}")
            raise ValueError(f"no index {uid!r}")
        return self._tables[uid]

    def _writer(self, uid: str) -> TableWriter:
        self._table(uid)
        return self._writers[uid]


def _cursor_behind(request: SearchRequest, page: Page) -> str | None:
    return None if page.is_last or not page.hits else write_cursor(request, page.hits[-1].position)


def _is_storable(text: str) -> bool:
    """Tell whether PostgreSQL can hold the text at all; what it can not hold equals nothing in it."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
