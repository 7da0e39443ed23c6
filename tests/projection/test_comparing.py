"""Comparing indexes with the mirror, and putting right what differs (C30)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from indexer.engines.base import WriteBatch
from indexer.engines.ids import document_id
from indexer.engines.indexes import COMMUNITIES, POSTS, SERVERS, USERS
from indexer.projection.comparing import IndexComparer
from indexer.simulation import schemas as wire
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    community,
    community_key,
    delete,
    post,
    post_key,
    profile,
    profile_key,
    record,
    reference,
)
from tests.engines import samples
from tests.replication.stage import NOW

if TYPE_CHECKING:
    from indexer.projection.comparing import Comparison
    from tests.projection.keeping import Stage

pytestmark = pytest.mark.anyio

UIDS = (USERS, COMMUNITIES, POSTS, SERVERS)


def _comparer(at: Stage) -> IndexComparer:
    return IndexComparer(at.engine, at.builds, at.keeper().kinds, lambda: NOW)


async def _compared(at: Stage) -> dict[str, Comparison]:
    return {uid: await _comparer(at).compare(uid) for uid in UIDS}


async def _differing(at: Stage) -> list[str]:
    return [uid for uid, found in (await _compared(at)).items() if not found.is_equal]


async def test_every_kind_of_difference_is_found_and_put_right(stage: Stage) -> None:
    """Missing, different and extra documents, and ids that are no key's; then index and mirror agree."""
    await stage.put(*((f"{number}", f"本文{number}") for number in range(20)))
    await stage.mirror.write(ALPHA, [profile(ALICE, username="ありす")])
    async with stage.process():
        await stage.settled()
    assert await _differing(stage) == []
    missing, changed = document_id(post_key(ALICE, "3")), document_id(post_key(ALICE, "4"))
    (document,) = (await stage.engine.fetch_documents(POSTS, [changed])).values()
    extra = samples.post("nobody-wrote-this", "ゆうれい")
    foreign = {**samples.post("x"), "id": "foreign"}
    await stage.engine.write(
        WriteBatch(
            upserts={
                POSTS: [{**document, "body": "ちがう"}, extra, foreign],
                SERVERS: [samples.server(BETA)],
            },
            deletes={POSTS: [missing]},
        )
    )
    found = await _compared(stage)
    assert found[POSTS].missing == [post_key(ALICE, "3")]
    assert found[POSTS].different == [post_key(ALICE, "4")]
    assert found[POSTS].extra == [extra["cckv"]]
    assert found[POSTS].foreign == ["foreign"]
    assert found[SERVERS].extra == [BETA]
    assert found[POSTS].documents == 20
    assert found[USERS].is_equal
    for one in found.values():
        await _comparer(stage).repair(one)
    async with stage.process():
        await stage.settled()
    assert await _differing(stage) == []
    assert await stage.indexed() == await stage.stored()


async def test_what_is_under_way_is_no_difference(stage: Stage) -> None:
    """A change that the projector has not come to is not told."""
    await stage.put(("a", "ねこ"), ("b", "ねこ"))
    async with stage.process():
        await stage.settled()
    await stage.put(("a", "いぬ"), ("c", "いぬ"), hour=2)
    await stage.mirror.write(
        ALPHA, [delete(post_key(ALICE, "b"), author=ALICE, created_at="2025-03-01T03:00:00Z")]
    )
    assert await _differing(stage) == []


async def test_figures_are_no_difference(stage: Stage) -> None:
    """They are written apart from their document."""
    await stage.mirror.write(ALPHA, [profile(ALICE, username="ありす")])
    async with stage.process():
        await stage.settled()
    await stage.engine.put_figures(USERS, {document_id(profile_key(ALICE)): {"activityScore": 1.5}})
    assert await _differing(stage) == []


async def test_what_goes_without_a_trace_in_the_log_leaves_none_in_the_index(
    stage: Stage,
) -> None:
    """References of a deleted post, a profile of another schema, what was below a community (C30 a to d)."""
    cats = community_key(ALPHA, "c1")
    key = post_key(ALICE, "p")
    await stage.mirror.write(
        ALPHA,
        [
            community(ALPHA, "c1", author=ALICE, name="ねこ"),
            profile(ALICE, username="ありす"),
            post(ALICE, "p", "ねこ"),
            reference(cats, key, author=ALICE),
            *(reference(cats, post_key(ALICE, f"q{n}"), author=ALICE, name=f"q{n}") for n in range(5)),
        ],
    )
    async with stage.process():
        await stage.settled()
        later = "2025-03-02T00:00:00Z"
        await stage.mirror.write(ALPHA, [delete(key, author=ALICE, created_at=later)])
        await stage.mirror.write(
            ALPHA,
            [record(profile_key(ALICE), {}, author=ALICE, schema=wire.SUBKEY, created_at=later)],
        )
        await stage.mirror.write(ALPHA, [delete(f"{cats}*", author=ALICE, created_at=later)])
        await stage.settled()
    assert await _differing(stage) == []
    sizes = (await stage.engine.statistics()).indexes
    assert [sizes[uid].number_of_documents for uid in (USERS, COMMUNITIES, POSTS)] == [0, 0, 0]
    assert await stage.mirror.keys() == {profile_key(ALICE)}
