"""Applying pages: cursors, dead letters, keys of the worst kind, and how hot statements are planned."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import asyncpg
import pytest

from indexer.engines.base import SearchRequest, WriteBatch
from indexer.engines.indexes import INDEXES, POSTS
from indexer.engines.postgres import PostgresEngine
from indexer.mirror.letters import DEAD_LETTERS_PER_SERVER
from indexer.mirror.queue import ProjectionQueue
from indexer.mirror.servers import CursorAdvance, advance_cursor
from indexer.projection.batch import BatchPlan
from indexer.projection.kinds import Kinds
from indexer.simulation import schemas as wire
from indexer.simulation.scripted import ALICE, ALPHA, BETA, delete, post, post_key, record, reference
from indexer.statements import load
from tests.replication.stage import NOW, open_mirror

if TYPE_CHECKING:
    from indexer.mirror.database import Connection
    from tests.replication.stage import Mirror

pytestmark = pytest.mark.anyio


# --- cursors and dead letters ----------------------------------------------------------------------


async def test_a_cursor_never_moves_back(database_url: str) -> None:
    """An older one leaves it as it is; what came with it is counted all the same."""
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [])
        stored = []
        for text, ns in (("b", 2), ("a", 1), (None, None), ("c", 2), ("d", 10**18)):
            advance = CursorAdvance(ALPHA, text, ns, None, commits=1)

            async def work(connection: Connection, advance: CursorAdvance = advance) -> None:
                await advance_cursor(connection, advance)

            await mirror.database.transaction("test", work)
            stored += await mirror.rows("select cursor, cursor_ns::bigint from mirror.cursors")
        assert [(row["cursor"], row["cursor_ns"]) for row in stored] == [
            ("b", 2), ("b", 2), ("b", 2), ("c", 2), ("d", 10**18),
        ]  # fmt: skip
        assert (await mirror.rows("select commits from mirror.servers"))[0]["commits"] == 5


async def test_dead_letters_are_kept_once_each_and_only_the_newest_of_a_server(database_url: str) -> None:
    """A server that floods them pushes out its own, not another's."""
    async with open_mirror(database_url) as mirror:
        await mirror.write(BETA, [b'{"document": "beta"}'])
        letters = [b'{"document": "%d"}' % number for number in range(DEAD_LETTERS_PER_SERVER + 250)]
        for first in range(0, len(letters), 250):
            await mirror.write(ALPHA, letters[first : first + 250])
        await mirror.write(ALPHA, letters[-10:], behind=10)
        kept = await mirror.rows("select domain, commit from mirror.dead_letters order by id")
        assert kept[0]["domain"] == BETA
        assert [row["commit"] for row in kept[1:]] == [letter.decode() for letter in letters[250:]]
        counted = await mirror.rows("select malformed from mirror.servers order by domain")
        assert [row["malformed"] for row in counted] == [len(letters), 1]


# --- keys of the worst kind ------------------------------------------------------------------------


def _mixture(alphabet: str, seed: str) -> str:
    random, text = Random(seed), ""
    while len((text + "𠮷").encode()) <= 980:
        text += random.choice(alphabet)
    return text


_WORST = {
    "percent signs": quote("%" * 980),
    "slashes": quote("/" * 980, safe=""),
    "question marks": quote("?" * 980),
    "number signs": quote("#" * 980),
    "a mixture of what is encoded": quote(_mixture("%/?#", "encoded"), safe=""),
    "a mixture with letters": quote(_mixture("%/?#abcdefghijklmnopqrstuvwxyz0123456789", "letters"), safe=""),
    "Japanese": _mixture("".join(map(chr, range(0x4E00, 0x9FA0))), "kanji"),
    "beyond the first plane": _mixture("".join(map(chr, range(0x20000, 0x2A6D0))), "astral"),
    "all of Latin-1": quote(
        _mixture("".join(map(chr, range(0x21, 0x100))).replace("*", ""), "latin"), safe=""
    ),
    "the deepest nesting": "/".join("s" * 490),
    "empty steps": "a" + "/" * 979,
}


@pytest.mark.parametrize("name", _WORST)
async def test_a_key_of_the_worst_kind_is_stored_indexed_and_deleted(database_url: str, name: str) -> None:
    """Its canonical form is three times as long; or it costs itself alone, as `not_storable`."""
    tree = f"cckv://{ALICE}/worst"
    key = f"{tree}/{_WORST[name]}"
    worst = record(key, {"body": "最悪"}, author=ALICE, schema=wire.MARKDOWN)
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [post(ALICE, "before", "前"), worst, post(ALICE, "after", "後")])
        stored = await mirror.keys() - {post_key(ALICE, "before"), post_key(ALICE, "after")}
        reasons = [row["reason"] for row in await mirror.rows("select reason from mirror.dead_letters")]
        assert (len(stored), reasons) in [(1, []), (0, ["not_storable"])]
        assert len(await mirror.keys()) == 2 + len(stored)
        assert len(await _project(mirror, "最悪")) == len(stored)
        await mirror.write(ALPHA, [delete(f"{tree}/*", author=ALICE, created_at="2025-03-02T00:00:00Z")])
        assert await mirror.keys() == {post_key(ALICE, "before"), post_key(ALICE, "after")}
        assert await _project(mirror, "最悪") == []
        retired = await mirror.rows("select key from mirror.retired")
        assert {row["key"] for row in retired} == stored


async def test_what_no_index_row_can_hold_costs_itself_alone(database_url: str) -> None:
    """The longest schema and the longest key together: one dead letter, written once; the page applies."""
    random, letters = Random("unstorable"), "abcdefghijklmnopqrstuvwxyz0123456789"
    schema = "https://s.example/" + "".join(random.choices(letters, k=1_000))
    owner = ".".join("".join(random.choices(letters, k=60)) for _ in range(4))
    key = f"cckv://{owner}/{quote(_mixture('%/?#' * 10 + letters + letters.upper(), 'both'), safe='')}"
    page = [
        post(ALICE, "before", "前"),
        record(key, {}, author=ALICE, schema=schema),
        delete(post_key(ALICE, "before"), author=ALICE),
        post(ALICE, "after", "後"),
    ]
    async with open_mirror(database_url) as mirror:
        changes = await mirror.write(ALPHA, page)
        assert (changes.tally.commits, changes.tally.malformed) == (4, {"commit": 1})
        assert await mirror.keys() == {post_key(ALICE, "after")}
        await mirror.write(ALPHA, page, behind=4)
        kept = await mirror.rows("select kind, reason from mirror.dead_letters")
        assert kept == [{"kind": "commit", "reason": "not_storable"}]


async def test_a_delete_of_a_target_of_any_length_stops_nothing(database_url: str) -> None:
    """A hundred thousand bytes of target are kept, or set aside; the page applies."""
    random = Random("long target")
    target = f"cckv://{ALICE}/" + "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789/", k=100_000))
    page = [post(ALICE, "before", "前"), delete(target + "*", author=ALICE), post(ALICE, "after", "後")]
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, page)
        assert await mirror.keys() == {post_key(ALICE, "before"), post_key(ALICE, "after")}
        letters = await mirror.rows("select reason from mirror.dead_letters")
        assert [row["reason"] for row in letters] in ([], ["not_storable"], ["malformed_target"])


async def _project(mirror: Mirror, query: str) -> list[dict[str, Any]]:
    """Project what is marked, and search for it."""
    queue, engine = ProjectionQueue(mirror.database), PostgresEngine(mirror.database.pool, 100)
    await engine.prepare(INDEXES)
    plan = BatchPlan(Kinds(profile_schemas=[], community_schemas=[], post_schemas=[wire.MARKDOWN]), NOW)
    marks = await queue.take(100, 10**9, ())
    for mark in marks:
        plan.add(mark)
    batch: WriteBatch = plan.batch()
    assert (await engine.write(batch)).rejected == []
    await queue.done([(mark.key, mark.generation) for mark in marks], NOW)
    return (await engine.search(SearchRequest(POSTS, query, {}, None, 0, 10))).hits


# --- how hot statements are planned ----------------------------------------------------------------


async def _plan(connection: asyncpg.Connection[asyncpg.Record], statement: str, *arguments: Any) -> list[str]:
    """The nodes of a plan, a line each: type, relation, index, index condition."""
    text = await connection.fetchval(f"explain (format json) {statement}", *arguments)
    nodes: list[str] = []

    def walk(node: dict[str, Any]) -> None:
        parts = (node.get(name, "") for name in ("Node Type", "Relation Name", "Index Name", "Index Cond"))
        nodes.append(" | ".join(parts))
        for child in node.get("Plans", []):
            walk(child)

    walk(json.loads(text)[0]["Plan"])
    return nodes


async def _filled(mirror: Mirror, database_url: str) -> asyncpg.Connection[asyncpg.Record]:
    """A connection to a mirror with so many rows that a scan of a whole table is never the better plan."""
    await mirror.database.execute(
        "insert into mirror.records (key, owner, author, schema, parent, href, source, cdid, created_at,"
        "  first_created_at, signed)"
        " select 'cckv://o/' || n % 100 || '/' || n, 'o', 'o', 'https://schema.example/' || n % 7,"
        "  'cckv://o/' || n % 100, case when n % 3 = 0 then 'cckv://p/' || n end, 's', 'c' || n, now(),"
        "  now(), 'x'"
        " from generate_series(1, 30000) n"
    )
    await mirror.database.execute(
        "insert into mirror.tombstones select 'o', 'cckv://o/' || n, 'key', now(), 'd' || n, 'o', 's'"
        " from generate_series(1, 30000) n"
    )
    await mirror.database.execute(
        "insert into mirror.projection_queue (key, marked_at) select key, now() from mirror.records"
    )
    connection = await asyncpg.connect(database_url)
    await connection.execute("analyze")
    return connection


async def test_hot_statements_read_by_index(database_url: str) -> None:
    """No statement of a page or of the queue reads a whole table."""
    context = load("indexer.mirror", "queries/context.sql")
    pages = load("indexer.mirror", "queries/pages.sql")
    queue = load("indexer.mirror", "queries/queue.sql")
    keys = [f"cckv://o/{n % 100}/{n}" for n in range(1, 101)]
    indexed = ["https://schema.example/1"]
    async with open_mirror(database_url) as mirror:
        connection = await _filled(mirror, database_url)
        try:
            sweep = await _plan(
                connection, pages["sweep_range"],
                "cckv://o/42/", "cckv://o/420", "cckv://o/42", False, keys, "s", True, NOW, "c", indexed, NOW,
                False, None,
            )  # fmt: skip
            assert any("records_pkey" in node and "key >=" in node and "key <" in node for node in sweep)
            assert any("records_href" in node and "href >=" in node for node in sweep)
            taken = await _plan(connection, queue["take_marks"], 1_000, 8_000_000, keys)
            assert any("projection_queue_generation" in node for node in taken)
            stones = await _plan(connection, context["covering_tombstones"], keys)
            assert any("tombstones_pkey" in node and "target = ANY" in node for node in stones)
            heads = await _plan(connection, context["heads_by_key"], keys)
            assert any("records_pkey" in node for node in heads)
            documents = await _plan(connection, context["heads_by_document"], ["o"] * 10, ["c1"] * 10)
            assert any("records_cdid" in node for node in documents)
            known = await _plan(connection, context["known_deletes"], ["d1"] * 10)
            assert any("tombstones_cdid" in node for node in known)
            cleared = await _plan(connection, queue["clear_marks"], keys, list(range(100)))
            plans = (*sweep, *stones, *heads, *documents, *known, *cleared)
            assert [node for node in plans if "Seq Scan" in node] == []
            assert not any("Seq Scan" in node and "projection_queue" in node for node in taken)
        finally:
            await connection.close()


async def test_a_range_delete_takes_its_range_and_the_references_into_it_alone(database_url: str) -> None:
    """By path step and by bytes; neighbours that sort beside the range stay."""
    names = ["note", "note/1", "note/1/2", "note-1", "note.1", "note0", "notebook", "notebook/1", "Note/1"]
    async with open_mirror(database_url) as mirror:
        base = f"cckv://{ALICE}/x"
        commits = [
            record(f"{base}/{name}", {"body": name}, author=ALICE, schema=wire.MARKDOWN) for name in names
        ]
        commits += [
            reference(f"cckv://{ALPHA}/t", f"{base}/{name}", author=ALICE, name=f"r{number}")
            for number, name in enumerate(names)
        ]
        await mirror.write(ALPHA, commits)
        await mirror.write(ALPHA, [delete(f"{base}/note/*", author=ALICE)])
        gone = {f"{base}/note/1", f"{base}/note/1/2", f"cckv://{ALPHA}/t/r1", f"cckv://{ALPHA}/t/r2"}
        left = {f"{base}/{name}" for name in names} | {f"cckv://{ALPHA}/t/r{n}" for n in range(len(names))}
        assert await mirror.keys() == left - gone
        again = delete(f"{base}/note*", author=ALICE, created_at="2025-03-02T00:00:00Z")
        await mirror.write(ALPHA, [again])
        assert await mirror.keys() == left - gone - {f"{base}/note", f"cckv://{ALPHA}/t/r0"}
