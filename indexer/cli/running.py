"""Running the asynchronous part of a command, and ending it in time.

What hangs when a process is told to stop (another server, the database, a thread that looks up a name) is
somebody else's trouble: what matters is in transactions, so that a process may end in the middle of anything.
"""

import asyncio
import gc
import os
import signal
import stat
import sys
import threading
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

import structlog
import uvloop

T = TypeVar("T")
log = structlog.get_logger(__name__)

STOP_SECONDS = 12.5
"""How long ending in order may take, of the 15 seconds that are promised."""
_THREADS_SECONDS = 2.0
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run work that ends by itself."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run work that goes on until it is cancelled; SIGINT (Ctrl-C), SIGTERM and SIGHUP cancel it.

    SIGHUP tells that its terminal was closed; `nohup` bars it. The work has 12 seconds to end in order; what
    hangs longer is left behind, and the process ends as if it had. A second SIGINT or SIGTERM ends it
    at once, with exit code 1.
    """
    # What was imported lives as long as the process, and pages make many objects that die young: collecting
    # as often as the defaults do costs a backfill some per cent for nothing.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    watch = threading.Timer(STOP_SECONDS, _give_up)
    watch.daemon = True
    try:
        run(_cancelled_by_signals(work, watch))
    finally:
        watch.cancel()


def leave_soon(code: int) -> None:
    """Let the process end with this code in two seconds, whatever its threads still wait for."""
    watch = threading.Timer(_THREADS_SECONDS, os._exit, (code,))
    watch.daemon = True
    watch.start()


async def _cancelled_by_signals(work: Coroutine[Any, Any, None], watch: threading.Timer) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if stopped:
            log.warning("told to stop twice: ending at once")
            _leave(1)
        stopped = True
        watch.start()
        task.cancel()

    def hang_up() -> None:
        _write_to_no_terminal()
        if not stopped:  # a terminal that closes says so more than once
            stop()

    numbers = [number for number in _STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    for number in numbers:
        loop.add_signal_handler(number, hang_up if number == signal.SIGHUP else stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped:
            raise
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
        if stopped:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _write_to_no_terminal() -> None:
    """A terminal that is gone fails at each write; files and pipes are written on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(nowhere, stream)
    os.close(nowhere)


def _give_up() -> None:
    log.warning("not everything ended in time; ending all the same", seconds=STOP_SECONDS)
    _leave(0)


def _leave(code: int) -> NoReturn:
    """End the process without waiting for anything."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
