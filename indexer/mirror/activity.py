"""Activity in the mirror: marks, counts of days, and the numbers of every subject.

A subject is a community (its canonical key) or a person (the CCID). Changes of records reach it by marks,
which triggers on `records` leave in the transaction that changes them (`0004_activity.sql`): rows "count
this day of this subject again", only ever added, so that followers never wait for each other. What becomes
different by itself, because an entry leaves the 7 or 30 days or because the time of one in the future
comes, is known in advance: `due_at`.

`refresh` is one transaction: it takes marks away, counts the marked days again from the records, puts the
days of the touched subjects together and stores their numbers. A crash leaves all of it or none. An
advisory lock admits one such transaction at a time, so two processes never count one mark twice, nor
overwrite newer numbers by older ones. The cost grows with the entries of the marked days and the days of
the touched subjects.

Numbers are delivered to the search engine by whoever knows it: `undelivered`, `note_delivered`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date, datetime

    import asyncpg

    from indexer.mirror.database import Connection, Database

MONTH: Final = timedelta(days=30)
WEEK: Final = timedelta(days=7)
MARKS_AT_ONCE: Final = 50_000
SUBJECTS_AT_ONCE: Final = 5_000


class SubjectKind(StrEnum):
    """What a subject is; the values are those of the metric."""

    COMMUNITY = "community"
    USER = "user"


_DOMAIN_OWNED: Final = (
    "(strpos(r.owner, '.') > 0 or length(r.owner) <> 42 or left(r.owner, 3) not in ('con', 'ccs'))"
)
_PARTS: Final[Mapping[SubjectKind, Mapping[str, str]]] = {
    SubjectKind.COMMUNITY: {
        "{entries}": f"r.parent = s.subject and {_DOMAIN_OWNED}",
        "{authors}": "array_agg(distinct hashtextextended(r.author, 0))",
        "{authors_7d}": """(
            select count(distinct x.author)::integer
            from (
                select unnest(d.authors) as author from mirror.activity_days d
                where d.subject = s.subject and d.day > $11 and d.day <= s.last_whole_day
                union all select unnest(k.authors)
                union all select unnest(t.authors)
            ) as x
        )""",
        "{profile}": "($9::text[])[0]",
        "{of_kind}": "starts_with(m.subject, 'cckv:')",
    },
    SubjectKind.USER: {
        "{entries}": "r.author = s.subject and r.schema = any($3::text[])",
        "{authors}": "null::bigint[]",
        "{authors_7d}": "null::integer",
        "{profile}": """(
            select coalesce(min(p.key) filter (where p.key like '%/main'), min(p.key))
            from mirror.records p
            where p.schema = any($9::text[])
              and p.key >= 'cckv://' || subject || '/' and p.key < 'cckv://' || subject || '0'
        )""",
        "{of_kind}": "not starts_with(m.subject, 'cckv:')",
    },
}


def _of_kind(kind: SubjectKind) -> dict[str, str]:
    statements = {}
    for name, statement in load("indexer.mirror", "queries/activity.sql").items():
        text = statement
        for token, part in _PARTS[kind].items():
            text = text.replace(token, part)
        statements[name] = text
    return statements


_SQL: Final = {kind: _of_kind(kind) for kind in SubjectKind}
_COMMON: Final = _SQL[SubjectKind.COMMUNITY]


def kind_of(subject: str) -> SubjectKind:
    """Tell communities' keys from CCIDs."""
    return SubjectKind.COMMUNITY if subject.startswith("cckv:") else SubjectKind.USER


@dataclass(frozen=True, slots=True)
class Counting:
    """What numbers are counted with."""

    half_life_seconds: float
    history_days: int
    post_schemas: tuple[str, ...]
    profile_schemas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActivityRow:
    """The numbers of one subject; `days`, `day_posts` and `day_authors` go side by side, oldest first."""

    subject: str
    half_life_seconds: float
    newest_at: datetime | None
    weight: float
    held: int
    rank: float
    posts_7d: int
    posts_30d: int
    authors_7d: int | None
    last_at: datetime | None
    days: Sequence[date]
    day_posts: Sequence[int]
    day_authors: Sequence[int]
    revision: int


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Numbers that the search engine lacks, and the live keys whose documents show them."""

    row: ActivityRow
    keys: Sequence[str]


@dataclass(frozen=True, slots=True)
class CountedEntry:
    """An entry of a subject."""

    key: str
    author: str
    schema: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Recount:
    """How far a recount of everything has come."""

    done: int
    subjects: int


class Activity:
    """The activity of one mirror."""

    def __init__(self, database: Database, counting: Counting) -> None:
        self._database = database
        self._counting = counting

    async def begin_tick(self, now: datetime) -> bool:
        """Make the numbers be counted with the settings in force; tells whether a recount is under way.

        Other settings than before make everything be counted again, whatever the marks say; until then the
        old numbers stand. A clock that went back makes what was counted since then due.
        """
        wanted = self._counting

        async def work(connection: Connection) -> bool:
            await connection.execute(_COMMON["lock_tick"])
            row = await connection.fetchrow(_COMMON["read_settings"])
            settings = (
                wanted.half_life_seconds,
                wanted.history_days,
                sorted(wanted.post_schemas),
                sorted(wanted.profile_schemas),
            )
            recounted_to: str | None = row["recounted_to"] if row else None
            if row is None or tuple(row)[:4] != settings:
                recounted_to = None if row is None else ""
                await connection.execute(_COMMON["put_settings"], *settings, recounted_to)
            if row is not None and row["ticked_at"] is not None and row["ticked_at"] > now:
                await connection.execute(_COMMON["make_due"], now)
            await connection.execute(_COMMON["note_tick"], now)
            return recounted_to is not None

        return await self._database.transaction("begin_tick", work)

    async def refresh(
        self, kind: SubjectKind, now: datetime, *, marks: int = MARKS_AT_ONCE, due: int = SUBJECTS_AT_ONCE
    ) -> int:
        """Count what is marked and what is due, up to a bound, in one transaction; 0 when nothing is left."""
        sql, counting = _SQL[kind], self._counting

        async def work(connection: Connection) -> int:
            await connection.execute(_COMMON["lock_tick"])
            taken = await connection.fetch(
                sql["take_marks"],
                marks,
                counting.half_life_seconds,
                list(counting.post_schemas),
                self._first_day(now),
            )
            waiting = await connection.fetch(sql["take_due"], now, due)
            subjects = sorted({row["subject"] for row in (*taken, *waiting)})
            await self._put_together(connection, kind, subjects, now)
            return len(subjects)

        return await self._database.transaction("refresh_activity", work)

    async def recount(self, now: datetime, *, at_once: int = SUBJECTS_AT_ONCE) -> bool:
        """Count the next subjects from scratch, in one transaction; False when all are counted."""

        async def work(connection: Connection) -> bool:
            await connection.execute(_COMMON["lock_tick"])
            row = await connection.fetchrow(_COMMON["read_settings"])
            if row is None or row["recounted_to"] is None:
                return False
            # Keys of communities sort before CCIDs, so one position serves both.
            subjects: list[str] = []
            for kind in SubjectKind:
                found = await connection.fetch(
                    _SQL[kind]["take_recounted"], row["recounted_to"], at_once - len(subjects)
                )
                of_kind = [each["subject"] for each in found]
                await self._count_again(connection, kind, of_kind, now)
                subjects += of_kind
            await connection.execute(_COMMON["note_recounted"], subjects[-1] if subjects else None)
            return bool(subjects)

        return await self._database.transaction("recount_activity", work)

    async def recount_state(self) -> Recount | None:
        """How far a recount has come; None when none is under way."""
        row = await self._database.fetchrow(_COMMON["recount_state"])
        if row is None or row["recounted_to"] is None:
            return None
        return Recount(row["done"], row["subjects"])

    async def undelivered(
        self,
        *,
        after: str,
        limit: int,
        profile_schemas: Sequence[str],
        community_schemas: Sequence[str],
    ) -> list[Undelivered]:
        """Numbers that the search engine lacks, by subject."""
        rows = await self._database.fetch(
            _COMMON["take_undelivered"], limit, after, list(profile_schemas), list(community_schemas)
        )
        return [Undelivered(_activity_row(row), row["keys"] or ()) for row in rows]

    async def note_delivered(self, delivered: Collection[tuple[str, int]]) -> None:
        """The search engine has the numbers of these (subject, revision) pairs."""
        await self._database.execute(
            _COMMON["note_delivered"],
            [subject for subject, _ in delivered],
            [revision for _, revision in delivered],
        )

    async def deliver_all(self) -> None:
        """The search engine was filled anew: everything is to be delivered again."""
        await self._database.execute(_COMMON["deliver_all"])

    async def _count_again(
        self, connection: Connection, kind: SubjectKind, subjects: list[str], now: datetime
    ) -> None:
        if not subjects:
            return
        counting = self._counting
        await connection.execute(_COMMON["drop_days"], subjects)
        await connection.execute(
            _SQL[kind]["count_days"],
            subjects,
            counting.half_life_seconds,
            list(counting.post_schemas),
            self._first_day(now),
        )
        await self._put_together(connection, kind, subjects, now)

    async def _put_together(
        self, connection: Connection, kind: SubjectKind, subjects: list[str], now: datetime
    ) -> None:
        if not subjects:
            return
        counting, today = self._counting, now.astimezone(UTC).date()
        await connection.execute(_COMMON["forget_days"], subjects, self._first_day(now))
        await connection.execute(
            _SQL[kind]["refresh_subjects"],
            subjects,
            now,
            list(counting.post_schemas),
            counting.half_life_seconds,
            now - MONTH,
            now - WEEK,
            today,
            today - timedelta(days=counting.history_days - 1),
            list(counting.profile_schemas),
            (now - MONTH).astimezone(UTC).date(),
            (now - WEEK).astimezone(UTC).date(),
        )

    def _first_day(self, now: datetime) -> date:
        """The oldest day that any number needs; one more, so that a clock that is set back finds it too."""
        return now.astimezone(UTC).date() - timedelta(days=max(31, self._counting.history_days))


async def activity_of(database: Database, subject: str) -> tuple[ActivityRow, Mapping[str, object]] | None:
    """The numbers of one subject, and how they stand: `refreshed_at`, `due_at`, `delivered`, `marked`."""
    row = await database.fetchrow(_COMMON["activity_of"], subject)
    if row is None:
        return None
    standing = {name: row[name] for name in ("refreshed_at", "due_at", "delivered", "marked")}
    return _activity_row(row), standing


async def entries_of(
    database: Database, subject: str, *, since: datetime, post_schemas: Sequence[str], limit: int
) -> tuple[list[CountedEntry], int]:
    """The newest entries of a subject since a moment, and how many there are in all."""
    rows = await database.fetch(
        _SQL[kind_of(subject)]["entries_of"], subject, since, list(post_schemas), limit
    )
    entries = [
        CountedEntry(row["key"], row["author"], row["schema"], row["first_created_at"]) for row in rows
    ]
    return entries, rows[0]["entries"] if rows else 0


def _activity_row(row: asyncpg.Record) -> ActivityRow:
    return ActivityRow(**{name: row[name] for name in ActivityRow.__slots__})
