"""Building a table beside the live one, and putting it in its place.

The build is a table like the live one under another name. Swapping is one transaction that drops the live
table and renames the other with its indexes: searches that began before finish on the old table, the next
ones read the new. A table's identity is its OID, which moves with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from indexer.engines.base import build_uid
from indexer.engines.postgres.schema import Table, quoted, sort_column
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.engines.postgres.writing import Connection

_SQL: Final = load("indexer.engines.postgres", "statements.sql")


def build_table(table: Table) -> Table:
    """Return the table that is built beside one."""
    return Table(replace(table.definition, uid=build_uid(table.definition.uid)))


async def identities(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    """Return the OIDs of those tables that are there, by name."""
    rows = await connection.fetch(_SQL["identities"], list(names))
    return {row["name"]: row["identity"] for row in rows}


async def begin(connection: Connection, build: Table) -> None:
    """Make an empty table; one that is left over goes."""
    async with connection.transaction():
        await connection.execute(_SQL["lock"])
        await drop(connection, build)
        await connection.execute(build.create())
        for _, statement in build.indexes():
            await connection.execute(statement)


async def drop(connection: Connection, build: Table) -> None:
    """Remove what is left of a build."""
    await connection.execute(f"drop table if exists {build.qualified}")


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


async def swap(connection: Connection, live: Table, build: Table) -> None:
    """Put the build in the live table's place."""
    async with connection.transaction():
        await connection.execute(_SQL["lock"])
        await connection.execute(f"drop table if exists {live.qualified}")
        await connection.execute(f"alter table {build.qualified} rename to {quoted(live.name)}")
        pairs = zip(dict(build.indexes()), dict(live.indexes()), strict=True)
        for old, new in (*pairs, (f"{build.name}_pkey", f"{live.name}_pkey")):
            await connection.execute(f"alter index if exists search.{quoted(old)} rename to {quoted(new)}")
        await connection.execute(_SQL["remember_fingerprint"], live.definition.uid, live.fingerprint)
