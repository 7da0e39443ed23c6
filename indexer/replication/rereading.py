"""Reading servers' logs again for single people, in the background.

What it owns: the logs that are due in `mirror.set_aside` (what a server said of its own residents and was
not, or not wholly, accepted). Reading again changes nothing else: rows count as read before, no cursor moves.

Ordering: one log of a server at a time, servers in turn and a few at once. A visit ends after a minute or
after `PAGES_PER_VISIT`; the pages that a server gives in an hour are counted in PostgreSQL before they are
asked for. So a server that is slow, or whose log never ends, costs only itself. One that fails rests for a
quarter of an hour.

The place that was reached is stored after each page: a visit goes on where the last one ended, and a crash
costs one page, which is read again.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import structlog

from indexer.concrnt.client import PeerError
from indexer.concrnt.documents import Commit
from indexer.concrnt.wellknown import REPLICATION
from indexer.replication.ahead import Fetched, judged
from indexer.replication.cursor import Position, Step
from indexer.replication.page import read_rows
from indexer.replication.side_by_side import side_by_side
from indexer.replication.trust import WITHDRAWN, owner_of_commit

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer.mirror.servers import Servers
    from indexer.mirror.trust import OpenQuestions, OwedLog
    from indexer.replication.feeds import Feeds
    from indexer.replication.plan import Schemas
    from indexer.replication.writer import PageWriter

log = structlog.get_logger(__name__)

SERVERS_AT_ONCE = 8
VISIT_SECONDS = 60.0
"""After that no further page is waited for."""
PAGES_PER_VISIT = 50
PAGES_PER_SERVER_AND_HOUR = 1000
RESTS_FOR = timedelta(minutes=15)
"""How long a server that failed or was slow is not visited."""


class RejectedMetrics(Protocol):
    """What is counted."""

    def rejected_later(self, server: str, reason: str, number: int) -> None:
        """What a server said was rejected or withdrawn after its page had been applied."""
        ...


class Rereading:
    """Reads logs again."""

    def __init__(
        self,
        feeds: Feeds,
        servers: Servers,
        questions: OpenQuestions,
        page_writer: PageWriter,
        *,
        schemas: Schemas,
        metrics: RejectedMetrics,
        clock: Callable[[], datetime],
    ) -> None:
        self._feeds = feeds
        self._servers = servers
        self._questions = questions
        self._page_writer = page_writer
        self._schemas = schemas
        self._metrics = metrics
        self._clock = clock
        self._after = ""
        self._resting: dict[str, datetime] = {}

    async def run_once(self) -> bool:
        """Visit the next few servers; whether there may be more to do at once. Raises `StoreUnavailable`."""
        now = self._clock()
        self._resting = {domain: until for domain, until in self._resting.items() if until > now}
        started_at = self._after
        due = await self._questions.servers_to_read(
            after=started_at,
            now=now,
            limit=SERVERS_AT_ONCE,
            per_server_and_hour=PAGES_PER_SERVER_AND_HOUR,
            but=self._resting,
        )
        self._after = due[-1] if len(due) == SERVERS_AT_ONCE else ""
        await side_by_side([self._visit(domain) for domain in due], at_once=SERVERS_AT_ONCE)
        return bool(due or started_at)

    async def _visit(self, domain: str) -> None:
        ends = asyncio.get_running_loop().time() + VISIT_SECONDS
        state = await self._servers.state_of(domain)
        template = None if state is None else state.endpoints.get(REPLICATION)
        if template is None:
            self._resting[domain] = self._clock() + RESTS_FOR
            return
        owed = None
        for _ in range(PAGES_PER_VISIT):
            owed = await self._questions.take_page(
                domain, now=self._clock(), per_server_and_hour=PAGES_PER_SERVER_AND_HOUR
            )
            if owed is None:
                return
            try:
                async with asyncio.timeout_at(ends):
                    fetched = await self._page(owed, template)
            except (PeerError, TimeoutError) as error:
                log.info("a log can not be read again", server=domain, owner=owed.owner, why=repr(error))
                self._resting[domain] = until = self._clock() + RESTS_FOR
                await self._questions.put_off(owed.owner, domain, until=until)
                return
            await self._apply(owed, fetched)
        if owed is not None:  # others of this server first
            await self._questions.put_off(owed.owner, domain, until=self._clock())

    async def _page(self, owed: OwedLog, template: str) -> Fetched:
        asked = None
        if owed.read_to is not None and owed.read_to_ns is not None:
            asked = Position(owed.read_to, owed.read_to_ns)
        page = await self._feeds.page(owed.domain, template, since=owed.read_to, limit=100, owner=owed.owner)
        return judged(page, asked)

    async def _apply(self, owed: OwedLog, fetched: Fetched) -> None:
        now = self._clock()
        rows = read_rows(fetched.page.items, now=now, indexed=self._schemas.malformed_kinds).rows
        theirs = [row for row in rows if isinstance(row, Commit) and _concerns(row, owed.owner)]
        if theirs:
            changes = await self._page_writer.write_again(theirs, owed.domain, now=now)
            for server, number in changes.withdrawn.items():
                self._metrics.rejected_later(server, WITHDRAWN, number)
        if fetched.step is Step.FORWARD:
            await self._questions.read_to(owed, fetched.next.text, fetched.next.ns)
        else:  # the end, or an instant of one person's that holds more than a page
            await self._questions.was_read_again(owed)


def _concerns(commit: Commit, owner: str) -> bool:
    """Whether a server lists a commit under this owner; follows it lists under the one who is followed."""
    followed = commit.associate.owner if commit.associate is not None else None
    return owner in (owner_of_commit(commit), followed)
