"""Planning a page and applying it, against one commit at a time and against the naive model."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.simulation import schemas as wire
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    BOB,
    ack,
    acked,
    community,
    community_key,
    delete,
    document_address,
    entity,
    post,
    post_key,
    profile,
    record,
    reference,
)
from tests.replication.naive import NaiveFeed, steps_of
from tests.replication.stage import open_mirror

_PATHS = ["a", "a/b", "a/c", "ab", "a_b", "a%2Fb", "a/b/c", "%E3%81%AD", "ね", "a%25"]
_times = st.integers(0, 9).map(lambda minute: f"2025-03-01T00:0{minute}:00Z")
_owners = st.sampled_from([ALICE, BOB, ALPHA])
_keys = st.builds(lambda owner, path: f"cckv://{owner}/{path}", _owners, st.sampled_from(_PATHS))


@st.composite
def commits(draw: st.DrawFn) -> bytes:
    """One commit of a small world, so that commits meet each other."""
    created_at = draw(_times)
    shape = draw(st.sampled_from(["record", "record", "record", "reference", "delete", "delete", "ack"]))
    if shape == "record":
        schema = draw(st.sampled_from([wire.PROFILE, wire.MARKDOWN, "https://example.com/other.json"]))
        value = {"username": draw(st.sampled_from(["x", "y"]))}
        return record(draw(_keys), value, author=ALICE, schema=schema, created_at=created_at)
    if shape == "reference":
        href = _canonical(draw(_keys))
        name = draw(st.sampled_from(["r1", "r2"]))
        return reference(community_key(BETA, "c"), href, author=ALICE, created_at=created_at, name=name)
    if shape == "delete":
        target = draw(_keys) + draw(st.sampled_from(["", "/*", "*"]))
        return delete(target, author=ALICE, created_at=created_at)
    kind = draw(st.sampled_from(["ack", "unack"]))
    return ack(ALICE, BOB, kind=kind, created_at=created_at)


def _canonical(key: str) -> str:
    owner, *steps = steps_of(key)
    return "/".join([f"cckv://{owner}", *[s.replace("%", "%25").replace("/", "%2F") for s in steps]])


@st.composite
def feeds(draw: st.DrawFn) -> list[bytes]:
    """A feed, which may hold the same commit more than once and deletes of documents by `ccfs`."""
    feed = draw(st.lists(commits(), min_size=1, max_size=12))
    for position in draw(st.lists(st.integers(0, 11), max_size=3)):
        source = feed[position % len(feed)]
        feed.append(source)
        if b'\\"kind\\":\\"record\\"' in source and draw(st.booleans()):
            owner = source.split(b"cckv://")[1].split(b"/")[0].decode()
            feed.append(delete(document_address(source, owner), author=ALICE, created_at=draw(_times)))
    return feed


_slow_checks = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _cuts(feed: list[bytes], sizes: list[int]) -> list[list[bytes]]:
    pages, rest = [], feed
    for size in sizes:
        pages.append(rest[:size])
        rest = rest[size:]
    return [page for page in [*pages, rest] if page]


async def _same_by_page_and_by_commit(dsn: str, earlier: list[bytes], page: list[bytes]) -> None:
    async with open_mirror(dsn) as mirror:
        states = []
        for pages in ([page], [[commit] for commit in page]):
            await mirror.clear()
            await mirror.write(BETA, earlier)
            for part in pages:
                await mirror.write(ALPHA, part)
            states.append(await mirror.state())
        assert states[0] == states[1]


@_slow_checks
@given(earlier=feeds(), page=feeds())
def test_a_page_at_once_equals_its_commits_one_at_a_time(
    database_url: str, earlier: list[bytes], page: list[bytes]
) -> None:
    """Whatever stands before, and whoever sent it."""
    anyio.run(_same_by_page_and_by_commit, database_url, earlier, page)


async def _equals_naive_model(dsn: str, feed: list[bytes], sizes: list[int], again_from: int) -> None:
    naive = NaiveFeed()
    for commit in feed:
        naive.take(commit)
    async with open_mirror(dsn) as mirror:
        await mirror.clear()
        for page in _cuts(feed, sizes):
            await mirror.write(ALPHA, page)
        again = feed[again_from % len(feed) :]
        for page in _cuts(again, sizes):
            await mirror.write(ALPHA, page, behind=len(page))
        records = {steps_of(row["key"]): row for row in (await mirror.state())["records"]}
        assert {
            key: (row["cdid"], row["created_at"], row["first_created_at"]) for key, row in records.items()
        } == {key: (held.cdid, held.created_at, held.first_created_at) for key, held in naive.records.items()}
        acks = {
            (row["acker"], row["ackee"], row["schema"]): (row["created_at"], row["valid"])
            for row in (await mirror.state())["acks"]
        }
        assert acks == naive.acks


@_slow_checks
@given(feed=feeds(), sizes=st.lists(st.integers(1, 5), max_size=6), again_from=st.integers(0, 11))
def test_any_cut_and_any_second_reading_equal_the_naive_model(
    database_url: str, feed: list[bytes], sizes: list[int], again_from: int
) -> None:
    """Also for logs whose createdAt does not go up: the state never depends on page sizes or overlaps."""
    anyio.run(_equals_naive_model, database_url, feed, sizes, again_from)


@pytest.mark.anyio
@pytest.mark.parametrize("page_size", [1, 2, 100])
async def test_one_key_many_times_in_a_page(database_url: str, page_size: int) -> None:
    """C08: no database error; log order wins; the earliest createdAt stays; equal times change no follow."""
    feed = [
        profile(ALICE, username="v1", created_at="2025-03-01T00:01:00Z"),
        profile(ALICE, username="v2", created_at="2025-03-01T00:02:00Z"),
        profile(ALICE, username="v3", created_at="2025-03-01T00:00:30Z"),
        post(ALICE, "l", "one", created_at="2025-03-01T00:01:00Z"),
        delete(post_key(ALICE, "l"), author=ALICE, created_at="2025-03-01T00:02:00Z"),
        post(ALICE, "l", "two", created_at="2025-03-01T00:03:00Z"),
        ack(ALICE, BOB, created_at="2025-03-01T00:01:00Z"),
        ack(ALICE, BOB, kind="unack", created_at="2025-03-01T00:02:00Z"),
        ack(ALICE, BOB, created_at="2025-03-01T00:02:00Z"),
        entity(ALICE, BETA, created_at="2025-03-01T00:02:00Z"),
        entity(ALICE, ALPHA, created_at="2025-03-01T00:01:00Z"),
    ]
    async with open_mirror(database_url) as mirror:
        for start in range(0, len(feed), page_size):
            await mirror.write(ALPHA, feed[start : start + page_size])
        state = await mirror.state()
        first = {row["key"]: row["first_created_at"].isoformat() for row in state["records"]}
        assert (await mirror.value(f"cckv://{ALICE}/concrnt.world/profiles/main"))["username"] == "v3"
        assert first[f"cckv://{ALICE}/concrnt.world/profiles/main"] == "2025-03-01T00:00:30+00:00"
        assert (await mirror.value(post_key(ALICE, "l")))["body"] == "two"
        assert [row["valid"] for row in state["acks"]] == [False]
        assert [row["domain"] for row in state["entities"]] == [BETA]


@pytest.mark.anyio
async def test_range_deletes_take_path_steps_literally(database_url: str) -> None:
    """C05: no pattern, no collation; each delete takes its own and nothing else."""
    base = "cckv://alpha.example/concrnt.world/communities/"
    names = [
        "a_b/1",
        "axb/1",
        "a%25/2",
        "ab/2",
        "a\\c/1",
        "note",
        "note/1",
        "notebook",
        "notebook/1",
        "note*",
    ]
    puts = [
        record(base + name, {}, author=ALICE, schema="https://example.com/any.json")
        for name in [*names[:-1], "note%2A"]
    ]
    expected = {base + name for name in names}
    malformed = ["no*te", "note**", "cckv://alpha.example*", "cckv://alpha.example/*", ""]
    takes = {
        "a_b/*": {"a_b/1"},
        "a%25*": {"a%25/2"},
        "a\\c*": {"a\\c/1"},
        "note/*": {"note/1"},
        "note%2A": {"note*"},
        "note*": {"note"},
    }
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, puts)
        assert await mirror.keys() == expected
        for target in malformed:
            full = target if target.startswith("cckv") or not target else base + target
            changes = await mirror.write(
                ALPHA, [delete(full, author=ALICE, created_at="2025-03-02T00:00:00Z")]
            )
            assert changes.tally.malformed == {"delete": 1}
            assert await mirror.keys() == expected
        for target, gone in takes.items():
            await mirror.write(
                ALPHA, [delete(base + target, author=ALICE, created_at="2025-03-02T00:00:00Z")]
            )
            expected -= {base + name for name in gone}
            assert await mirror.keys() == expected, target


@pytest.mark.anyio
async def test_what_was_removed_stays_removed(database_url: str) -> None:
    """C09: neither overlap nor another server's older copy brings it back; a new document lives."""
    p1, p2 = post_key(ALICE, "p/1"), post_key(ALICE, "p/2")
    feed = [
        post(ALICE, "p/1", "old", created_at="2025-03-01T00:01:00Z"),
        delete(post_key(ALICE, "p") + "/*", author=ALICE, created_at="2025-03-01T00:02:00Z"),
        post(ALICE, "p/1", "new", created_at="2025-03-01T00:03:00Z"),
        delete(p2, author=ALICE, created_at="2025-03-01T00:04:00Z"),
    ]
    async with open_mirror(database_url) as mirror:
        for commit in feed:
            await mirror.write(ALPHA, [commit])
        await mirror.write(BETA, [post(ALICE, "p/2", "late", created_at="2025-03-01T00:00:00Z")])
        for _ in range(3):
            for commit in feed:
                await mirror.write(ALPHA, [commit], behind=1)
                assert await mirror.keys() == {p1}
        assert (await mirror.value(p1))["body"] == "new"
        first = await mirror.rows("select first_created_at from mirror.records where key = $1", p1)
        assert first[0]["first_created_at"].isoformat() == "2025-03-01T00:03:00+00:00"


@pytest.mark.anyio
async def test_a_delete_reaches_references_by_href(database_url: str) -> None:
    """C30 (a), (d): references go with what they point to, by key and by document, on every server."""
    timeline = community_key(BETA, "c")
    one, two = post(ALICE, "1", "やあ"), post(ALICE, "2", "どうも")
    by_document = document_address(two, ALICE)
    references = [
        reference(timeline, post_key(ALICE, "1"), author=ALICE, name="r1"),
        reference(timeline, by_document, author=ALICE, name="r2"),
        reference(timeline, post_key(ALICE, "2"), author=ALICE, name="r3"),
    ]
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [one, two])
        await mirror.write(BETA, references)
        gone = "2025-03-02T00:00:00Z"
        await mirror.write(ALPHA, [delete(post_key(ALICE, "1"), author=ALICE, created_at=gone)])
        assert await mirror.keys() == {post_key(ALICE, "2"), f"{timeline}/r2", f"{timeline}/r3"}
        await mirror.write(ALPHA, [delete(by_document, author=ALICE, created_at=gone)])
        assert await mirror.keys() == set()
        await mirror.write(BETA, [reference(timeline, post_key(ALICE, "1"), author=ALICE, name="r4")])
        assert await mirror.keys() == set()


@pytest.mark.anyio
async def test_between_servers_the_newer_document_wins_in_either_order(database_url: str) -> None:
    """C11: an older copy changes nothing but the earliest createdAt; equal times are settled by CDID."""
    old = profile(ALICE, username="v1", created_at="2025-03-01T00:01:00Z")
    new = profile(ALICE, username="v2", created_at="2025-03-01T00:02:00Z")
    even = profile(ALICE, username="v3", created_at="2025-03-01T00:02:00Z")
    key = f"cckv://{ALICE}/concrnt.world/profiles/main"
    async with open_mirror(database_url) as mirror:
        results = []
        for order in (
            [(ALPHA, new), (BETA, old), (BETA, even)],
            [(BETA, old), (BETA, even), (ALPHA, new)],
        ):
            await mirror.clear()
            for server, commit in order:
                await mirror.write(server, [commit])
            (head,) = await mirror.rows("select cdid, first_created_at from mirror.records")
            results.append((await mirror.value(key), head))
        assert results[0] == results[1]
        assert results[0][1]["first_created_at"].isoformat() == "2025-03-01T00:01:00+00:00"


@pytest.mark.anyio
async def test_follows_keep_one_state_whatever_the_order(database_url: str) -> None:
    """C50: strictly newer wins, on whichever server it was said; malformed ones are counted."""
    feed = [
        ack(ALICE, BOB, kind="unack", created_at="2025-03-01T00:02:00Z"),
        ack(ALICE, BOB, created_at="2025-03-01T00:01:00Z"),
        ack(ALICE, BOB, created_at="2025-03-01T00:03:00Z"),
        ack(ALICE, BOB, created_at="2025-03-01T00:03:00Z", associate=f"cckv://{BOB}/x"),
        ack(ALICE, BOB, created_at="2025-03-01T00:04:00Z", associate=f"cckv://{BOB}@{BETA}"),
        ack(ALICE, BOB, created_at="2025-03-01T00:04:00Z", associate=f"cckv://{BETA}"),
        ack(ALICE, BOB, created_at="2025-03-01T00:05:00Z", schema="https://example.com/other.json"),
    ]
    async with open_mirror(database_url) as mirror:
        changes = await mirror.write(ALPHA, feed)
        await mirror.write(BETA, [acked(ALICE, BOB, created_at="2025-03-01T00:03:00Z")])
        assert changes.tally.malformed == {"ack": 3}
        assert changes.tally.kinds == {"ack": 3, "ignored": 1}
        acks = (await mirror.state())["acks"]
        assert [(row["valid"], row["created_at"].minute) for row in acks] == [(True, 3)]


@pytest.mark.anyio
async def test_only_a_domain_owns_a_community(database_url: str) -> None:
    """Rule 7: a person's community is malformed and changes nothing, whatever stands under its key."""
    key = f"cckv://{ALICE}/concrnt.world/communities/c"
    async with open_mirror(database_url) as mirror:
        changes = await mirror.write(
            ALPHA,
            [
                community(ALPHA, "c", author=ALICE, name="ねこ"),
                record(key, {"name": "x"}, author=ALICE, schema=wire.COMMUNITY),
            ],
        )
        assert await mirror.keys() == {community_key(ALPHA, "c")}
        assert changes.tally.malformed == {"community": 1}
        assert changes.tally.kinds == {"community": 1, "entry": 1}


@pytest.mark.anyio
async def test_a_key_overwritten_by_another_schema_leaves_its_index(database_url: str) -> None:
    """Rule 5: the mark remembers the schema that the key had in the index."""
    key = f"cckv://{ALICE}/concrnt.world/profiles/main"
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [profile(ALICE, username="x")])
        await mirror.database.execute("truncate mirror.projection_queue")
        other = record(
            key, {}, author=ALICE, schema="https://example.com/x.json", created_at="2025-03-02T00:00:00Z"
        )
        await mirror.write(ALPHA, [other])
        marks = await mirror.rows(
            "select key, former_schemas from mirror.projection_queue where key = $1", key
        )
        assert marks == [{"key": key, "former_schemas": [wire.PROFILE]}]


@pytest.mark.anyio
async def test_a_range_delete_of_many_records_is_one_transaction(database_url: str) -> None:
    """C28: 20,000 records below one key go at once, with their memory and their marks."""
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [])
        await mirror.database.execute(
            "insert into mirror.records select"
            " 'cckv://' || $1 || '/p/' || n, $1, $1, $2, 'cckv://' || $1 || '/p', null, 'alpha.example',"
            " 'cdid' || n, $3, $3, null, '{}' from generate_series(1, 20000) n",
            ALICE,
            wire.MARKDOWN,
            datetime(2025, 1, 1, tzinfo=UTC),
        )
        await mirror.write(ALPHA, [delete(f"cckv://{ALICE}/p/*", author=ALICE)])
        counts = await mirror.rows(
            "select (select count(*) from mirror.records) as records,"
            " (select count(*) from mirror.retired) as retired,"
            " (select count(*) from mirror.projection_queue where key like 'cckv:%') as marks"
        )
        assert counts == [{"records": 0, "retired": 20000, "marks": 20000}]


@pytest.mark.anyio
async def test_a_reference_edited_in_the_page_that_deletes_both_its_posts_goes_once(
    database_url: str,
) -> None:
    """A range takes what it pointed at before and what it points at now."""
    timeline = community_key(ALPHA, "c")
    feed = [
        reference(timeline, post_key(ALICE, "p/a"), author=ALICE, name="r"),
        reference(
            timeline, post_key(ALICE, "p/b"), author=ALICE, name="r", created_at="2025-03-01T00:01:00Z"
        ),
        delete(post_key(ALICE, "p") + "/*", author=ALICE, created_at="2025-03-01T00:02:00Z"),
    ]
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, feed)
        assert await mirror.keys() == set()
