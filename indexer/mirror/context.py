"""What planning needs to know of the stored state, read inside the page's transaction.

The transaction first takes an advisory lock for each owner that the page concerns (sorted, so that no two
transactions wait for each other), exclusive for owners whose keys it deletes and shared for the others;
then the rows of its keys. So no delete runs beside a put or a reference that it concerns, and pages without
deletes run side by side. What is read here then stays true until the commit, but for two writers that put the
same new key at once: that `put_records` settles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from indexer.concrnt.uri import Scope, covering_targets, owner_of
from indexer.mirror.changes import Tombstone
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from indexer.mirror.database import Connection

_SQL = load("indexer.mirror", "queries/context.sql")
_TARGETS_AT_ONCE = 4000


@dataclass(frozen=True, slots=True)
class Head:
    """The document that stands under a key, without its text."""

    key: str
    owner: str
    author: str
    schema: str
    href: str | None
    source: str
    cdid: str
    created_at: datetime
    first_created_at: datetime
    provisional: bool
    ahead: bool = False
    """Asked for by hand; its source's feed has not brought it in order since."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a page asks to know.

    `documents` are (owner, CDID) pairs, `covered` what a delete may cover: keys and `ccfs` URIs.
    `settled_owners` are people whose home the page may settle; `speakers` those whose follows it tells.
    """

    keys: Collection[str] = ()
    cdids: Collection[str] = ()
    delete_cdids: Collection[str] = ()
    documents: Collection[tuple[str, str]] = ()
    covered: Collection[str] = ()
    owners: Collection[str] = ()
    deleting_owners: Collection[str] = ()
    speakers: Collection[str] = ()
    settled_owners: Collection[str] = ()
    domains: Collection[str] = ()
    """Owners, and where people are said to live."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The delete that took a document; `Tombstone` has the meaning of its fields."""

    created_at: datetime
    cdid: str
    source: str
    author: str
    provisional: bool
    only_author: bool


@dataclass(frozen=True, slots=True)
class Context:
    """The stored state as far as one page is concerned."""

    heads: Mapping[str, Head] = field(default_factory=dict)
    retired: frozenset[tuple[str, str]] = frozenset()
    removed_documents: Mapping[str, Removal] = field(default_factory=dict)
    """By CDID of the document."""
    known_deletes: Mapping[str, bool] = field(default_factory=dict)
    """Deletes applied before, by CDID; True when only in part: provisionally, or for one author."""
    tombstones: Sequence[Tombstone] = ()
    homes: Mapping[str, tuple[str, tuple[datetime, str]]] = field(default_factory=dict)
    """CCID → the server where the person lives, and the (createdAt, CDID) of the document that says so."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """Of the domains that the page names those that have moved → where they are now."""


async def lock_owners(connection: Connection, needs: Needs) -> None:
    """Take the advisory locks of the owners for the rest of the transaction."""
    exclusive = {_lock_number(owner) for owner in (*needs.deleting_owners, *needs.settled_owners)}
    numbers = sorted(exclusive | {_lock_number(owner) for owner in (*needs.owners, *needs.speakers)})
    if numbers:
        await connection.execute(_SQL["lock_owners"], numbers, [number in exclusive for number in numbers])


def lock_numbers(owners: Iterable[str]) -> dict[int, list[str]]:
    """The numbers of these owners' locks; two may share one."""
    numbers: dict[int, list[str]] = {}
    for owner in owners:
        numbers.setdefault(_lock_number(owner), []).append(owner)
    return numbers


def _lock_number(owner: str) -> int:
    return int.from_bytes(blake2b(owner.encode(), digest_size=8).digest(), "big", signed=True)


async def load_context(
    connection: Connection,
    needs: Needs,
    *,
    homes: Mapping[str, tuple[str, tuple[datetime, str]]] | None = None,
    moved: Mapping[str, str] | None = None,
) -> Context:
    """Read what `needs` asks for, in a handful of statements whatever the size of the page.

    `homes` and `moved` where judging the page has read them already: of people who are surely known to live
    there, and domains that have moved.
    """
    heads = {row["key"]: _head(row) for row in await connection.fetch(_SQL["heads_by_key"], list(needs.keys))}
    if needs.documents:
        owners, cdids = zip(*needs.documents, strict=True)
        for row in await connection.fetch(_SQL["heads_by_document"], list(owners), list(cdids)):
            heads[row["key"]] = _head(row)
    retired: set[tuple[str, str]] = set()
    removed: dict[str, Removal] = {}
    for row in await connection.fetch(_SQL["retired_documents"], list(needs.cdids)):
        retired.add((row["key"], row["cdid"]))
        if row["source"] is not None:
            by = (row["deleted_at"], row["deleted_by"], row["source"], row["author"])
            removed[row["cdid"]] = Removal(*by, row["provisional"], row["only_author"])
    known: dict[str, bool] = {}
    if needs.delete_cdids:
        rows = await connection.fetch(_SQL["known_deletes"], list(needs.delete_cdids))
        known = {row["cdid"]: row["in_part"] for row in rows}
    tombstones = await _covering_tombstones(connection, needs.covered)
    if homes is None:
        homes = {
            row["ccid"]: (row["domain"], (row["created_at"], row["cdid"]))
            for row in await connection.fetch(_SQL["homes"], list(needs.owners))
        }
    if moved is None:
        moved = await moved_domains(connection, needs.domains) if needs.domains else {}
    return Context(heads, frozenset(retired), removed, known, tombstones, homes, moved)


async def moved_domains(connection: Connection, domains: Collection[str]) -> Mapping[str, str]:
    """Which of these domains have moved, and where to."""
    rows = await connection.fetch(_SQL["moved_of"], list(domains))
    return {row["old"]: row["new"] for row in rows}


async def _covering_tombstones(connection: Connection, covered: Collection[str]) -> list[Tombstone]:
    """The deletes that cover these URIs.

    A key may have hundreds of ancestors, half a megabyte of text: they are spelled out only for owners who
    have deleted anything, and a portion at a time.
    """
    owners = list({owner_of(uri) for uri in covered})
    deleting = {row["owner"] for row in await connection.fetch(_SQL["owners_with_deletes"], owners)}
    tombstones: dict[Tombstone, None] = {}
    targets: set[str] = set()

    async def look_up() -> None:
        rows = await connection.fetch(_SQL["covering_tombstones"], list(targets))
        tombstones.update(dict.fromkeys(_tombstone(row) for row in rows))
        targets.clear()

    for uri in covered:
        if owner_of(uri) in deleting:
            targets.update(covering_targets(uri))
            if len(targets) >= _TARGETS_AT_ONCE:
                await look_up()
    if targets:
        await look_up()
    return list(tombstones)


def _tombstone(row: asyncpg.Record) -> Tombstone:
    return Tombstone(
        row["target"],
        Scope(row["scope"]),
        row["created_at"],
        row["cdid"],
        row["author"],
        row["source"],
        row["provisional"],
        row["only_author"],
    )


def _head(row: asyncpg.Record) -> Head:
    """The statements list the fields of `Head`, under their names."""
    return Head(**dict(row))
