"""Following tasks to their end: an answer of 202 says only that a task waits, not that it will succeed.

Any number of tasks may be awaited at once; all of one call are asked for in one request. A task that the
server no longer knows (it was restarted from an older copy, or its volume was emptied) counts as the
server's being away: nothing is known of it, and writing again is harmless.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from indexer.engines.base import EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from indexer.engines.meilisearch.wire import Wire

FIRST_PAUSE_SECONDS: Final = 0.01
LONGEST_PAUSE_SECONDS: Final = 0.5
TASK_SECONDS: Final = 600.0
_FINAL: Final = ("succeeded", "failed", "canceled")
_ASKED_AT_ONCE: Final = 200


async def wait_for_tasks(
    wire: Wire, uids: Sequence[int], *, seconds: float = TASK_SECONDS
) -> dict[int, Mapping[str, Any]]:
    """Return the tasks when all of them have ended, however they did.

    Raises:
        EngineUnavailable: the server is away, has forgotten a task, or takes longer than ``seconds``; what
            still waits then is cancelled, as far as that is possible.

    """
    ended: dict[int, Mapping[str, Any]] = {}
    waiting = list(uids)
    pause = FIRST_PAUSE_SECONDS
    deadline = time.monotonic() + seconds
    while waiting:
        asked = waiting[:_ASKED_AT_ONCE]
        numbers = ",".join(map(str, asked))
        answer = await wire.get(f"/tasks?limit={len(asked)}&uids={numbers}")
        known = {task["uid"]: task for task in answer["results"]}
        if len(known) < len(asked):
            raise EngineUnavailable("Meilisearch has forgotten a task: it was restarted from other data")
        done = {uid: task for uid, task in known.items() if task["status"] in _FINAL}
        ended |= done
        waiting = [uid for uid in waiting if uid not in done]
        if waiting and not done:
            if time.monotonic() > deadline:
                await wire.send("POST", f"/tasks/cancel?uids={numbers}")
                raise EngineUnavailable(f"Meilisearch: a task has not ended within {seconds:g} s")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    return ended
