"""When which server is asked: the loop that keeps followers at work.

What it owns: which servers this process is at work on, and how a run's outcome becomes the server's
state and next poll, stored in PostgreSQL. Ordering: the longest waiting server first, at most
`concurrency` at once; a server that used up its pages goes to the end of the line. What a crash leaves:
nothing in memory matters, due times are stored. One server's failures never delay another.

Polling is plain for now: healthy servers every `min_poll_interval`, failing ones every
`incremental_interval`.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import structlog

from indexer.concrnt.client import FailureClass, PeerError
from indexer.concrnt.wellknown import REPLICATION
from indexer.mirror.database import StoreUnavailable
from indexer.mirror.servers import FeedState, ServerState, WellKnownNote

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from indexer.concrnt.wellknown import WellKnown
    from indexer.mirror.servers import Servers
    from indexer.replication.feeds import Feeds
    from indexer.replication.follower import Ended, Follower

log = structlog.get_logger(__name__)

LONGEST_WAIT = timedelta(hours=1)
"""A server's Retry-After is obeyed up to here."""
REPLAY_INTERVAL = timedelta(days=1)
"""A log that went back is read again from its start at most this often."""
_IDLE_SECONDS = 5.0
_STORE_RETRY_SECONDS = (0.5, 1, 2, 5, 10, 30)


class ScheduleMetrics(Protocol):
    """What the schedule counts."""

    def server_crawled(self, server: str, result: str, seconds: float) -> None:
        """One run over one server ended `ok` or `error`."""
        ...

    def crawl_run(self, result: str, seconds: float) -> None:
        """The servers that were started together have ended; `error` when all of them failed."""
        ...


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """How often servers are asked, and how many at once. An empty `layer` means any."""

    layer: str
    concurrency: int
    min_poll_interval: timedelta
    incremental_interval: timedelta
    well_known_interval: timedelta


class Schedule:
    """Keeps up to `concurrency` followers at work."""

    def __init__(
        self,
        follower: Follower,
        feeds: Feeds,
        servers: Servers,
        *,
        settings: ScheduleSettings,
        metrics: ScheduleMetrics,
        clock: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._follower = follower
        self._feeds = feeds
        self._servers = servers
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._at_work: dict[str, asyncio.Task[bool]] = {}
        self._wake = asyncio.Event()
        self._stopping = False

    def wake(self) -> None:
        """Look for due servers now: discovery found some, or an operator asked."""
        self._wake.set()

    async def stop(self) -> None:
        """Start no more runs and wait for the pages in hand."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Keep followers at work until stopped. Never raises for a server's fault or a store that is away."""
        troubles = 0
        async with asyncio.TaskGroup() as group:
            while not self._stopping:
                self._wake.clear()
                try:
                    await self._start_due(group)
                    await self._wait(await self._seconds_to_next())
                    troubles = 0
                except StoreUnavailable as error:
                    delay = _STORE_RETRY_SECONDS[min(troubles, len(_STORE_RETRY_SECONDS) - 1)]
                    troubles += 1
                    log.warning("the mirror is away; trying again", why=str(error), seconds=delay)
                    await self._wait(delay)

    async def run_once(self) -> None:
        """Follow every server that is due, once, and return: for commands and tests."""
        async with asyncio.TaskGroup() as group:
            while await self._start_due(group):
                await asyncio.wait(self._at_work.values(), return_when=asyncio.FIRST_COMPLETED)

    async def _start_due(self, group: asyncio.TaskGroup) -> bool:
        free = self._settings.concurrency - len(self._at_work)
        if free <= 0:
            return True
        due = await self._servers.due(now=self._clock(), at_work=list(self._at_work), limit=free)
        started = [self._start(group, domain) for domain in due]
        if started:
            group.create_task(self._observe_pass(started, time.monotonic()))
        return bool(started or self._at_work)

    def _start(self, group: asyncio.TaskGroup, domain: str) -> asyncio.Task[bool]:
        task = group.create_task(self.follow(domain), name=f"follow {domain}")
        self._at_work[domain] = task
        task.add_done_callback(lambda _: self._ended(domain))
        return task

    def _ended(self, domain: str) -> None:
        self._at_work.pop(domain, None)
        self._wake.set()

    async def _observe_pass(self, tasks: list[asyncio.Task[bool]], started: float) -> None:
        results = await asyncio.gather(*tasks, return_exceptions=True)
        result = "ok" if any(outcome is True for outcome in results) else "error"
        self._metrics.crawl_run(result, time.monotonic() - started)

    async def _seconds_to_next(self) -> float:
        if len(self._at_work) >= self._settings.concurrency:
            return _IDLE_SECONDS
        due = await self._servers.next_due(at_work=list(self._at_work))
        if due is None:
            return _IDLE_SECONDS
        return min(max((due - self._clock()).total_seconds(), 0.0), _IDLE_SECONDS)

    async def _wait(self, seconds: float) -> None:
        """Sleep, but not past a wake-up."""
        sleeping = asyncio.ensure_future(self._sleep(seconds))
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()

    # --- one run

    async def follow(self, domain: str) -> bool:
        """One run over one server, its outcome stored; whether it went well."""
        started = time.monotonic()
        try:
            ok = await self._follow(domain)
        except StoreUnavailable as error:
            log.warning("a run was cut off: the mirror is away", server=domain, why=str(error))
            await self._sleep(_STORE_RETRY_SECONDS[1])  # it is due at once: no hot loop
            return False
        self._metrics.server_crawled(domain, "ok" if ok else "error", time.monotonic() - started)
        return ok

    async def _follow(self, domain: str) -> bool:
        state = await self._servers.state_of(domain)
        if state is None:
            return True
        try:
            endpoints = await self._endpoints(state)
            if endpoints is None:
                return True
            template = endpoints.get(REPLICATION)
            if template is None:
                await self._set_aside(domain, ServerState.NO_ENDPOINT, "it publishes no replication endpoint")
                return True
            begun = await self._servers.begin(domain)
            assert begun is not None
            if begun.cursor is None and state.state is ServerState.DISCOVERED:
                await self._servers.enter_state(domain, ServerState.BACKFILLING)
            await self._store_end(begun, await self._follower.follow(begun, template))
        except PeerError as error:
            await self._store_failure(domain, error)
            return error.failure is FailureClass.RATE_LIMITED
        return True

    async def _set_aside(self, domain: str, state: ServerState, why: str) -> None:
        now = self._clock()
        next_poll = now + self._settings.incremental_interval
        await self._servers.set_aside(domain, state, next_poll_at=next_poll, now=now, why=why)

    async def _endpoints(self, state: FeedState) -> dict[str, str] | None:
        """The server's endpoints, from its own well-known where that was read too long ago.

        None when the server is not to be followed: it is of another layer, or another server's alias.
        """
        now = self._clock()
        fresh = (
            state.last_seen_at is not None
            and now - state.last_seen_at < self._settings.well_known_interval
            and state.state not in (ServerState.NO_ENDPOINT, ServerState.WRONG_LAYER)
        )
        if fresh:
            return dict(state.endpoints)
        well_known = await self._feeds.well_known(state.domain)
        if well_known.domain != state.domain:
            await self._meet_alias(state, well_known.domain)
            return None
        await self._servers.note_well_known(state.domain, _note(well_known), now=now)
        if self._settings.layer and well_known.layer != self._settings.layer:
            await self._set_aside(
                state.domain, ServerState.WRONG_LAYER, f"its layer is {well_known.layer!r:.100}"
            )
            return None
        return dict(well_known.endpoints)

    async def _meet_alias(self, state: FeedState, named: str) -> None:
        if state.cursor is not None:
            raise PeerError(FailureClass.BAD_PAYLOAD, f"its well-known names another domain: {named}")
        now = self._clock()
        await self._servers.discover([named], now=now, aliases_since=now, at_most=1, per_parent=1)
        await self._servers.note_alias(state.domain, named, now=now)
        log.info("a host is another server's alias", host=state.domain, server=named)

    async def _store_end(self, state: FeedState, ended: Ended) -> None:
        now = self._clock()
        if ended.went_back:
            await self._read_again(state, now)
            return
        replayed_lately = state.replayed_at is not None and now - state.replayed_at < REPLAY_INTERVAL
        if ended.clock_ahead:
            shown = ServerState.CLOCK_AHEAD
        elif replayed_lately:
            shown = ServerState.LOG_WENT_BACK
        else:
            shown = ServerState.FOLLOWING if ended.drained else ServerState.BACKFILLING
        next_poll = now + self._settings.min_poll_interval if ended.drained else now
        await self._servers.finish(
            state.domain, drained=ended.drained, state=shown, next_poll_at=next_poll, now=now
        )

    async def _read_again(self, state: FeedState, now: datetime) -> None:
        again = state.replayed_at is None or now - state.replayed_at >= REPLAY_INTERVAL
        log.warning("a log went back", server=state.domain, cursor=state.cursor, read_again=again)
        if again:
            await self._servers.read_again(state.domain, now=now)
        next_poll = now if again else now + self._settings.min_poll_interval
        await self._servers.finish(
            state.domain, drained=not again, state=ServerState.LOG_WENT_BACK, next_poll_at=next_poll, now=now
        )

    async def _store_failure(self, domain: str, error: PeerError) -> None:
        now = self._clock()
        if error.failure is FailureClass.RATE_LIMITED:
            wait = self._settings.min_poll_interval
            if error.retry_after is not None:
                wait = min(timedelta(seconds=error.retry_after), LONGEST_WAIT)
            await self._servers.wait(domain, until=now + wait, now=now, why=str(error))
            return
        log.info("a server failed", server=domain, failure=error.failure.value, why=str(error))
        await self._servers.fail(
            domain,
            error.failure.value,
            next_poll_at=now + self._settings.incremental_interval,
            now=now,
            why=str(error),
        )


def _note(well_known: WellKnown) -> WellKnownNote:
    return WellKnownNote(
        csid=well_known.csid,
        layer=well_known.layer,
        version=well_known.version,
        software_version=well_known.software.version,
        software_build_time=well_known.software.build_time,
        meta=well_known.meta,
        endpoints=dict(well_known.endpoints),
    )
