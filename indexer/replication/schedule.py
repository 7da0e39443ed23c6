"""When which server is asked: the loop that keeps followers at work.

What it owns: which servers this process is at work on, and how a run's outcome becomes the server's
state and next poll, stored in PostgreSQL. Any number of processes share the servers: one is claimed with a
lease that is renewed while its run lasts, and every transaction of the run checks that the lease is still the
newest, so that a holder that slept can change nothing. Ordering: the longest waiting server first, at most
`concurrency` at once; a server that used up its pages goes to the end of the line. What a crash leaves:
nothing in memory matters, due times and leases are stored, and leases run out. Cancelled, it lets the page
in hand finish and gives its leases up. One server's failures never delay another.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import structlog

from indexer.concrnt.client import FailureClass, PeerError
from indexer.concrnt.wellknown import ASSOCIATIONS, KNOWN_SERVERS, QUERY, REALTIME, REPLICATION, RESOLVE
from indexer.mirror.database import StoreUnavailable
from indexer.mirror.lock import LEASE_SECONDS, RELEASE_SECONDS, RENEWAL_SECONDS
from indexer.mirror.servers import FeedState, Lease, LeaseLostError, ServerState, WellKnownNote
from indexer.replication import policy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from indexer.concrnt.wellknown import WellKnown
    from indexer.mirror.servers import Servers
    from indexer.replication.feeds import Feeds
    from indexer.replication.follower import Ended, Follower
    from indexer.replication.moving import Moving

log = structlog.get_logger(__name__)

LONGEST_WAIT = timedelta(hours=1)
"""A server's Retry-After is obeyed up to here."""
REPLAY_INTERVAL = timedelta(days=1)
"""A log that went back is read again from its start at most this often."""
_ENDPOINTS = frozenset({RESOLVE, KNOWN_SERVERS, REPLICATION, QUERY, ASSOCIATIONS, REALTIME})
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
        discover: Callable[[list[str]], Awaitable[object]],
        moving: Moving,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        holder: str | None = None,
    ) -> None:
        """`discover` adds servers within discovery's bounds; `chance` gives numbers from 0 to 1, for jitter.

        `holder` names this process in leases.
        """
        self._discover = discover
        self._moving = moving
        self._follower = follower
        self._feeds = feeds
        self._servers = servers
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._holder = holder or uuid.uuid4().hex
        self._at_work: dict[Lease, asyncio.Task[bool]] = {}
        self._goes_on: set[str] = set()
        """Servers whose last run, in this process, moved the cursor and did not drain the feed."""
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look for due servers now: discovery found some, or an operator asked."""
        self._wake.set()

    async def run(self) -> None:
        """Keep followers at work until cancelled. Raises for no server's fault, nor a store that is away."""
        troubles = 0
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_leases(), name="renew leases")
            while True:
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
        leases = await self._servers.claim_due(
            now=self._clock(), limit=free, holder=self._holder, lease_seconds=LEASE_SECONDS
        )
        started = [self._start(group, lease) for lease in leases]
        if started:
            group.create_task(self._observe_pass(started, time.monotonic()))
        return bool(started or self._at_work)

    def _start(self, group: asyncio.TaskGroup, lease: Lease) -> asyncio.Task[bool]:
        task = group.create_task(self._follow_leased(lease), name=f"follow {lease.domain}")
        self._at_work[lease] = task
        task.add_done_callback(lambda _: self._ended(lease))
        return task

    def _ended(self, lease: Lease) -> None:
        self._at_work.pop(lease, None)
        self._wake.set()

    async def _keep_leases(self) -> None:
        """Renew the leases of the runs under way; a run whose lease is lost is ended."""
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            leases = list(self._at_work)
            try:
                held = await self._servers.renew(leases, lease_seconds=LEASE_SECONDS)
            except StoreUnavailable as error:
                log.warning("leases could not be renewed", why=str(error))
                continue
            for lease in leases:
                if lease.domain not in held and (task := self._at_work.get(lease)) is not None:
                    log.warning("a lease was lost", server=lease.domain)
                    task.cancel()

    async def _observe_pass(self, tasks: list[asyncio.Task[bool]], started: float) -> None:
        results = await asyncio.gather(*tasks, return_exceptions=True)
        result = "ok" if any(outcome is True for outcome in results) else "error"
        self._metrics.crawl_run(result, time.monotonic() - started)

    async def _seconds_to_next(self) -> float:
        if len(self._at_work) >= self._settings.concurrency:
            return _IDLE_SECONDS
        due = await self._servers.next_due(at_work=[lease.domain for lease in self._at_work])
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
        """Claim one server, whoever has it, and make one run over it; whether it went well."""
        lease = await self._servers.claim(domain, holder=self._holder, lease_seconds=LEASE_SECONDS)
        return lease is None or await self._follow_leased(lease)

    async def _follow_leased(self, lease: Lease) -> bool:
        """One run over one server, its outcome stored; whether it went well."""
        started = time.monotonic()
        try:
            ok = await self._follow(lease)
        except StoreUnavailable as error:
            log.warning("a run was cut off: the mirror is away", server=lease.domain, why=str(error))
            await self._sleep(_STORE_RETRY_SECONDS[1])  # it is due at once: no hot loop
            return False
        except LeaseLostError:
            log.warning("a run was cut off: its lease is lost", server=lease.domain)
            return False
        except asyncio.CancelledError:
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                await asyncio.shield(asyncio.wait_for(self._servers.release(lease), RELEASE_SECONDS))
            raise
        except Exception:
            # A fault of ours that one server's data has found: seen in the log and with the server, and no
            # reason to leave all others alone.
            log.exception("a run ended by a fault of ours", server=lease.domain)
            ok = False
            await self._store_fault(lease)
        self._metrics.server_crawled(lease.domain, "ok" if ok else "error", time.monotonic() - started)
        return ok

    async def _follow(self, lease: Lease) -> bool:
        domain = lease.domain
        state = await self._servers.state_of(domain)
        if state is None:
            return True
        try:
            endpoints = await self._endpoints(state, lease)
            if endpoints is None:
                return True
            template = endpoints.get(REPLICATION)
            if template is None:
                await self._set_aside(lease, ServerState.NO_ENDPOINT, "it publishes no replication endpoint")
                return True
            begun = await self._servers.begin(domain)
            assert begun is not None
            if begun.cursor is None and state.state is ServerState.DISCOVERED:
                await self._servers.enter_state(domain, ServerState.BACKFILLING)
            goes_on = domain in self._goes_on
            self._goes_on.discard(domain)
            ended = await self._follower.follow(begun, template, lease=lease, goes_on=goes_on)
            await self._store_end(begun, ended, lease)
        except PeerError as error:
            await self._store_failure(state, error, lease)
            await self._go_on_later(state)
            return error.failure is FailureClass.RATE_LIMITED
        return True

    async def _go_on_later(self, before: FeedState) -> None:
        """A run that failed past the overlap goes on where it stood: else a small limit is spent on it."""
        after = await self._servers.state_of(before.domain)
        if after is not None and after.cursor != before.cursor:
            self._goes_on.add(before.domain)

    async def _set_aside(self, lease: Lease, state: ServerState, why: str) -> None:
        now = self._clock()
        next_poll = now + self._jittered(self._settings.incremental_interval)
        await self._servers.set_aside(lease, state, next_poll_at=next_poll, now=now, why=why)

    def _jittered(self, length: timedelta) -> timedelta:
        return policy.with_jitter(length, self._chance)

    async def _endpoints(self, state: FeedState, lease: Lease) -> dict[str, str] | None:
        """The server's endpoints, from its own well-known where that was read too long ago.

        None when the server is not to be followed: of another layer, another server's alias, or moved away.
        """
        now = self._clock()
        fresh = (
            state.last_seen_at is not None
            and now - state.last_seen_at < self._settings.well_known_interval
            and state.state not in (ServerState.NO_ENDPOINT, ServerState.WRONG_LAYER)
        )
        if fresh:
            return dict(state.endpoints)
        try:
            well_known = await self._feeds.well_known(state.domain)
        except PeerError as error:
            if await self._moving.has_moved(state, error, lease, now=now):
                self.wake()
                return None
            raise
        if well_known.domain != state.domain:
            await self._meet_alias(state, well_known.domain)
            return None
        await self._servers.note_well_known(state.domain, _note(well_known), now=now)
        if self._settings.layer and well_known.layer != self._settings.layer:
            await self._set_aside(lease, ServerState.WRONG_LAYER, f"its layer is {well_known.layer!r:.100}")
            return None
        return dict(well_known.endpoints)

    async def _meet_alias(self, state: FeedState, named: str) -> None:
        if state.cursor is not None:
            raise PeerError(FailureClass.BAD_PAYLOAD, f"its well-known names another domain: {named}")
        now = self._clock()
        await self._discover([named])
        await self._servers.note_alias(state.domain, named, now=now)
        log.info("a host is another server's alias", host=state.domain, server=named)

    async def _store_end(self, state: FeedState, ended: Ended, lease: Lease) -> None:
        now = self._clock()
        interval = policy.next_interval(
            None if state.poll_seconds is None else timedelta(seconds=state.poll_seconds),
            found_new=ended.new_rows > 0,
            shortest=self._settings.min_poll_interval,
            longest=self._settings.incremental_interval,
        )
        again = (ended.went_back or state.replay_owed) and await self._read_again(state, now)
        drained = ended.drained and not again
        shown = _shown_after(state, ended, now)
        if not drained and not again:
            self._goes_on.add(state.domain)
        if drained and state.state in (ServerState.DISCOVERED, ServerState.BACKFILLING):
            log.info("caught up with a server", server=state.domain, rows=ended.new_rows)
        await self._servers.finish(
            lease,
            drained=drained,
            state=shown,
            changed=shown is not state.state,
            next_poll_at=now + self._jittered(interval) if drained else now,
            poll_seconds=interval.total_seconds(),
            now=now,
        )

    async def _read_again(self, state: FeedState, now: datetime) -> bool:
        """A log went back: begin it anew, at most once a day; whether that is to be done now."""
        again = state.replayed_at is None or now - state.replayed_at >= REPLAY_INTERVAL
        log.warning("a log went back", server=state.domain, cursor=state.cursor, read_again=again)
        if again:
            await self._servers.read_again(state.domain, now=now)
        elif not state.replay_owed:
            await self._servers.owe_replay(state.domain)
        return again

    async def _store_fault(self, lease: Lease) -> None:
        with contextlib.suppress(LeaseLostError, StoreUnavailable):
            state = await self._servers.state_of(lease.domain)
            if state is not None:
                error = PeerError(FailureClass.BAD_PAYLOAD, "reading it met a fault of ours; see the log")
                await self._store_failure(state, error, lease)

    async def _store_failure(self, state: FeedState, error: PeerError, lease: Lease) -> None:
        now = self._clock()
        interval = self._settings.min_poll_interval
        if state.poll_seconds is not None:
            interval = max(interval, timedelta(seconds=state.poll_seconds))
        if error.failure is FailureClass.RATE_LIMITED:
            wait = self._jittered(interval)
            if error.retry_after is not None:
                wait = min(max(timedelta(seconds=error.retry_after), interval), LONGEST_WAIT)
            await self._servers.wait(lease, until=now + wait, now=now, why=str(error))
            return
        failures = state.consecutive_failures + 1
        stale = policy.is_stale(failures, state.failing_since, now=now)
        delay = self._jittered(policy.failure_delay(failures, interval=interval, stale=stale))
        log.info("a server failed", server=state.domain, failure=error.failure.value, why=str(error))
        await self._servers.fail(
            lease,
            error.failure.value,
            state=ServerState.STALE if stale else ServerState.BACKING_OFF,
            next_poll_at=now + delay,
            now=now,
            why=str(error),
        )


def _shown_after(state: FeedState, ended: Ended, now: datetime) -> ServerState:
    """The state that a server shows after a run that went well."""
    if ended.went_back:
        return ServerState.LOG_WENT_BACK
    if ended.clock_ahead:
        return ServerState.CLOCK_AHEAD
    if state.replayed_at is not None and now - state.replayed_at < REPLAY_INTERVAL:
        return ServerState.LOG_WENT_BACK
    return ServerState.FOLLOWING if ended.drained else ServerState.BACKFILLING


def _note(well_known: WellKnown) -> WellKnownNote:
    return WellKnownNote(
        csid=well_known.csid,
        layer=well_known.layer,
        version=well_known.version,
        software_version=well_known.software.version,
        software_build_time=well_known.software.build_time,
        meta=well_known.meta,
        # Only what may ever be asked is kept, and only what could be asked: a template is visible ASCII.
        endpoints={
            name: template
            for name, template in well_known.endpoints.items()
            if name in _ENDPOINTS and template.isascii() and template.isprintable()
        },
    )
