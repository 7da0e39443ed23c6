"""How fast is a search: `python -m bench.search --posts 200000`.

A fresh embedded PostgreSQL is filled with posts, people and communities as the simulated network writes them;
how fast that goes and how large it gets is told. Then every query of a list is asked of the engine itself and
of the API over HTTP, in turn, and suggestions as a person types them. Milliseconds: of the first time, and
medians of the next. Machines are shared and noisy: compare within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import asyncpg

from indexer.api.public import make_public_app
from indexer.api.serving import serve
from indexer.concrnt.uri import ancestors_of
from indexer.engines.base import SearchRequest, SortOrder, WriteBatch
from indexer.engines.ids import document_id
from indexer.engines.indexes import COMMUNITIES, INDEXES, POSTS, USERS
from indexer.engines.postgres import PostgresEngine
from indexer.mirror.database import Database
from indexer.mirror.embedded import start_embedded
from indexer.mirror.ranking import ViewerRanking
from indexer.observability.metrics import Metrics
from indexer.simulation.texts import Writer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from indexer.api.crawl import IndexedDocument
    from indexer.api.statistics import Statistics
    from indexer.engines.base import Document

_BATCH = 1_000
_BEGAN = datetime(2025, 1, 1, tzinfo=UTC)

QUERIES = (
    "猫",
    "の",
    "コーヒー",
    "写真 散歩",
    "東京の天気",
    "今日は",
    "PostgreSQL",
    "postgers",
    "rust",
    "reading",
    "I am reading",
    "데이터",
    "🐈",
    "TypeScript 設計",
    "alpha.example",
    "zzzzzz",
)
WORST = (
    "い",
    "ma",
    "co",
    "reading about the",
    "の は に",
    "今日 写真 散歩",
    "postgers desgin raeding concurency langauge databse programing",
    "internatoinal develoment documentaton comunication understanding experiance",
    "猫と写真と散歩と音楽" * 1_000,
    "lorem ipsum dolor " * 550,
)
"""Queries that match, or may mean, very much: none may take as long as a person notices."""

TYPED = ("ね", "み", "ミ", "さく", "a", "al", "mi", "猫", "Rust", "音楽", "z")


@dataclass(frozen=True, slots=True)
class Size:
    """How many documents of each kind."""

    posts: int
    people: int
    communities: int


def _posts(size: Size) -> Iterator[Document]:
    chance = Random(7)
    writer = Writer(chance)
    for number in range(size.posts):
        ccid = f"con{number % max(size.people, 1):039}"
        key = f"cckv://{ccid}/concrnt.world/profiles/main/posts/{number}"
        body = f"{writer.body(writer.language())} {_rare_word(chance)}"
        yield _record(
            key, "post", "m/markdown", number, author=ccid, owner=ccid, body=body, value={"body": body}
        )


def _rare_word(chance: Random) -> str:
    """A word as few write it: names, jargon, misspellings. Some 70,000 of 200,000 posts."""
    syllables = ("con", "ter", "al", "in", "ma", "ro", "ti", "sel", "pre", "gra", "dum", "vo", "ning", "ly")
    return "".join(chance.choices(syllables, k=chance.choice((2, 3, 3, 4, 4, 5))))


def _people(size: Size) -> Iterator[Document]:
    writer = Writer(Random(8))
    for number in range(size.people):
        ccid = f"con{number:039}"
        language = writer.language()
        yield _record(
            f"cckv://{ccid}/concrnt.world/profiles/main",
            "user",
            "p/main",
            number,
            ccid=ccid,
            owner=ccid,
            username=writer.person_name(language),
            description=writer.self_description(language),
            avatar="",
            banner="",
            subprofiles=[],
            badges=[],
            activityScore=float(number % 97) if number % 3 else None,
        )


def _communities(size: Size) -> Iterator[Document]:
    writer = Writer(Random(9))
    for number in range(size.communities):
        yield _record(
            f"cckv://alpha.example/concrnt.world/communities/{number}",
            "community",
            "t/community",
            number,
            owner="alpha.example",
            name=writer.community_name(),
            shortname=f"c{number}",
            description=writer.community_description(),
            icon="",
            banner="",
        )


def _record(key: str, kind: str, schema: str, number: int, **fields: Any) -> Document:
    moment = (_BEGAN + timedelta(seconds=number * 61)).isoformat().replace("+00:00", "Z")
    common = {
        "id": document_id(key),
        "type": kind,
        "cckv": key,
        "sourceServer": f"s{number % 7}.example",
        "schema": f"https://schema.concrnt.world/{schema}.json",
        "ancestors": list(ancestors_of(key)),
        "createdAt": moment,
        "indexedAt": moment,
    }
    return {**common, **{name: value for name, value in fields.items() if value is not None}}


async def _fill(engine: PostgresEngine, index: str, documents: Iterator[Document]) -> tuple[int, float]:
    """Write all; returns how many, and the seconds in the engine."""
    count, seconds = 0, 0.0
    batch: list[Document] = []

    async def flush() -> None:
        nonlocal count, seconds
        began = time.perf_counter()
        await engine.write(WriteBatch(upserts={index: batch}))
        seconds += time.perf_counter() - began
        count += len(batch)
        batch.clear()

    for document in documents:
        batch.append(document)
        if len(batch) == _BATCH:
            await flush()
    if batch:
        await flush()
    return count, seconds


class _NoMirror:
    """What the API is made with besides an engine; nothing here asks for it."""

    async def statistics(self) -> Statistics:
        raise AssertionError("nothing here asks for counts")

    async def crawl(self, ccfs: str) -> IndexedDocument:
        raise NotImplementedError


async def _client(port: int) -> Callable[[str, str], Awaitable[None]]:
    """Return what asks over a new connection, by hand: a library's client takes longer than the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask(path: str, text: str) -> None:
        writer.write(f"GET {path}?q={quote(text)} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if not head.startswith("http/1.1 200"):
            raise RuntimeError(head)
        await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))

    return ask


async def _milliseconds(times: int, ask: Callable[[], Awaitable[object]]) -> list[float]:
    measured = []
    for _ in range(times):
        began = time.perf_counter()
        await ask()
        measured.append((time.perf_counter() - began) * 1000)
    return measured


async def _measure(engine: PostgresEngine, database: Database, rounds: int) -> None:
    ranking = ViewerRanking(
        database, half_life_seconds=604_800, ack_schemas=[], profile_schemas=[], community_schemas=[]
    )
    app = make_public_app(
        engine=engine,
        ranking=ranking,
        statistics=_NoMirror(),
        crawler=_NoMirror(),
        metrics=Metrics("bench"),
        version="bench",
    )
    of_engine: list[float] = []
    of_api: list[float] = []
    of_suggestions: list[float] = []
    async with serve(app, "127.0.0.1:0") as listener:
        print(f"\n{'query':20} {'hits':>6} {'first':>8} {'engine':>8} {'API':>8}")
        for text in (*QUERIES, *WORST):
            request = SearchRequest(POSTS, text, sort=SortOrder("createdAt"))
            began = time.perf_counter()
            hits = (await engine.search(request)).estimated_total
            first = (time.perf_counter() - began) * 1000
            engine_times = await _milliseconds(rounds, partial(engine.search, request))
            over_http = await _client(listener.port)  # one that was idle for long is closed
            api_times = await _milliseconds(rounds, partial(over_http, "/api/v1/search/posts", text))
            medians = [statistics.median(times) for times in (engine_times, api_times)]
            print(f"{text[:20]:20} {hits:6} {first:8.1f} {medians[0]:8.1f} {medians[1]:8.1f}")
            if text in QUERIES:
                of_engine += engine_times
                of_api += api_times
        over_http = await _client(listener.port)
        for text in TYPED:
            of_suggestions += await _milliseconds(rounds, partial(over_http, "/api/v1/suggest", text))
    search, api, suggest = map(statistics.median, (of_engine, of_api, of_suggestions))
    print(f"\nmedian: engine {search:.1f} ms, API {api:.1f} ms (+{(api / search - 1) * 100:.0f} %)")
    print(f"suggestions over HTTP: {suggest:.1f} ms ({api / suggest:.1f} times as fast as a search)")


async def _sizes(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    rows = await connection.fetch(
        "select relname, pg_table_size(oid) as rows, pg_indexes_size(oid) as indexes from pg_class "
        "where relnamespace = 'search'::regnamespace and relkind = 'r' order by 2 desc"
    )
    print(f"\n{'table':30} {'rows MB':>9} {'indexes MB':>11}")
    for row in rows:
        print(f"{row['relname']:30} {row['rows'] / 1e6:9.1f} {row['indexes'] / 1e6:11.1f}")
    search = await connection.fetchval("select pg_relation_size('search.concrnt_posts_search')")
    print(f"of these, the index of words of posts: {search / 1e6:.1f} MB")


async def _run(dsn: str, size: Size, rounds: int, *, write: bool, ask: bool) -> None:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=4) as pool:
        engine = PostgresEngine(pool, 10_000)
        await engine.prepare(INDEXES)
        if write:
            await _fill_all(engine, size)
            async with pool.acquire() as connection:
                await connection.execute("vacuum analyze")
                await _sizes(connection)  # type: ignore[arg-type]
        if ask:
            await _measure(engine, Database(pool), rounds)


async def _fill_all(engine: PostgresEngine, size: Size) -> None:
    for index, documents in (
        (USERS, _people(size)),
        (COMMUNITIES, _communities(size)),
        (POSTS, _posts(size)),
    ):
        count, seconds = await _fill(engine, index, documents)
        print(f"{index}: {count} written in {seconds:.1f} s, {count / max(seconds, 1e-9):,.0f} a second")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--posts", type=int, default=200_000)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--communities", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write-only", action="store_true", help="leave the queries out")
    parser.add_argument("--queries-only", action="store_true", help="with --dsn: as it was filled before")
    parser.add_argument("--dsn", default="", help="a database to use and keep, instead of an embedded one")
    given = parser.parse_args()
    size = Size(given.posts, given.people, given.communities)
    if given.dsn:
        asyncio.run(
            _run(given.dsn, size, given.rounds, write=not given.queries_only, ask=not given.write_only)
        )
        return
    with tempfile.TemporaryDirectory(prefix="concrnt-indexer-bench-") as folder:
        server = start_embedded(Path(folder), database="bench")
        try:
            asyncio.run(_run(server.dsn, size, given.rounds, write=True, ask=not given.write_only))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
