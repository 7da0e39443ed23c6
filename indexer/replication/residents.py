"""Finding out where people live, in the background; and what follows once it is known.

What it owns: four errands, each stored in PostgreSQL, so that a crash leaves nothing but work to do again:

* People of whom something was accepted provisionally are looked up through the seed, within a budget for each
  feed and hour, which is counted in PostgreSQL: neither a restart nor another process begins it anew.
  "Unknown" is remembered for a day, a seed that does not answer for a quarter of an hour; for as long whoever
  is being asked about, so that nobody is asked and paid for twice when a crash comes between. Of a feed
  10,000 people at most are to be looked up at a time; with those who no longer fit goes what it said of them
  (`mirror/trust.py`).
* When somebody's home becomes known, that server's commits about them which were not, or not wholly, accepted
  are read again (`rereading.py`): beside the other errands, so that none of them waits for a server's log.
* Commits whose proof leans on a document that was not here are judged again when it has come. Enactments of
  subkeys are asked for where their owner lives, never of who brought the proof, within a budget too, and
  cached; posts come by their own feeds. What has waited for a week is judged without, unless where the
  owner lives does not answer: it is asked again after a minute, two, four, up to an hour.
* What a server said of people who left it is judged again (`left_homes.py`), beside the others too.

The seed's answer is the operator's choice: it counts for more than what a server claims of itself, and for
less than a document with a proof that holds.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from indexer.concrnt.client import PeerError
from indexer.concrnt.documents import Commit, Kind, parse_commit
from indexer.concrnt.proofs import check_commit, read_signed
from indexer.mirror.changes import EntityPut, EntityStanding
from indexer.mirror.database import StoreUnavailable
from indexer.replication.rereading import Rereading
from indexer.replication.side_by_side import side_by_side
from indexer.replication.trust import WITHDRAWN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from indexer.mirror.servers import Servers
    from indexer.mirror.trust import OpenQuestions
    from indexer.replication.feeds import Feeds
    from indexer.replication.left_homes import LeftHomes
    from indexer.replication.plan import Schemas
    from indexer.replication.proving import FetchedDocuments
    from indexer.replication.rereading import RejectedMetrics
    from indexer.replication.writer import PageWriter

log = structlog.get_logger(__name__)

OWNERS_PER_FEED_AND_HOUR = 500
"""How many look-ups of people a feed may cause."""
LOOK_UPS_AT_ONCE = 8
OWNERS_PER_ROUND = 200
UNKNOWN_FOR = timedelta(days=1)
SEED_AWAY_FOR = timedelta(minutes=15)
ENACTMENTS_PER_FEED_AND_HOUR = 300
"""How many look-ups of subkeys a feed may cause."""
ENACTMENTS_PER_ROUND = 100
FETCH_SECONDS = 10.0
FOUND_FOR = timedelta(hours=1)
ABSENT_FOR = timedelta(days=1)
JUDGED_PER_ROUND = 1000
WAITING_FOR = timedelta(days=7)
"""After that a commit is judged without the document that it waits for."""
_ROUND_SECONDS = 10.0


class Residents:
    """Finds out where people live."""

    def __init__(
        self,
        feeds: Feeds,
        servers: Servers,
        questions: OpenQuestions,
        page_writer: PageWriter,
        fetched: FetchedDocuments,
        *,
        left_homes: LeftHomes,
        seed: str,
        schemas: Schemas,
        metrics: RejectedMetrics,
        clock: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._feeds = feeds
        self._servers = servers
        self._questions = questions
        self._page_writer = page_writer
        self._left_homes = left_homes
        self._seed = seed
        self._schemas = schemas
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._fetched = fetched
        self._rereading = Rereading(
            feeds, servers, questions, page_writer, schemas=schemas, metrics=metrics, clock=clock
        )

    async def run(self) -> None:
        """Work until cancelled. A store that is away is waited for."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._go_on(self.find_out))
            group.create_task(self._go_on(self._rereading.run_once))
            group.create_task(self._go_on(self._left_homes.run_once))

    async def _go_on(self, errand: Callable[[], Awaitable[bool]]) -> None:
        while True:
            try:
                busy = await errand()
            except StoreUnavailable as error:
                log.warning("looking up people waits for the mirror", why=str(error))
                busy = False
            await self._sleep(0.0 if busy else _ROUND_SECONDS)

    async def run_once(self) -> bool:
        """One round of each errand; whether there may be more to do at once. Raises `StoreUnavailable`."""
        found_out = await self.find_out()
        left = await self._left_homes.run_once()
        read = await self._rereading.run_once()
        return found_out or left or read

    async def find_out(self) -> bool:
        """One round of all but reading again, likewise."""
        asked = await self._ask()
        fetched = await self._fetch_enactments()
        judged_again = await self._page_writer.judge_again(
            limit=JUDGED_PER_ROUND,
            asked_for=fetched,
            waiting_since=self._clock() - WAITING_FOR,
            now=self._clock(),
        )
        await self._questions.tidy(now=self._clock())
        for (server, reason), number in judged_again.rejected.items():
            self._metrics.rejected_later(server, reason, number)
        return asked or judged_again.number > 0

    # --- looking people up

    async def _ask(self) -> bool:
        now = self._clock()
        due = await self._questions.take_owners_to_ask(
            now=now, limit=OWNERS_PER_ROUND, per_feed_and_hour=OWNERS_PER_FEED_AND_HOUR
        )
        if not due:
            return False
        try:
            endpoints = (await self._feeds.well_known(self._seed)).endpoints
        except PeerError as error:
            log.warning("the seed can not be asked about people", seed=self._seed, why=str(error))
            for owner in due:
                await self._questions.ask_again(owner, at=now + SEED_AWAY_FOR)
            return False
        await side_by_side([self._ask_about(owner, endpoints) for owner in due], at_once=LOOK_UPS_AT_ONCE)
        return True

    async def _ask_about(self, owner: str, endpoints: Mapping[str, str]) -> None:
        now = self._clock()
        try:
            answer = await self._feeds.resolve(self._seed, endpoints, f"cckv://{owner}")
        except PeerError as error:
            log.info("the seed did not answer about somebody", owner=owner, why=str(error))
            await self._questions.ask_again(owner, at=now + SEED_AWAY_FOR)
            return
        entity = entity_in(answer, owner, schemas=self._schemas, now=now)
        if entity is None:
            await self._questions.ask_again(owner, at=now + UNKNOWN_FOR, unknown_at=now)
            return
        for server, number in (await self._page_writer.settle(entity, self._seed, now=now)).items():
            log.warning("said of somebody who lives elsewhere: withdrawn", server=server, number=number)
            self._metrics.rejected_later(server, WITHDRAWN, number)

    # --- enactments

    async def _fetch_enactments(self) -> list[str]:
        """Ask for enactments that commits wait for; returns those that were answered about, found or not."""
        now = self._clock()
        due = await self._questions.take_enactments_to_fetch(
            now=now, limit=ENACTMENTS_PER_ROUND, per_feed_and_hour=ENACTMENTS_PER_FEED_AND_HOUR
        )
        answered: list[str] = []
        look_ups = [self._fetch(key, home, now, answered) for key, home in due]
        await side_by_side(look_ups, at_once=LOOK_UPS_AT_ONCE)
        return answered

    async def _fetch(self, key: str, home: str, now: datetime, answered: list[str]) -> None:
        state = await self._servers.state_of(home)
        if state is None or not state.endpoints:
            return  # nobody to ask, as yet: that is no outage, and the week counts
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                body = await self._feeds.resolve(home, state.endpoints, key)
        except (PeerError, TimeoutError) as error:
            log.info("a subkey can not be looked up", server=home, why=repr(error))
            await self._questions.ask_for_enactment_again(key, now=now)
            return
        document = read_signed(body) if body is not None else None
        self._fetched.remember(key, document, until=now + (ABSENT_FOR if document is None else FOUND_FOR))
        answered.append(key)


def entity_in(answer: bytes | None, owner: str, *, schemas: Schemas, now: datetime) -> EntityPut | None:
    """What the seed's answer says of a person; None when it is no entity document of theirs."""
    if answer is None:
        return None
    commit = parse_commit(answer, now=now, indexed=schemas.malformed_kinds)
    if not isinstance(commit, Commit) or commit.kind is not Kind.ENTITY or commit.author != owner:
        return None
    assert commit.domain is not None
    standing = EntityStanding.ANSWERED if check_commit(commit) else EntityStanding.PROVEN
    return EntityPut(owner, commit.domain, commit.created_at, commit.cdid, commit.signed, standing)
