"""Taking out what a server said of people who left it, and judging it again.

A server on which somebody lives speaks for them until a newer entity document is known. Feeds are read in any
order, so one that they have left may be read first: what it says then, and in which order it shows true
documents, counts as theirs, and is remembered against their new home.

What it owns: `mirror.left_homes`. A page that learns of a newer home notes the one before, in its
transaction. `run_once` forgets what had gone of the person's and since when it had been there, takes out all
that the left home said of them, records, deletes and follows, and says it again as that of a server without a
say: what has a proof is settled by createdAt, what has none is rejected, dead-lettered and counted, as if the
new home had been read first. Then both logs are due to be read again for this person (decisions/0020).

Ordering: in batches of one transaction, under the person's lock; deletes first, for they bar what is said
again. A crash leaves the note, and beginning again changes nothing more. Of each server a few people are
taken a round, so that one from which very many "leave" delays nobody else.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from indexer.mirror import leaving as taking
from indexer.mirror.context import Needs, lock_owners
from indexer.mirror.judging import read_again
from indexer.mirror.trust import count_rejected
from indexer.replication.page import read_rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from indexer.mirror.database import Connection, Database
    from indexer.mirror.leaving import Leaving, TakenOut
    from indexer.replication.plan import Schemas
    from indexer.replication.writer import PageWriter

    TakeOut = Callable[[Connection, str, str, tuple[str, ...]], Awaitable[TakenOut]]

OF_EACH_SERVER = 10
"""How many people of each server are taken a round."""
BATCH = 500
FOLLOWS_READ_AGAIN = 1000
"""For how many of those whom a person follows the new home's log is read again."""


class LeftHomes:
    """Judges again what left homes said."""

    def __init__(
        self,
        database: Database,
        writer: PageWriter,
        schemas: Schemas,
        *,
        on_rejected: Callable[[str, str, int], None],
        clock: Callable[[], datetime],
    ) -> None:
        """`on_rejected` is told of the server, the reason and how much."""
        self._database = database
        self._schemas = schemas
        self._indexed = sorted(schemas.indexed)
        self._writer = writer
        self._on_rejected = on_rejected
        self._clock = clock

    async def run_once(self) -> bool:
        """Judge what the next few left homes said; whether there were any. Raises `StoreUnavailable`."""
        noted = await taking.next_leavings(self._database, of_each=OF_EACH_SERVER)
        for leaving in noted:
            await self._judge_again(leaving)
        return bool(noted)

    async def _judge_again(self, leaving: Leaving) -> None:
        now = self._clock()
        records = partial(taking.take_out_records, limit=BATCH, indexed_schemas=self._indexed, now=now)
        errands: list[tuple[TakeOut, tuple[str, ...]]] = [
            (partial(taking.take_out_deletes, limit=BATCH), ("",)),
            (records, ("",)),
            (partial(taking.take_out_follows, limit=BATCH), ("", "")),
        ]
        await self._forget(leaving, now)
        followed: set[str] = set()
        for take_out, start in errands:
            place: tuple[str, ...] | None = start
            while place is not None:
                taken = await self._batch(leaving, take_out, place, now)
                place = taken.last
                followed.update(taken.followed)
        await self._read_again(leaving, followed, now)
        await taking.forget_leaving(self._database, leaving)

    async def _forget(self, leaving: Leaving, now: datetime) -> None:
        owner = leaving.owner

        async def work(connection: Connection) -> None:
            await lock_owners(connection, Needs(deleting_owners={owner}, settled_owners={owner}))
            await taking.forget_what_went(connection, owner)
            await taking.restart_first_created(connection, owner, indexed_schemas=self._indexed, now=now)

        await self._database.transaction("forget_what_went", work)

    async def _batch(
        self, leaving: Leaving, take_out: TakeOut, place: tuple[str, ...], now: datetime
    ) -> TakenOut:
        """Take out a batch and say it again, as what a server without a say says."""
        owner, source = leaving.owner, leaving.known_as

        async def work(connection: Connection) -> tuple[TakenOut, Counter[str]]:
            await lock_owners(connection, Needs(deleting_owners={owner}, settled_owners={owner}))
            taken = await take_out(connection, owner, source, place)
            commits = [signed.encode() for signed in taken.signed]
            rows = read_rows(commits, now=now, indexed=self._schemas.malformed_kinds).rows
            changes = await self._writer.apply_again(connection, rows, source, now=now)
            rejected = Counter(letter.reason for letter in changes.dead_letters)
            if rejected:
                await count_rejected(connection, source, rejected.total())
            return taken, rejected

        taken, rejected = await self._database.transaction("judge_left_home", work)
        for reason, number in rejected.items():
            self._on_rejected(source, reason, number)
        return taken

    async def _read_again(self, leaving: Leaving, followed: set[str], now: datetime) -> None:
        """Both homes' logs; the new one's also for whom the person followed: servers list a follow there."""
        whose = [leaving.owner, *sorted(followed)[:FOLLOWS_READ_AGAIN]]
        pairs = [(leaving.owner, leaving.known_as), *((one, leaving.owner) for one in whose)]

        async def work(connection: Connection) -> None:
            await read_again(connection, pairs, now=now)

        await self._database.transaction("read_homes_again", work)
