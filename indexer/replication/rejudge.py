"""Judging again what is stored, after `trust.mode` changed: part of a rebuild.

    done = await judge_stored(database, judge, schemas, now=now, on_progress=show)

Goes through entities, deletes, records, follows and what was rejected, in this order, in batches of one
transaction each. What no longer counts goes from the mirror and, by its mark, from the search engine; it is
dead-lettered, and what it had replaced or removed may come back. What waits for a document or for a look-up
is judged again in the background, as if it had just been read. What was rejected and counts now is applied.

Ordering: entities first, for they say who speaks for whom; each batch is judged on what is stored then. A
crash leaves the batches done, and beginning again changes nothing more. Followers may be at work meanwhile,
in the new mode: owners' locks keep them apart.

What can come back, and from where (decisions/0020): rejected commits are dead letters, the newest thousand a
server; beyond them, and for what forged documents had replaced or removed, the logs of those who speak for
the owners are due to be read again (by `Residents`, in the background). In `off` nobody does that: `servers
reset`.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from indexer.concrnt.documents import Commit, Kind, parse_commit
from indexer.mirror import judging as stored
from indexer.mirror.changes import Changes, EntityStanding, Waiting
from indexer.mirror.context import Needs, lock_owners, moved_domains
from indexer.mirror.letters import keep_dead_letters
from indexer.mirror.trust import count_rejected, keep_open_questions
from indexer.replication.page import read_rows
from indexer.replication.plan import counted_as, dead_letter
from indexer.replication.trust import WITHDRAWN, Judgement, Refusal, TrustMode, Worth, owner_of_commit
from indexer.replication.writer import PageWriter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from indexer.mirror.database import Connection, Database
    from indexer.replication.judge import Judge
    from indexer.replication.page import Row
    from indexer.replication.plan import Schemas
    from indexer.replication.trust import Verdict

BATCH = 500
_REASONS = sorted({WITHDRAWN, *Refusal})


class Stage(StrEnum):
    """What is judged, in this order."""

    ENTITIES = "entities"
    DELETES = "deletes"
    RECORDS = "records"
    FOLLOWS = "follows"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class JudgingProgress:
    """How far one stage is. `total` was counted at the start."""

    stage: Stage
    done: int
    total: int


@dataclass(slots=True)
class Rejudged:
    """What was done."""

    judged: Counter[Stage] = field(default_factory=Counter)
    """How many of each stage."""
    removed: Counter[str] = field(default_factory=Counter)
    """How many count no more, by reason."""
    accepted: int = 0
    """How many that had been rejected count now."""
    logs_to_read: int = 0
    """How many logs are due to be read again for an owner, in the background."""


async def judge_stored(
    database: Database,
    judge: Judge | None,
    schemas: Schemas,
    *,
    now: datetime,
    on_progress: Callable[[JudgingProgress], None] = lambda _: None,
) -> Rejudged:
    """Judge everything that is stored in the mode of `judge`; None is `off`, where everybody is believed.

    `on_progress` is called after each batch. Raises `StoreUnavailable`; what was done by then stays.
    """
    bench = _Bench(database, judge, schemas, PageWriter(database, schemas=schemas, trust=judge), now)
    totals = await stored.stored_counts(database, _REASONS)
    stages: list[tuple[Stage, _Errand]] = [
        (Stage.ENTITIES, _Entities(bench)),
        (Stage.DELETES, _Deletes(bench)),
        (Stage.RECORDS, _Records(bench)),
        (Stage.FOLLOWS, _Follows(bench)),
        (Stage.FOLLOWS, _ProvisionalFollows(bench)),
        (Stage.REJECTED, _Rejected(bench)),
    ]
    for stage, errand in stages:
        items: Sequence[object] | None = None
        while items is None or len(items) == BATCH:
            items = await errand.batch()
            bench.done.judged[stage] += len(items)
            on_progress(JudgingProgress(stage, bench.done.judged[stage], totals[stage.value]))
    if judge is not None:
        bench.done.logs_to_read = await stored.read_set_aside(database, now=now)
    return bench.done


class _Errand(Protocol):
    async def batch(self) -> Sequence[object]:
        """Judge the next batch; fewer than `BATCH` are the last."""
        ...


class _Said(Protocol):
    """What is stored of something that a server said."""

    @property
    def source(self) -> str: ...
    @property
    def signed(self) -> str: ...


_Stored = TypeVar("_Stored", bound=_Said)
_Batch = TypeVar("_Batch")


@dataclass(frozen=True, slots=True)
class _Judged(Generic[_Stored]):
    """One server's part of a batch, judged."""

    source: str
    items: Sequence[_Stored]
    rows: Sequence[Row]
    judgement: Judgement

    @property
    def worths(self) -> list[tuple[_Stored, Worth]]:
        """Those that are accepted."""
        pairs = zip(self.items, self.judgement.verdicts, strict=True)
        return [(item, verdict) for item, verdict in pairs if isinstance(verdict, Worth)]

    @property
    def refused(self) -> list[_Stored]:
        """Those that are not, or have to wait."""
        pairs = zip(self.items, self.judgement.verdicts, strict=True)
        return [item for item, verdict in pairs if isinstance(verdict, Refusal)]


@dataclass(frozen=True, slots=True)
class _Bench:
    """What every errand needs."""

    database: Database
    judge: Judge | None
    schemas: Schemas
    writer: PageWriter
    now: datetime
    done: Rejudged = field(default_factory=Rejudged)

    def read(self, items: Iterable[_Said]) -> list[Row]:
        return [parse_commit(one.signed, now=self.now, indexed={}) for one in items]

    async def transaction(
        self, name: str, work: Callable[[Connection, Rejudged], Awaitable[_Batch]]
    ) -> _Batch:
        """Run a batch; what it counts is counted once, however often PostgreSQL has it run again."""

        async def once(connection: Connection) -> tuple[_Batch, Rejudged]:
            counted = Rejudged()
            return await work(connection, counted), counted

        batch, counted = await self.database.transaction(name, once)
        self.done.removed.update(counted.removed)
        self.done.accepted += counted.accepted
        return batch

    async def judged(
        self, connection: Connection, items: Iterable[_Stored], counted: Rejudged
    ) -> list[_Judged[_Stored]]:
        """Judge a batch, one server's after the other's; bury what is refused, keep what is open."""
        by_source: dict[str, list[_Stored]] = defaultdict(list)
        for one in items:
            by_source[one.source].append(one)
        parts = []
        for source, theirs in by_source.items():
            rows = self.read(theirs)
            verdicts: Sequence[Verdict] = [Worth.FIRM] * len(rows)
            judgement = Judgement(verdicts)
            if self.judge is not None:
                judgement = await self.judge.judge(connection, rows, source, now=self.now)
            part = _Judged(source, theirs, rows, judgement)
            await self._bury(connection, part, counted)
            await self._keep_open_questions(connection, part)
            parts.append(part)
        return parts

    async def _bury(self, connection: Connection, part: _Judged[_Stored], counted: Rejudged) -> None:
        refused = [
            (row, verdict)
            for row, verdict in zip(part.rows, part.judgement.verdicts, strict=True)
            if isinstance(verdict, Refusal) and verdict is not Refusal.UNKNOWN_DOCUMENT
        ]
        if refused:
            counted.removed.update(verdict.value for _, verdict in refused)
            letters = [
                dead_letter(row, counted_as(row, self.schemas), verdict)
                for row, verdict in refused
                if isinstance(row, Commit)
            ]
            await keep_dead_letters(connection, part.source, letters, now=self.now)
            await count_rejected(connection, part.source, len(refused))

    async def _keep_open_questions(self, connection: Connection, part: _Judged[_Stored]) -> None:
        open_owners = {
            owner_of_commit(row)
            for row, verdict in zip(part.rows, part.judgement.verdicts, strict=True)
            if isinstance(row, Commit) and verdict is Worth.PROVISIONAL
        }
        waiting = [
            Waiting(
                hashlib.sha256(part.items[at].signed.encode()).digest(),
                awaited.uri,
                awaited.is_enactment,
                part.items[at].signed,
                accepted=isinstance(part.judgement.verdicts[at], Worth),
            )
            for at, awaited in part.judgement.awaited.items()
        ]
        questions = Changes(part.source, unresolved=open_owners, set_aside=open_owners, waiting=waiting)
        await keep_open_questions(connection, questions, now=self.now)


@dataclass(slots=True)
class _Entities:
    bench: _Bench
    after: str = ""

    async def batch(self) -> Sequence[stored.StoredEntity]:
        items = await self.bench.transaction("judge_entities", self._work)
        if items:
            self.after = items[-1].ccid
        return items

    async def _work(self, connection: Connection, counted: Rejudged) -> list[stored.StoredEntity]:
        items = await stored.entities_after(connection, self.after, limit=BATCH)
        await lock_owners(connection, Needs(settled_owners=[one.ccid for one in items]))
        rows = self.bench.read(items)
        named = {row.domain for row in rows if isinstance(row, Commit) and row.domain is not None}
        moved = await moved_domains(connection, named)
        holding: set[int] = set()
        if self.bench.judge is not None:
            prover = self.bench.judge.prover
            proofs = await prover.prove(connection, rows, range(len(rows)), now=self.bench.now)
            holding = {position for position, fault in proofs.faults.items() if fault is None}
        for position, (one, row) in enumerate(zip(items, rows, strict=True)):
            standing = self._standing(one, row, moved, holds=position in holding)
            await stored.judge_entity(connection, one, standing)
            if standing is None:
                counted.removed[Refusal.UNPROVEN_ENTITY.value] += 1
                await stored.read_again(connection, [(one.ccid, one.ccid)], now=self.bench.now)
        return items

    def _standing(
        self, one: stored.StoredEntity, row: Row, moved: Mapping[str, str], *, holds: bool
    ) -> EntityStanding | None:
        """How sure the entity is now; None when it does not count at all. A document says the old name."""
        judge = self.bench.judge
        if judge is None:
            return EntityStanding.CLAIMED
        if not isinstance(row, Commit) or row.kind is not Kind.ENTITY:
            return None
        if holds:
            return EntityStanding.PROVEN
        if one.standing is EntityStanding.ANSWERED:
            return EntityStanding.ANSWERED
        assert row.domain is not None
        claims_itself = moved.get(row.domain, row.domain) == one.source and judge.mode is not TrustMode.STRICT
        return EntityStanding.CLAIMED if claims_itself else None


@dataclass(slots=True)
class _Deletes:
    bench: _Bench
    after: str = ""

    async def batch(self) -> Sequence[stored.StoredDelete]:
        items, worth_more = await self.bench.transaction("judge_deletes", self._work)
        for source, rows in worth_more:
            await self.bench.writer.write_again(rows, source, now=self.bench.now)
        if items:
            self.after = items[-1].cdid
        return items

    async def _work(
        self, connection: Connection, counted: Rejudged
    ) -> tuple[list[stored.StoredDelete], list[tuple[str, list[Row]]]]:
        items = await stored.deletes_after(connection, self.after, limit=BATCH)
        await lock_owners(connection, Needs(deleting_owners={one.owner for one in items}))
        worth_more = []
        for part in await self.bench.judged(connection, items, counted):
            if part.refused:
                await stored.remove_deletes(connection, part.refused)
            limits = {one.cdid: _limits(worth) for one, worth in part.worths}
            stands = {one.cdid: (one.provisional, one.only_author) for one in part.items}
            lowered = {cdid: limit for cdid, limit in limits.items() if limit > stands[cdid]}
            if lowered:
                await stored.limit_deletes(connection, lowered)
            raised = {cdid for cdid, limit in limits.items() if limit < stands[cdid]}
            if raised:
                rows = [row for one, row in zip(part.items, part.rows, strict=True) if one.cdid in raised]
                worth_more.append((part.source, rows))
            lost = [one for one in part.items if one in part.refused or one.cdid in lowered]
            await stored.read_again(connection, [(one.owner, one.owner) for one in lost], now=self.bench.now)
        return items, worth_more


def _limits(worth: Worth) -> tuple[bool, bool]:
    """(provisional, only for its author): the greater, the less it is worth."""
    return worth is Worth.PROVISIONAL, worth is Worth.ONLY_AUTHOR


@dataclass(slots=True)
class _Records:
    bench: _Bench
    after: str = ""

    async def batch(self) -> Sequence[stored.StoredRecord]:
        items = await self.bench.transaction("judge_records", self._work)
        if items:
            self.after = items[-1].key
        return items

    async def _work(self, connection: Connection, counted: Rejudged) -> list[stored.StoredRecord]:
        bench = self.bench
        items = await stored.records_after(connection, self.after, limit=BATCH)
        await lock_owners(connection, Needs(deleting_owners={one.owner for one in items}))
        for part in await bench.judged(connection, items, counted):
            await stored.judge_records(
                connection, {one: worth is Worth.PROVISIONAL for one, worth in part.worths}
            )
            if refused := part.refused:
                indexed = sorted(bench.schemas.indexed)
                await stored.remove_records(connection, refused, indexed_schemas=indexed, now=bench.now)
                again = [(one.owner, one.owner) for one in refused]
                await stored.read_again(connection, again, now=bench.now)
        return items


@dataclass(slots=True)
class _Follows:
    bench: _Bench
    after: tuple[str, str, str] = ("", "", "")

    async def batch(self) -> Sequence[stored.StoredFollow]:
        items = await self.bench.transaction("judge_follows", self._work)
        if items:
            self.after = (items[-1].acker, items[-1].ackee, items[-1].schema)
        return items

    async def _work(self, connection: Connection, counted: Rejudged) -> list[stored.StoredFollow]:
        items = await stored.follows_after(connection, self.after, limit=BATCH)
        await lock_owners(connection, Needs(settled_owners={one.acker for one in items}))
        for part in await self.bench.judged(connection, items, counted):
            provisional = {one: worth is Worth.PROVISIONAL for one, worth in part.worths}
            await stored.judge_follows(connection, provisional)
            if refused := part.refused:
                await stored.remove_follows(connection, refused)
                # Servers list a follow under the one who is followed.
                again = [(one.ackee, one.acker) for one in refused]
                await stored.read_again(connection, again, now=self.bench.now)
        return items


@dataclass(slots=True)
class _ProvisionalFollows:
    """What several servers said provisionally of one follow."""

    bench: _Bench
    after: tuple[str, str, str, str] = ("", "", "", "")

    async def batch(self) -> Sequence[stored.StoredFollow]:
        items = await self.bench.transaction("judge_provisional_follows", self._work)
        if items:
            last = items[-1]
            self.after = (last.acker, last.ackee, last.schema, last.source)
        return items

    async def _work(self, connection: Connection, counted: Rejudged) -> list[stored.StoredFollow]:
        items = await stored.provisional_follows_after(connection, self.after, limit=BATCH)
        await lock_owners(connection, Needs(settled_owners={one.acker for one in items}))
        for part in await self.bench.judged(connection, items, counted):
            settled = [one for one, worth in part.worths if worth is not Worth.PROVISIONAL]
            rows = [row for one, row in zip(part.items, part.rows, strict=True) if one in settled]
            if rows:
                await self.bench.writer.apply_again(connection, rows, part.source, now=self.bench.now)
            await stored.remove_provisional_follows(connection, [*settled, *part.refused])
        return items


@dataclass(slots=True)
class _Rejected:
    """Dead letters of what was rejected: what is accepted now is none any more."""

    bench: _Bench
    after: int = 0

    async def batch(self) -> Sequence[stored.RejectedLetter]:
        items = await self.bench.transaction("judge_rejected", self._work)
        if items:
            self.after = items[-1].id
        return items

    async def _work(self, connection: Connection, counted: Rejudged) -> list[stored.RejectedLetter]:
        bench = self.bench
        items = await stored.rejected_after(connection, self.after, _REASONS, limit=BATCH)
        by_source: dict[str, list[stored.RejectedLetter]] = defaultdict(list)
        for letter in items:
            by_source[letter.domain].append(letter)
        pairs_of = {source: self._rows(letters) for source, letters in by_source.items()}
        await bench.writer.lock(connection, [row for pairs in pairs_of.values() for _, row in pairs])
        for source, pairs in pairs_of.items():
            rows = [row for _, row in pairs]
            changes = await bench.writer.apply_again(connection, rows, source, now=bench.now)
            still = {one.digest for one in changes.dead_letters}
            accepted = [letter for letter, _ in pairs if letter.digest not in still]
            await stored.drop_letters(connection, accepted)
            counted.accepted += len(accepted)
        return items

    def _rows(self, letters: Sequence[stored.RejectedLetter]) -> list[tuple[stored.RejectedLetter, Row]]:
        """The commits that were kept whole."""
        commits = [letter.commit.encode() for letter in letters]
        indexed = self.bench.schemas.malformed_kinds
        rows = read_rows(commits, now=self.bench.now, indexed=indexed).rows
        return [pair for pair in zip(letters, rows, strict=True) if isinstance(pair[1], Commit)]
