"""Planning a page: commits in, changes out. Pure: no clock, no I/O.

`needs(rows)` says what the plan has to know of the stored state; `plan(rows, context, ...)` nets the page out
(last write per key, deletes, follows) into `Changes`, so that applying it is a handful of set-based
statements. Planning a page and applying it equals planning and applying its commits one at a time.

The rules are those of behaviour.md section 3:

* Within one feed log order decides. A row past the ones read before wins over whatever its own feed said
  of the key, whatever the createdAt.
* Rows that were read before (`behind` of them, at the head of the page: overlap re-reads them) and documents
  that other servers sent are settled by createdAt, then CDID: what is not newer than the stored document or
  than a delete that covers its key changes nothing, but may tell that the key is older than was known.
* A document that was asked for by hand is settled by createdAt too, until its feed has brought it.
* What a commit is worth is given (`Judgement`, made by `trust.py`): rejected ones are counted and buried,
  others are firm, provisional or limited. Without a judgement every commit is firm.
* A document that was replaced or removed once (it is *retired*) never returns, and a delete that was applied
  once removes nothing again. So reading again changes nothing, wherever it begins.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indexer.concrnt.documents import (
    Commit,
    Kind,
    Malformed,
    MalformedKind,
    Reason,
)
from indexer.concrnt.identifiers import is_ccid, is_domain_owner
from indexer.concrnt.uri import Scope, compose_document, owner_of
from indexer.mirror.changes import (
    AckTransition,
    Changes,
    DeadLetter,
    EntityPut,
    EntityStanding,
    LeftHome,
    Tally,
    Waiting,
)
from indexer.mirror.context import Context, Needs
from indexer.replication.netting import Netting, Reading, target_uri
from indexer.replication.trust import Refusal, Worth, owner_of_commit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from indexer.replication.page import Row
    from indexer.replication.proving import Awaited
    from indexer.replication.trust import Judgement, Verdict


@dataclass(frozen=True, slots=True)
class Schemas:
    """The configured schema URLs, by what they mean."""

    profiles: frozenset[str]
    communities: frozenset[str]
    posts: frozenset[str]
    acks: frozenset[str]

    @property
    def malformed_kinds(self) -> dict[str, MalformedKind]:
        """What a malformed record of each indexed schema counts as."""
        kinds = {
            MalformedKind.PROFILE: self.profiles,
            MalformedKind.COMMUNITY: self.communities,
            MalformedKind.POST: self.posts,
        }
        return {schema: kind for kind, schemas in kinds.items() for schema in schemas}

    @property
    def indexed(self) -> frozenset[str]:
        """Every schema that has a search index."""
        return self.profiles | self.communities | self.posts

    def kind_of(self, schema: str) -> str | None:
        """The metric's kind of a record with this schema: `user`, `community`, `post` or None."""
        if schema in self.profiles:
            return "user"
        if schema in self.communities:
            return "community"
        return "post" if schema in self.posts else None


def needs(rows: Sequence[Row]) -> Needs:
    """What planning these rows has to know of the stored state."""
    keys: set[str] = set()
    cdids: set[str] = set()
    delete_cdids: set[str] = set()
    documents: set[tuple[str, str]] = set()
    covered: set[str] = set()
    owners: set[str] = set()
    deleting_owners: set[str] = set()
    speakers: set[str] = set()
    settled: set[str] = set()
    domains: set[str] = set()
    for row in rows:
        if not isinstance(row, Commit):
            continue
        if row.kind is Kind.RECORD and row.key is not None:
            keys.add(row.key.key)
            cdids.add(row.cdid)
            owners.add(row.key.owner)
            covered |= {row.key.key, compose_document(row.key.owner, row.cdid)}
            if row.href is not None:
                owners.add(owner_of(row.href))
                covered.add(row.href)
                if row.href.startswith("ccfs:"):
                    cdids.add(row.href.rpartition("/")[2])
        elif row.kind is Kind.ENTITY:
            settled.add(row.author)
            domains.add(row.domain or "")
        elif row.kind is not Kind.DELETE:
            speakers.add(row.author)
        elif row.target is not None:
            delete_cdids.add(row.cdid)
            deleting_owners.add(row.target.owner)
            if row.target.scope is Scope.KEY:
                keys.add(target_uri(row.target))
            elif row.target.scope is Scope.DOCUMENT:
                documents.add((row.target.owner, row.target.cdid or ""))
    domains |= {owner for owner in owners if is_domain_owner(owner)}
    return Needs(
        keys, cdids, delete_cdids, documents, covered, owners, deleting_owners, speakers, settled, domains
    )


def plan(
    rows: Sequence[Row],
    context: Context,
    *,
    source: str,
    behind: int,
    schemas: Schemas,
    judgement: Judgement | None = None,
    reading: Reading = Reading.FEED,
) -> Changes:
    """Net a page out. `rows` are in log order, the first `behind` of them were read before.

    `source` is the server whose feed this is. A community of a person is malformed (section 3, rule 7).
    `judgement` says what each row is worth; without one (`trust.mode: off`) everybody is believed. Rows that
    are no page of the feed (`reading`) were all read before.
    """
    page = _Page(source, schemas, Netting(context, source, reading), is_judged=judgement is not None)
    if judgement is not None:
        page.left_homes = judgement.left_homes
    for position, row in enumerate(rows):
        read_before = position < behind
        if judgement is None:
            page.take(row, read_before=read_before)
        else:
            entity = judgement.entities.get(position)
            if (awaited := judgement.awaited.get(position)) is not None and isinstance(row, Commit):
                page.wait(row, awaited, accepted=isinstance(judgement.verdicts[position], Worth))
            page.take(row, read_before=read_before, verdict=judgement.verdicts[position], entity=entity)
    return page.changes()


@dataclass(slots=True)
class _Page:
    source: str
    schemas: Schemas
    netting: Netting
    is_judged: bool = False
    acks: dict[tuple[str, str, str], AckTransition] = field(default_factory=dict)
    entities: dict[str, EntityPut] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    malformed: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    unresolved: set[str] = field(default_factory=set)
    set_aside: set[str] = field(default_factory=set)
    waiting: list[Waiting] = field(default_factory=list)
    left_homes: Sequence[LeftHome] = ()
    commits: int = 0
    latest_post_at: datetime | None = None

    def take(
        self,
        row: Row,
        *,
        read_before: bool,
        verdict: Verdict = Worth.FIRM,
        entity: EntityPut | None = None,
    ) -> None:
        if isinstance(row, Malformed):
            letter = DeadLetter(row.digest, row.kind.value, row.reason.value, row.text)
            self._bury(letter, read_before=read_before)
            return
        if isinstance(row, Commit) and self._is_community_of_a_person(row):
            letter = dead_letter(row, MalformedKind.COMMUNITY, Reason.COMMUNITY_OF_A_PERSON)
            self._bury(letter, read_before=read_before)
            return
        kinds: tuple[str, ...] = ("ignored",)
        if isinstance(row, Commit):
            if isinstance(verdict, Worth):
                applied = self._apply(row, verdict, entity, read_before=read_before)
                verdict = verdict if applied is not None else Refusal.NOT_OWNER
                kinds = applied or kinds
            if isinstance(verdict, Refusal):
                self._reject(row, verdict, read_before=read_before)
                return
        if read_before:
            return
        self.commits += 1
        self.kinds.update(kinds)
        if "post" in kinds and isinstance(row, Commit):
            self.latest_post_at = max(self.latest_post_at or row.created_at, row.created_at)

    def _apply(
        self, commit: Commit, worth: Worth, entity: EntityPut | None, *, read_before: bool
    ) -> tuple[str, ...] | None:
        """Take one commit; returns the kinds that it counts as, None when its author may not do this."""
        if worth is Worth.PROVISIONAL:
            self.unresolved.add(owner_of_commit(commit))
        if commit.kind is Kind.RECORD:
            self.netting.put(commit, read_before=read_before, worth=worth)
            return self._kinds_of(commit)
        if commit.kind is Kind.DELETE:
            taken = self.netting.delete(commit, read_before=read_before, worth=worth)
            return ("delete",) if taken else None
        if commit.kind is Kind.ENTITY:
            self._entity(commit, entity)
            return ("ignored",)
        if commit.schema in self.schemas.acks:
            self._ack(commit, worth)
            return ("ack",)
        return ("ignored",)

    def _reject(self, commit: Commit, refusal: Refusal, *, read_before: bool) -> None:
        """Count and bury what trust refuses; what may yet turn out to be right is noted."""
        if refusal is not Refusal.UNKNOWN_DOCUMENT:
            self.dead_letters.append(dead_letter(commit, counted_as(commit, self.schemas), refusal))
            if is_ccid(owner := owner_of_commit(commit)) and commit.kind is not Kind.ENTITY:
                self.set_aside.add(owner)
        if read_before:
            return
        self.commits += 1
        if refusal is Refusal.UNKNOWN_DOCUMENT:
            self.kinds["ignored"] += 1
        else:
            self.rejected[refusal.value] += 1

    def wait(self, commit: Commit, awaited: Awaited, *, accepted: bool) -> None:
        """The commit is to be judged when the document has come; who has it may have to be found out."""
        digest = hashlib.sha256(commit.signed.encode()).digest()
        self.waiting.append(Waiting(digest, awaited.uri, awaited.is_enactment, commit.signed, accepted))
        if awaited.is_enactment and is_ccid(owner := owner_of(awaited.uri)):
            self.unresolved.add(owner)

    def _kinds_of(self, commit: Commit) -> tuple[str, ...]:
        assert commit.key is not None
        kinds = []
        if (kind := self.schemas.kind_of(commit.schema)) is not None:
            kinds.append(kind)
        if is_domain_owner(commit.key.owner) and len(commit.key.steps) > 1:
            kinds.append("entry")
        return tuple(kinds) or ("ignored",)

    def _is_community_of_a_person(self, commit: Commit) -> bool:
        return (
            commit.kind is Kind.RECORD
            and commit.schema in self.schemas.communities
            and commit.key is not None
            and not is_domain_owner(commit.key.owner)
        )

    def _bury(self, letter: DeadLetter, *, read_before: bool) -> None:
        self.dead_letters.append(letter)
        if not read_before:
            self.commits += 1
            self.malformed[letter.kind] += 1

    def _ack(self, commit: Commit, worth: Worth) -> None:
        """The page's newest say of a pair stands; the first of equal ones, for equal times change nothing.

        What is provisional gives way to what is not.
        """
        assert commit.associate is not None
        pair = (commit.author, commit.associate.owner, commit.schema)
        provisional = worth is Worth.PROVISIONAL
        known = self.acks.get(pair)
        if known is not None and provisional and not known.provisional:
            return
        if known is None or commit.created_at > known.created_at or (known.provisional and not provisional):
            valid = commit.kind in (Kind.ACK, Kind.ACKED)
            self.acks[pair] = AckTransition(
                *pair, valid, commit.created_at, commit.cdid, commit.signed, provisional
            )

    def _entity(self, commit: Commit, judged: EntityPut | None) -> None:
        """The newest of a person stands; where rows are judged, that was decided there."""
        known = self.entities.get(commit.author)
        if judged is not None:
            self.entities[commit.author] = judged
            if judged.standing is not EntityStanding.CLAIMED:
                self.netting.settle_home(commit.author, judged.domain, (commit.created_at, commit.cdid))
        elif not self.is_judged and (
            known is None or (commit.created_at, commit.cdid) > (known.created_at, known.cdid)
        ):
            assert commit.domain is not None
            self.entities[commit.author] = EntityPut(
                commit.author, commit.domain, commit.created_at, commit.cdid, commit.signed
            )
            self.netting.move_home(commit.author, commit.domain, (commit.created_at, commit.cdid))

    def changes(self) -> Changes:
        netting = self.netting
        retirements, tombstones = netting.memory()
        sweeps, referred = netting.sweeps()
        return Changes(
            source=self.source,
            page_keys=netting.keys,
            known_keys=netting.context.heads.keys(),
            puts=netting.puts(),
            removed_keys=netting.removed_keys(),
            first_created=netting.lowered(),
            restarted=netting.restarted(),
            retirements=retirements,
            tombstones=tombstones,
            sweeps=sweeps,
            referred=referred,
            acks=list(self.acks.values()),
            entities=list(self.entities.values()),
            dead_letters=self.dead_letters,
            marks=netting.marks(self.schemas.indexed),
            unresolved=self.unresolved,
            set_aside=self.set_aside | netting.set_aside,
            waiting=self.waiting,
            left_homes=self.left_homes,
            tally=Tally(self.commits, self.kinds, self.malformed, self.latest_post_at, self.rejected),
        )


def dead_letter(commit: Commit, kind: MalformedKind, reason: Reason | Refusal) -> DeadLetter:
    """The dead letter of a commit that is well-formed and can not be used all the same."""
    return DeadLetter.of_commit(commit.signed, kind.value, reason.value)


def counted_as(commit: Commit, schemas: Schemas) -> MalformedKind:
    """What a commit that can not be used counts as."""
    if commit.kind is Kind.DELETE:
        return MalformedKind.DELETE
    if commit.kind is Kind.ENTITY:
        return MalformedKind.COMMIT
    if commit.kind is not Kind.RECORD:
        return MalformedKind.ACK
    return schemas.malformed_kinds.get(commit.schema, MalformedKind.COMMIT)
