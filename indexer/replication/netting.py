"""Netting out the records and deletes of one page: what stands under each of its keys when it is done.

Pure. `Netting` starts from the stored heads of the page's keys and takes puts and deletes in log order; what
it ends with is the end state of those keys. What a delete does to keys outside the page is handed on as
range sweeps and referred hrefs.

A commit comes with what it is worth (`Worth`, see `trust.py`). What is provisional gives way to what is not,
whatever the createdAt; it touches only what its own source said as provisionally, and leaves no memory that
could bar anything firm. A delete by somebody else than the owner touches its author's records only. Log order
decides only in a feed that speaks for the owner: what counts for its proof alone may have been put into any
order by whoever shows it, so createdAt settles it, as between servers.

A document that was asked for by hand is *ahead* of its feed until the feed brings it: createdAt settles it
with what the feed brings meanwhile, as if another server had sent it. What wins over it leaves no memory of
it, for the feed may bring it yet; what it wins over is retired: the feed has gone past that (decisions/0025).

A delete that is older than what stands under a key ends the life before it all the same: a first createdAt
that is not newer than it was of that life, and is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from indexer.concrnt.uri import DeleteTarget, Scope, compose_document, covering_targets, owner_of
from indexer.mirror.changes import Mark, RangeSweep, RecordPut, Referred, Retirement, Tombstone
from indexer.mirror.context import Context, Head, Removal
from indexer.replication.trust import Worth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from indexer.concrnt.documents import Commit

Order = tuple["datetime", str]


class Reading(Enum):
    """How rows come."""

    FEED = auto()
    """As a page of the feed, whose turn it is."""
    AGAIN = auto()
    """Read again or judged later, in the order of the log, while the feed stands anywhere."""
    BY_HAND = auto()
    """A document was asked for, wherever it stands in the log."""


def target_uri(target: DeleteTarget) -> str:
    """How a delete's target is stored beside its scope: the canonical key, or the document's `ccfs` URI."""
    return target.key if target.key is not None else compose_document(target.owner, target.cdid or "")


@dataclass(slots=True)
class _Standing:
    head: Head
    commit: Commit | None  # None: as it stood before the page


@dataclass(slots=True)
class Netting:
    """The records of one page's keys while the page is worked through."""

    context: Context
    source: str
    reading: Reading = Reading.FEED
    _standing: dict[str, _Standing] = field(init=False)
    _lowered: dict[str, datetime] = field(default_factory=dict)
    _restarted: set[str] = field(default_factory=set)
    _retired: dict[tuple[str, str], Retirement] = field(default_factory=dict)
    _tombstones: dict[str, Tombstone] = field(default_factory=dict)
    _by_target: dict[str, list[Tombstone]] = field(init=False)
    _owners_with_deletes: set[str] = field(default_factory=set)
    _referring: dict[str, set[str]] = field(default_factory=dict)  # href → keys
    _lost_documents: list[Tombstone] = field(default_factory=list)
    _sweeps: list[RangeSweep] = field(default_factory=list)
    _referred: list[Referred] = field(default_factory=list)
    _keys: set[str] = field(default_factory=set)
    _homes: dict[str, tuple[str, Order]] = field(init=False)
    set_aside: set[str] = field(default_factory=set)
    """Owners of whom something provisional was not, or not wholly, applied."""

    def __post_init__(self) -> None:
        self._standing = {key: _Standing(head, None) for key, head in self.context.heads.items()}
        self._keys = set(self._standing)
        self._homes = dict(self.context.homes)
        self._by_target = {}
        for stone in self.context.tombstones:
            self._note_stone(stone)
        for head in self.context.heads.values():
            self._note_href(head)

    def _note_stone(self, stone: Tombstone) -> None:
        self._by_target.setdefault(stone.target, []).append(stone)
        self._owners_with_deletes.add(owner_of(stone.target))

    def _note_href(self, head: Head) -> None:
        if head.href is not None:
            self._referring.setdefault(head.href, set()).add(head.key)

    # --- records

    def put(self, commit: Commit, *, read_before: bool, worth: Worth = Worth.FIRM) -> None:
        """A record's document arrives (section 3, rules 1–3; section 4)."""
        assert commit.key is not None
        read_before = read_before or not worth.is_in_log_order
        key = commit.key.key
        self._keys.add(key)
        if self._is_retired(key, commit.cdid):
            return
        head = self._head(commit, provisional=worth is Worth.PROVISIONAL)
        standing = self._standing.get(key)
        if standing is not None and self._is_same(standing.head, head):
            self._confirm(standing, commit)
        elif not self._is_barred(head, read_before=read_before):
            self._stand_or_yield(standing, head, commit, read_before=read_before)

    def _is_same(self, standing: Head, head: Head) -> bool:
        return standing.cdid == head.cdid and standing.provisional is head.provisional

    def _stand_or_yield(
        self, standing: _Standing | None, head: Head, commit: Commit, *, read_before: bool
    ) -> None:
        """Decide between what stands under a key and what arrives."""
        if standing is None:
            self._stand(head, commit)
            return
        foreign = standing.head.source != self.source
        in_turn = not read_before and not foreign
        if head.provisional and (foreign or not standing.head.provisional):
            self.set_aside.add(head.owner)
        elif standing.head.provisional and not head.provisional:
            self._stand(head, commit)  # what was provisional there leaves no memory
        elif (not in_turn or standing.head.ahead) and _order(head) <= _order(standing.head):
            self._lower(standing, head.created_at)
            if in_turn or (self.reading is Reading.AGAIN and (foreign or standing.head.ahead)):
                self._retire(head, None)  # or its feed would bring it in order, over what is newer in its log
        else:
            first = min(standing.head.first_created_at, head.created_at)
            if not standing.head.ahead or self.reading is Reading.AGAIN:
                self._retire(standing.head, None)
            self._stand(replace(head, first_created_at=first), commit)

    def _stand(self, head: Head, commit: Commit) -> None:
        self._standing[head.key] = _Standing(head, commit)
        self._note_href(head)

    def _confirm(self, standing: _Standing, commit: Commit) -> None:
        """The same document again: the owner's own server becomes its source, its feed brings it in order."""
        head = standing.head
        confirmed = head
        if head.source == self.source:
            confirmed = replace(head, ahead=head.ahead and self.reading is not Reading.FEED)
        elif not head.provisional and self._is_home_of(head.owner):
            confirmed = replace(head, source=self.source, ahead=self.reading is Reading.BY_HAND)
        if confirmed != head:
            standing.head = confirmed
            standing.commit = commit

    def _is_home_of(self, owner: str) -> bool:
        home = self._homes.get(owner)
        return self._now(owner) == self.source or (home is not None and home[0] == self.source)

    def _now(self, domain: str) -> str:
        """Where a domain is now: itself, unless it has moved."""
        return self.context.moved.get(domain, domain)

    def move_home(self, person: str, domain: str, order: Order) -> None:
        """An entity document of the page says where a person lives; the newest counts."""
        known = self._homes.get(person)
        if known is None or order > known[1]:
            self.settle_home(person, self._now(domain), order)

    def settle_home(self, person: str, domain: str, order: Order) -> None:
        """It is decided that a person lives there from here on."""
        self._homes[person] = (domain, order)

    def _lower(self, standing: _Standing, created_at: datetime) -> None:
        if created_at < standing.head.first_created_at:
            standing.head = replace(standing.head, first_created_at=created_at)
            self._lowered[standing.head.key] = created_at

    def _head(self, commit: Commit, *, provisional: bool) -> Head:
        assert commit.key is not None
        return Head(
            key=commit.key.key,
            owner=commit.key.owner,
            author=commit.author,
            schema=commit.schema,
            href=commit.href,
            source=self.source,
            cdid=commit.cdid,
            created_at=commit.created_at,
            first_created_at=commit.created_at,
            provisional=provisional,
            ahead=self.reading is Reading.BY_HAND,
        )

    # --- memory of what went

    def _is_retired(self, key: str, cdid: str) -> bool:
        return (key, cdid) in self._retired or (key, cdid) in self.context.retired

    def _retire(self, head: Head, by: Tombstone | None) -> None:
        if head.provisional or (by is not None and by.provisional):
            return  # the same document may yet come from where its owner lives
        deleted_at, deleted_by = (by.created_at, by.cdid) if by else (None, None)
        self._retired[head.key, head.cdid] = Retirement(head.key, head.cdid, deleted_at, deleted_by)

    def _is_barred(self, head: Head, *, read_before: bool) -> bool:
        """A delete that covers the key, the document or the reference's href is not older than it.

        Within one feed, past the rows read before, what follows a delete lives whatever its createdAt.
        """
        uris = [head.key, compose_document(head.owner, head.cdid)]
        if head.href is not None:
            uris.append(head.href)
            if self._href_was_removed(head, read_before=read_before):
                return True
        for uri in uris:
            if owner_of(uri) not in self._owners_with_deletes:
                continue
            for stone in self._covering(uri):
                if stone.scope is Scope.DOCUMENT and uri == head.key:
                    continue  # the key lost one document, which is not this one
                if not _may_touch(stone, head, is_reference=uri == head.href):
                    continue
                in_log_order = stone.source == self.source and not read_before
                if not in_log_order and _order(head) <= (stone.created_at, stone.cdid):
                    return True
        return False

    def _covering(self, uri: str) -> Iterator[Tombstone]:
        for target in covering_targets(uri):
            for stone in self._by_target.get(target, ()):
                is_target = target == uri
                if stone.scope is Scope.TREE or is_target is (stone.scope is not Scope.BELOW):
                    yield stone

    def _href_was_removed(self, head: Head, *, read_before: bool) -> bool:
        """A reference to a document (by `ccfs`) that a delete took, not older than the reference."""
        assert head.href is not None
        removal = self.context.removed_documents.get(head.href.rpartition("/")[2])
        if not head.href.startswith("ccfs:") or removal is None:
            return False
        if not _may_touch(removal, head, is_reference=True):
            return False
        in_log_order = removal.source == self.source and not read_before
        return not in_log_order and _order(head) <= (removal.created_at, removal.cdid)

    # --- deletes

    def delete(self, commit: Commit, *, read_before: bool, worth: Worth = Worth.FIRM) -> bool:
        """A delete arrives (CIP-4; section 3, rule 3; section 4).

        Returns False when it is limited to its author's records and its target, one key or document, is none.
        """
        target = commit.target
        assert target is not None
        read_before = read_before or not worth.is_in_log_order
        uri = target_uri(target)
        if target.scope is Scope.KEY:
            self._keys.add(uri)
        stone = Tombstone(
            uri,
            target.scope,
            commit.created_at,
            commit.cdid,
            commit.author,
            self.source,
            provisional=worth is Worth.PROVISIONAL,
            only_author=worth is Worth.ONLY_AUTHOR,
            signed=commit.signed,
        )
        if worth not in (Worth.FIRM, Worth.FOR_ITS_PROOF):
            self.set_aside.add(target.owner)
        if self._is_known(stone):
            return True
        taken = [head for head in self._taken_by(target) if _may_touch(stone, head)]
        if stone.only_author and not taken and target.scope in (Scope.KEY, Scope.DOCUMENT):
            return False
        self._tombstones[commit.cdid] = stone
        self._note_stone(stone)
        in_log_order = not read_before
        hrefs = {uri} if target.scope in (Scope.KEY, Scope.DOCUMENT) else set()
        for head in taken:
            if self._goes_before(head, stone, in_log_order=in_log_order):
                self._remove(head, stone, in_log_order=in_log_order)
                hrefs |= {head.key, compose_document(head.owner, head.cdid)}
                if target.scope is Scope.DOCUMENT:
                    self._note_lost_document(head.key, stone)
            elif target.scope is not Scope.DOCUMENT:
                self._end_earlier_life(head, stone)
        for head in self._referring_to(target, hrefs):
            may_go = _may_touch(stone, head, is_reference=True)
            if may_go and self._goes_before(head, stone, in_log_order=in_log_order):
                self._remove(head, stone, in_log_order=in_log_order)
            elif may_go:
                self._end_earlier_life(head, stone)
        self._reach_out(stone, hrefs, in_log_order=in_log_order)
        return True

    def _is_known(self, stone: Tombstone) -> bool:
        """Whether the delete was applied before, and was worth as much then as now."""
        earlier = self._tombstones.get(stone.cdid)
        in_part = earlier is not None and (earlier.provisional or earlier.only_author)
        if earlier is None:
            known = self.context.known_deletes.get(stone.cdid)
            if known is None:
                return False
            in_part = known
        return not in_part or stone.provisional or stone.only_author

    def _reach_out(self, stone: Tombstone, hrefs: set[str], *, in_log_order: bool) -> None:
        """Hand on what a delete asks of keys outside the page."""
        only_author = stone.author if stone.only_author else None
        limits = (in_log_order, stone.provisional, only_author)
        if stone.scope in (Scope.BELOW, Scope.TREE):
            include_target = stone.scope is Scope.TREE
            self._sweeps.append(
                RangeSweep(stone.target, include_target, stone.created_at, stone.cdid, *limits)
            )
        self._referred += [Referred(href, stone.created_at, stone.cdid, *limits) for href in sorted(hrefs)]

    def _taken_by(self, target: DeleteTarget) -> list[Head]:
        """The page's standing heads that a target names."""
        if target.scope is Scope.KEY:
            standing = self._standing.get(target_uri(target))
            return [] if standing is None else [standing.head]
        heads = [standing.head for standing in self._standing.values()]
        return [h for h in heads if target.covers(h.key) or target.covers_document(h.owner, h.cdid)]

    def _referring_to(self, target: DeleteTarget, hrefs: set[str]) -> list[Head]:
        """The page's standing references to what a target names, or to one of these hrefs."""
        pointed_at = hrefs & self._referring.keys()
        if target.scope in (Scope.BELOW, Scope.TREE):
            pointed_at |= {href for href in self._referring if href[:5] == "cckv:" and target.covers(href)}
        keys = sorted({key for href in pointed_at for key in self._referring[href]})
        heads = [self._standing[key].head for key in keys if key in self._standing]
        return [head for head in heads if head.href in pointed_at]

    def _note_lost_document(self, key: str, stone: Tombstone) -> None:
        """References point at a post by its key: those that come later are barred by a tombstone there."""
        lost = replace(stone, target=key, signed=None)
        self._lost_documents.append(lost)
        self._note_stone(lost)

    def _goes_before(self, head: Head, stone: Tombstone, *, in_log_order: bool) -> bool:
        """What came before the delete in its own feed goes; of other feeds what is not newer."""
        came_before = in_log_order and head.source == self.source and not head.ahead
        return came_before or _order(head) <= (stone.created_at, stone.cdid)

    def _remove(self, head: Head, stone: Tombstone, *, in_log_order: bool) -> None:
        if not (head.ahead and in_log_order):
            self._retire(head, stone)
        del self._standing[head.key]
        self._lowered.pop(head.key, None)
        self._restarted.discard(head.key)

    def _end_earlier_life(self, head: Head, stone: Tombstone) -> None:
        if head.first_created_at <= stone.created_at and not stone.provisional:
            self._standing[head.key].head = replace(head, first_created_at=head.created_at)
            self._lowered.pop(head.key, None)
            self._restarted.add(head.key)

    # --- the end state

    @property
    def keys(self) -> list[str]:
        """Every key whose end state is decided here; sweeps leave them alone."""
        return sorted(self._keys)

    def puts(self) -> list[RecordPut]:
        """The documents that the page leaves under its keys."""
        return [
            _record(standing.head, standing.commit)
            for standing in self._standing.values()
            if standing.commit is not None
        ]

    def removed_keys(self) -> list[str]:
        """Keys that had a document before the page and have none after it."""
        return [key for key in self.context.heads if key not in self._standing]

    def lowered(self) -> dict[str, datetime]:
        """Earlier createdAt values of keys whose document the page leaves as it is."""
        return {
            key: created_at
            for key, created_at in self._lowered.items()
            if key not in self._restarted
            and (standing := self._standing.get(key)) is not None
            and standing.commit is None
        }

    def restarted(self) -> dict[str, datetime]:
        """First createdAt values of keys whose document the page leaves, in a life that began later."""
        standing = {key: self._standing[key] for key in self._restarted}
        return {key: each.head.first_created_at for key, each in standing.items() if each.commit is None}

    def memory(self) -> tuple[list[Retirement], list[Tombstone]]:
        """The documents that went, and the deletes."""
        return list(self._retired.values()), [*self._tombstones.values(), *self._lost_documents]

    def sweeps(self) -> tuple[list[RangeSweep], list[Referred]]:
        """What the deletes ask of keys outside the page."""
        return self._sweeps, self._referred

    def marks(self, indexed: frozenset[str]) -> list[Mark]:
        """The page's keys whose search document may differ after it."""
        marks = []
        redated = self.lowered() | self.restarted()
        for key in self._keys:
            before = self.context.heads.get(key)
            standing = self._standing.get(key)
            changed = standing is None or standing.commit is not None or key in redated
            if not changed or (before is None and standing is None):
                continue
            former = before.schema if before is not None and before.schema in indexed else None
            if former is not None or (standing is not None and standing.head.schema in indexed):
                marks.append(Mark(key, former))
        return marks


def _order(head: Head) -> Order:
    return head.created_at, head.cdid


def _may_touch(stone: Tombstone | Removal, head: Head, *, is_reference: bool = False) -> bool:
    """Whether a delete may remove or bar this at all (section 4).

    A provisional one keeps to what its own source said, of records as provisionally; one that is limited to
    an author to what that author wrote.
    """
    if stone.only_author and head.author != stone.author:
        return False
    if not stone.provisional:
        return True
    return head.source == stone.source and (head.provisional or is_reference)


def _record(head: Head, commit: Commit) -> RecordPut:
    assert commit.key is not None
    assert commit.key.parent is not None
    return RecordPut(
        key=head.key,
        owner=head.owner,
        author=commit.author,
        schema=head.schema,
        parent=commit.key.parent,
        href=head.href,
        source=head.source,
        cdid=head.cdid,
        created_at=head.created_at,
        first_created_at=head.first_created_at,
        signed=commit.signed,
        provisional=head.provisional,
        ahead=head.ahead,
    )
