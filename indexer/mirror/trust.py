"""Who may say what, as the mirror knows it: where people live, what is provisional, what is still open.

Everything that concerns a page runs in the page's transaction, under its owners' locks (`lock_owners`: a page
that may settle where somebody lives holds that person's lock exclusively), so that facts stay true until the
commit. A crash leaves a page's questions with its rows or neither.

What is provisional never stands without a question about its owner. Questions are bounded per server all the
same: with one that no longer fits goes, in the same statement, what stood provisionally by that server's
word.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indexer.mirror.changes import DeadLetter, EntityStanding
from indexer.mirror.context import lock_numbers
from indexer.mirror.letters import DEAD_LETTERS_PER_SERVER, keep_dead_letters
from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from indexer.mirror.changes import Changes, LeftHome
    from indexer.mirror.database import Connection, Database

_SQL = load("indexer.mirror", "queries/trust.sql")
QUESTIONS_PER_SERVER = 10_000
"""How many of the people that a feed brought are to be looked up at a time."""
_QUESTIONS_DROPPED_AT_ONCE = 500
SET_ASIDE_PER_SERVER = 10_000
WAITING_PER_SERVER = 100_000


@dataclass(frozen=True, slots=True)
class Home:
    """Where a person lives, and how sure that is."""

    domain: str
    standing: EntityStanding
    created_at: datetime
    cdid: str

    @property
    def order(self) -> tuple[int, datetime, str]:
        """The greater one stands."""
        return self.standing.value, self.created_at, self.cdid

    @property
    def is_sure(self) -> bool:
        """Whether it gives authority: it is proven, or the seed's answer."""
        return self.standing is not EntityStanding.CLAIMED


@dataclass(frozen=True, slots=True)
class Facts:
    """What judging a page of `source` has to know. `csid` is the server key that is the source's alone."""

    source: str
    csid: str | None = None
    homes: Mapping[str, Home] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    """Domains that the page names and that have moved, with where they are now."""
    open_owners: frozenset[str] = frozenset()
    """Of those whose home may become known: of whom something is to be asked, or was set aside."""
    documents: Mapping[str, str | None] = field(default_factory=dict)
    """Signed documents that were asked for, by canonical URI; None where there is none."""


async def load_facts(
    connection: Connection,
    source: str,
    people: Collection[str],
    *,
    csid: bool,
    told: Collection[str] = (),
    domains: Collection[str] = (),
    uris: Collection[str] = (),
) -> Facts:
    """Read where these people live, what is open about those `told` of, and which `domains` have moved.

    With `csid` also the source's own key; with `uris` also the documents there.
    """
    homes: dict[str, Home] = {}
    moved: dict[str, str] = {}
    open_owners: set[str] = set()
    key: str | None = None
    wanted = _Wanted.of(uris)
    documents: dict[str, str | None] = dict.fromkeys(uris)
    for row in await connection.fetch(
        _SQL["facts"],
        list(people),
        list(told),
        list(domains),
        csid,
        source,
        wanted.keys,
        list(wanted.by_cdid),
    ):
        what, name, value, standing, created_at, cdid = row
        if what == "home":
            homes[name] = Home(value, EntityStanding(standing), created_at, cdid)
        elif what == "open":
            open_owners.add(name)
        elif what == "moved":
            moved[name] = value
        elif what == "document":
            documents.update(wanted.found(name, value))
        else:
            key = value
    return Facts(source, key, homes, moved, frozenset(open_owners), documents)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Canonical URIs of documents, as the mirror finds them: by key, or by CDID."""

    keys: Sequence[str]
    by_cdid: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, uris: Collection[str]) -> _Wanted:
        by_cdid: dict[str, list[str]] = defaultdict(list)
        for uri in uris:
            if uri.startswith("ccfs:"):
                by_cdid[uri.rpartition("/")[2]].append(uri)
        return cls([uri for uri in uris if uri.startswith("cckv:")], by_cdid)

    def found(self, name: str, signed: str) -> dict[str, str]:
        """The URIs that the document under a key or with a CDID was wanted for."""
        return dict.fromkeys(self.by_cdid.get(name, [name]), signed)


async def load_documents(connection: Connection, uris: Collection[str]) -> dict[str, str]:
    """The signed documents at these canonical keys and `ccfs` URIs, as JSON text; those that exist."""
    wanted = _Wanted.of(uris)
    found: dict[str, str] = {}
    if uris:
        for row in await connection.fetch(_SQL["documents"], wanted.keys, list(wanted.by_cdid)):
            found.update(wanted.found(row["name"], row["signed"]))
    return found


async def settle_owners(
    connection: Connection, homes: Mapping[str, str], *, indexed_schemas: Sequence[str], now: datetime
) -> Mapping[str, int]:
    """It is known now where these people live (owner → domain), and something is open about them.

    Their locks are held exclusively.

    What their own servers said is provisional no more; what others said without a proof is withdrawn, counted
    and dead-lettered; what was set aside of their own servers is due to be read again. Returns how much was
    withdrawn, by server.
    """
    owners, domains = list(homes), list(homes.values())
    withdrawn: Counter[str] = Counter()
    letters: dict[str, list[DeadLetter]] = defaultdict(list)
    found = await connection.fetch(
        _SQL["settle"], owners, domains, indexed_schemas, now, DEAD_LETTERS_PER_SERVER
    )
    for row in found:
        if row["source"] is None:
            await connection.execute(_SQL["confirm_acks"], owners, domains)
            continue
        withdrawn[row["source"]] += row["count"]
        letters[row["source"]] += _withdrawn_letters(row)
    await _bury_withdrawn(connection, withdrawn, letters, now=now)
    return withdrawn


def _withdrawn_letters(row: asyncpg.Record) -> list[DeadLetter]:
    texts = filter(None, row["signed"])
    return [DeadLetter.of_commit(text, row["kind"], "withdrawn") for text in texts]


async def _bury_withdrawn(
    connection: Connection,
    withdrawn: Mapping[str, int],
    letters: Mapping[str, Sequence[DeadLetter]],
    *,
    now: datetime,
) -> None:
    if withdrawn:
        await connection.execute(_SQL["count_rejected_later"], list(withdrawn), list(withdrawn.values()))
    for domain in sorted(letters):
        await keep_dead_letters(connection, domain, letters[domain], now=now)


async def bound_questions(
    connection: Connection, source: str, *, indexed_schemas: Sequence[str], now: datetime
) -> int:
    """Drop the questions of a feed that no longer fit, with what stands provisionally by its word.

    Their owners are no concern of the page: whose lock is not free is left for the next page, so that nobody
    waits here. Returns how much was withdrawn; it is counted and dead-lettered.
    """
    beyond = await connection.fetch(
        _SQL["questions_beyond"], source, QUESTIONS_PER_SERVER, _QUESTIONS_DROPPED_AT_ONCE
    )
    if not beyond:
        return 0
    numbers = lock_numbers(row["owner"] for row in beyond)
    free = {row["number"] for row in await connection.fetch(_SQL["lock_if_free"], sorted(numbers))}
    owners = sorted(owner for number in free for owner in numbers[number])
    found = await connection.fetch(
        _SQL["drop_questions_of"], source, owners, indexed_schemas, now, DEAD_LETTERS_PER_SERVER
    )
    await connection.execute(_SQL["stand_in_follows"], owners)
    await connection.execute(_SQL["trim_set_aside"], source, SET_ASIDE_PER_SERVER)
    number: int = sum(row["count"] for row in found)
    letters = [letter for row in found for letter in _withdrawn_letters(row)]
    await _bury_withdrawn(connection, {source: number} if number else {}, {source: letters}, now=now)
    return number


async def note_left_homes(connection: Connection, left: Sequence[LeftHome], source: str) -> None:
    """What these servers said of people who left them is to be judged again; `source` tells it."""
    if left:
        owners, domains = [one.owner for one in left], [one.domain for one in left]
        await connection.execute(_SQL["note_left_homes"], owners, domains, source)


async def keep_open_questions(connection: Connection, changes: Changes, *, now: datetime) -> None:
    """Keep who is to be looked up, what was set aside, and which commits wait.

    The last two are bounded per server; so are the first, by `bound_questions`.
    """
    source = changes.source
    if changes.unresolved:
        await connection.execute(_SQL["ask_about"], sorted(changes.unresolved), source, now)
    if changes.set_aside:
        await connection.execute(_SQL["set_aside"], sorted(changes.set_aside), source, now)
        await connection.execute(_SQL["trim_set_aside"], source, SET_ASIDE_PER_SERVER)
    if changes.waiting:
        waiting = sorted(changes.waiting, key=lambda one: one.digest)
        names = ("digest", "href", "is_enactment", "commit", "accepted")
        columns = [[getattr(one, name) for one in waiting] for name in names]
        await connection.execute(_SQL["keep_waiting"], source, *columns, now)
        await _trim_waiting(connection, source, now=now)


async def _trim_waiting(connection: Connection, source: str, *, now: datetime) -> None:
    """What does not fit is judged as what has waited for too long: buried, unless it stands meanwhile."""
    gone = await connection.fetch(_SQL["trim_waiting"], source, WAITING_PER_SERVER)
    if gone:
        letters = [DeadLetter.of_commit(row["commit"], "commit", "unknown_document") for row in gone]
        await keep_dead_letters(connection, source, letters, now=now)
        await count_rejected(connection, source, len(letters))


@dataclass(frozen=True, slots=True)
class OwedLog:
    """What a server said of its resident, due to be read again from a place of the log; None: its start."""

    owner: str
    domain: str
    read_to: str | None
    read_to_ns: int | None
    asked: int


class OpenQuestions:
    """What is still to be found out, for the loop that does it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take_owners_to_ask(self, *, now: datetime, limit: int, per_feed_and_hour: int) -> list[str]:
        """People whose time has come, and whose feeds have look-ups left; these are spent with it."""
        rows = await self._take("take_owners_to_ask", now, limit, per_feed_and_hour)
        return [row["owner"] for row in rows]

    async def ask_again(self, owner: str, *, at: datetime, unknown_at: datetime | None = None) -> None:
        """Nothing was learnt; ask again then. `unknown_at` is when the seed said that it knows nothing."""
        await self._database.execute(_SQL["ask_again_at"], owner, at, unknown_at)

    async def servers_to_read(
        self, *, after: str, now: datetime, limit: int, per_server_and_hour: int, but: Collection[str]
    ) -> list[str]:
        """Servers of which logs are due and that have pages left in their hour, past one of them, by name."""
        rows = await self._database.fetch(
            _SQL["servers_to_read"], after, now, limit, per_server_and_hour, list(but)
        )
        return [row["domain"] for row in rows]

    async def take_page(self, domain: str, *, now: datetime, per_server_and_hour: int) -> OwedLog | None:
        """The log of a server that is due first, a page of it spent; None: none is, or no page is left."""
        row = await self._database.fetchrow(_SQL["take_page"], domain, now, per_server_and_hour)
        return None if row is None else OwedLog(**dict(row))

    async def read_to(self, owed: OwedLog, place: str, place_ns: int) -> None:
        """A page was read; the log goes on there, unless it was said meanwhile to be read from its start."""
        await self._database.execute(_SQL["read_to"], owed.owner, owed.domain, owed.asked, place, place_ns)

    async def put_off(self, owner: str, domain: str, *, until: datetime) -> None:
        """Not before then; what was read of it is."""
        await self._database.execute(_SQL["put_off"], owner, domain, until)

    async def was_read_again(self, owed: OwedLog) -> None:
        """It was, to its end, unless it was said meanwhile to be read from its start."""
        await self._database.execute(_SQL["was_read_again"], owed.owner, owed.domain, owed.asked)

    async def take_enactments_to_fetch(
        self, *, now: datetime, limit: int, per_feed_and_hour: int
    ) -> list[tuple[str, str]]:
        """(key, where its owner lives) of enactments to be asked for; look-ups are spent as for people."""
        rows = await self._take("take_enactments_to_fetch", now, limit, per_feed_and_hour)
        return [(row["href"], row["home"]) for row in rows]

    async def ask_for_enactment_again(self, key: str, *, now: datetime) -> None:
        """Where its owner lives did not answer: later, and later each time."""
        await self._database.execute(_SQL["ask_for_enactment_again"], key, now)

    async def _take(
        self, name: str, now: datetime, limit: int, per_feed_and_hour: int
    ) -> list[asyncpg.Record]:
        """Take and count look-ups, one process at a time: two would each find the whole budget."""

        async def work(connection: Connection) -> list[asyncpg.Record]:
            await connection.execute(_SQL["lock_look_ups"])
            rows: list[asyncpg.Record] = await connection.fetch(_SQL[name], now, limit, per_feed_and_hour)
            return rows

        return await self._database.transaction(name, work)

    async def tidy(self, *, now: datetime) -> None:
        """Forget hours that are over, sum up small counts."""
        await self._database.execute(_SQL["forget_look_ups"], now)
        await self._database.execute(_SQL["sum_up_rejected_later"])


@dataclass(frozen=True, slots=True)
class Waited:
    """A commit that waits no longer. `is_over`: not because its document has come, but for lack of time."""

    domain: str
    digest: bytes
    href: str
    commit: str
    is_over: bool


async def no_longer_waiting(
    connection: Connection, *, limit: int, asked_for: Collection[str], waiting_since: datetime
) -> list[Waited]:
    """Take commits whose document has come or was `asked_for`, and those that have waited since then.

    Of servers that have more than 200 waiting, others are looked at each time.
    """
    start = random.randbytes(8)  # noqa: S311 (spreads the looking)
    rows = await connection.fetch(_SQL["no_longer_waiting"], limit, list(asked_for), waiting_since, start)
    return [Waited(**dict(row)) for row in rows]


async def wait_no_more(connection: Connection, domain: str, digests: Collection[bytes]) -> None:
    """Commits that are not judged again."""
    await connection.execute(_SQL["wait_no_more"], domain, list(digests))


async def count_rejected(connection: Connection, domain: str, number: int) -> None:
    """Count commits that were rejected later than their page."""
    await connection.execute(_SQL["count_rejected_later"], [domain], [number])
