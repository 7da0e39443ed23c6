"""Migrations: numbered SQL files, each applied once, in order, in one transaction under an advisory lock.

Any number of processes may start at once: the first one migrates, the others wait and find nothing to do.
A migration that fails leaves the database as it was. `schema.sql` is what the migrations lead to; a test
compares the two. A database that is newer than this program is refused: going on would corrupt it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import asyncpg

from indexer.mirror.database import StoreUnavailable, describe

if TYPE_CHECKING:
    from indexer.mirror.database import Connection, Database

_LOCK = 0x636F6E63_726E7401  # "concrnt", 1
_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")


class MigrationError(Exception):
    """The schema can not be brought up to date; the message is a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema."""

    version: int
    name: str
    statements: str


def migrations() -> list[Migration]:
    """The migrations that this program brings, in order."""
    files = resources.files("indexer.mirror").joinpath("migrations").iterdir()
    found = [
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in files
        if (match := _FILE.match(file.name))
    ]
    return sorted(found, key=lambda migration: migration.version)


async def migrate(database: Database) -> list[Migration]:
    """Bring the schema up to date; returns what was applied, [] when nothing was due.

    Raises `MigrationError`, and `StoreUnavailable` when PostgreSQL is away.
    """
    return await database.transaction("migrate", _apply_missing)


async def missing_migrations(database: Database) -> list[Migration]:
    """The migrations that the database lacks, in order."""
    if await database.fetchrow("select 1 where to_regclass('mirror.schema_migrations') is not null") is None:
        return migrations()
    applied = {row["version"] for row in await database.fetch("select version from mirror.schema_migrations")}
    return [migration for migration in migrations() if migration.version not in applied]


async def _apply_missing(connection: Connection) -> list[Migration]:
    await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)
    try:
        # Asked of the catalogue itself: "if not exists" asks what this connection remembers of names, and
        # that may be older than the lock.
        if not await connection.fetchval("select exists (select from pg_namespace where nspname = 'mirror')"):
            await connection.execute("create schema mirror")
        await connection.execute(
            "create table if not exists mirror.schema_migrations (version integer primary key,"
            " name text not null, applied_at timestamptz not null default now())"
        )
    except asyncpg.InsufficientPrivilegeError as error:
        raise MigrationError(f"PostgreSQL lets this user create no schema: {describe(error)}") from error
    applied = {
        row["version"] for row in await connection.fetch("select version from mirror.schema_migrations")
    }
    known = migrations()
    if unknown := applied - {migration.version for migration in known}:
        raise MigrationError(
            f"the database is at schema version {max(unknown)}, which this program does not know: "
            "run the newer program, or restore the older database"
        )
    due = [migration for migration in known if migration.version not in applied]
    for migration in due:
        try:
            await connection.execute(migration.statements)
        except asyncpg.PostgresConnectionError as error:
            raise StoreUnavailable(f"PostgreSQL went away: {describe(error)}") from error
        except asyncpg.PostgresError as error:
            raise MigrationError(
                f"migration {migration.version:04} ({migration.name}) failed: {describe(error)}"
            ) from error
        await connection.execute(
            "insert into mirror.schema_migrations (version, name) values ($1, $2)",
            migration.version,
            migration.name,
        )
    return due
