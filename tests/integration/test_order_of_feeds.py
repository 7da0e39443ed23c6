"""What two servers' feeds say of one thing ends in one state, whichever is read first."""

from __future__ import annotations

from itertools import permutations

import pytest

from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    community_key,
    delete,
    document_address,
    post,
    post_key,
    reference,
)
from tests.replication.stage import open_mirror

pytestmark = pytest.mark.anyio

_POST = post(ALICE, "1", "やあ", created_at="2025-03-01T00:00:00Z")
_TARGETS = {
    "key": post_key(ALICE, "1"),
    "tree": post_key(ALICE, "1") + "*",
    "below": post_key(ALICE, "1").removesuffix("1") + "*",
    "document": document_address(_POST, ALICE),
}


@pytest.mark.parametrize("scope", _TARGETS)
@pytest.mark.parametrize("href", ["by key", "by document"])
async def test_a_reference_goes_with_its_post_whichever_feed_comes_first(
    database_url: str, scope: str, href: str
) -> None:
    """However the delete names the post and the reference points at it; a newer reference lives."""
    timeline = community_key(BETA, "cats")
    pointed_at = post_key(ALICE, "1") if href == "by key" else document_address(_POST, ALICE)
    gone = delete(_TARGETS[scope], author=ALICE, created_at="2025-03-02T00:00:00Z")
    old = reference(timeline, pointed_at, author=ALICE, name="old", created_at="2025-03-01T00:00:01Z")
    new = reference(timeline, pointed_at, author=ALICE, name="new", created_at="2025-03-03T00:00:00Z")
    async with open_mirror(database_url) as mirror:
        for feeds in permutations([(ALPHA, [_POST, gone]), (BETA, [old, new])]):
            for source, commits in feeds:
                for commit in commits:
                    await mirror.write(source, [commit])
            assert await mirror.keys() == {f"{timeline}/new"}
            await mirror.clear()


async def test_a_delete_of_one_document_leaves_older_ones_of_its_key_alone(database_url: str) -> None:
    """Another server's copy of an earlier document is no reference to the removed one."""
    first = post(ALICE, "1", "初版", created_at="2025-02-01T00:00:00Z")
    gone = delete(_TARGETS["document"], author=ALICE, created_at="2025-03-02T00:00:00Z")
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, [_POST, gone])
        await mirror.write(BETA, [first])
        assert await mirror.value(post_key(ALICE, "1")) == {"body": "初版"}
