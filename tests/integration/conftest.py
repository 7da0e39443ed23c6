"""Fixtures of the integration tests."""

from __future__ import annotations

import anyio
import asyncpg
import pytest


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
def second_database_url(database_url: str) -> str:
    """Another empty database, beside the test's own; gone with the test's server."""
    base, _, options = database_url.rpartition("?")
    dsn = f"{base}_b?{options}"
    name = base.rpartition("/")[2] + "_b"
    anyio.run(_execute, database_url, f'create database "{name}" template template0 strategy file_copy')
    return dsn
