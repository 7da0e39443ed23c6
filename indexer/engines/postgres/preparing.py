"""Putting the tables in place: looked at first, changed only where something is missing or derived otherwise.

Several processes may start at once: changes happen in one transaction under an advisory lock, and who waited
looks again. When the derivation of rows changed (a field, the folding), they are derived again from the
stored documents in the same transaction, so searches see the old rows until all are new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from indexer.engines.base import Standing
from indexer.engines.postgres.building import identities
from indexer.engines.postgres.schema import bare_document, is_table
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.engines.postgres.schema import Table
    from indexer.engines.postgres.writing import Connection, TableWriter

_SQL: Final = load("indexer.engines.postgres", "statements.sql")
_DERIVED_AT_ONCE: Final = 500

_decode_document = msgspec.json.Decoder(dict[str, Any]).decode


async def prepare_tables(
    connection: Connection, tables: Mapping[str, Table], writers: Mapping[str, TableWriter]
) -> None:
    """Make what is missing. Does nothing, and takes no lock, when nothing is."""
    if not await _changes(connection, tables):
        return
    async with connection.transaction():
        await connection.execute(_SQL["lock"])
        if not await connection.fetchval(_SQL["schema_exists"]):
            await connection.execute(_SQL["create_schema"])
        await connection.execute(_SQL["create_definitions"])
        lost = await _lost(connection, tables)
        for statement in await _missing(connection, tables):
            await connection.execute(statement)
        for uid in dict.fromkeys([*lost, *await _outdated(connection, tables)]):
            await _derive_again(connection, tables[uid], writers[uid])
            await connection.execute(_SQL["remember_fingerprint"], uid, tables[uid].fingerprint)


async def look_at_tables(connection: Connection, tables: Mapping[str, Table]) -> dict[str, Standing]:
    """Tell what `prepare_tables` would do to each table, and do nothing."""
    existing = await _existing(connection, ["definitions", *(table.name for table in tables.values())])
    outdated = set(await _outdated(connection, tables)) if "definitions" in existing else tables.keys()
    standing: dict[str, Standing] = {}
    for uid, table in tables.items():
        if table.name not in existing:
            standing[uid] = Standing.MISSING
        elif uid in outdated or await _missing(connection, {uid: table}):
            standing[uid] = Standing.DIFFERS
        else:
            standing[uid] = Standing.READY
    return standing


async def _changes(connection: Connection, tables: Mapping[str, Table]) -> bool:
    if not await _existing(connection, ["definitions"]):
        return True
    return bool(await _missing(connection, tables) or await _outdated(connection, tables))


async def _missing(connection: Connection, tables: Mapping[str, Table]) -> list[str]:
    """Return the statements that make what is missing, in order."""
    names = [
        name
        for table in tables.values()
        for name in (table.name, *dict(table.indexes()), *dict(table.companions()))
    ]
    existing = await _existing(connection, names)
    statements = []
    for table in tables.values():
        if table.name in existing:
            rows = await connection.fetch(_SQL["existing_columns"], table.name)
            columns = {row["name"] for row in rows}
            wanted = dict(table.all_columns())
            statements += [table.drop_column(name) for name in sorted(columns - wanted.keys())]
            statements += [
                table.add_column(name, sql_type) for name, sql_type in wanted.items() if name not in columns
            ]
        else:
            statements.append(table.create())
        made = [*table.companions(), *table.indexes()]
        statements += [statement for name, statement in made if name not in existing]
    return statements


def _derived_tables(table: Table) -> list[str]:
    """Return the names of the tables that are filled from documents, besides the table itself."""
    return [name for name, statement in table.companions() if is_table(statement)]


async def _lost(connection: Connection, tables: Mapping[str, Table]) -> list[str]:
    """Return the indexes of which a table beside the main one is missing: it is filled from the documents."""
    existing = await _existing(
        connection, [name for table in tables.values() for name in _derived_tables(table)]
    )
    return [uid for uid, table in tables.items() if not existing.issuperset(_derived_tables(table))]


async def _existing(connection: Connection, names: list[str]) -> set[str]:
    rows = await connection.fetch(_SQL["existing_relations"], names)
    return {row["name"] for row in rows}


async def _outdated(connection: Connection, tables: Mapping[str, Table]) -> list[str]:
    rows = await connection.fetch(_SQL["fingerprints"])
    known = {row["index_uid"]: row["fingerprint"] for row in rows}
    return [uid for uid, table in tables.items() if known.get(uid) != table.fingerprint]


async def _derive_again(connection: Connection, table: Table, writer: TableWriter) -> None:
    identity = (await identities(connection, [table.name]))[table.name]
    writer.know_table(identity)
    after = ""
    page = (
        f"select id, {bare_document(table)} as document from {table.qualified} as stored "  # noqa: S608
        "where id > $1 order by id limit $2"
    )
    while rows := await connection.fetch(page, after, _DERIVED_AT_ONCE):
        _, words = await writer.put(connection, [_decode_document(row["document"]) for row in rows])
        writer.settle(words, identity)  # the writer is of use only when this transaction succeeds
        after = rows[-1]["id"]
