"""Judging again what is stored, after `trust.mode` changed: part of a rebuild.

Goes through entities first, then records, in batches of one transaction each; a crash leaves the batches
done, and beginning again changes nothing. Documents that no longer count go from the mirror and, by their
marks, from the search engine; those that wait for a document or for a look-up are judged again in the
background, as if they had just been read.

What it can not do, for the mirror keeps no document of them: follows and deletes stay as they were taken, and
what was refused or removed comes back only by reading feeds again (`servers reset`).
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indexer.concrnt.documents import Commit, Kind, parse_commit
from indexer.mirror.changes import Changes, EntityStanding, Waiting
from indexer.mirror.context import Needs, lock_owners
from indexer.mirror.trust import (
    StoredEntity,
    StoredRecord,
    entities_after,
    judge_entity,
    judge_records,
    keep_open_questions,
    records_after,
)
from indexer.replication.trust import Refusal, TrustMode, Worth

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from indexer.mirror.database import Connection, Database
    from indexer.replication.judge import Judge
    from indexer.replication.plan import Schemas

BATCH = 500


@dataclass(slots=True)
class Rejudged:
    """What was done: how many were judged, and removed by reason."""

    entities: int = 0
    records: int = 0
    removed: Counter[str] = field(default_factory=Counter)


async def judge_stored(database: Database, judge: Judge, schemas: Schemas, *, now: datetime) -> Rejudged:
    """Judge every entity and every record again. Raises `StoreUnavailable`."""
    done = Rejudged()
    after: str | None = ""
    while after is not None:
        after = await _batch(database, "judge_entities", _Entities(judge, schemas, now, done), after)
    after = ""
    while after is not None:
        after = await _batch(database, "judge_records", _Records(judge, schemas, now, done), after)
    return done


async def _batch(database: Database, name: str, errand: _Entities | _Records, after: str) -> str | None:
    async def work(connection: Connection) -> str | None:
        return await errand.work(connection, after)

    return await database.transaction(name, work)


@dataclass(frozen=True, slots=True)
class _Entities:
    judge: Judge
    schemas: Schemas
    now: datetime
    done: Rejudged

    async def work(self, connection: Connection, after: str) -> str | None:
        stored = await entities_after(connection, after, limit=BATCH)
        await lock_owners(connection, Needs(settled_owners=[one.ccid for one in stored]))
        rows = [parse_commit(one.signed, now=self.now, indexed={}) for one in stored]
        proofs = await self.judge.prover.prove(connection, rows, range(len(rows)), now=self.now)
        for position, (one, row) in enumerate(zip(stored, rows, strict=True)):
            holds = position in proofs.faults and proofs.faults[position] is None
            await judge_entity(connection, one, self._standing(one, row, holds=holds))
        self.done.entities += len(stored)
        return stored[-1].ccid if len(stored) == BATCH else None

    def _standing(self, one: StoredEntity, row: object, *, holds: bool) -> EntityStanding | None:
        """How sure the entity is now; None when it does not count at all."""
        if not isinstance(row, Commit) or row.kind is not Kind.ENTITY:
            return None
        if holds:
            return EntityStanding.PROVEN
        if one.standing is EntityStanding.ANSWERED:
            return EntityStanding.ANSWERED
        claims_itself = row.domain == one.source and self.judge.mode is not TrustMode.STRICT
        return EntityStanding.CLAIMED if claims_itself else None


@dataclass(frozen=True, slots=True)
class _Records:
    judge: Judge
    schemas: Schemas
    now: datetime
    done: Rejudged

    async def work(self, connection: Connection, after: str) -> str | None:
        stored = await records_after(connection, after, limit=BATCH)
        await lock_owners(connection, Needs(deleting_owners={one.owner for one in stored}))
        by_source: dict[str, list[StoredRecord]] = defaultdict(list)
        for one in stored:
            by_source[one.source].append(one)
        for source, records in by_source.items():
            await self._judge(connection, source, records)
        self.done.records += len(stored)
        return stored[-1].key if len(stored) == BATCH else None

    async def _judge(self, connection: Connection, source: str, records: Sequence[StoredRecord]) -> None:
        rows = [parse_commit(one.signed, now=self.now, indexed={}) for one in records]
        judgement = await self.judge.judge(connection, rows, source, now=self.now)
        verdicts = list(zip(records, judgement.verdicts, strict=True))
        refused = [(one, verdict) for one, verdict in verdicts if isinstance(verdict, Refusal)]
        provisional = {one.owner for one, verdict in verdicts if verdict is Worth.PROVISIONAL}
        self.done.removed.update(verdict.value for _, verdict in refused)
        await judge_records(
            connection,
            source,
            worths={one: verdict is Worth.PROVISIONAL for one, verdict in verdicts if verdict in Worth},
            refused=[one for one, _ in refused],
            indexed_schemas=sorted(self.schemas.indexed),
            now=self.now,
        )
        waiting = [
            Waiting(
                hashlib.sha256(records[at].signed.encode()).digest(),
                awaited.uri,
                awaited.is_enactment,
                records[at].signed,
            )
            for at, awaited in judgement.awaited.items()
        ]
        open_questions = Changes(source, unresolved=provisional, waiting=waiting)
        await keep_open_questions(connection, open_questions, now=self.now)
