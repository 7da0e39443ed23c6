"""Running the asynchronous part of a command."""

import asyncio
import gc
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

_STOPPING = (signal.SIGINT, signal.SIGTERM)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run work that ends by itself."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run work that goes on until it is cancelled; SIGINT (Ctrl-C) and SIGTERM cancel it.

    It may take its time to end in order. A second signal does not wait for that.
    """
    # What was imported lives as long as the process, and pages make many objects that die young: collecting
    # as often as the defaults do costs a backfill some per cent for nothing.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    run(_cancelled_by_signals(work))


async def _cancelled_by_signals(work: Coroutine[Any, Any, None]) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()
        for number in _STOPPING:
            loop.remove_signal_handler(number)

    for number in _STOPPING:
        loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped:
            raise
    finally:
        for number in _STOPPING:
            loop.remove_signal_handler(number)
