"""What a planned page asks of the mirror: plain values, made by planning, carried out by `pages.apply`.

Everything that concerns the keys named in the page is decided by planning and listed here as an end
state. What a delete does to keys that the page does not name is described by a `RangeSweep` or by
`Referred` hrefs and done by PostgreSQL, so that a delete of 200,000 records costs a few statements.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from indexer.concrnt.documents import MAX_DEAD_LETTER_CHARACTERS, dead_letter_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from indexer.concrnt.uri import Scope


@dataclass(frozen=True, slots=True)
class RecordPut:
    """The document that stands under `key` after the page."""

    key: str
    owner: str
    author: str
    schema: str
    parent: str
    href: str | None
    source: str
    cdid: str
    created_at: datetime
    first_created_at: datetime
    signed: str
    provisional: bool = False
    ahead: bool = False
    """Asked for by hand, and not brought by the source's feed in order since."""


@dataclass(frozen=True, slots=True)
class Retirement:
    """A document that was replaced (`deleted_by` is None) or removed by a delete; it never comes back."""

    key: str
    cdid: str
    deleted_at: datetime | None = None
    deleted_by: str | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A delete, kept for good. `target` is a canonical key or `ccfs` URI.

    With the scope of a document and a key as target: that key lost a document to the delete. It bars
    references to the key, and no record.
    """

    target: str
    scope: Scope
    created_at: datetime
    cdid: str
    author: str
    source: str
    provisional: bool = False
    """Takes and bars only what its own source said, as provisionally."""
    only_author: bool = False
    """Takes and bars only what its author wrote: somebody else owns the keys."""
    signed: str | None = None
    """The delete as received, for judging it again; None where it is not at hand."""


@dataclass(frozen=True, slots=True)
class RangeSweep:
    """Remove what stands in a range, and the references into it, the page's own keys excepted.

    With `in_log_order` everything of the same source goes (it came before the delete in its feed); of other
    sources, or without it, what is not newer than the delete by (createdAt, CDID). `provisional` and
    `only_author` (a CCID) limit it as they do a `Tombstone`.
    """

    target: str
    include_target: bool
    created_at: datetime
    cdid: str
    in_log_order: bool
    provisional: bool = False
    only_author: str | None = None


@dataclass(frozen=True, slots=True)
class Referred:
    """Remove the references to `href`, on the same conditions as a `RangeSweep`."""

    href: str
    created_at: datetime
    cdid: str
    in_log_order: bool
    provisional: bool = False
    only_author: str | None = None


@dataclass(frozen=True, slots=True)
class AckTransition:
    """The newest say of a page about one follow; applies only when strictly newer than the stored one."""

    acker: str
    ackee: str
    schema: str
    valid: bool
    created_at: datetime
    cdid: str
    signed: str
    provisional: bool = False


class EntityStanding(IntEnum):
    """How sure it is where a person lives."""

    CLAIMED = 0
    """Said by the server itself, without a proof that holds; or nobody checked."""
    ANSWERED = 1
    """Said by the seed when asked, without a proof that holds."""
    PROVEN = 2


@dataclass(frozen=True, slots=True)
class EntityPut:
    """Which server a person lives on; the surer wins, then the newest createdAt, then the greater CDID."""

    ccid: str
    domain: str
    created_at: datetime
    cdid: str
    signed: str
    standing: EntityStanding = EntityStanding.CLAIMED


@dataclass(frozen=True, slots=True)
class LeftHome:
    """A server on which a person surely lived; a newer entity document names another."""

    owner: str
    domain: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A commit whose proof leans on a document, an enactment or a post, that is not here yet."""

    digest: bytes
    href: str
    is_enactment: bool
    commit: str
    accepted: bool = False
    """It stands provisionally meanwhile: it waits to be proven, not to be seen."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A commit that could not be used. `digest` is that of the whole row; `text` is bounded."""

    digest: bytes
    kind: str
    reason: str
    text: str

    @classmethod
    def of_commit(cls, signed: str, kind: str, reason: str) -> DeadLetter:
        """Make that of a commit that is well-formed; read again from its text, it is the same dead letter."""
        text = dead_letter_text(signed)
        return cls(hashlib.sha256(text.encode()).digest(), kind, reason, text[:MAX_DEAD_LETTER_CHARACTERS])


@dataclass(frozen=True, slots=True)
class Mark:
    """A key whose search document may have changed, with the schema it had before."""

    key: str
    former_schema: str | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """What the rows past the ones read before were, for counters. Keys are the metric's kinds."""

    commits: int = 0
    kinds: Mapping[str, int] = field(default_factory=Counter)
    malformed: Mapping[str, int] = field(default_factory=Counter)
    latest_post_at: datetime | None = None
    rejected: Mapping[str, int] = field(default_factory=Counter)
    """What trust refused, by reason."""

    def __add__(self, other: Tally) -> Tally:
        times = [at for at in (self.latest_post_at, other.latest_post_at) if at is not None]
        return Tally(
            self.commits + other.commits,
            Counter(self.kinds) + Counter(other.kinds),
            Counter(self.malformed) + Counter(other.malformed),
            max(times, default=None),
            Counter(self.rejected) + Counter(other.rejected),
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything one page does to the mirror, its cursor aside."""

    source: str
    page_keys: Sequence[str] = ()
    known_keys: Collection[str] = ()
    """The keys of the page that had a document before it."""
    puts: Sequence[RecordPut] = ()
    removed_keys: Sequence[str] = ()
    first_created: Mapping[str, datetime] = field(default_factory=dict)
    restarted: Mapping[str, datetime] = field(default_factory=dict)
    """The first createdAt of keys of which it turned out that a delete ended the life before."""
    retirements: Sequence[Retirement] = ()
    tombstones: Sequence[Tombstone] = ()
    sweeps: Sequence[RangeSweep] = ()
    referred: Sequence[Referred] = ()
    acks: Sequence[AckTransition] = ()
    entities: Sequence[EntityPut] = ()
    dead_letters: Sequence[DeadLetter] = ()
    marks: Sequence[Mark] = ()
    unresolved: Collection[str] = ()
    """Owners to be looked up: what was said of them is provisional."""
    set_aside: Collection[str] = ()
    """Owners of whom the source said what was not, or not wholly, accepted."""
    waiting: Sequence[Waiting] = ()
    left_homes: Sequence[LeftHome] = ()
    """Where people surely lived until a newer document said otherwise."""
    withdrawn: Mapping[str, int] = field(default_factory=dict)
    """What was withdrawn before it was applied, for a home became known: how much, by server."""
    tally: Tally = field(default_factory=Tally)
