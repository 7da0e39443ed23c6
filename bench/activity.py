"""What activity costs: `python -m bench.activity`.

One embedded PostgreSQL, 100,000 people with a profile each, 1,000,000 entries of the last 35 days, of which
one in four stands in one of 1,000 communities. People and communities are as active as such things are: the
n-th of them in proportion to 1/n. Then, in one run:

* a tick after 1 % of the entries changed (half of them new now, a quarter deleted, a quarter found to be
  older), against one SQL statement of the plain formula over all of them. Both compute and store the same
  numbers of everybody: scores, counts, distinct authors, the days of the history. The statement writes them
  into an empty table; the tick besides finds out what changed, keeps when numbers will change by themselves,
  and queues what the search engine lacks. Delivering that is measured apart. Once the changes are those of
  one in a hundred people, as in ten minutes of a network's life, once they are scattered over everybody,
  the worst there is;
* viewer mode for somebody who follows 5,000 people, against plain keyword searches on the same data: of
  people, of communities, and of the entries, of which `--posts` are indexed (all would take some minutes).

Machines are shared and noisy: compare within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.activity.keeper import ActivityKeeper
from indexer.api.kinds import SEARCH_KINDS
from indexer.api.search import SearchService
from indexer.engines.base import WriteBatch
from indexer.engines.ids import document_id
from indexer.engines.indexes import COMMUNITIES, INDEXES, POSTS, USERS
from indexer.engines.postgres import PostgresEngine
from indexer.mirror.activity import Activity, Counting
from indexer.mirror.database import Database
from indexer.mirror.embedded import start_embedded
from indexer.mirror.migrate import migrate
from indexer.mirror.ranking import ViewerRanking
from indexer.projection.documents import rfc3339
from indexer.projection.figures import FigureDelivery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from indexer.engines.base import Document

PROFILE = "https://schema.concrnt.world/p/main.json"
COMMUNITY = "https://schema.concrnt.world/t/community.json"
POST = "https://schema.concrnt.world/m/markdown.json"
REFERENCE = "https://schema.concrnt.net/reference.json"
FOLLOW = "https://schema.concrnt.world/ack/follow.json"
HALF_LIFE = 604_800.0
VIEWER = "con" + "v".rjust(39, "0")
NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)

_COMMUNITIES = 1_000
_SIGNED = 700
_WORDS = ("猫", "犬", "写真", "散歩", "設計", "音楽", "料理", "旅", "本", "映画")

# The n-th of N in proportion to 1/n is N^u for u even in 0..1.
_PERSON = "('con' || lpad((floor(power($1::float8, random())) * $6::int + $7::int)::bigint::text, 39, '0'))"
_TIMELINE = (
    f"('cckv://alpha.example/concrnt.world/communities/' || power({_COMMUNITIES}::float8, random())::bigint)"
)
_FILL = f"""
insert into mirror.records
  (key, owner, author, schema, parent, href, source, cdid, created_at, first_created_at, signed)
select
  parent || '/' || e.name, split_part(parent, '/', 3), author,
  case when in_community then '{REFERENCE}' else '{POST}' end, parent,
  case when in_community then 'cckv://' || author || '/' || e.name end, 'alpha.example', e.name, at, at,
  repeat('x', {_SIGNED})
from (
  select
    $4 || n as name, author, in_community, $3::timestamptz - random() * $5::interval as at,
    case when in_community then timeline else 'cckv://' || author || '/concrnt.world/profiles/main/posts' end
      as parent
  from (
    select n, {_PERSON} as author, {_TIMELINE} as timeline, random() < 0.25 as in_community
    from generate_series(1, $2::int) n
  ) as chosen
) as e
"""

# The plain formula over everything, in one statement, stored in a fresh table: the same numbers as a tick's.
_FRESH_PLAIN = """
drop table if exists plain;
create table plain (
  subject text primary key, score float8, n30 int, n7 int, a7 int, last_at timestamptz, days date[],
  posts bigint[], authors bigint[]
)
"""
_PLAIN = f"""
insert into plain
with entries as (
  select author as subject, author, first_created_at as at from mirror.records where schema = '{POST}'
  union all
  select parent, author, first_created_at from mirror.records where strpos(owner, '.') > 0
), days as (
  select subject, at::date as day, count(*) as posts, count(distinct author) as authors
  from entries where at >= $1::date - 29 group by subject, at::date
), histories as (
  select subject, array_agg(day order by day) as days, array_agg(posts order by day) as posts,
    array_agg(authors order by day) as authors
  from days group by subject
), sums as (
  select
    subject,
    sum(power(2::float8, -date_part('epoch', $1 - at) / {HALF_LIFE}))
      filter (where at >= $1 - interval '30 days') as score,
    count(*) filter (where at >= $1 - interval '30 days') as posts_30d,
    count(*) filter (where at >= $1 - interval '7 days') as posts_7d,
    count(distinct author) filter (where at >= $1 - interval '7 days') as authors_7d,
    max(at) as last_at
  from entries
  group by subject
)
select s.subject, s.score, s.posts_30d, s.posts_7d, s.authors_7d, s.last_at, h.days, h.posts, h.authors
from sums s left join histories h using (subject)
"""


class _Silent:
    def activity_refreshed(self, subject: str, result: str, seconds: float) -> None:
        """Nothing."""


async def _nothing() -> int:
    return 0


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def _fill(database: Database, people: int, entries: int) -> None:
    await database.execute(
        "insert into mirror.records (key, owner, author, schema, parent, source, cdid, created_at,"
        " first_created_at, signed)"
        f" select 'cckv://' || c || '/concrnt.world/profiles/main', c, c, '{PROFILE}',"
        "  'cckv://' || c || '/concrnt.world/profiles', 's', c, $2, $2, '{}'"
        " from (select 'con' || lpad(n::text, 39, '0') as c from generate_series(1, $1::int) n) as p",
        people,
        NOW - timedelta(days=300),
    )
    await database.execute(
        "insert into mirror.records (key, owner, author, schema, parent, source, cdid, created_at,"
        " first_created_at, signed)"
        " select 'cckv://alpha.example/concrnt.world/communities/' || n, 'alpha.example', 'x',"
        f"  '{COMMUNITY}', 'cckv://alpha.example/concrnt.world/communities', 's', 'c' || n, $2, $2, '{{}}'"
        " from generate_series(1, $1::int) n",
        _COMMUNITIES,
        NOW - timedelta(days=300),
    )
    await database.execute(_FILL, float(people), entries, NOW, "e", timedelta(days=35), 1, 0)
    await database.execute(
        "insert into mirror.acks (acker, ackee, schema, valid, created_at, cdid, source)"
        f" select $1, 'con' || lpad(n::text, 39, '0'), '{FOLLOW}', true, $2, 'a', 's'"
        " from (select distinct ceil(random() * $3)::int as n from generate_series(1, 5200)) as chosen"
        " limit 5000",
        VIEWER,
        NOW,
        people,
    )


async def _index(engine: PostgresEngine, people: int) -> None:
    def document(key: str, kind: str, number: int) -> dict[str, object]:
        text = f"{_WORDS[number % 10]}が好き {_WORDS[number // 10 % 10]} name{number}"
        shared = {"id": document_id(key), "type": kind, "cckv": key, "createdAt": "2025-03-01T00:00:00Z"}
        if kind == "community":
            return {**shared, "owner": "alpha.example", "name": text, "description": ""}
        owner = key.split("/")[2]
        return {**shared, "owner": owner, "ccid": owner, "username": f"name{number}", "description": text}

    for start in range(1, people + 1, 5_000):
        numbers = range(start, min(start + 5_000, people + 1))
        documents = [document(f"cckv://con{n:039}/concrnt.world/profiles/main", "user", n) for n in numbers]
        await engine.write(WriteBatch({USERS: documents}))
    communities = [
        document(f"cckv://alpha.example/concrnt.world/communities/{n}", "community", n)
        for n in range(1, _COMMUNITIES + 1)
    ]
    await engine.write(WriteBatch({COMMUNITIES: communities}))


async def _index_posts(database: Database, engine: PostgresEngine, posts: int) -> None:
    after = ""
    for start in range(0, posts, 5_000):
        rows = await database.fetch(
            "select key, author, first_created_at as at from mirror.records"
            f" where schema = '{POST}' and key > $1 order by key limit $2",
            after,
            min(5_000, posts - start),
        )
        if not rows:
            return
        after = rows[-1]["key"]
        documents: list[Document] = [
            {
                "id": document_id(row["key"]),
                "type": "post",
                "cckv": row["key"],
                "author": row["author"],
                "owner": row["author"],
                "schema": POST,
                "body": f"{_WORDS[number % 10]}が好き {_WORDS[number // 10 % 10]} word{number}",
                "createdAt": rfc3339(row["at"]),
            }
            for number, row in enumerate(rows, start=start)
        ]
        await engine.write(WriteBatch({POSTS: documents}))


async def _change(database: Database, people: int, changes: int, round_: int, share: int) -> None:
    """New entries (half), deletes and older copies (a quarter each) by one in `share` of the people."""
    active = f"(right(author, 12)::bigint % {share}) = {round_ % share}"
    await database.execute(
        _FILL,
        people / share,
        changes // 2,
        NOW,
        f"n{share}-{round_}-",
        timedelta(minutes=10),
        share,
        round_ % share,
    )
    chosen = (
        "select key from mirror.records where author like 'con%' and first_created_at > $1"
        f" and key like '%/e%' and {active} order by random() limit $2"
    )
    await database.execute(
        f"delete from mirror.records where key in ({chosen})", NOW - timedelta(days=29), changes // 4
    )
    await database.execute(
        "update mirror.records set first_created_at = first_created_at - interval '1 hour'"
        f" where key in ({chosen})",
        NOW - timedelta(days=29),
        changes // 4,
    )


def _percentile(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]


@dataclass(frozen=True, slots=True)
class _Cost:
    """Seconds by the clock, and of processor time of the database connection and of this process."""

    seconds: float
    processor: float


async def _cost(database: Database, work: Callable[[], Awaitable[object]]) -> _Cost:
    """Measure on a pool of one connection; what was written before is written out first."""
    await database.execute("checkpoint")
    row = await database.fetchrow("select pg_backend_pid() as pid")
    assert row is not None
    before = _processor_seconds(row["pid"])
    seconds = await _timed(work)
    return _Cost(seconds, _processor_seconds(row["pid"]) - before)


def _processor_seconds(backend: int) -> float:
    """Less noisy than the clock on a shared machine."""
    spent = [int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in (backend, os.getpid())]
    return sum(spent) / 1e9


async def _ticks(database: Database, engine: PostgresEngine, people: int, entries: int, rounds: int) -> None:
    activity = Activity(database, Counting(HALF_LIFE, 30, (POST,), (PROFILE,)))
    delivery = FigureDelivery(activity, engine, profile_schemas=[PROFILE], community_schemas=[COMMUNITY])
    keeper = ActivityKeeper(
        activity, deliver=_nothing, interval_seconds=600, metrics=_Silent(), clock=lambda: NOW
    )
    first = await _timed(lambda: keeper.tick(NOW))
    brought = await _timed(delivery.deliver)
    print(f"  the first tick over everything {first:8.2f} s, delivering it {brought:8.2f} s")
    await database.execute("vacuum analyze")
    now = NOW
    for share, whose in ((100, "of one in a hundred people"), (1, "scattered over everybody")):
        measured = []
        for round_ in range(rounds):
            await _change(database, people, entries // 100, round_, share)
            now += timedelta(minutes=1)
            measured.append(await _round(database, keeper, delivery, now))
        print(f"  1 % of the entries changed, {whose}")
        print(
            f"    subjects touched             {statistics.median(each.touched for each in measured):8,.0f}"
        )
        _print_cost("a tick", [each.tick for each in measured])
        _print_cost("delivering its numbers", [each.delivery for each in measured])
        _print_cost("one statement over all", [each.whole for each in measured])
        clock = statistics.median(each.whole.seconds / each.tick.seconds for each in measured)
        processor = statistics.median(each.whole.processor / each.tick.processor for each in measured)
        print(f"    times cheaper                {clock:8.1f}, by the processor {processor:8.1f}", flush=True)


@dataclass(frozen=True, slots=True)
class _Round:
    touched: int
    tick: _Cost
    delivery: _Cost
    whole: _Cost


async def _round(
    database: Database, keeper: ActivityKeeper, delivery: FigureDelivery, now: datetime
) -> _Round:
    touched = 0

    async def tick() -> None:
        nonlocal touched
        touched = await keeper.tick(now)

    ticked = await _cost(database, tick)
    delivered = await _cost(database, delivery.deliver)
    await database.execute(_FRESH_PLAIN)
    return _Round(touched, ticked, delivered, await _cost(database, lambda: database.execute(_PLAIN, now)))


def _print_cost(name: str, costs: list[_Cost]) -> None:
    seconds = statistics.median(cost.seconds for cost in costs)
    processor = statistics.median(cost.processor for cost in costs)
    print(f"    {name:<28} {seconds * 1000:8.0f} ms, of the processor {processor * 1000:8.0f} ms")


async def _viewer(database: Database, engine: PostgresEngine, repeats: int) -> None:
    ranking = ViewerRanking(
        database,
        half_life_seconds=HALF_LIFE,
        ack_schemas=[FOLLOW],
        profile_schemas=[PROFILE],
        community_schemas=[COMMUNITY],
    )
    service = SearchService(engine, ranking, clock=lambda: NOW + timedelta(hours=1))
    users, communities, posts = SEARCH_KINDS[:3]
    for kind, what in ((posts, "posts"), (users, "people"), (communities, "communities")):
        queries = {
            "keyword": [f"q={word}&offset={20 * (n % 3)}" for n, word in enumerate(_WORDS)],
            "viewer": [f"viewer={VIEWER}&offset={20 * n}" for n in range(10)],
            "viewer with q": [
                f"viewer={VIEWER}&q={word}&offset={20 * (n % 3)}" for n, word in enumerate(_WORDS)
            ],
        }
        if kind is posts:
            queries = {"keyword": queries["keyword"]}
        for name, asked in queries.items():
            seconds = []
            for number in range(repeats * len(asked)):
                query = asked[number % len(asked)].encode()
                seconds.append(await _timed(lambda query=query, kind=kind: service.answer(kind, query)))  # type: ignore[misc]
            label = f"{what}, {name}"
            print(
                f"  {label:<30} median {statistics.median(seconds) * 1000:6.1f} ms,"
                f" 95th percentile {_percentile(seconds) * 1000:6.1f} ms"
            )


async def _measure(people: int, entries: int, posts: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="concrnt-bench-") as name:
        server = await asyncio.to_thread(start_embedded, Path(name))
        try:
            # One connection: its processor time is what things cost.
            database = await Database.connect(server.dsn, size=1)
            await migrate(database)
            engine = PostgresEngine(database.pool, 10_000)
            await engine.prepare(INDEXES)
            print(f"{people:,} people, {entries:,} entries")
            filled = await _timed(lambda: _fill(database, people, entries))
            print(f"  filled in                      {filled:8.1f} s", flush=True)
            await database.execute("vacuum analyze")
            await _index(engine, people)
            await _ticks(database, engine, people, entries, rounds)
            await _index_posts(database, engine, posts)
            await database.execute("vacuum analyze")
            await _viewer(database, engine, rounds * 4)
            await database.close()
        finally:
            await asyncio.to_thread(server.stop)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure ticks and viewer mode.")
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--posts", type=int, default=100_000, help="how many entries are searchable")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    asyncio.run(_measure(arguments.people, arguments.entries, arguments.posts, arguments.rounds))


if __name__ == "__main__":
    main()
