"""Writing a batch: a few set-based statements in the caller's transaction.

Rows are made and sent in portions of a bounded number and of bounded bytes, so memory stays flat whatever a
batch holds. A portion that PostgreSQL refuses for a document's own fault is halved until the culprit stands
alone, each try in a savepoint. Ids are written in one order by all writers, so that two never wait for each
other in a circle; so are words, and always after the rows.

Words that were new are written once and then known to this process, so that writing goes on as if there were
none. What is known is only remembered after the transaction (:meth:`TableWriter.settle`): a batch that failed
left none behind. Batches into one table may be under way at once: each keeps what it met to itself, and tells
only of what it has written.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import asyncpg

from indexer.engines.base import RejectedDocument
from indexer.engines.postgres.errors import refusal
from indexer.engines.postgres.rows import Met, RowMaker, Unstorable, replace_names_statement, upsert_statement
from indexer.engines.text import is_spaced
from indexer.engines.typos import is_vocabulary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from asyncpg.pool import PoolConnectionProxy

    from indexer.engines.base import Document
    from indexer.engines.postgres.rows import Row
    from indexer.engines.postgres.schema import Table

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

PORTION_ROWS: Final = 1_000
PORTION_BYTES: Final = 8 * 1024 * 1024
KNOWN_WORDS: Final = 200_000
MOST_WORDS: Final = 1_000_000
"""About so many words a table takes (as autovacuum counts them): strangers write them."""

_ROWS_BETWEEN_BREATHS: Final = 50
"""Rows made before other tasks get a turn: some five milliseconds."""


class TableWriter:
    """Writes into one table."""

    def __init__(self, table: Table) -> None:
        self._index = table.definition.uid
        self._maker = RowMaker(table)
        self._known: set[str] = set()
        self._identity = ""
        # The estimate costs nothing; a table that was never counted has -1.
        self._add_words = (
            f"insert into {table.words} (word) select unnest($1::text[]) where {MOST_WORDS} > "  # noqa: S608
            f"(select reltuples from pg_class where oid = '{table.words}'::regclass) on conflict do nothing"
        )
        self._replace_names = replace_names_statement(table) if table.names else None
        self._upsert = upsert_statement(table)
        self._delete = f"delete from {table.qualified} where id = any($1::text[])"  # noqa: S608 - a name of ours

    async def delete(self, connection: Connection, ids: Iterable[str]) -> None:
        """Remove documents; ids that are not there are no error."""
        gone = sorted(set(ids))
        await connection.execute(self._delete, gone)
        await self._put_names(connection, gone, {})

    async def put(
        self, connection: Connection, documents: Iterable[Document]
    ) -> tuple[list[RejectedDocument], set[str]]:
        """Put documents; returns those that can not be stored, and the words written, for :meth:`settle`."""
        rejected: list[RejectedDocument] = []
        met = Met()
        by_id = {document["id"]: document for document in documents}
        async for rows in self._portions(by_id, met, rejected):
            await self._put_rows(connection, rows, rejected)
        written = by_id.keys() - {document.id for document in rejected}
        await self._put_names(connection, sorted(written), met.names)
        return rejected, await self._put_words(connection, met.words)

    def know_table(self, identity: str) -> None:
        """Forget what was known of words when another table stands in this one's place."""
        if identity != self._identity:
            self._identity = identity
            self._known = set()

    def settle(self, words: set[str], identity: str) -> None:
        """Remember words of a :meth:`put` whose transaction has been committed, in the table of that time."""
        if identity != self._identity:
            return
        if len(self._known) + len(words) > KNOWN_WORDS:
            self._known.clear()
        self._known |= words

    async def _put_words(self, connection: Connection, words: set[str]) -> set[str]:
        new = {word for word in words - self._known if is_vocabulary(word) and is_spaced(word)}
        if new:
            await connection.execute(self._add_words, sorted(new))
        return new

    async def _put_names(
        self, connection: Connection, ids: Sequence[str], names: Mapping[str, Iterable[str]]
    ) -> None:
        if self._replace_names is None or not ids:
            return
        named = sorted((term, identifier) for identifier in ids for term in names.get(identifier, ()))
        terms, owners = zip(*named, strict=True) if named else ((), ())
        await connection.execute(self._replace_names, ids, terms, owners)

    async def _portions(
        self, by_id: Mapping[str, Document], met: Met, rejected: list[RejectedDocument]
    ) -> AsyncIterator[list[Row]]:
        rows: list[Row] = []
        size = 0
        for number, identifier in enumerate(sorted(by_id)):
            if number % _ROWS_BETWEEN_BREATHS == _ROWS_BETWEEN_BREATHS - 1:
                await asyncio.sleep(0)
            try:
                row = self._maker.row(by_id[identifier], met)
            except Unstorable as error:
                rejected.append(RejectedDocument(self._index, identifier, str(error)))
                continue
            row_size = sum(len(value) for value in row if isinstance(value, str))
            if rows and (len(rows) >= PORTION_ROWS or size + row_size > PORTION_BYTES):
                yield rows
                rows, size = [], 0
            rows.append(row)
            size += row_size
        if rows:
            yield rows

    async def _put_rows(
        self, connection: Connection, rows: Sequence[Row], rejected: list[RejectedDocument]
    ) -> None:
        try:
            async with connection.transaction():
                await connection.execute(self._upsert, *zip(*rows, strict=True))
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            reason = refusal(error)
            if reason is None:
                raise
            if len(rows) == 1:
                rejected.append(RejectedDocument(self._index, rows[0][0], reason))
                return
            middle = len(rows) // 2
            await self._put_rows(connection, rows[:middle], rejected)
            await self._put_rows(connection, rows[middle:], rejected)
