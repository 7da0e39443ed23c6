"""Reading ahead: the pages of one feed, fetched one after the other while earlier ones are applied.

Owns one task that follows `next` from page to page until the feed is drained, stalls, fails, or the pages of
the run are used up. What lies ready is bounded in pages and bytes; at least one page is always fetched ahead.
Pages come out in the order of the feed; a failure comes out in its place, after the pages before it. Nothing
is kept: what was fetched and not applied is fetched again by the next run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.concrnt.client import FailureClass, PeerError
from indexer.replication import cursor as cursors
from indexer.replication.cursor import Position, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from indexer.concrnt.pages import Page

PAGES_AHEAD = 8
BYTES_AHEAD = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page, what was asked for, and how to go on after it."""

    page: Page
    asked: Position | None
    step: Step

    @property
    def next(self) -> Position:
        """Where to go on; only of pages that name it."""
        assert self.page.next is not None
        assert self.page.next_ns is not None
        return Position(self.page.next, self.page.next_ns)

    @property
    def size(self) -> int:
        """The bytes of its rows."""
        return sum(map(len, self.page.items))


def judged(page: Page, asked: Position | None) -> Fetched:
    """A page with its judgement. Raises `PeerError` when the cursor goes backwards."""
    try:
        return Fetched(page, asked, cursors.judge(page, asked))
    except cursors.CursorWentBackError as error:
        raise PeerError(FailureClass.BAD_PAYLOAD, str(error)) from error


class ReadAhead:
    """The pages of a feed from `asked` on, or from a page that was fetched already; an async context."""

    def __init__(
        self,
        fetch: Callable[[Position | None], Awaitable[Page]],
        asked: Position | None,
        *,
        pages: int,
        first: Fetched | None = None,
    ) -> None:
        self._fetch = fetch
        self._pages = pages
        self._ready: deque[Fetched | PeerError | BaseException] = deque()
        self._bytes = 0
        self._changed = asyncio.Condition()
        self._task = asyncio.create_task(self._read(asked, first))

    async def next(self) -> Fetched:
        """The next page. Raises the `PeerError` that stands in its place."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._ready)
            fetched = self._ready.popleft()
            if isinstance(fetched, BaseException):
                raise fetched
            self._bytes -= fetched.size
            self._changed.notify_all()
            return fetched

    def has_ready(self) -> bool:
        """Whether a page that leads on lies ready."""
        return (
            bool(self._ready) and isinstance(self._ready[0], Fetched) and self._ready[0].step is Step.FORWARD
        )

    async def close(self) -> None:
        """End the fetching."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _read(self, asked: Position | None, first: Fetched | None) -> None:
        try:
            fetched = first or judged(await self._fetch(asked), asked)
            for _ in range(self._pages - 1):
                await self._put(fetched)
                if fetched.step is not Step.FORWARD:
                    return
                await self._room()
                asked = fetched.next
                fetched = judged(await self._fetch(asked), asked)
            await self._put(fetched)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 (handed to the reader, in its place)
            await self._put(error)

    async def _put(self, fetched: Fetched | BaseException) -> None:
        async with self._changed:
            self._ready.append(fetched)
            self._bytes += fetched.size if isinstance(fetched, Fetched) else 0
            self._changed.notify_all()

    async def _room(self) -> None:
        async with self._changed:
            await self._changed.wait_for(
                lambda: len(self._ready) < PAGES_AHEAD and (self._bytes < BYTES_AHEAD or not self._ready)
            )
