"""Migrations: they lead to `schema.sql`, apply once whoever starts, and leave nothing when they fail."""

from __future__ import annotations

import asyncio
from importlib import resources
from typing import Any

import pytest

from indexer.mirror import migrate as migrating
from indexer.mirror.database import Database
from indexer.mirror.migrate import Migration, MigrationError, migrate, migrations, missing_migrations
from tests.integration.eventually import eventually

pytestmark = pytest.mark.anyio

_CATALOGS = {
    "relations": """
        select c.relname, c.relkind::text, c.reloptions from pg_class c
        where c.relnamespace = 'mirror'::regnamespace order by 1""",
    "columns": """
        select c.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), l.collname, a.attnotnull,
          a.attidentity::text, a.attgenerated::text, pg_get_expr(d.adbin, d.adrelid)
        from pg_attribute a
        join pg_class c on c.oid = a.attrelid
        left join pg_collation l on l.oid = a.attcollation
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace = 'mirror'::regnamespace and a.attnum > 0 and not a.attisdropped
        order by 1, 3""",
    "indexes": "select tablename, indexname, indexdef from pg_indexes where schemaname = 'mirror' order by 2",
    "constraints": """
        select conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid) from pg_constraint
        where connamespace = 'mirror'::regnamespace order by 1, 2""",
    "sequences": """
        select sequencename, data_type::text, start_value, increment_by, cycle from pg_sequences
        where schemaname = 'mirror' order by 1""",
    "functions": """
        select proname, pg_get_functiondef(oid) from pg_proc where pronamespace = 'mirror'::regnamespace
        order by 1""",
    "triggers": """
        select tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
        order by 1, 2""",
}


async def _catalog(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    return {
        name: [tuple(row) for row in await database.fetch(statement)] for name, statement in _CATALOGS.items()
    }


async def test_the_migrations_lead_to_schema_sql(database_url: str) -> None:
    """Tables, columns, collations, indexes and constraints are the same, whichever way they were made."""
    database = await Database.connect(database_url, size=2)
    try:
        await migrate(database)
        await database.execute("drop table mirror.schema_migrations")
        migrated = await _catalog(database)
        await database.execute("drop schema mirror cascade")
        await database.execute("create schema mirror")
        schema = resources.files("indexer.mirror").joinpath("schema.sql").read_text(encoding="utf-8")
        await database.execute(schema)
        assert await _catalog(database) == migrated
        assert len(migrated["columns"]) > 60
        keys = [row for row in migrated["columns"] if row[1] in ("key", "owner", "domain", "target", "href")]
        assert {row[4] for row in keys} == {"C"}  # compared by bytes, whatever the database's locale
    finally:
        await database.close()


async def test_three_processes_that_start_at_once_migrate_once(database_url: str) -> None:
    """The first one applies all, the others wait for it and find nothing to do."""
    databases = [await Database.connect(database_url, size=2) for _ in range(3)]
    try:
        applied = await asyncio.gather(*(migrate(database) for database in databases))
        assert sorted(len(steps) for steps in applied) == [0, 0, len(migrations())]
        assert await missing_migrations(databases[0]) == []
    finally:
        for database in databases:
            await database.close()


async def test_a_database_without_the_schema_lacks_every_migration(database_url: str) -> None:
    """That is no error: it is what `/ready` says before the first start."""
    database = await Database.connect(database_url, size=1)
    try:
        assert await missing_migrations(database) == migrations()
        assert [step.version for step in migrations()] == list(range(1, len(migrations()) + 1))
    finally:
        await database.close()


async def test_a_newer_database_is_refused(database_url: str) -> None:
    """With its version and what to do; nothing in it is touched."""
    database = await Database.connect(database_url, size=1)
    try:
        await migrate(database)
        await database.execute("insert into mirror.schema_migrations values (9999, 'from_the_future')")
        before = await _catalog(database)
        with pytest.raises(MigrationError, match=r"version 9999, .* run the newer program"):
            await migrate(database)
        assert await _catalog(database) == before
    finally:
        await database.close()


async def test_a_migration_that_fails_leaves_nothing_behind(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its own first statements nor the migrations before it; the next start begins again."""
    broken = Migration(9000, "broken", "create table mirror.half (a int); select 1 / 0")
    real = migrations()
    database = await Database.connect(database_url, size=1)
    try:
        monkeypatch.setattr(migrating, "migrations", lambda: [*real, broken])
        with pytest.raises(MigrationError, match=r"migration 9000 \(broken\) failed: DivisionByZero"):
            await migrate(database)
        assert await database.fetch("select from pg_namespace where nspname = 'mirror'") == []
        monkeypatch.setattr(migrating, "migrations", lambda: real)
        assert await migrate(database) == real
    finally:
        await database.close()


async def test_who_waited_while_another_migrated_finds_it_done(database_url: str) -> None:
    """Also when it had looked before: what a connection remembers of names is older than the lock."""
    first = await Database.connect(database_url, size=1)
    second = await Database.connect(database_url, size=1)
    try:
        assert await missing_migrations(second) == migrations()
        async with first.connection() as connection, connection.transaction():
            await connection.execute("select pg_advisory_xact_lock($1)", migrating._LOCK)
            waiting = asyncio.ensure_future(migrate(second))
            waits = "select exists (select from pg_locks where not granted)"
            await eventually(lambda: connection.fetchval(waits))
            await connection.execute("create schema mirror")
        assert await waiting == migrations()
    finally:
        await first.close()
        await second.close()
