"""What is stored, in batches to be judged again, and what becomes of it. Every statement of `judging.sql`.

Each function works in the caller's transaction, under the exclusive locks of the owners concerned
(`lock_owners`). A batch begins past the last place of the one before; a crash leaves whole batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.mirror.changes import EntityStanding
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from indexer.mirror.database import Connection, Database

_SQL = load("indexer.mirror", "queries/judging.sql")


@dataclass(frozen=True, slots=True)
class StoredEntity:
    """An entity as it stands."""

    ccid: str
    source: str
    cdid: str
    signed: str
    standing: EntityStanding


@dataclass(frozen=True, slots=True)
class StoredDelete:
    """A delete as it stands, and how far it was believed."""

    cdid: str
    owner: str
    source: str
    signed: str
    provisional: bool
    only_author: bool


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as it stands."""

    key: str
    owner: str
    source: str
    cdid: str
    signed: str


@dataclass(frozen=True, slots=True)
class StoredFollow:
    """A follow or unfollow as it stands, or as one server said it provisionally."""

    acker: str
    ackee: str
    schema: str
    source: str
    cdid: str
    signed: str


@dataclass(frozen=True, slots=True)
class RejectedLetter:
    """A dead letter of a commit that trust refused; `commit` is JSON, cut when it was very long."""

    id: int
    domain: str
    digest: bytes
    commit: str


async def stored_counts(database: Database, reasons: Sequence[str]) -> Mapping[str, int]:
    """How much there is to judge, by what it is; `reasons` are those of rejected dead letters."""
    row = await database.fetchrow(_SQL["stored_counts"], reasons)
    assert row is not None
    return dict(row)


# --- entities


async def entities_after(connection: Connection, ccid: str, *, limit: int) -> list[StoredEntity]:
    """Entities in the order of people, past one of them."""
    rows = await connection.fetch(_SQL["entities_after"], ccid, limit)
    return [StoredEntity(**{**dict(row), "standing": EntityStanding(row["standing"])}) for row in rows]


async def judge_entity(connection: Connection, entity: StoredEntity, standing: EntityStanding | None) -> None:
    """An entity was judged again; None: it counts no more."""
    if standing is None:
        await connection.execute(_SQL["remove_entity"], entity.ccid, entity.cdid)
    elif standing is not entity.standing:
        await connection.execute(_SQL["judge_entity"], entity.ccid, entity.cdid, standing.value)


# --- deletes


async def deletes_after(connection: Connection, cdid: str, *, limit: int) -> list[StoredDelete]:
    """Deletes whose documents were kept, by CDID, past one of them."""
    return [StoredDelete(**dict(row)) for row in await connection.fetch(_SQL["deletes_after"], cdid, limit)]


async def limit_deletes(connection: Connection, limits: Mapping[str, tuple[bool, bool]]) -> None:
    """Deletes, by CDID, are worth less now: (provisional, only their author's). What they took may return."""
    cdids = list(limits)
    provisional, only_author = ([limit[part] for limit in limits.values()] for part in (0, 1))
    await connection.execute(_SQL["limit_deletes"], cdids, provisional, only_author)
    await connection.execute(_SQL["forget_removed"], cdids)


async def remove_deletes(connection: Connection, deletes: Iterable[StoredDelete]) -> None:
    """These deletes count no more; what they took may return."""
    cdids = [delete.cdid for delete in deletes]
    await connection.execute(_SQL["remove_deletes"], cdids)
    await connection.execute(_SQL["forget_removed"], cdids)


# --- records


async def records_after(connection: Connection, key: str, *, limit: int) -> list[StoredRecord]:
    """Records in the order of keys, past one of them."""
    return [StoredRecord(**dict(row)) for row in await connection.fetch(_SQL["records_after"], key, limit)]


async def judge_records(connection: Connection, provisional: Mapping[StoredRecord, bool]) -> None:
    """Records were accepted again, provisionally or not."""
    keys, cdids = [one.key for one in provisional], [one.cdid for one in provisional]
    await connection.execute(_SQL["judge_records"], keys, cdids, list(provisional.values()))


async def remove_records(
    connection: Connection, records: Sequence[StoredRecord], *, indexed_schemas: Sequence[str], now: datetime
) -> None:
    """These records count no more, and the projection is told; what stood there before may return."""
    keys, cdids = [one.key for one in records], [one.cdid for one in records]
    await connection.execute(_SQL["remove_records"], keys, cdids, indexed_schemas, now)
    await connection.execute(_SQL["forget_replaced"], keys)


# --- follows


async def follows_after(
    connection: Connection, place: tuple[str, str, str], *, limit: int
) -> list[StoredFollow]:
    """Follows whose documents were kept, past (acker, ackee, schema)."""
    return [StoredFollow(**dict(row)) for row in await connection.fetch(_SQL["follows_after"], *place, limit)]


async def judge_follows(connection: Connection, provisional: Mapping[StoredFollow, bool]) -> None:
    """Follows were accepted again; the provisional ones are kept as what their server said besides."""
    ackers, cdids = [one.acker for one in provisional], [one.cdid for one in provisional]
    await connection.execute(_SQL["judge_follows"], cdids, list(provisional.values()), ackers)
    await connection.execute(_SQL["keep_as_provisional"], ackers, cdids)


async def remove_follows(connection: Connection, follows: Collection[StoredFollow]) -> None:
    """These follows count no more."""
    await connection.execute(
        _SQL["remove_follows"], [one.acker for one in follows], [one.cdid for one in follows]
    )


async def provisional_follows_after(
    connection: Connection, place: tuple[str, str, str, str], *, limit: int
) -> list[StoredFollow]:
    """What servers said provisionally of follows, past (acker, ackee, schema, server)."""
    rows = await connection.fetch(_SQL["provisional_follows_after"], *place, limit)
    return [StoredFollow(**dict(row)) for row in rows]


async def remove_provisional_follows(connection: Connection, follows: Collection[StoredFollow]) -> None:
    """These are provisional no more, or not accepted."""
    await connection.execute(
        _SQL["remove_provisional_follows"],
        [one.acker for one in follows],
        [one.cdid for one in follows],
        [one.source for one in follows],
    )


# --- what was rejected, and what has to be read again


async def rejected_after(
    connection: Connection, place: int, reasons: Sequence[str], *, limit: int
) -> list[RejectedLetter]:
    """Dead letters of these reasons, oldest first, past one of them."""
    rows = await connection.fetch(_SQL["rejected_after"], reasons, place, limit)
    return [RejectedLetter(**dict(row)) for row in rows]


async def drop_letters(connection: Connection, letters: Iterable[RejectedLetter]) -> None:
    """They are dead letters no more."""
    await connection.execute(_SQL["drop_letters"], [letter.id for letter in letters])


async def read_again(connection: Connection, whose: Collection[tuple[str, str]], *, now: datetime) -> None:
    """(owner, person or domain): what is said of the owner is to be read again where the other one lives."""
    pairs = sorted(set(whose))
    if pairs:
        owners, of = zip(*pairs, strict=True)
        await connection.execute(_SQL["read_again"], list(owners), list(of), now)


async def read_set_aside(database: Database, *, now: datetime) -> int:
    """What was set aside of those who speak for its owner is due; how many logs are to be read in all."""
    await database.execute(_SQL["read_set_aside"], now)
    row = await database.fetchrow(_SQL["logs_to_read"])
    assert row is not None
    count: int = row["count"]
    return count
