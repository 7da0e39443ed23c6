"""Connections and transactions of the mirror.

Owns the connection pool and the way transactions run: each has a name (shown in `pg_stat_activity` and in
log lines), deadlocks and serialisation failures are run again, and a store that is away becomes one
exception, `StoreUnavailable`, so that callers can tell it from a fault of the other server's data.

A transaction that only moves data which the feeds can give again does not wait for the disk
(`synchronous_commit = off`): a power cut may lose the last of them whole, rows and cursor together, never
one without the other.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import asyncpg
import structlog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy[asyncpg.Record] | asyncpg.Connection[asyncpg.Record]

T = TypeVar("T")
log = structlog.get_logger(__name__)

_RETRIED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    # A connection that the server has given up, in the moment before it is closed.
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DiskFullError,
    asyncpg.OutOfMemoryError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.QueryCanceledError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.LockNotAvailableError,
    asyncpg.PostgresSystemError,
)
_ATTEMPTS = 8
_COMMAND_SECONDS = 300
_IDLE_IN_TRANSACTION = "20s"
"""A process that sleeps in the middle of a transaction keeps its locks no longer than a lease."""
REFUSED = (asyncpg.DataError, asyncpg.ProgramLimitExceededError, asyncpg.IntegrityConstraintViolationError)
"""What PostgreSQL raises when it refuses a row for what the row holds."""


class StoreUnavailable(Exception):  # noqa: N818 (a state of the store, not a mistake)
    """PostgreSQL does not answer, or not now. Nothing was applied; trying again later is right."""


class Database:
    """A pool of connections and named transactions on it."""

    def __init__(self, pool: asyncpg.Pool, *, acquire_timeout_seconds: float = 10.0) -> None:
        self.pool = pool
        self._acquire_timeout_seconds = acquire_timeout_seconds

    @classmethod
    async def connect(
        cls,
        dsn: str,
        *,
        size: int = 8,
        application: str = "concrnt-indexer",
        acquire_timeout_seconds: float = 10,
    ) -> Database:
        """Open a pool of at most `size` connections. Raises `StoreUnavailable`."""
        try:
            pool = await asyncpg.create_pool(
                dsn,
                min_size=1,
                max_size=size,
                timeout=10,
                command_timeout=_COMMAND_SECONDS,
                server_settings={
                    "application_name": application,
                    "timezone": "UTC",
                    "jit": "off",
                    "client_encoding": "UTF8",
                    "idle_in_transaction_session_timeout": _IDLE_IN_TRANSACTION,
                },
            )
        except (*_AWAY, ValueError, asyncpg.PostgresError) as error:
            raise StoreUnavailable(
                f"PostgreSQL at {_place(dsn)} can not be reached: {describe(error)}"
            ) from error
        return cls(pool, acquire_timeout_seconds=acquire_timeout_seconds)

    async def close(self) -> None:
        """Close the pool; connections still in use after five seconds are cut."""
        try:
            await asyncio.wait_for(self.pool.close(), 5)
        except (TimeoutError, *_AWAY):
            self.pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for reads outside a transaction. Raises `StoreUnavailable`."""
        try:
            async with self.pool.acquire(timeout=self._acquire_timeout_seconds) as connection:
                yield connection
        except _AWAY as error:
            raise StoreUnavailable(f"PostgreSQL is away: {describe(error)}") from error

    async def transaction(
        self,
        name: str,
        work: Callable[[Connection], Awaitable[T]],
        *,
        durable: bool = True,
    ) -> T:
        """Run `work` in one transaction called `name`; again when the database asks for it.

        Raises `StoreUnavailable` when PostgreSQL is away or keeps refusing; whatever `work` raises otherwise.
        """
        for attempt in range(_ATTEMPTS):
            try:
                async with self.connection() as connection, connection.transaction():
                    if not durable:
                        await connection.execute("set local synchronous_commit = off")
                    return await work(connection)
            except _RETRIED as error:
                log.info("transaction run again", transaction=name, attempt=attempt + 1, why=describe(error))
                await asyncio.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311 (spreads retries)
        raise StoreUnavailable(f"transaction {name} was refused {_ATTEMPTS} times in a row")

    async def fetch(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        """All rows of one statement. Raises `StoreUnavailable`."""
        async with self.connection() as connection:
            rows: list[asyncpg.Record] = await connection.fetch(statement, *arguments)
            return rows

    async def fetchrow(self, statement: str, *arguments: Any) -> asyncpg.Record | None:
        """The first row of one statement, or None. Raises `StoreUnavailable`."""
        async with self.connection() as connection:
            return await connection.fetchrow(statement, *arguments)

    async def execute(self, statement: str, *arguments: Any) -> None:
        """Run one statement for its effect. Raises `StoreUnavailable`."""
        async with self.connection() as connection:
            await connection.execute(statement, *arguments)


async def answers_anew(dsn: str) -> bool:
    """Whether a new connection gets any answer, a refusal included; waits for as long as there is none.

    Tells a database that hangs from one that is at work: pools and statements wait for both.
    """
    try:
        connection = await asyncpg.connect(dsn)
    except asyncpg.CannotConnectNowError:
        return False
    except asyncpg.PostgresError:
        return True
    except (OSError, asyncpg.InterfaceError):
        return False
    try:
        await connection.fetchval("select 1")
    except _AWAY:
        return False
    finally:
        connection.terminate()
    return True


def _place(dsn: str) -> str:
    """Where a DSN leads, without the password in it."""
    parts = urlsplit(dsn)
    host = parts.hostname or dict(parse_qsl(parts.query)).get("host", "the default place")
    return f"{host}:{parts.port}" if parts.port else host


def describe(error: BaseException) -> str:
    """One short line about a driver's error, without the statement or its values."""
    text = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {text}"[:200]
