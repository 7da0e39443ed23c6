"""The follower of one feed: reads forward from the stored cursor, page by page, and applies.

What it owns: one run over one server's feed. Ordering: pages are applied in the order of the feed, each in
one transaction with its cursor; the next pages are fetched while one is applied, and what lies ready by then
shares the next transaction. What a crash leaves: the pages applied, whole, and the cursor that belongs to
them; the next run begins `overlap` before it. A failure of the other server ends the run and is stored with
the server; what was read stays. A store that is away ends the run and is nobody's fault (`StoreUnavailable`
is raised).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import structlog

from indexer.concrnt.client import FailureClass, PeerError
from indexer.mirror.changes import Changes
from indexer.mirror.servers import CursorAdvance
from indexer.replication import cursor as cursors
from indexer.replication.ahead import BYTES_AHEAD, Fetched, ReadAhead, judged
from indexer.replication.cursor import Position, Step
from indexer.replication.page import Rows, digest_of, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from indexer.concrnt.pages import Item, Page
    from indexer.mirror.servers import FeedState, Lease
    from indexer.replication.feeds import Feeds
    from indexer.replication.plan import Schemas
    from indexer.replication.writer import PageWriter

log = structlog.get_logger(__name__)
_PAGE_GRACE_SECONDS = 6.0
_PAGES_OF_AN_INSTANT = 6

INSTANT_LIMIT = 100
"""How many rows of a stalled instant are asked for from each end, whatever `pageLimit` says."""
SHARED_ROWS = 1000
"""Pages that are new and lie ready share a transaction up to about this many rows."""
SEEN_ROWS = 200
"""A page has at most a hundred rows, an instant twice that: more are never met again by the overlap's end."""


class FollowerMetrics(Protocol):
    """What a follower counts."""

    def pages_applied(self, server: str, pages: int, changes: Changes) -> None:
        """So many pages were applied, together."""
        ...

    def request(self, server: str, result: str) -> None:
        """A request to the feed ended `ok`, `transient` or `error`."""
        ...

    def instant_not_whole(self, server: str) -> None:
        """An instant held more rows than can be read."""
        ...


@dataclass(frozen=True, slots=True)
class FollowerSettings:
    """How feeds are read. `overlap` as a length of time, `max_pages` a run's share before others come."""

    page_limit: int
    overlap: timedelta
    max_pages: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended that met no failure."""

    drained: bool
    new_rows: int = 0
    clock_ahead: bool = False
    went_back: bool = False


@dataclass(slots=True)
class _Unit:
    """Rows that one transaction will apply, and the cursor that goes with them."""

    rows: Rows
    cursor: Position | None
    ends_ns: int | None
    pages: int = 1
    partial_instants: int = 0


@dataclass(slots=True)
class _Run:
    """The state of one run. `horizon_ns`: rows received before it were read before this run."""

    domain: str
    template: str
    stored: Position | None
    horizon_ns: int | None
    seen: tuple[int, ...]
    row_stands: bool
    lease: Lease | None = None
    clock_ahead: bool = False
    pages: int = 0
    new_rows: int = 0
    last_page: tuple[int, ...] = ()
    pending: _Unit | None = None
    pending_bytes: int = 0

    def ended(self, *, drained: bool, went_back: bool = False) -> Ended:
        """How the run ended."""
        return Ended(drained, self.new_rows, self.clock_ahead, went_back)


class Follower:
    """Follows one feed at a time; any number of runs over different servers may be under way."""

    def __init__(
        self,
        feeds: Feeds,
        page_writer: PageWriter,
        *,
        schemas: Schemas,
        settings: FollowerSettings,
        metrics: FollowerMetrics,
        clock: Callable[[], datetime],
    ) -> None:
        self._feeds = feeds
        self._page_writer = page_writer
        self._schemas = schemas
        self._settings = settings
        self._metrics = metrics
        self._clock = clock

    async def follow(
        self, state: FeedState, template: str, *, lease: Lease | None = None, goes_on: bool = False
    ) -> Ended:
        """Read the feed until it is drained or the run's pages are used up.

        With `goes_on` it begins exactly at the cursor: the run before was ended by its page limit. Raises
        `PeerError` when the other server fails, `StoreUnavailable` when ours does, `LeaseLostError`.
        """
        run = _begin(state, template, lease)
        overlap_ns = 0 if goes_on else self._settings.overlap // timedelta(microseconds=1) * 1000
        ahead = self._read_ahead(run, cursors.first_request(state, overlap_ns=overlap_ns))
        try:
            while True:
                fetched = await ahead.next()
                run.pages += 1
                run.row_stands = run.row_stands or _shows_row(run, fetched.page)
                if fetched.step is Step.DRAINED:
                    return await self._end(run, fetched.page)
                if fetched.step is Step.STALLED:
                    if run.pages >= 2 * self._settings.max_pages + _PAGES_OF_AN_INSTANT:
                        await self._apply_pending(run)
                        return run.ended(drained=False)
                    await ahead.close()
                    past = await self._pass_instant(run, fetched.next)
                    ahead = self._read_ahead(run, past.asked, first=past)
                    continue  # past a stalled instant, the next page is what makes progress
                await self._go_forward(run, fetched, more_ready=ahead.has_ready())
                if run.pages >= self._settings.max_pages:
                    await self._apply_pending(run)
                    return run.ended(drained=False)
        finally:
            await ahead.close()

    def _read_ahead(self, run: _Run, asked: Position | None, *, first: Fetched | None = None) -> ReadAhead:
        async def fetch(asked: Position | None) -> Page:
            return await self._fetch(run, asked)

        return ReadAhead(fetch, asked, pages=max(self._settings.max_pages - run.pages, 1), first=first)

    async def _go_forward(self, run: _Run, fetched: Fetched, *, more_ready: bool) -> None:
        """Apply a page; one that can share a transaction with the next, which lies ready, waits for it."""
        unit = _Unit(self._rows(fetched.page.items), fetched.next, fetched.next.ns)
        if not self._may_share(run, unit):
            await self._apply_pending(run)
            await self._apply(run, unit)
            return
        if run.pending is None:
            run.pending = unit
        else:
            last = run.pending.rows.digests[-INSTANT_LIMIT:]
            again = cursors.shared_rows(last, unit.rows.digests, distinct=unit.rows.distinct)
            run.pending.rows += Rows(unit.rows.rows[again:], unit.rows.digests[again:])
            run.pending.cursor, run.pending.ends_ns = unit.cursor, unit.ends_ns
            run.pending.pages += 1
        run.pending_bytes += fetched.size
        if not more_ready or len(run.pending.rows.rows) >= SHARED_ROWS or run.pending_bytes >= BYTES_AHEAD:
            await self._apply_pending(run)

    def _may_share(self, run: _Run, unit: _Unit) -> bool:
        """Only rows that are new throughout share a transaction, under a cursor that will be stored."""
        is_new = not run.seen and (run.horizon_ns is None or (unit.ends_ns or 0) > run.horizon_ns)
        return is_new and cursors.storable(unit.cursor, now=self._clock()) is not None

    async def _end(self, run: _Run, page: Page) -> Ended:
        """The feed is drained. The cursor becomes `prev` of its last page, where that is newer."""
        await self._apply_pending(run)
        went_back = await self._log_went_back(run)
        cursor = None
        if page.prev is not None and page.prev_ns is not None:
            cursor = Position(page.prev, page.prev_ns)
        await self._apply(run, _Unit(self._rows(page.items), cursor, None))
        return run.ended(drained=True, went_back=went_back)

    async def _log_went_back(self, run: _Run) -> bool:
        """Ask once at exactly the cursor, where no answer has shown a row there or past it."""
        if run.stored is None or run.row_stands:
            return False
        page = await self._fetch(run, run.stored)
        return page.prev is None and page.next is None

    # --- requests

    async def _fetch(
        self, run: _Run, asked: Position | None, *, until: str | None = None, order: str | None = None
    ) -> Page:
        limit = self._settings.page_limit if until is None else INSTANT_LIMIT
        since = None if asked is None else asked.text
        try:
            page = await self._feeds.page(
                run.domain, run.template, since=since, until=until, order=order, limit=limit
            )
        except PeerError as error:
            transient = error.failure is FailureClass.RATE_LIMITED
            self._metrics.request(run.domain, "transient" if transient else "error")
            raise
        self._metrics.request(run.domain, "ok")
        return page

    # --- an instant that holds more rows than a page

    async def _pass_instant(self, run: _Run, instant: Position) -> Fetched:
        """Read a stalled instant from both ends and apply it; returns the first page past it."""
        await self._apply_pending(run)
        run.pages += 1
        first = await self._fetch(run, instant, until=instant.text, order="asc")
        rows = self._rows(first.items)
        whole = True
        was_read = not rows.distinct.isdisjoint(run.seen)
        if first.next_ns == instant.ns:
            last = await self._fetch(run, instant, until=instant.text, order="desc")
            tail = self._rows(tuple(reversed(last.items)))
            shared = cursors.shared_rows(rows.digests, tail.digests, distinct=rows.distinct | tail.distinct)
            whole = shared > 0
            rows += Rows(tail.rows[shared:], tail.digests[shared:])
        horizon_ns = -1 if run.horizon_ns is None else run.horizon_ns
        is_new = instant.ns > horizon_ns or (instant.ns == horizon_ns and not was_read)
        partial = 1 if is_new and not whole else 0
        if partial:
            self._metrics.instant_not_whole(run.domain)
            log.warning("an instant holds more rows than can be read", server=run.domain, at=instant.text)
        await self._apply(run, _Unit(rows, instant, instant.ns + 1, partial_instants=partial))
        return await self._step_past(run, instant)

    async def _step_past(self, run: _Run, instant: Position) -> Fetched:
        for step_ns in cursors.STEPS_PAST_NS:
            asked = Position.at(instant.ns + step_ns)
            page = await self._fetch(run, asked)
            if cursors.moved_past(page, instant):
                return judged(page, asked)
        raise PeerError(FailureClass.BAD_PAYLOAD, f"the feed does not move past {instant.text}")

    # --- applying

    def _rows(self, items: Sequence[Item]) -> Rows:
        return read_rows(items, now=self._clock(), indexed=self._schemas.malformed_kinds)

    async def _apply_pending(self, run: _Run) -> None:
        if run.pending is not None:
            unit, run.pending, run.pending_bytes = run.pending, None, 0
            await self._apply(run, unit)

    async def _apply(self, run: _Run, unit: _Unit) -> None:
        now = self._clock()
        if _is_known(run, unit):
            self._metrics.pages_applied(run.domain, unit.pages, Changes(source=run.domain))
            return
        to_store = cursors.storable(unit.cursor, now=now)
        if unit.cursor is not None and to_store is None:
            run.clock_ahead = True
        behind, met = cursors.rows_read_before(
            unit.rows.digests, ends_ns=unit.ends_ns, horizon_ns=run.horizon_ns, seen=run.seen
        )
        # Where a page boundary parts an instant, its first rows come again with the next page.
        again = cursors.shared_rows(run.last_page, unit.rows.digests, distinct=unit.rows.distinct)
        behind = max(behind, again)
        advance = CursorAdvance(
            domain=run.domain,
            cursor=to_store.text if to_store else None,
            cursor_ns=to_store.ns if to_store else None,
            seen=_seen_after(run, unit, met),
            partial_instants=unit.partial_instants,
            lease=run.lease,
        )
        run.last_page = unit.rows.digests[-INSTANT_LIMIT:]
        changes = await _to_its_end(self._page_writer.write(unit.rows.rows, advance, behind=behind, now=now))
        run.new_rows += changes.tally.commits
        self._metrics.pages_applied(run.domain, unit.pages, changes)


async def _to_its_end(writing: Coroutine[None, None, Changes]) -> Changes:
    """Let a page in hand be applied whole, also when the run is cancelled meanwhile."""
    task = asyncio.ensure_future(writing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=_PAGE_GRACE_SECONDS)
        task.cancel()
        raise


def _begin(state: FeedState, template: str, lease: Lease | None) -> _Run:
    stored = None
    if state.cursor is not None and state.cursor_ns is not None:
        stored = Position(state.cursor, state.cursor_ns)
    horizons = [ns for ns in (state.cursor_ns, state.replay_until_ns) if ns is not None]
    return _Run(
        domain=state.domain,
        template=template,
        stored=stored,
        horizon_ns=max(horizons, default=None),
        seen=state.seen,
        row_stands=False,
        lease=lease,
    )


def _shows_row(run: _Run, page: Page) -> bool:
    """Whether a page proves that the log holds a row at the stored cursor or past it."""
    if run.stored is None or cursors.shows_row_at(page, run.stored.ns):
        return True
    seen = set(run.seen)
    return any(b'"document"' in item and digest_of(item) in seen for item in page.items)


def _is_known(run: _Run, unit: _Unit) -> bool:
    """Whether a page brings nothing at all: it is the page applied last, and leads to no newer cursor."""
    if unit.partial_instants or unit.rows.digests != run.seen:
        return False
    return unit.cursor is None or (run.stored is not None and unit.cursor.ns <= run.stored.ns)


def _seen_after(run: _Run, unit: _Unit, met: int) -> tuple[int, ...] | None:
    """The digests to remember; None leaves the stored ones: no rows, or none past the horizon.

    What the page applied last had beyond this one (`met` of its rows stood here) is kept until it is met: a
    page boundary may part it.
    """
    is_behind = run.horizon_ns is not None and unit.ends_ns is not None and unit.ends_ns <= run.horizon_ns
    if not unit.rows.digests or is_behind:
        return None
    run.seen = run.seen[met:] if met else ()
    return unit.rows.digests[-SEEN_ROWS:] + run.seen
