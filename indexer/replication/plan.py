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
* A document that was replaced or removed once (it is *retired*) never returns, and a delete that was applied
  once removes nothing again. So reading again changes nothing, wherever it begins.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indexer.concrnt.documents import (
    MAX_DEAD_LETTER_CHARACTERS,
    Commit,
    Kind,
    Malformed,
    MalformedKind,
    Reason,
)
from indexer.concrnt.identifiers import is_domain_owner
from indexer.concrnt.uri import Scope, compose_document, owner_of
from indexer.mirror.changes import AckTransition, Changes, DeadLetter, EntityPut, Tally
from indexer.mirror.context import Context, Needs
from indexer.replication.netting import Netting, target_uri

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from indexer.replication.page import Row


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
        elif row.kind is Kind.DELETE and row.target is not None:
            delete_cdids.add(row.cdid)
            deleting_owners.add(row.target.owner)
            if row.target.scope is Scope.KEY:
                keys.add(target_uri(row.target))
            elif row.target.scope is Scope.DOCUMENT:
                documents.add((row.target.owner, row.target.cdid or ""))
    return Needs(keys, cdids, delete_cdids, documents, covered, owners, deleting_owners)


def plan(rows: Sequence[Row], context: Context, *, source: str, behind: int, schemas: Schemas) -> Changes:
    """Net a page out. `rows` are in log order, the first `behind` of them were read before.

    `source` is the server whose feed this is. A community of a person is malformed (section 3, rule 7).
    """
    page = _Page(source, schemas, Netting(context, source))
    for position, row in enumerate(rows):
        page.take(row, read_before=position < behind)
    return page.changes()


@dataclass(slots=True)
class _Page:
    source: str
    schemas: Schemas
    netting: Netting
    acks: dict[tuple[str, str, str], AckTransition] = field(default_factory=dict)
    entities: dict[str, EntityPut] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    malformed: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    latest_post_at: datetime | None = None

    def take(self, row: Row, *, read_before: bool) -> None:
        if isinstance(row, Malformed):
            letter = DeadLetter(row.digest, row.kind.value, row.reason.value, row.text)
            self._bury(letter, read_before=read_before)
            return
        if isinstance(row, Commit) and self._is_community_of_a_person(row):
            letter = dead_letter(row, MalformedKind.COMMUNITY, Reason.COMMUNITY_OF_A_PERSON)
            self._bury(letter, read_before=read_before)
            return
        kinds = self._apply(row, read_before=read_before) if isinstance(row, Commit) else ("ignored",)
        if read_before:
            return
        self.commits += 1
        self.kinds.update(kinds)
        if "post" in kinds and isinstance(row, Commit):
            self.latest_post_at = max(self.latest_post_at or row.created_at, row.created_at)

    def _apply(self, commit: Commit, *, read_before: bool) -> tuple[str, ...]:
        """Take one commit; returns the kinds that it counts as."""
        if commit.kind is Kind.RECORD:
            self.netting.put(commit, read_before=read_before)
            return self._kinds_of(commit)
        if commit.kind is Kind.DELETE:
            self.netting.delete(commit, read_before=read_before)
            return ("delete",)
        if commit.kind is Kind.ENTITY:
            self._entity(commit)
            return ("ignored",)
        if commit.schema in self.schemas.acks:
            self._ack(commit)
            return ("ack",)
        return ("ignored",)

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

    def _ack(self, commit: Commit) -> None:
        """The page's newest say of a pair stands; the first of equal ones, for equal times change nothing."""
        assert commit.associate is not None
        pair = (commit.author, commit.associate.owner, commit.schema)
        known = self.acks.get(pair)
        if known is None or commit.created_at > known.created_at:
            valid = commit.kind in (Kind.ACK, Kind.ACKED)
            self.acks[pair] = AckTransition(*pair, valid, commit.created_at, commit.cdid)

    def _entity(self, commit: Commit) -> None:
        known = self.entities.get(commit.author)
        if known is None or (commit.created_at, commit.cdid) > (known.created_at, known.cdid):
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
            retirements=retirements,
            tombstones=tombstones,
            sweeps=sweeps,
            referred=referred,
            acks=list(self.acks.values()),
            entities=list(self.entities.values()),
            dead_letters=self.dead_letters,
            marks=netting.marks(self.schemas.indexed),
            tally=Tally(self.commits, self.kinds, self.malformed, self.latest_post_at),
        )


def dead_letter(commit: Commit, kind: MalformedKind, reason: Reason) -> DeadLetter:
    """The dead letter of a commit that is well-formed and can not be used all the same."""
    return DeadLetter(
        hashlib.sha256(commit.signed.encode()).digest(),
        kind.value,
        reason.value,
        commit.signed.encode("ascii", "backslashreplace").decode()[:MAX_DEAD_LETTER_CHARACTERS],
    )
