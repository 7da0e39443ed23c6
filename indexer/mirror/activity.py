"""Activity in the mirror: marks, and the numbers of every subject.

A subject is a community (its canonical key) or a person (the CCID). Changes of records reach it by marks,
which triggers on `records` leave in the transaction that changes them (`0004_activity.sql`): "this entry
came", "this entry went", only ever added, so that followers never wait for each other. What becomes
different by itself, because an entry leaves the 7 or 30 days or because the time of one in the future
comes, is known in advance: `due_at`.

`refresh` is one transaction: it takes marks away and brings the numbers of their subjects up to date by
them, in one statement. Numbers are as of the records that the transaction sees, so it sees one moment of
all tables. Entries of the future are held apart from the weight; those whose time has come are moved to it,
and when a day turns over a subject that holds some, its last days are counted again. A subject that marks can
not bring up to date (a new one, one whose weight lost digits to what was taken away) is counted again from
its entries. A crash leaves all of it or none, and the disk is not waited for: what is lost is counted again.
A lock admits one such transaction at a time, so two processes never count one mark twice. The cost grows with
what changed.

Numbers are delivered to the search engine by whoever knows it: `undelivered`, `note_delivered`.
"""

from __future__ import annotations

from collections import Counter
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
_DAYS_MORE: Final = 32
"""How many places of days beyond those of the history a row may have before they are put together."""


class SubjectKind(StrEnum):
    """What a subject is; the values are those of the metric."""

    COMMUNITY = "community"
    USER = "user"


_LONG_PARTS: Final = load("indexer.mirror", "queries/activity_parts.sql")
_SHARED_PARTS: Final = {"{rank}": _LONG_PARTS["rank"], "{due_at}": _LONG_PARTS["due_at"]}
_PARTS: Final[Mapping[SubjectKind, dict[str, str]]] = {
    SubjectKind.COMMUNITY: {
        "{materialized}": "materialized",
        "{told_here}": "",
        "{told}": _LONG_PARTS["community_told"],
        "{joined_told}": "left join told_days d on d.subject = s.subject",
        "{more_authors}": "coalesce(d.of_week, 0)",
        "{days}": "coalesce(d.days, '{}')",
        "{day_posts}": "coalesce(d.posts, '{}')",
        "{day_authors}": "coalesce(d.authors, '{}')",
        "{counted_authors_7d}": "(count(distinct e.author) filter (where e.at >= $8))::integer",
        "{counted_authors}": "count(distinct author)::integer",
        "{none_or_authors_7d}": "coalesce(c.authors_7d, 0)",
        "{profile}": "null::text",
        "{entries}": _LONG_PARTS["community_entries"],
        "{domain_owned}": _LONG_PARTS["domain_owned"],
        "{of_kind}": "starts_with(m.subject, 'cckv:')",
        "{is_entry}": "m.detail is not null",
        "{is_touch}": "m.at is null",
    },
    SubjectKind.USER: {
        "{materialized}": "",
        "{told_here}": _LONG_PARTS["user_told_here"],
        "{turned_at}": _LONG_PARTS["turned_at"],
        "{told}": "",
        "{joined_told}": "",
        "{more_authors}": "null::integer",
        "{days}": "coalesce(s.days, '{}')",
        "{day_posts}": "coalesce(s.day_posts, '{}')",
        "{day_authors}": "array_fill(0, array[coalesce(cardinality(s.days), 0)])",
        "{counted_authors_7d}": "null::integer",
        "{counted_authors}": "0",
        "{none_or_authors_7d}": "null::integer",
        "{profile}": _LONG_PARTS["user_profile"],
        "{entries}": _LONG_PARTS["user_entries"],
        "{of_kind}": "not starts_with(m.subject, 'cckv:')",
        "{is_entry}": "coalesce(m.detail = any($2::text[]), false)",
        "{is_touch}": "coalesce(m.detail = any($4::text[]), true)",
    },
}
"""What stands for each token. A part may hold tokens that come after it."""


def _of_kind(kind: SubjectKind) -> dict[str, str]:
    named = dict(load("indexer.mirror", "queries/activity.sql"))
    counting = named["count_changes"]
    named["count_changes"] = counting.replace("{taken}", _LONG_PARTS["many_marks"])
    named["count_all_changes"] = counting.replace("{taken}", _LONG_PARTS["few_marks"])
    statements = {}
    for name, statement in named.items():
        text = statement
        for token, part in (_SHARED_PARTS | _PARTS[kind]).items():
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
    """The numbers of one subject.

    `days`, `day_posts` and `day_authors` go side by side, in no order; what is told of one day in several
    places adds up.
    """

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

    def history(self) -> list[tuple[date, int, int]]:
        """(day, posts, authors) of the days that have entries, oldest first."""
        posts: Counter[date] = Counter()
        authors: Counter[date] = Counter()
        for day, more_posts, more_authors in zip(self.days, self.day_posts, self.day_authors, strict=True):
            posts[day] += more_posts
            authors[day] += more_authors
        return [(day, posts[day], authors[day]) for day in sorted(posts) if posts[day]]


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Numbers that the search engine lacks, and the live keys whose documents show them.

    `id` is the place in the queue; a subject whose numbers changed again has another one too.
    """

    id: int
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
class Refreshed:
    """A batch: how many subjects' numbers were written, and whether nothing was left."""

    subjects: int
    is_last: bool


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
    ) -> Refreshed:
        """Bring up to date what is marked and what is due, up to about a bound, in one transaction."""

        async def work(connection: Connection) -> Refreshed:
            await self._begin_batch(connection)
            few = await connection.fetchval(_SQL[kind]["are_few"], marks)
            statement = _SQL[kind]["count_all_changes" if few else "count_changes"]
            row = await connection.fetchrow(statement, *self._parameters(now, marks, due))
            assert row is not None
            if row["long"]:
                first_day = self._first_day(now)
                await connection.execute(_COMMON["put_days_together"], row["long"], first_day)
            await self._count_last_days(connection, kind, row["turned"], now)
            await self._put_profiles(connection, kind, row["touched"])
            written, again = row["written"], sorted(row["again"])
            for start in range(0, len(again), SUBJECTS_AT_ONCE):
                part = again[start : start + SUBJECTS_AT_ONCE]
                written += await self._count_again(connection, kind, part, now)
            return Refreshed(written, is_last=few and row["due"] < due)

        return await self._database.transaction("refresh_activity", work, durable=False)

    async def recount(self, now: datetime, *, at_once: int = SUBJECTS_AT_ONCE) -> bool:
        """Count the next subjects from their entries, in one transaction; False when all are counted."""

        async def work(connection: Connection) -> bool:
            await self._begin_batch(connection)
            row = await connection.fetchrow(_COMMON["read_settings"])
            if row is None or row["recounted_to"] is None:
                return False
            found = await connection.fetch(_COMMON["take_recounted"], row["recounted_to"], at_once)
            subjects = [each["subject"] for each in found]
            await connection.execute(_COMMON["drop_marks"], subjects)
            for kind in SubjectKind:
                of_kind = [subject for subject in subjects if kind_of(subject) is kind]
                await self._count_again(connection, kind, of_kind, now)
            await connection.execute(_COMMON["note_recounted"], subjects[-1] if subjects else None)
            return bool(subjects)

        return await self._database.transaction("recount_activity", work, durable=False)

    async def recount_state(self) -> Recount | None:
        """How far a recount has come; None when none is under way."""
        row = await self._database.fetchrow(_COMMON["recount_state"])
        if row is None or row["recounted_to"] is None:
            return None
        return Recount(row["done"], row["subjects"])

    async def undelivered(
        self,
        *,
        after: int,
        limit: int,
        profile_schemas: Sequence[str],
        community_schemas: Sequence[str],
    ) -> list[Undelivered]:
        """Numbers that the search engine lacks, in the order of the queue, after a place in it."""
        rows = await self._database.fetch(
            _COMMON["take_undelivered"], limit, after, list(profile_schemas), list(community_schemas)
        )
        return [Undelivered(row["id"], _activity_row(row), row["keys"] or ()) for row in rows]

    async def note_delivered(self, ids: Collection[int]) -> None:
        """The search engine has what these entries of the queue ask for."""
        await self._database.execute(_COMMON["note_delivered"], list(ids))

    async def deliver_all(self) -> None:
        """The search engine was filled anew: everything is to be delivered again."""
        await self._database.execute(_COMMON["deliver_all"])

    async def _begin_batch(self, connection: Connection) -> None:
        await connection.execute("set transaction isolation level repeatable read")
        await connection.execute(_COMMON["lock_tick"])
        await connection.execute(_COMMON["plan_by_index"])

    async def _count_again(
        self, connection: Connection, kind: SubjectKind, subjects: list[str], now: datetime
    ) -> int:
        if not subjects:
            return 0
        parameters = self._parameters(now, 0, 0)
        written: int = await connection.fetchval(_SQL[kind]["count_again"], *parameters, subjects)
        await self._put_profiles(connection, kind, subjects)
        return written

    async def _count_last_days(
        self, connection: Connection, kind: SubjectKind, turned: list[tuple[str, date]], now: datetime
    ) -> None:
        if turned:
            await connection.execute(
                _SQL[kind]["count_last_days"],
                now,
                list(self._counting.post_schemas),
                [subject for subject, _ in turned],
                [day for _, day in turned],
                self._first_day(now),
            )

    async def _put_profiles(self, connection: Connection, kind: SubjectKind, subjects: list[str]) -> None:
        if subjects and kind is SubjectKind.USER:
            profile_schemas = list(self._counting.profile_schemas)
            await connection.execute(_SQL[kind]["put_profiles"], subjects, profile_schemas)

    def _first_day(self, now: datetime) -> date:
        return now.astimezone(UTC).date() - timedelta(days=self._counting.history_days - 1)

    def _parameters(self, now: datetime, marks: int, due: int) -> tuple[object, ...]:
        counting = self._counting
        return (
            now,
            list(counting.post_schemas),
            counting.half_life_seconds,
            list(counting.profile_schemas),
            marks,
            due,
            now - MONTH,
            now - WEEK,
            self._first_day(now),
            counting.history_days + _DAYS_MORE,
        )


async def activity_of(database: Database, subject: str) -> tuple[ActivityRow, Mapping[str, object]] | None:
    """The numbers of one subject, and how they stand: `refreshed_at`, `due_at`, `delivered`, `marked`."""
    row = await database.fetchrow(_COMMON["activity_of"], subject)
    if row is None:
        return None
    standing = {name: row[name] for name in ("refreshed_at", "due_at", "delivered", "marked")}
    return _activity_row(row), standing


async def is_subject(database: Database, subject: str, post_schemas: Sequence[str]) -> bool:
    """Whether the mirror knows a person, or a record under a key that is no post."""
    row = await database.fetchrow(_COMMON["is_subject"], subject, list(post_schemas))
    return row is not None and bool(row[0])


async def entries_of(
    database: Database, subject: str, *, since: datetime, post_schemas: Sequence[str], limit: int
) -> tuple[list[CountedEntry], int]:
    """The newest entries of a subject since a moment, and how many there are in all."""
    rows = await database.fetch(
        _SQL[kind_of(subject)]["entries_of"], subject, list(post_schemas), since, limit
    )
    entries = [
        CountedEntry(row["key"], row["author"], row["schema"], row["first_created_at"]) for row in rows
    ]
    return entries, rows[0]["entries"] if rows else 0


def _activity_row(row: asyncpg.Record) -> ActivityRow:
    return ActivityRow(**{name: row[name] for name in ActivityRow.__slots__})
