"""Building a table beside the live one, and putting it in its place.

The build is a table like the live one under another name, with the tables beside it. Swapping is one
transaction that drops the live tables and renames the others with their indexes: searches that began before
finish on the old ones, the next ones read the new. A table's identity is its OID, which moves with it.

Builds of an index have one name, and another process may begin one under it at any time. So whoever writes
into a build, or swaps it, locks the table first and then asks whether it is still the one that it made.

A reader that takes long (a dump) keeps the live tables from being dropped, and every search that comes after
the waiting swap waits behind it. So a swap waits `lock_timeout` and is given up then: nothing has happened.
That is longer than the second after which PostgreSQL ends an autovacuum that is in somebody's way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import asyncpg

from indexer.engines.base import IndexBusy, IndexLost, build_uid, is_build
from indexer.engines.postgres.schema import Table, is_table, quoted, sort_column
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from indexer.engines.postgres.writing import Connection

_SQL: Final = load("indexer.engines.postgres", "statements.sql")


def build_table(table: Table) -> Table:
    """Return the table that is built beside one."""
    return Table(replace(table.definition, uid=build_uid(table.definition.uid)))


async def identities(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    """Return the OIDs of those tables that are there, by name."""
    rows = await connection.fetch(_SQL["identities"], list(names))
    return {row["name"]: row["identity"] for row in rows}


async def lock_for_writing(
    connection: Connection, tables: Sequence[Table], builds: Mapping[str, str]
) -> dict[str, str]:
    """Keep tables from being swapped until the transaction ends; returns their identities.

    Raises:
        IndexLost: a build is not the one that ``builds`` tells.

    """
    if not tables:
        return {}
    names = ", ".join(table.qualified for table in tables)
    await connection.execute(f"lock table {names} in row exclusive mode")
    found = await identities(connection, [table.name for table in tables])
    for table in tables:
        if is_build(table.name) and found.get(table.name) != builds[table.name]:
            raise IndexLost(f"another process builds {table.name}")
    return found


async def begin(connection: Connection, build: Table) -> None:
    """Make empty tables; what is left over goes."""
    async with connection.transaction():
        await connection.execute(_SQL["lock"])
        await drop(connection, build)
        await connection.execute(build.create())
        for _, statement in (*build.companions(), *build.indexes()):
            await connection.execute(statement)


async def drop(connection: Connection, build: Table) -> None:
    """Remove what is left of a build."""
    for name in (build.qualified, build.words, build.names):
        if name is not None:
            await connection.execute(f"drop table if exists {name}")


async def carry_figures(connection: Connection, live: Table, build: Table) -> None:
    """Give the documents of a build the figures that the live table has."""
    definition = live.definition
    if not definition.figures:
        return
    columns = ", ".join(
        f"{name} = live.{name}" for field in definition.figures if (name := quoted(sort_column(field)))
    )
    await connection.execute(
        f"update {build.qualified} as new set figures = live.figures, {columns}, "  # noqa: S608 - our names
        "document = left(new.document, -1) || ',' || live.figures || '}' "
        f"from {live.qualified} as live "
        "where live.id = new.id and live.figures is not null and new.figures is null"
    )


async def swap(connection: Connection, live: Table, build: Table, identity: str) -> None:
    """Put the build of this identity in the live table's place.

    Raises:
        IndexLost: another build stands there, or none.
        IndexBusy: somebody reads the live table, or another process puts tables in place.

    """
    async with connection.transaction():
        await connection.execute(_SQL["lock_timeout"])
        try:
            await connection.execute(_SQL["lock"])
            # In the order in which searches come to them.
            for name in (live.words, live.names, live.qualified):
                if name is not None:
                    await connection.execute(f"lock table {name} in access exclusive mode")
        except asyncpg.LockNotAvailableError as error:
            raise IndexBusy(f"{live.name} is being read") from error
        if (await identities(connection, [build.name])).get(build.name) != identity:
            raise IndexLost(f"another process builds {live.name}")
        await drop(connection, live)
        for old, new in zip(_relations(build), _relations(live), strict=True):
            kind = "index" if old not in _tables(build) else "table"
            await connection.execute(f"alter {kind} search.{quoted(old)} rename to {quoted(new)}")
        await connection.execute(_SQL["remember_fingerprint"], live.definition.uid, live.fingerprint)


def _tables(table: Table) -> list[str]:
    """Return the names of a table and of those beside it."""
    return [table.name, *(name for name, statement in table.companions() if is_table(statement))]


def _relations(table: Table) -> list[str]:
    """Return the names of the tables and of all their indexes, in an order of their own."""
    names = [table.name, *dict(table.companions()), *dict(table.indexes())]
    return [*names, *(f"{name}_pkey" for name in _tables(table))]
