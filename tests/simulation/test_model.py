"""The naive model against states written by hand."""

from datetime import UTC, datetime
from itertools import permutations

import pytest

from indexer.simulation import schemas
from indexer.simulation.log import LoggedCommit
from indexer.simulation.model import ExpectedState, expected_state
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
    profile_key,
    record,
    reference,
)

NOW = datetime(2025, 3, 2, tzinfo=UTC)


def at(second: int) -> str:
    return f"2025-03-01T00:00:{second:02}Z"


def state(*commits: bytes, **others: list[bytes]) -> ExpectedState:
    """Return the state after alpha's commits and those of others, by the first label of their domain."""
    logs = {ALPHA: list(commits), **{f"{name}.example": log for name, log in others.items()}}
    return expected_state(
        {domain: [LoggedCommit(n, signed) for n, signed in enumerate(log)] for domain, log in logs.items()},
        now=NOW,
    )


def keys(expected: ExpectedState) -> set[str]:
    return set(expected.records)


@pytest.mark.parametrize(
    ("target", "removed"),
    [
        ("a_b/*", {"a_b/1"}),
        ("a%25/*", {"a%25/2"}),
        ("a\\c*", {"a\\c/1"}),
        ("note/*", {"note/1"}),
        ("note*", {"note", "note/1"}),
        ("note", {"note"}),
        ("no*te", set()),
        ("note**", set()),
        ("note%2A", set()),
    ],
)
def test_deletes_match_by_step(target: str, removed: set[str]) -> None:
    """Every shape of a delete takes exactly its own (C05)."""
    base = "cckv://alpha.example/things/"
    stored = {"a_b/1", "axb/1", "a%25/2", "ab/2", "a\\c/1", "note", "note/1", "notebook", "notebook/1"}
    puts = [
        record(base + key, {}, author=ALICE, schema="https://schema.example/x.json") for key in sorted(stored)
    ]
    expected = state(*puts, delete(base + target, author=ALICE, created_at=at(9)))
    assert keys(expected) == {base + key for key in stored - removed}


@pytest.mark.parametrize(
    "target", ["cckv://alpha.example*", "cckv://alpha.example/*", "cckv://alpha.example", 7]
)
def test_deletes_of_bare_owners_are_malformed(target: object) -> None:
    """A bare owner is no target."""
    put = record("cckv://alpha.example/a", {}, author=ALICE, schema="https://schema.example/x.json")
    assert len(state(put, delete(target, author=ALICE)).records) == 1


def test_last_commit_of_a_feed_wins_and_keeps_the_earliest_time() -> None:
    """Within a feed log order decides, whatever the dates; the earliest counts until a delete (C08)."""
    puts = [
        profile(ALICE, username=name, created_at=at(second))
        for name, second in (("a", 5), ("b", 7), ("c", 3))
    ]
    found = state(*puts).users[profile_key(ALICE)]
    assert (found["username"], found["created_us"] % 60_000_000) == ("c", 3_000_000)
    anew = state(
        *puts, delete(profile_key(ALICE), author=ALICE, created_at=at(8)), profile(ALICE, created_at=at(9))
    )
    assert anew.users[profile_key(ALICE)]["created_us"] % 60_000_000 == 9_000_000


def test_a_removed_document_stays_away() -> None:
    """The same document read again stays removed; a new one under the key lives (C09)."""
    first = post(ALICE, "1", "一", created_at=at(1))
    gone = state(first, delete(post_key(ALICE, "1"), author=ALICE, created_at=at(2)), first)
    assert gone.posts == {}
    alive = state(first, delete(post_key(ALICE, "1"), author=ALICE, created_at=at(2)), post(ALICE, "1", "二"))
    assert set(alive.posts) == {post_key(ALICE, "1")}


def test_between_feeds_the_newest_wins_and_deletes_bar() -> None:
    """Any order of the feeds gives one state; equal times are decided by the CDID (C09, C11)."""
    alpha = [
        post(ALICE, "1", "新", created_at=at(5)),
        delete(post_key(ALICE, "2"), author=ALICE, created_at=at(4)),
    ]
    beta = [
        post(ALICE, "1", "旧", created_at=at(1)),
        post(ALICE, "2", "消", created_at=at(0)),
        post(ALICE, "3", "甲"),
    ]
    gamma = [post(ALICE, "3", "乙"), post(ALICE, "2", "後", created_at=at(6))]
    results = [
        expected_state({name: [LoggedCommit(0, c) for c in log] for name, log in order}, now=NOW).posts
        for order in permutations(
            [("alpha.example", alpha), ("beta.example", beta), ("gamma.example", gamma)]
        )
    ]
    assert all(result == results[0] for result in results)
    assert results[0][post_key(ALICE, "1")]["body"] == "新"
    assert results[0][post_key(ALICE, "2")]["body"] == "後"
    assert results[0][post_key(ALICE, "1")]["created_us"] % 60_000_000 == 5_000_000


@pytest.mark.parametrize("shape", ["key", "tree", "below", "ccfs", "flat"])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_references_go_with_their_post(shape: str, elsewhere: bool) -> None:
    """A delete of the post drops references by href, in any feed; newer ones live (C30)."""
    timeline, key = community_key(ALPHA, "cats"), post_key(ALICE, "1")
    put = post(ALICE, "1", "ねこ", created_at=at(1))
    address = document_address(put, ALICE)
    targets = {
        "key": key,
        "tree": f"{profile_key(ALICE)}*",
        "below": f"{profile_key(ALICE)}/posts/*",
        "ccfs": address,
        "flat": address.replace("/concrnt/", "/"),
    }
    entries = [
        community(ALPHA, "cats", author=BOB),
        reference(timeline, key, author=ALICE, created_at=at(1), name="old"),
        reference(timeline, post_key(ALICE, "2"), author=ALICE, created_at=at(1), name="other"),
    ]
    removal = delete(targets[shape], author=ALICE, created_at=at(2))
    later = reference(timeline, key, author=ALICE, created_at=at(3), name="new")
    if elsewhere:
        expected = state(*entries, later, beta=[put, removal])
    else:
        expected = state(put, *entries, removal, later)
    left = {timeline, f"{timeline}/other", f"{timeline}/new"}
    if shape in ("tree", "below"):
        left.discard(f"{timeline}/other")
    assert keys(expected) == left


def test_follows_count_when_strictly_newer() -> None:
    """An ack applies only when newer; one derived at the ackee's server is the same transition (C50)."""
    expected = state(
        ack(ALICE, BOB, created_at=at(1)),
        ack(ALICE, BOB, kind="unack", created_at=at(2)),
        ack(ALICE, BOB, created_at=at(0)),
        ack(ALICE, BOB, created_at=at(2)),
        ack(BOB, ALICE, associate=f"cckv://{ALICE}/key"),
        ack(BOB, ALICE, associate=f"cckv://{ALICE}@alpha.example"),
        ack(BOB, ALICE, associate="cckv://alpha.example"),
        ack(BOB, ALICE, key="cckv://alpha.example/x"),
        ack("alpha.example", ALICE),
        ack(BOB, ALICE, schema="https://schema.example/other.json"),
        beta=[acked(ALICE, BOB, created_at=at(1))],
    )
    assert {pair[:2]: follow.valid for pair, follow in expected.follows.items()} == {(ALICE, BOB): False}


def test_malformed_commits_change_nothing() -> None:
    """What is no commit, badly dated, or of the wrong shape leaves everything as it is."""
    good = post(ALICE, "1", "良")
    expected = state(
        good,
        b"null",
        b"[]",
        b"{",
        b'{"document":{}}',
        b'{"document":"no json"}',
        b'{"document":"[]"}',
        b'{"document":"' + b"[" * 100_000 + b'"}',
        post(ALICE, "1", "未来", created_at="2025-03-03T00:00:01Z"),
        post(ALICE, "1", "過去", created_at="1969-12-31T23:59:59Z"),
        post(ALICE, "1", "無", created_at="infinity"),
        record(post_key(ALICE, "1"), [1], author=ALICE, schema=schemas.MARKDOWN),
        record(None, {}, author=ALICE, schema=schemas.MARKDOWN),
        record("https://alpha.example/", {}, author=ALICE, schema=schemas.MARKDOWN),
        record(post_key(ALICE, "a%00b"), {"body": ""}, author=ALICE, schema=schemas.MARKDOWN),
        record(post_key(ALICE, "x" * 1_024), {"body": ""}, author=ALICE, schema=schemas.MARKDOWN),
        record(community_key(ALICE, "own"), {}, author=ALICE, schema=schemas.COMMUNITY),
    )
    assert {key: found["body"] for key, found in expected.posts.items()} == {post_key(ALICE, "1"): "良"}
    assert len(expected.records) == 1


def test_entities_and_spellings() -> None:
    """The newest entity wins; two spellings of a key are one record."""
    expected = state(
        entity(ALICE, BETA, created_at=at(2)),
        entity(ALICE, ALPHA, created_at=at(1)),
        record(post_key(ALICE, "%E7%8C%AB"), {"body": "一"}, author=ALICE, schema=schemas.MARKDOWN),
        record(post_key(ALICE, "猫"), {"body": "二"}, author=ALICE, schema=schemas.MARKDOWN),
        record(post_key(ALICE, "a%2Fb"), {"body": "三"}, author=ALICE, schema=schemas.MARKDOWN),
    )
    assert expected.entities[ALICE].domain == BETA
    assert {key: found["body"] for key, found in expected.posts.items()} == {
        post_key(ALICE, "猫"): "二",
        post_key(ALICE, "a%2Fb"): "三",
    }
