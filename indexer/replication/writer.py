"""A page into the mirror: plan it on what is stored and apply it, with its cursor, in one transaction.

Ordering: owners' locks, then the stored state, then the plan, then its effects and the cursor. A crash
at any point leaves the page whole or not at all. Should PostgreSQL refuse a page for what one row holds,
the page is applied row by row within one transaction: the row that it refuses goes to the dead letters,
the rest stays. So it is with commits that have waited.

With `trust`, rows are judged before they are planned, in the same transaction; what follows from a person's
home becoming known is applied first. What judging needs of the rows alone is worked out before the
transaction, for pages that share an owner wait for each other in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import structlog

from indexer.concrnt.documents import Commit, MalformedKind, Reason, parse_commit
from indexer.concrnt.identifiers import is_ccid
from indexer.mirror.changes import Changes, EntityStanding, LeftHome, Tally
from indexer.mirror.context import Needs, load_context, lock_owners
from indexer.mirror.database import REFUSED, describe
from indexer.mirror.letters import keep_dead_letters
from indexer.mirror.pages import apply_changes
from indexer.mirror.servers import advance_cursor, check_lease
from indexer.mirror.trust import (
    bound_questions,
    count_rejected,
    keep_open_questions,
    load_facts,
    no_longer_waiting,
    note_left_homes,
    settle_owners,
    wait_no_more,
)
from indexer.replication.netting import Reading
from indexer.replication.plan import counted_as, dead_letter, needs, plan
from indexer.replication.trust import WITHDRAWN, Refusal, owner_of_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from indexer.concrnt.proofs import ProofFault
    from indexer.mirror.changes import DeadLetter, EntityPut
    from indexer.mirror.database import Connection, Database
    from indexer.mirror.servers import CursorAdvance
    from indexer.mirror.trust import Waited
    from indexer.replication.page import Row
    from indexer.replication.plan import Schemas
    from indexer.replication.trust import Judgement
log = structlog.get_logger(__name__)


class Trust(Protocol):
    """Judges rows."""

    async def prove_ahead(self, rows: Sequence[Row], *, behind: int) -> Mapping[int, ProofFault | None]:
        """What can be checked of the rows past those read before without anything stored, by position."""
        ...

    async def judge(
        self,
        connection: Connection,
        rows: Sequence[Row],
        source: str,
        *,
        now: datetime,
        ahead: Mapping[int, ProofFault | None],
    ) -> Judgement:
        """What rows of this server are worth. Runs in the page's transaction; asks no other server."""
        ...


@dataclass(frozen=True, slots=True)
class JudgedAgain:
    """How many commits that had waited were judged, and those rejected by (server, reason)."""

    number: int
    rejected: Mapping[tuple[str, str], int]


class PageWriter:
    """Writes pages of feeds into one mirror."""

    def __init__(
        self,
        database: Database,
        *,
        schemas: Schemas,
        trust: Trust | None = None,
        on_marked: Callable[[], None] = lambda: None,
    ) -> None:
        """Without `trust` everybody is believed. `on_marked` is called after a page that left queue marks."""
        self._database = database
        self._trust = trust
        self._on_marked = on_marked
        self._schemas = schemas
        self._indexed = sorted(schemas.indexed)

    async def write(
        self, rows: Sequence[Row], advance: CursorAdvance, *, behind: int, now: datetime
    ) -> Changes:
        """Apply rows in log order, the first `behind` of which were read before, and move the cursor.

        Returns what was done, for counters. Raises `StoreUnavailable`.
        """
        return await self._write(rows, advance.domain, advance, behind=behind, now=now)

    async def write_again(self, rows: Sequence[Row], source: str, *, now: datetime) -> Changes:
        """Apply rows that were read before, when they were worth something else; no cursor moves.

        Raises `StoreUnavailable`.
        """
        return await self._write(rows, source, None, behind=len(rows), now=now)

    async def write_one(self, commit: Commit, source: str, *, now: datetime) -> Changes:
        """Apply one document that was asked for by hand, wherever it stands in the log.

        It is settled with what stands by createdAt, also later, until the feed has brought it. Nobody else is
        at work on its owner meanwhile. It is judged like any other. What is refused, or waits for another
        document, is told to who asked and neither counted nor kept. Raises `StoreUnavailable`.
        """

        async def work(connection: Connection) -> Changes:
            wanted = needs([commit])
            await self._lock(
                connection, replace(wanted, deleting_owners={*wanted.deleting_owners, *wanted.owners})
            )
            return await self._apply(
                connection, [commit], source, wanted, behind=1, now=now, reading=Reading.BY_HAND
            )

        try:
            changes = await self._database.transaction("apply_one", work)
        except REFUSED as error:
            log.warning("PostgreSQL refuses a document", server=source, why=describe(error))
            letter = dead_letter(commit, MalformedKind.COMMIT, Reason.NOT_STORABLE)
            return Changes(source=source, dead_letters=[letter])
        self._on_marked()
        return changes

    async def settle(self, entity: EntityPut, source: str, *, now: datetime) -> Mapping[str, int]:
        """Store where a person lives, as found out, and what follows; returns what was withdrawn, by server.

        Where everybody is believed it is worth no more than what a feed says: the newest counts. Raises
        `StoreUnavailable`.
        """
        told = entity if self._trust is not None else replace(entity, standing=EntityStanding.CLAIMED)

        async def work(connection: Connection) -> Mapping[str, int]:
            await lock_owners(connection, Needs(settled_owners={entity.ccid}))
            people = [entity.ccid]
            former = (await load_facts(connection, source, people, csid=False)).homes.get(entity.ccid)
            await apply_changes(
                connection, Changes(source, entities=[told]), indexed_schemas=self._indexed, now=now
            )
            facts = await load_facts(connection, source, people, csid=False, told=people)
            home = facts.homes[entity.ccid]
            if former is not None and former.is_sure and former.domain != home.domain:
                await note_left_homes(connection, [LeftHome(entity.ccid, former.domain)], source)
            if not home.is_sure or entity.ccid not in facts.open_owners:
                return {}
            homes = {entity.ccid: home.domain}
            return await settle_owners(connection, homes, indexed_schemas=self._indexed, now=now)

        withdrawn = await self._database.transaction("settle_owner", work)
        self._on_marked()
        return withdrawn

    async def lock(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Lock the owners of everything that the transaction is going to apply, before the first of it."""
        await self._lock(connection, needs(rows))

    async def apply_again(
        self, connection: Connection, rows: Sequence[Row], source: str, *, now: datetime
    ) -> Changes:
        """Apply rows that were read before, in the caller's transaction."""
        wanted = needs(rows)
        await self._lock(connection, wanted)
        return await self._apply(
            connection, rows, source, wanted, behind=len(rows), now=now, reading=Reading.AGAIN
        )

    async def judge_again(
        self, *, limit: int, asked_for: Collection[str], waiting_since: datetime, now: datetime
    ) -> JudgedAgain:
        """Judge again the commits whose documents have come or were `asked_for`, or which wait since then.

        Each of them ends its waiting here, unless its proof leans on a further document that is not here:
        what waits for the very document that has come, or has waited for too long, is given up. Raises
        `StoreUnavailable`.
        """

        async def work(connection: Connection, *, row_by_row: bool = False) -> JudgedAgain:
            rejected: Counter[tuple[str, str]] = Counter()
            taken = await no_longer_waiting(
                connection, limit=limit, asked_for=asked_for, waiting_since=waiting_since
            )
            parsed = {
                one: parse_commit(one.commit, now=now, indexed=self._schemas.malformed_kinds) for one in taken
            }
            await self._lock(connection, needs(list(parsed.values())))
            for source in sorted({one.domain for one in taken}):
                theirs = {one: row for one, row in parsed.items() if one.domain == source}
                if not row_by_row:
                    rejected += await self._judge_waited(connection, theirs, source, now=now)
                    continue
                for one, row in theirs.items():
                    rejected += await self._judge_alone(connection, one, row, now=now)
            return JudgedAgain(len(taken), rejected)

        try:
            done = await self._database.transaction("judge_again", work)
        except REFUSED as error:
            log.warning("what has waited is judged row by row", why=describe(error))
            done = await self._database.transaction("judge_rows_again", partial(work, row_by_row=True))
        if done.number:
            self._on_marked()
        return done

    async def _judge_waited(
        self, connection: Connection, taken: Mapping[Waited, Row], source: str, *, now: datetime
    ) -> Counter[tuple[str, str]]:
        """Apply what has waited; returns what is rejected or withdrawn by it, by (server, reason)."""
        changes = await self.apply_again(connection, list(taken.values()), source, now=now)
        given_up = await self._give_up(connection, taken, changes, now=now)
        letters = [*changes.dead_letters, *given_up]
        if letters:
            await count_rejected(connection, source, len(letters))
        withdrawn = {(server, WITHDRAWN): number for server, number in changes.withdrawn.items()}
        return Counter((source, letter.reason) for letter in letters) + Counter(withdrawn)

    async def _judge_alone(
        self, connection: Connection, one: Waited, row: Row, *, now: datetime
    ) -> Counter[tuple[str, str]]:
        """Likewise one row, which is buried should PostgreSQL refuse it."""
        try:
            async with connection.transaction():
                return await self._judge_waited(connection, {one: row}, one.domain, now=now)
        except REFUSED as error:
            log.warning("PostgreSQL refuses a row", server=one.domain, why=describe(error))
            if not isinstance(row, Commit):
                return Counter()
            letter = dead_letter(row, MalformedKind.COMMIT, Reason.NOT_STORABLE)
            await keep_dead_letters(connection, one.domain, [letter], now=now)
            await count_rejected(connection, one.domain, 1)
            return Counter([(one.domain, letter.reason)])

    async def _give_up(
        self, connection: Connection, taken: Mapping[Waited, Row], changes: Changes, *, now: datetime
    ) -> list[DeadLetter]:
        """End the waiting that would never end; returns what is buried, for it does not stand meanwhile."""
        waited = {one.digest: one for one in taken}
        in_vain = {
            again.digest: again
            for again in changes.waiting
            if (one := waited.get(again.digest)) is not None and (one.is_over or one.href == again.href)
        }
        if not in_vain:
            return []
        await wait_no_more(connection, changes.source, in_vain)
        rows = [
            row
            for one, row in taken.items()
            if isinstance(row, Commit) and one.digest in in_vain and not in_vain[one.digest].accepted
        ]
        reason = Refusal.UNKNOWN_DOCUMENT
        letters = [dead_letter(row, counted_as(row, self._schemas), reason) for row in rows]
        owners = {owner for row in rows if is_ccid(owner := owner_of_commit(row))}
        await keep_open_questions(connection, Changes(changes.source, set_aside=owners), now=now)
        await keep_dead_letters(connection, changes.source, letters, now=now)
        return letters

    async def _write(
        self,
        rows: Sequence[Row],
        source: str,
        advance: CursorAdvance | None,
        *,
        behind: int,
        now: datetime,
    ) -> Changes:
        reading = Reading.FEED if advance is not None else Reading.AGAIN
        ahead = await self._trust.prove_ahead(rows, behind=behind) if self._trust is not None else {}

        async def work(connection: Connection) -> Changes:
            if advance is not None:
                await check_lease(connection, advance.lease)
            wanted = needs(rows)
            await self._lock(connection, wanted)
            changes = await self._apply(
                connection, rows, source, wanted, behind=behind, now=now, reading=reading, ahead=ahead
            )
            if advance is not None:
                await self._advance(connection, advance, changes.tally)
            return changes

        async def work_row_by_row(connection: Connection) -> Changes:
            if advance is not None:
                await check_lease(connection, advance.lease)
            await self._lock(connection, needs(rows))
            tally = Tally()
            for position, row in enumerate(rows):
                tally += await self._apply_row(
                    connection, row, source, read_before=position < behind, now=now, reading=reading
                )
            if advance is not None:
                await self._advance(connection, advance, tally)
            return Changes(source=source, tally=tally)

        try:
            changes = await self._database.transaction("apply_page", work, durable=False)
        except REFUSED as error:
            log.warning("a page is applied row by row", server=source, why=describe(error))
            changes = await self._database.transaction("apply_rows", work_row_by_row, durable=False)
        self._on_marked()
        return changes

    async def _lock(self, connection: Connection, wanted: Needs) -> None:
        """Lock the owners of a page; where rows are judged also whose home or follows it tells."""
        if self._trust is None:
            wanted = replace(wanted, speakers=(), settled_owners=())
        await lock_owners(connection, wanted)

    async def _apply(
        self,
        connection: Connection,
        rows: Sequence[Row],
        source: str,
        wanted: Needs,
        *,
        behind: int,
        now: datetime,
        reading: Reading,
        ahead: Mapping[int, ProofFault | None] = MappingProxyType({}),
    ) -> Changes:
        judgement = None
        homes = moved = None
        withdrawn: Mapping[str, int] = {}
        if self._trust is not None:
            judgement = await self._trust.judge(connection, rows, source, now=now, ahead=ahead)
            homes, moved = judgement.sure_homes, judgement.moved
            if judgement.settled:
                withdrawn = await settle_owners(
                    connection, judgement.settled, indexed_schemas=self._indexed, now=now
                )
        context = await load_context(connection, wanted, homes=homes, moved=moved)
        changes = plan(
            rows,
            context,
            source=source,
            behind=behind,
            schemas=self._schemas,
            judgement=judgement,
            reading=reading,
        )
        by_hand = reading is Reading.BY_HAND
        applied = replace(changes, dead_letters=[], waiting=[]) if by_hand else changes
        await apply_changes(connection, applied, indexed_schemas=self._indexed, now=now)
        if applied.unresolved:
            number = await bound_questions(connection, source, indexed_schemas=self._indexed, now=now)
            if number:
                withdrawn = Counter(withdrawn) + Counter({source: number})
        return replace(changes, withdrawn=withdrawn) if withdrawn else changes

    async def _apply_row(
        self,
        connection: Connection,
        row: Row,
        source: str,
        *,
        read_before: bool,
        now: datetime,
        reading: Reading,
    ) -> Tally:
        try:
            async with connection.transaction():
                changes = await self._apply(
                    connection, [row], source, needs([row]), behind=int(read_before), now=now, reading=reading
                )
                return changes.tally
        except REFUSED as error:
            log.warning("PostgreSQL refuses a row", server=source, why=describe(error))
            if not isinstance(row, Commit):
                return Tally()
            letter = dead_letter(row, MalformedKind.COMMIT, Reason.NOT_STORABLE)
            new = await keep_dead_letters(connection, source, [letter], now=now)
            return Tally(commits=new, malformed={"commit": new})

    async def _advance(self, connection: Connection, advance: CursorAdvance, tally: Tally) -> None:
        await advance_cursor(
            connection,
            replace(
                advance,
                latest_post_at=tally.latest_post_at,
                commits=tally.commits,
                malformed=sum(tally.malformed.values()),
                rejected=sum(tally.rejected.values()),
            ),
        )
