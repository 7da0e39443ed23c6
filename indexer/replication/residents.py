"""Finding out where people live, in the background; and what follows once it is known.

What it owns: four errands, each stored in PostgreSQL, so that a crash leaves nothing but work to do again:

* People of whom something was accepted provisionally are looked up through the seed, within a budget for each
  feed and hour, which is counted in PostgreSQL: neither a restart nor another process begins it anew.
  "Unknown" is remembered for a day, a seed that does not answer for a quarter of an hour.
* When somebody's home becomes known, that server's commits about them which were not, or not wholly, accepted
  are read again. Reading again changes nothing else.
* Commits whose proof leans on a document that was not here are judged again when it has come. Enactments of
  subkeys are asked for where their owner lives, never of who brought the proof, within a budget too, and
  cached; posts come by their own feeds. What has waited for a week is judged without.
* What a server said of people who had left it by then is taken back (`left_homes.py`).

The seed's answer is the operator's choice: it counts for more than what a server claims of itself, and for
less than a document with a proof that holds.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import structlog

from indexer.concrnt.client import PeerError
from indexer.concrnt.documents import Commit, Kind, parse_commit
from indexer.concrnt.proofs import check_commit, read_signed
from indexer.concrnt.wellknown import REPLICATION
from indexer.mirror.changes import EntityPut, EntityStanding
from indexer.mirror.database import StoreUnavailable
from indexer.replication.ahead import judged
from indexer.replication.cursor import Position, Step
from indexer.replication.page import read_rows
from indexer.replication.trust import WITHDRAWN, owner_of_commit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from indexer.mirror.servers import Servers
    from indexer.mirror.trust import OpenQuestions
    from indexer.replication.feeds import Feeds
    from indexer.replication.left_homes import LeftHomes
    from indexer.replication.plan import Schemas
    from indexer.replication.proving import FetchedDocuments
    from indexer.replication.writer import PageWriter

log = structlog.get_logger(__name__)

OWNERS_PER_FEED_AND_HOUR = 500
"""How many look-ups of people a feed may cause."""
LOOK_UPS_AT_ONCE = 8
OWNERS_PER_ROUND = 200
UNKNOWN_FOR = timedelta(days=1)
SEED_AWAY_FOR = timedelta(minutes=15)
PAGES_PER_READING = 1000
"""How far a server's log is read again for one person."""
ENACTMENTS_PER_FEED_AND_HOUR = 300
"""How many look-ups of subkeys a feed may cause."""
ENACTMENTS_PER_ROUND = 100
FETCH_SECONDS = 10.0
FOUND_FOR = timedelta(hours=1)
ABSENT_FOR = timedelta(days=1)
AWAY_FOR = timedelta(minutes=15)
"""How long a server that did not answer is not asked for the same document again."""
JUDGED_PER_ROUND = 1000
WAITING_FOR = timedelta(days=7)
"""After that a commit is judged without the document that it waits for."""
_ROUND_SECONDS = 10.0
_READINGS_PER_ROUND = 20


class ResidentsMetrics(Protocol):
    """What is counted."""

    def rejected_later(self, server: str, reason: str, number: int) -> None:
        """What a server said was rejected or withdrawn after its page had been applied."""
        ...


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
        metrics: ResidentsMetrics,
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

    async def run(self) -> None:
        """Work until cancelled. A store that is away is waited for."""
        while True:
            try:
                busy = await self.run_once()
            except StoreUnavailable as error:
                log.warning("looking up people waits for the mirror", why=str(error))
                busy = False
            await self._sleep(0.0 if busy else _ROUND_SECONDS)

    async def run_once(self) -> bool:
        """One round of each errand; whether there may be more to do at once. Raises `StoreUnavailable`."""
        asked = await self._ask()
        left = await self._left_homes.run_once()
        read = await self._read_again()
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
        return asked or left > 0 or read or judged_again.number > 0

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
        await _side_by_side([self._ask_about(owner, endpoints) for owner in due])
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
            await self._questions.ask_again(owner, at=now + UNKNOWN_FOR)
            return
        for server, number in (await self._page_writer.settle(entity, self._seed, now=now)).items():
            log.warning("said of somebody who lives elsewhere: withdrawn", server=server, number=number)
            self._metrics.rejected_later(server, WITHDRAWN, number)

    # --- enactments

    async def _fetch_enactments(self) -> list[str]:
        """Ask for enactments that commits wait for; returns those that were asked for, found or not."""
        now = self._clock()
        due = await self._questions.take_enactments_to_fetch(
            now=now, limit=ENACTMENTS_PER_ROUND, per_feed_and_hour=ENACTMENTS_PER_FEED_AND_HOUR
        )
        await _side_by_side([self._fetch(key, home, now) for key, home in due])
        return [key for key, _ in due]

    async def _fetch(self, key: str, home: str, now: datetime) -> None:
        state = await self._servers.state_of(home)
        document, until = None, now + AWAY_FOR
        try:
            if state is not None and state.endpoints:
                async with asyncio.timeout(FETCH_SECONDS):
                    body = await self._feeds.resolve(home, state.endpoints, key)
                document = read_signed(body) if body is not None else None
                until = now + (ABSENT_FOR if document is None else FOUND_FOR)
        except (PeerError, TimeoutError) as error:
            log.info("a subkey can not be looked up", server=home, why=str(error))
        self._fetched.remember(key, document, until=until)

    # --- reading again

    async def _read_again(self) -> bool:
        now = self._clock()
        due = await self._questions.due_again(now=now, limit=_READINGS_PER_ROUND)
        for owner, domain in due:
            try:
                await self._read_feed_of(owner, domain)
            except PeerError as error:
                log.info("a log can not be read again", server=domain, owner=owner, why=str(error))
                await self._questions.put_off(owner, domain, until=now + SEED_AWAY_FOR)
            else:
                await self._questions.was_read_again(owner, domain)
        return len(due) == _READINGS_PER_ROUND

    async def _read_feed_of(self, owner: str, domain: str) -> None:
        """Read what a server says of one person, from the start of its log. Raises `PeerError`."""
        state = await self._servers.state_of(domain)
        template = None if state is None else state.endpoints.get(REPLICATION)
        if template is None:
            return
        asked: Position | None = None
        for _ in range(PAGES_PER_READING):
            since = None if asked is None else asked.text
            page = await self._feeds.page(domain, template, since=since, limit=100, owner=owner)
            now = self._clock()
            rows = read_rows(page.items, now=now, indexed=self._schemas.malformed_kinds).rows
            theirs = [row for row in rows if isinstance(row, Commit) and _concerns(row, owner)]
            if theirs:
                changes = await self._page_writer.write_again(theirs, domain, now=now)
                for server, number in changes.withdrawn.items():
                    self._metrics.rejected_later(server, WITHDRAWN, number)
            fetched = judged(page, asked)
            if fetched.step is not Step.FORWARD:
                return  # the end, or an instant of one person's that holds more than a page
            asked = fetched.next


async def _side_by_side(look_ups: Sequence[Coroutine[None, None, None]]) -> None:
    """Carry out look-ups, a few at once. Raises `StoreUnavailable` as itself, not in a group."""
    places = asyncio.Semaphore(LOOK_UPS_AT_ONCE)

    async def one(look_up: Coroutine[None, None, None]) -> None:
        async with places:
            await look_up

    try:
        async with asyncio.TaskGroup() as group:
            for look_up in look_ups:
                group.create_task(one(look_up))
    except ExceptionGroup as raised:
        away, other = raised.split(StoreUnavailable)
        if away is None or other is not None:
            raise
        raise away.exceptions[0] from None
    finally:
        for look_up in look_ups:
            look_up.close()  # those that the group never began


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


def _concerns(commit: Commit, owner: str) -> bool:
    """Whether a server lists a commit under this owner; follows it lists under the one who is followed."""
    followed = commit.associate.owner if commit.associate is not None else None
    return owner in (owner_of_commit(commit), followed)
