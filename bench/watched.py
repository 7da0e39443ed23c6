"""`concrnt-indexer up` with an eye on its event loop: `python -m bench.watched FILE`.

A task wakes every few milliseconds from the first page on, and notes how much later than asked: for as long
as that, nothing else could run. `FILE` gets the result as JSON when the indexer ends: `longest_seconds` by
the clock, `longest_busy_seconds` by the loop thread's own processor time (other programs on the machine do
not lengthen it), `late`, how many wake-ups were more than 50 ms late by the clock, and `loop_seconds`, the
processor time of the loop's thread in all.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.app import House
from indexer.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

STALL_SECONDS = 0.05
_STEP_SECONDS = 0.002


@dataclass(slots=True)
class Stalls:
    """How long the event loop was held up."""

    longest_seconds: float = 0.0
    longest_busy_seconds: float = 0.0
    late: int = 0
    loop_seconds: float = 0.0
    """Processor time of the loop's thread since the first page."""

    async def watch(self, has_begun: Callable[[], bool]) -> None:
        """Measure until cancelled."""
        while True:
            clock, busy = time.perf_counter(), time.thread_time()
            await asyncio.sleep(_STEP_SECONDS)
            late = time.perf_counter() - clock - _STEP_SECONDS
            if has_begun():
                self.loop_seconds += time.thread_time() - busy
                self.longest_seconds = max(self.longest_seconds, late)
                self.longest_busy_seconds = max(self.longest_busy_seconds, time.thread_time() - busy)
                self.late += late > STALL_SECONDS


def _watched(
    run: Callable[[House], Coroutine[Any, Any, None]], file: Path
) -> Callable[[House], Coroutine[Any, Any, None]]:
    async def watched(house: House) -> None:
        stalls = Stalls()
        watching = asyncio.create_task(stalls.watch(lambda: house.instruments.pages > 0))
        try:
            await run(house)
        finally:
            watching.cancel()
            file.write_text(json.dumps(asdict(stalls)))  # noqa: ASYNC240 (the loop is at its end)

    return watched


if __name__ == "__main__":
    House.run = _watched(House.run, Path(sys.argv[1]))  # type: ignore[method-assign,assignment]
    sys.argv = ["concrnt-indexer", "up"]
    main()
