"""Taking back what a server said, without a proof, of people who had left it by then.

A server on which somebody once lived speaks for them until a newer entity document is known. Feeds are read
in any order, so it may be read first: what it says, dated after they left, counts until then.

What it owns: `mirror.left_homes`. A page that learns of a newer home notes the one before, in its
transaction; `run_once` judges what that server said from then on by where the person lives now. What counts
no more is withdrawn, dead-lettered and counted, and the new home's log is due to be read again for this
person. What is dated before they left stays (decisions/0020). Ordering: none is needed, each home stands
alone. A crash leaves the note, and judging again changes nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.mirror.trust import forget_left_home, next_left_home
from indexer.replication.rejudge import judge_left_home

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from indexer.mirror.database import Database
    from indexer.replication.judge import Judge
    from indexer.replication.plan import Schemas


class LeftHomes:
    """Judges again what left homes said."""

    def __init__(
        self,
        database: Database,
        judge: Judge,
        schemas: Schemas,
        *,
        on_rejected: Callable[[str, str, int], None],
        clock: Callable[[], datetime],
    ) -> None:
        """`on_rejected` is told of the server, the reason and how much."""
        self._database = database
        self._judge = judge
        self._schemas = schemas
        self._on_rejected = on_rejected
        self._clock = clock

    async def run_once(self) -> int:
        """Judge what every left home said; returns how many there were. Raises `StoreUnavailable`."""
        number = 0
        while (left := await next_left_home(self._database)) is not None:
            done = await judge_left_home(self._database, self._judge, self._schemas, left, now=self._clock())
            for reason, count in done.removed.items():
                self._on_rejected(left.domain, reason, count)
            await forget_left_home(self._database, left)
            number += 1
        return number
