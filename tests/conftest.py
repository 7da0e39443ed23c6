"""Fixtures that every room's tests share: a real PostgreSQL 18, a fresh database per test."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import asyncpg
import pytest

from indexer.mirror.embedded import start_embedded

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the program does."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """The maintenance database of this test process's own embedded server.

    Not under pytest's own temporary folder: run as root, the server is another user, and each test run closes
    that folder to others, also while another run is at work in it.
    """
    with tempfile.TemporaryDirectory(prefix="concrnt-indexer-tests-") as folder:
        server = start_embedded(Path(folder), database="maintenance")
        yield server.dsn
        server.stop()


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A folder for an embedded server of the test's own."""
    with tempfile.TemporaryDirectory(prefix="concrnt-indexer-tests-") as folder:
        yield Path(folder)


@pytest.fixture
def database_url(postgres_dsn: str) -> Iterator[str]:
    """A fresh, empty database of its own for one test."""
    name = f"test_{next(_numbers)}"
    anyio.run(_statement, postgres_dsn, f'create database "{name}" template template0 strategy file_copy')
    yield postgres_dsn.replace("/maintenance?", f"/{name}?")
    anyio.run(_statement, postgres_dsn, f'drop database if exists "{name}" with (force)')


async def _statement(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
