"""Keeping the indexes whole: noticing one that has to be filled, and building it beside the live one.

What it owns: the order "make an empty index, let the projector write into both, fill the new one from the
mirror, swap, forget the old one". It runs in the process that projects, beside the projector.

An index that another program has filled answers until every server was read to its end once, save those that
have failed for an hour; only then ours is built in its place. A first poll that fails is no such reason.

When an index is built: when somebody asks (``reindex``, ``rebuild``); when the engine has another index under
that name than the one that was filled (lost, wiped, never filled, another program's); when what documents are
made with has changed (the configured schemas, a new version). Searches go on meanwhile on the old index.

Ordering: a key is in the hands of the projector or of the filling, never of both (:meth:`Projector.claim`),
and each reads the state as it is then. From before the first key is filled until the swap, the projector
writes into both indexes. So a change that comes in at any moment is in both. The swap happens while no batch
is under way. An engine that is away in the middle is waited for.

Crash behaviour: a build is not resumed, since changes between the crash and the next start would be missing
in it; what is left of it is removed, and it begins anew. The request for it stays until the new index is in
place. A crash between the swap and the noting of it is told by the index's identity, which has moved with
it; then nothing is built again.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import structlog

from indexer.engines.base import EngineUnavailable, IndexBusy, IndexLost, WriteBatch, build_uid
from indexer.engines.indexes import SERVERS
from indexer.mirror.builds import FilledIndex
from indexer.projection.documents import record_document, server_document
from indexer.projection.projector import pause_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from indexer.engines.base import BuildingEngine, Document, IndexDefinition
    from indexer.mirror.builds import Build, FilledKey
    from indexer.projection.kinds import Kinds
    from indexer.projection.projector import Projector

log = structlog.get_logger(__name__)

DOCUMENT_VERSION: Final = 1
"""Raised when documents are made otherwise from the same records: every index is then built again."""

KEYS_AT_ONCE: Final = 2_000
BYTES_AT_ONCE: Final = 8 * 1024 * 1024
LOOK_SECONDS: Final = 5.0
PREPARE_SECONDS: Final = 60.0
SILENT: Final = timedelta(hours=1)
"""A server that has failed for so long is not waited for, once another was read to its end."""

T = TypeVar("T")


class BuildStore(Protocol):
    """What the mirror remembers of indexes (`mirror/builds.py`)."""

    async def filled(self) -> dict[str, FilledIndex]:
        """Tell what each index was last filled from."""

    async def note_filled(self, uid: str, index: FilledIndex, *, now: datetime) -> None:
        """Note that an index holds all of the mirror, and that its build is over."""

    async def request(self, uids: Sequence[str], reason: str, *, now: datetime) -> None:
        """Ask for builds."""

    async def is_read_in(self, *, silent_since: datetime) -> bool:
        """Tell whether every server but those silent since then has been read to its end once."""

    async def builds(self) -> list[Build]:
        """Return what is asked for, oldest first."""

    async def begin(self, uid: str, identity: str, total: int, *, now: datetime) -> None:
        """Note that a build begins."""

    async def progress(self, uid: str, filled: int) -> None:
        """Note how far it is."""

    async def count_records(self, schemas: Sequence[str]) -> int:
        """Count records of schemas."""

    async def count_servers(self) -> int:
        """Count servers."""

    async def page_records(self, schema: str, after: str, limit: int, max_bytes: int) -> list[FilledKey]:
        """Return the next records of a schema by key."""

    async def page_servers(self, after: str, limit: int) -> list[FilledKey]:
        """Return the next servers by name."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


async def _nothing(_uid: str) -> None:
    """Nobody has to know."""


@dataclass(slots=True)
class IndexKeeper:
    """Keeps the indexes of one engine whole.

    ``swapped`` is told of every index that was built and stands in its place. ``unavailable`` are the errors
    of
    ``store`` that mean "away, try again".
    """

    engine: BuildingEngine
    indexes: Sequence[IndexDefinition]
    projector: Projector
    store: BuildStore
    kinds: Kinds
    unavailable: tuple[type[Exception], ...] = ()
    swapped: Callable[[str], Awaitable[None]] = _nothing
    clock: Callable[[], datetime] = _utc_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    failures: int = 0
    """How often in a row the engine or the mirror was away."""

    async def run(self) -> None:
        """Look after the indexes until cancelled. Raises only what is a mistake of ours."""
        self.projector.builds.clear()
        seconds_since_prepared = PREPARE_SECONDS
        while True:
            try:
                if seconds_since_prepared >= PREPARE_SECONDS or self.failures:
                    await self.engine.prepare(self.indexes)
                    seconds_since_prepared = 0.0
                await self.look()
                await self.build_what_is_asked_for()
            except self._away as error:
                self.failures += 1
                if self.failures == 1:
                    log.warning("the indexes wait for the engine or the mirror", why=str(error))
                await self.sleep(pause_seconds(self.failures))
                continue
            self.failures = 0
            await self.sleep(LOOK_SECONDS)
            seconds_since_prepared += LOOK_SECONDS

    async def look(self) -> None:
        """Ask for a build of every index that was not filled from what the mirror holds now."""
        present = await self.engine.identities()
        if missing := [definition.uid for definition in self.indexes if definition.uid not in present]:
            raise IndexLost(f"the engine has lost {', '.join(missing)}")
        filled = await self.store.filled()
        waiting = self.engine.taken_over()
        if waiting and await self.store.is_read_in(silent_since=self.clock() - SILENT):
            waiting = ()
        for definition in self.indexes:
            uid = definition.uid
            if uid in waiting:
                continue
            wanted = FilledIndex(present[uid], self.fingerprint(uid))
            before = filled.get(uid)
            if before == wanted:
                continue
            if before is None and not await self._holds_anything(uid):
                await self.store.note_filled(uid, wanted, now=self.clock())
                continue
            reason = "changed" if before is not None and before.identity == wanted.identity else "lost"
            await self.store.request([uid], reason, now=self.clock())

    async def build_what_is_asked_for(self) -> None:
        """Build, one index after the other, until nothing is asked for."""
        while builds := await self.store.builds():
            for build in builds:
                await self._build(build)

    def fingerprint(self, uid: str) -> str:
        """Tell what an index's documents are made with."""
        made_with = (DOCUMENT_VERSION, self.engine.shape, sorted(self.kinds.schemas_of(uid)))
        return hashlib.sha256(repr(made_with).encode()).hexdigest()[:32]

    @property
    def _away(self) -> tuple[type[Exception], ...]:
        return (EngineUnavailable, *self.unavailable)

    async def _holds_anything(self, uid: str) -> bool:
        """Tell whether the mirror, or the index as it is found, holds anything."""
        if await self._count(uid):
            return True
        sizes = (await self.engine.statistics()).indexes
        return uid in sizes and sizes[uid].number_of_documents > 0

    async def _count(self, uid: str) -> int:
        if uid == SERVERS:
            return await self.store.count_servers()
        return await self.store.count_records(self.kinds.schemas_of(uid))

    async def _build(self, build: Build) -> None:
        uid = build.index_uid
        if build.identity is not None and (await self.engine.identities()).get(uid) == build.identity:
            await self.engine.drop_build(uid)  # swapped, and then something came in between
            await self._note(uid, build.identity)
            return
        log.info("building an index", index=uid, reason=build.reason)
        identity = await self.engine.begin_build(uid)
        try:
            async with self.projector.standing_still():
                self.projector.builds.add(uid)
            await self.store.begin(uid, identity, await self._count(uid), now=self.clock())
            count = await self._fill(uid)
            await self._swap(uid)
        except Exception:
            async with self.projector.standing_still():  # no batch may be on its way into it
                self.projector.builds.discard(uid)
            raise
        finally:
            self.projector.builds.discard(uid)
        await self._note(uid, identity)
        log.info("an index was built", index=uid, documents=count)

    async def _note(self, uid: str, identity: str) -> None:
        if (await self.engine.identities()).get(uid) != identity:
            raise IndexLost(f"another has taken the place of {uid}")
        await self.swapped(uid)
        await self.store.note_filled(uid, FilledIndex(identity, self.fingerprint(uid)), now=self.clock())

    async def _swap(self, uid: str) -> None:
        """Swap while the projector stands still; it goes on between tries that readers are in the way of."""
        failures = 0
        while True:
            try:
                async with self.projector.standing_still():
                    await self._swap_for_certain(uid)
                    # Before a batch begins again: the engine knows no build by that name any more.
                    self.projector.builds.discard(uid)
            except IndexBusy as error:
                failures += 1
                if failures == 1:
                    log.warning("an index is built, and waits for whoever reads the old one", why=str(error))
                await self.sleep(pause_seconds(failures))
            else:
                return

    async def _swap_for_certain(self, uid: str) -> None:
        """Swap, and do not go on before it is known what happened: nothing may be written in between."""
        failures = 0
        while True:
            try:
                await self.engine.swap_build(uid)
            except (IndexBusy, IndexLost):
                raise
            except EngineUnavailable:
                failures += 1
                await self.sleep(pause_seconds(failures))
            else:
                return

    async def _fill(self, uid: str) -> int:
        filled = 0
        async for read in self._pages(uid):
            filled += await self._patiently(uid, partial(self._fill_page, uid, read))
            await self._patiently(uid, partial(self.store.progress, uid, filled))
        return filled

    async def _patiently(self, uid: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do one thing, again and again while somebody is away."""
        failures = 0
        while True:
            try:
                return await work()
            except IndexLost:
                raise
            except self._away as error:
                failures += 1
                if failures == 1:
                    log.warning("filling an index waits", index=uid, why=str(error))
                await self.sleep(pause_seconds(failures))

    async def _fill_page(self, uid: str, page: _Page) -> int:
        async with self.projector.claim(page.read) as keys:
            documents = [
                document for key in keys if (document := document_of(uid, key, self.clock())) is not None
            ]
            if documents:
                result = await self.engine.write(WriteBatch(upserts={build_uid(uid): documents}))
                for rejected in result.rejected:
                    log.warning("the engine refuses a document", id=rejected.id[:80], reason=rejected.reason)
            page.after = keys[-1].state.key if keys else None
            return len(keys)

    async def _pages(self, uid: str) -> AsyncIterator[_Page]:
        """Yield the pages of an index, each to be filled before the next is asked for."""
        for schema in [None] if uid == SERVERS else sorted(self.kinds.schemas_of(uid)):
            page = _Page(self.store, schema)
            while page.after is not None:
                yield page


def document_of(uid: str, key: FilledKey, now: datetime) -> Document | None:
    """Make the document of a key; None when it belongs into no index. ``now`` is when it is indexed."""
    if key.state.server is not None:
        return server_document(key.state.server)
    if key.state.record is None:
        return None
    return record_document(uid, key.state.record, key.indexed_at or now)


@dataclass(slots=True)
class _Page:
    """Where the filling stands in one schema; None for servers. ``after`` is None at the end."""

    store: BuildStore
    schema: str | None
    after: str | None = ""

    async def read(self) -> Sequence[FilledKey]:
        after = self.after or ""
        if self.schema is None:
            return await self.store.page_servers(after, KEYS_AT_ONCE)
        return await self.store.page_records(self.schema, after, KEYS_AT_ONCE, BYTES_AT_ONCE)
