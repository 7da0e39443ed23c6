"""Who may say what (behaviour.md, section 4): the one place where the modes are. Pure.

A server may say anything in its own feed. Whether a commit counts is decided from *facts* (which people live
where, which key is the server's) and *proofs* (which signatures hold), both given:

    judging = Judging(rows, owners, facts, mode, follows=ack_schemas)
    judging.settle(faults of judging.to_prove())
    judgement = judging.conclude(faults of these and of judging.still_to_prove(), what they await)

Facts go first: where the server has authority, no signature is looked at in `authority` mode. What comes out
is one verdict a row, what the page says of where people live, and whose home it settles.

Ordering: an entity document counts from its row on, as if every row were a page of its own. One exception
makes that so: what was said of a person before the row that first tells where they live is provisional until
that row settles it, in the same page as across pages.

What was decided where behaviour.md leaves it open (decisions/0020):

* A record that is neither the author's own nor said by a server with authority is rejected, proven or not: a
  signature says who wrote it, not that they may write there.
* An unproven entity document gives no authority. Until the seed has answered, whatever any server says of
  that person stays provisional.
* A server key that two servers claim gives authority to neither.
* An entity or follow that is older than what is known is accepted and has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, assert_never

from indexer.concrnt.documents import Commit, Kind
from indexer.concrnt.identifiers import is_ccid
from indexer.concrnt.proofs import ProofFault
from indexer.mirror.changes import EntityPut, EntityStanding, LeftHome
from indexer.mirror.trust import Facts, Home

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from indexer.replication.page import Row
    from indexer.replication.proving import Awaited


class TrustMode(StrEnum):
    """How much a server is believed."""

    OFF = "off"
    AUTHORITY = "authority"
    STRICT = "strict"


class Worth(Enum):
    """What an accepted commit is worth."""

    FIRM = "firm"
    FOR_ITS_PROOF = "for_its_proof"
    """Firm for its proof alone: its server has no say about the owner, nor has the order of its log."""
    PROVISIONAL = "provisional"
    """Its owner is taken as living where it came from, until that is known."""
    ONLY_AUTHOR = "only_author"
    """A proven delete by somebody else than the owner: it takes its author's records."""

    @property
    def is_in_log_order(self) -> bool:
        """Whether log order decides between this and what the same feed said before; else createdAt does."""
        return self in (Worth.FIRM, Worth.PROVISIONAL)


class Refusal(StrEnum):
    """Why a commit is rejected: a closed list, for metrics and dead letters."""

    NOT_AUTHORITATIVE = "not_authoritative"
    """Its server has no say about the owner, and there is no proof."""
    PROOF_FAILED = "proof_failed"
    """There is a proof, and it does not hold."""
    NO_PROOF = "no_proof"
    """`strict` asks for one."""
    NOT_OWNER = "not_owner"
    """The proof holds, and the author may not write or delete there."""
    UNPROVEN_ENTITY = "unproven_entity"
    """It claims a person without a proof, who is somebody else's or whom another server claimed first."""
    UNKNOWN_DOCUMENT = "unknown_document"
    """The document that its proof leans on is not here yet: judged again when it comes, and not counted.

    One that has waited for too long is buried and counted with this reason.
    """


WITHDRAWN = "withdrawn"
"""The reason of what was accepted provisionally, of somebody who turned out to live elsewhere."""

Verdict = Worth | Refusal


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a page's rows are worth, one verdict a row (rows that are no commits are `FIRM`).

    `entities` are what the page tells of where people live; `settled` the people whose home is surely known
    by it, or another one than before.
    """

    verdicts: Sequence[Verdict]
    entities: Mapping[int, EntityPut] = field(default_factory=dict)
    awaited: Mapping[int, Awaited] = field(default_factory=dict)
    """Rows that are to be judged again when a document comes."""
    settled: Mapping[str, str] = field(default_factory=dict)
    """Of whom something is open and the home is surely known now, or another one than before."""
    sure_homes: Mapping[str, tuple[str, tuple[datetime, str]]] = field(default_factory=dict)
    """Where the page's people were surely known to live before it, and (createdAt, CDID) of what says so."""
    moved: Mapping[str, str] | None = None
    """Of the domains that the page names those that have moved, and where to; None: not looked up."""
    left_homes: Sequence[LeftHome] = ()
    """Where people lived until the page told of a newer home."""


class _Authority(Enum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def owners_in(rows: Sequence[Row]) -> list[str]:
    """Of whose things each row tells, one for one; "" for rows that are no commits."""
    return [owner_of_commit(row) if isinstance(row, Commit) else "" for row in rows]


def owner_of_commit(commit: Commit) -> str:
    """Of whose things a commit tells: the key's or target's owner; else its author."""
    if commit.key is not None:
        return commit.key.owner
    if commit.target is not None:
        return commit.target.owner
    return commit.author


class Judging:
    """The judging of one page; see the module for the three steps."""

    def __init__(
        self,
        rows: Sequence[Row],
        owners: Sequence[str],
        facts: Facts,
        mode: TrustMode,
        *,
        follows: Collection[str],
    ) -> None:
        """`owners` are those of `owners_in(rows)`; `follows` the schemas of acks that are kept.

        Other acks are ignored, whatever they are worth.
        """
        assert mode is not TrustMode.OFF
        self._rows = rows
        self._owners = owners
        self._told_of = [
            (position, row)
            for position, row in enumerate(rows)
            if isinstance(row, Commit) and row.kind is Kind.ENTITY
        ]
        self._facts = facts
        self._strict = mode is TrustMode.STRICT
        self._follows = follows
        self._homes = dict(facts.homes)
        self._told: dict[str, list[tuple[int, Home]]] = {}  # what the page's rows make of the homes
        self._entities: dict[int, EntityPut] = {}
        self._refused: dict[int, Refusal] = {}
        self._doubtful_owners = set(owners)
        self._proven: Collection[int] = ()
        self._doubtful: list[tuple[int, Commit, str]] = []
        """Commits, with position and owner, that do not count as they are: few, of a server that behaves."""

    # --- entities

    def to_prove(self) -> list[int]:
        """The rows whose proof decides, as far as that is known before the page's entities are settled.

        These tell where somebody lives and are not known to be proven, or are no concern of those who do.
        """
        told = {row.author for _, row in self._told_of}
        entities = [position for position, row in self._told_of if not self._is_known(row)]
        if not self._strict:
            candidates = set(self._owners).difference(told)
            trusted = {one for one in candidates if self._authority(0, one) is _Authority.YES}
            self._doubtful_owners = set(self._owners).difference(trusted)
        self._proven = {
            position
            for position, owner in enumerate(self._owners)
            if owner in self._doubtful_owners
            and (self._strict or owner not in told)
            and isinstance(commit := self._rows[position], Commit)
            and self._proof_decides(position, commit, owner)
        }
        return [*entities, *sorted(self._proven)]

    def _is_known(self, commit: Commit) -> bool:
        home = self._facts.homes.get(commit.author)
        return home is not None and home.standing is EntityStanding.PROVEN and home.cdid == commit.cdid

    def settle(self, faults: Mapping[int, ProofFault | None]) -> None:
        """Take the entities in the order of their rows."""
        for position, row in self._told_of:
            self._take_entity(position, row, faults.get(position))
        self._doubtful = [
            (position, commit, owner)
            for position, owner in enumerate(self._owners)
            if owner in self._doubtful_owners and isinstance(commit := self._rows[position], Commit)
        ]

    def _take_entity(self, position: int, commit: Commit, fault: ProofFault | None) -> None:
        assert commit.domain is not None
        domain = self._now(commit.domain)
        known = self._homes.get(commit.author)
        standing = EntityStanding.PROVEN
        if fault is not None:
            if self._strict or not self._may_claim(domain, known):
                self._refused[position] = (
                    _refusal(fault, strict=True) if self._strict else Refusal.UNPROVEN_ENTITY
                )
                return
            standing = EntityStanding.CLAIMED
        home = Home(domain, standing, commit.created_at, commit.cdid)
        if known is not None and home.order <= known.order:
            return
        self._homes[commit.author] = home
        self._told.setdefault(commit.author, []).append((position, home))
        self._entities[position] = EntityPut(
            commit.author, domain, commit.created_at, commit.cdid, commit.signed, standing
        )

    def _now(self, domain: str) -> str:
        """Where a domain is now: itself, unless it has moved."""
        return self._facts.moved.get(domain, domain)

    def _may_claim(self, domain: str, known: Home | None) -> bool:
        """Whether a server may claim a person without a proof: nobody else has, and nothing is sure."""
        if domain != self._facts.source:
            return False
        return known is None or (known.standing is EntityStanding.CLAIMED and known.domain == domain)

    # --- authority

    def _authority(self, position: int, owner: str) -> _Authority:
        """Whether the server has the say about an owner, as known at this row.

        A name that its server has left has none: whoever holds the domain now is somebody else.
        """
        source = self._facts.source
        if self._now(owner) == source or (self._facts.csid is not None and owner == self._facts.csid):
            return _Authority.YES
        if not is_ccid(owner):
            return _Authority.NO
        home = self._home_at(position, owner)
        if home is None:
            return _Authority.NO if source in self._facts.moved else _Authority.UNKNOWN
        return _Authority.YES if home.domain == source else _Authority.NO

    def _home_at(self, position: int, owner: str) -> Home | None:
        """The sure home of a person at a row; before any is known, the first that the page will tell."""
        home = self._facts.homes.get(owner)
        sure = home if home is not None and home.is_sure else None
        for at, told in self._told.get(owner, ()):
            if not told.is_sure or (at > position and sure is not None):
                continue
            sure = told
        return sure

    # --- everything else

    def still_to_prove(self) -> list[int]:
        """The rows whose proof decides after all: what the page tells of homes does not make them count."""
        return [
            position
            for position, commit, owner in self._doubtful
            if self._proof_decides(position, commit, owner) and position not in self._proven
        ]

    def _proof_decides(self, position: int, commit: Commit, owner: str) -> bool:
        if commit.kind is Kind.ENTITY or self._is_ignored(commit):
            return False
        if self._strict:
            return True
        if self._authority(position, owner) is _Authority.YES:
            return False
        # Of a record that is not its author's own no proof can help.
        return commit.kind is not Kind.RECORD or commit.author == owner

    def _is_ignored(self, commit: Commit) -> bool:
        """Whether it is an ack of a schema that is not kept."""
        return commit.associate is not None and commit.schema not in self._follows

    def conclude(
        self, faults: Mapping[int, ProofFault | None], awaited: Mapping[int, Awaited] | None = None
    ) -> Judgement:
        """One verdict for each row, and what the page tells of homes.

        `awaited` are the documents that may yet come, for rows whose proof could not be decided. Such a row
        is refused for the time being, unless it would be provisional without a proof as well: no proof that
        is still to be had may make it worth less.
        """
        awaited = awaited or {}
        verdicts: list[Verdict] = [Worth.FIRM] * len(self._rows)
        for position, commit, owner in self._doubtful:
            fault = faults.get(position, ProofFault.NO_PROOF)
            verdict = self._verdict(position, commit, owner, fault)
            if position in awaited and verdict is not Worth.PROVISIONAL:
                verdict = Refusal.UNKNOWN_DOCUMENT
            verdicts[position] = verdict
        sure = {
            owner: (home.domain, (home.created_at, home.cdid))
            for owner, home in self._facts.homes.items()
            if home.is_sure
        }
        return Judgement(
            verdicts,
            self._entities,
            awaited,
            settled=self._settled(),
            sure_homes=sure,
            moved=self._facts.moved,
            left_homes=self._left_homes(),
        )

    def _left_homes(self) -> list[LeftHome]:
        left = []
        for owner, told in self._told.items():
            before = self._facts.homes.get(owner)
            homes = [home for home in (before, *(home for _, home in told)) if home is not None]
            sure = [home for home in homes if home.is_sure]
            left += [
                LeftHome(owner, former.domain)
                for former, newer in pairwise(sure)
                if former.domain != newer.domain
            ]
        return left

    def _settled(self) -> dict[str, str]:
        settled = {}
        for owner, told in self._told.items():
            _, home = told[-1]
            before = self._facts.homes.get(owner)
            was_sure = before is not None and before.is_sure
            same = was_sure and before is not None and before.domain == home.domain
            if home.is_sure and not same and owner in self._facts.open_owners:
                settled[owner] = home.domain
        return settled

    def _verdict(self, position: int, commit: Commit, owner: str, fault: ProofFault | None) -> Verdict:
        if commit.kind is Kind.ENTITY:
            return self._refused.get(position, Worth.FIRM)
        if self._is_ignored(commit):
            return Worth.FIRM
        if self._strict and fault is not None:
            return _refusal(fault, strict=True)
        match self._authority(position, owner):
            case _Authority.YES:
                return Worth.FIRM
            case _Authority.NO:
                return self._foreign(commit, owner, fault)
            case _Authority.UNKNOWN:
                accepted = self._foreign(commit, owner, fault)
                return Worth.PROVISIONAL if isinstance(accepted, Refusal) else accepted
            case authority:
                assert_never(authority)

    def _foreign(self, commit: Commit, owner: str, fault: ProofFault | None) -> Verdict:
        """What a commit is worth by itself, on a server that has no say about the owner."""
        may_write = commit.author == owner
        if commit.kind is Kind.RECORD and not may_write:
            return Refusal.NOT_AUTHORITATIVE if fault is not None else Refusal.NOT_OWNER
        if fault is not None:
            return _refusal(fault, strict=False)
        return Worth.FOR_ITS_PROOF if may_write else Worth.ONLY_AUTHOR


def _refusal(fault: ProofFault, *, strict: bool) -> Refusal:
    if fault is ProofFault.NO_PROOF:
        return Refusal.NO_PROOF if strict else Refusal.NOT_AUTHORITATIVE
    return Refusal.PROOF_FAILED
