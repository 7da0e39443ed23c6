"""What a batch of marks asks of the engine, by the current state alone (section 3, rules 5 and 7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indexer.engines.ids import document_id
from indexer.engines.indexes import COMMUNITIES, POSTS, SERVERS, USERS
from indexer.projection.batch import BatchPlan
from indexer.projection.kinds import Kinds
from tests.projection.stage import ALICE, COMMUNITY, KINDS, NOON, POST, PROFILE, Mark, Server, post, record

REFERENCE = "https://schema.concrnt.net/reference.json"
KEY = f"cckv://{ALICE}/x"


def asked(*marks: Mark, kinds: Kinds = KINDS) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The ids to put and to remove, by index."""
    plan = BatchPlan(kinds, NOON)
    for mark in marks:
        plan.add(mark)
    batch = plan.batch()
    upserts = {uid: [document["id"] for document in documents] for uid, documents in batch.upserts.items()}
    assert plan.is_empty == (not upserts and not batch.deletes)
    return upserts, {uid: sorted(ids) for uid, ids in batch.deletes.items()}


@pytest.mark.parametrize(("schema", "index"), [(PROFILE, USERS), (POST, POSTS)])
def test_a_live_record_goes_into_its_index(schema: str, index: str) -> None:
    """And nothing is removed when it was there before."""
    mark = Mark(KEY, former_schemas=(schema,), record=record(KEY, {}, schema=schema))
    assert asked(mark) == ({index: [document_id(KEY)]}, {})


def test_another_schema_leaves_the_old_index() -> None:
    """A key that was overwritten is put into the new index and taken out of the old ones."""
    mark = Mark(KEY, former_schemas=(PROFILE, COMMUNITY), record=record(KEY, {}))
    assert asked(mark) == (
        {POSTS: [document_id(KEY)]},
        {USERS: [document_id(KEY)], COMMUNITIES: [document_id(KEY)]},
    )


def test_a_schema_that_is_not_indexed_leaves_all() -> None:
    """A key that holds something else now is only taken out."""
    mark = Mark(KEY, former_schemas=(PROFILE,), record=record(KEY, {}, schema=REFERENCE))
    assert asked(mark) == ({}, {USERS: [document_id(KEY)]})
    assert asked(replace(mark, former_schemas=())) == ({}, {})


def test_what_is_gone_leaves_its_indexes() -> None:
    """Without a record, the former schemas say where to remove."""
    assert asked(Mark(KEY, former_schemas=(POST,))) == ({}, {POSTS: [document_id(KEY)]})


def test_a_schema_that_is_no_longer_indexed_is_removed_everywhere() -> None:
    """When the settings changed, nobody knows which index held a former schema."""
    every = {uid: [document_id(KEY)] for uid in (USERS, COMMUNITIES, POSTS)}
    assert asked(Mark(KEY, former_schemas=(REFERENCE,))) == ({}, every)
    mark = Mark(KEY, former_schemas=(REFERENCE,), record=record(KEY, {}))
    assert asked(mark) == (
        {POSTS: [document_id(KEY)]},
        {uid: [document_id(KEY)] for uid in (USERS, COMMUNITIES)},
    )


def test_a_record_without_a_document_is_removed() -> None:
    """A person's community, or a value that is no object, is in no index."""
    mark = Mark(KEY, record=record(KEY, {"name": "x"}, schema=COMMUNITY))
    assert asked(mark) == ({}, {COMMUNITIES: [document_id(KEY)]})
    assert asked(Mark(KEY, record=record(KEY, "[]"))) == ({}, {POSTS: [document_id(KEY)]})


def test_servers() -> None:
    """A server is known by its name; one that is gone is removed."""
    assert asked(Mark("alpha.example", server=Server())) == ({SERVERS: [document_id("alpha.example")]}, {})
    assert asked(Mark("alpha.example")) == ({}, {SERVERS: [document_id("alpha.example")]})


def test_a_batch_knows_the_keys_of_its_ids() -> None:
    """A refused document's key is found again."""
    plan = BatchPlan(KINDS, NOON)
    long = post("x" * 1_000)
    plan.add(Mark(long.key, record=long))
    assert plan.key_of(document_id(long.key)) == long.key


def test_a_schema_on_two_lists_counts_once() -> None:
    """Users before communities before posts."""
    kinds = Kinds(profile_schemas=[PROFILE], community_schemas=[PROFILE, COMMUNITY], post_schemas=[COMMUNITY])
    assert kinds.index_of(PROFILE) == USERS
    assert kinds.index_of(COMMUNITY) == COMMUNITIES
    assert kinds.index_of(REFERENCE) is None
