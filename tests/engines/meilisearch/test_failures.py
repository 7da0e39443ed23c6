"""What goes wrong in Meilisearch, or on the way there, and what the engine makes of it (C06, C33, C46)."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

from indexer.engines.base import EngineUnavailable, IndexLost, SearchRequest, WriteBatch
from indexer.engines.indexes import INDEXES, POSTS, USERS
from indexer.engines.meilisearch import MeilisearchEngine
from tests.engines.samples import batch_of, found, post, put, user

if TYPE_CHECKING:
    from tests.engines.meili_double import Task
    from tests.engines.meilisearch.conftest import Stage

pytestmark = pytest.mark.anyio


async def test_a_write_waits_for_its_task(stage: Stage) -> None:
    """An answer of 202 is no success: the call returns when the task has succeeded (C06)."""
    stage.double.hold.clear()
    writing = asyncio.create_task(put(stage.engine, post("a", "ねこ")))
    while "documentAdditionOrUpdate" not in stage.double.kinds():  # noqa: ASYNC110 - the double tells nobody
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    assert not writing.done()
    stage.double.hold.set()
    await writing
    assert await found(stage.engine, "ねこ") == ["a"]


async def test_a_poison_document_is_found_and_the_rest_goes_through(stage: Stage) -> None:
    """A task that fails for one document is halved until that one is alone (C06)."""
    bad = post("bad")["id"]
    stage.double.fails = lambda task: "invalid_document_fields" if bad in task.ids else None
    documents = [post(f"{number:03}", "よい") for number in range(99)]
    result = await stage.engine.write(batch_of([*documents[:40], post("bad", "よい"), *documents[40:]]))
    assert [(one.index, one.id) for one in result.rejected] == [(POSTS, bad)]
    assert result.rejected[0].reason == "Meilisearch refuses it: invalid_document_fields"
    assert len(await found(stage.engine, "よい")) == 99


async def test_every_third_task_fails(stage: Stage) -> None:
    """A failure that is not the document's own rejects none (C06)."""
    numbers = itertools.count(1)
    stage.double.fails = lambda task: (
        "internal" if task.kind.startswith("document") and next(numbers) % 3 == 0 else None
    )
    for turn in range(5):
        documents = [post(f"{turn}x{number:02}", "よい") for number in range(37)]
        assert (await stage.engine.write(batch_of(documents))).rejected == []
    stage.double.fails = lambda _: None
    result = await stage.engine.search(SearchRequest(POSTS, "よい"))
    assert result.estimated_total == 5 * 37


async def test_an_engine_that_can_do_nothing_refuses_nobody(stage: Stage) -> None:
    """When every task fails inside the engine, it is away, and no document is to blame."""
    stage.double.fails = lambda _: "internal"
    with pytest.raises(EngineUnavailable):
        await put(stage.engine, post("a"), post("b"))


@pytest.mark.parametrize("code", ["no_space_left_on_device", "database_size_limit_reached", "io_error"])
async def test_a_full_disk_is_no_fault_of_a_document(stage: Stage, code: str) -> None:
    """What the server's machine lacks makes the engine unavailable, with the server's word for it."""
    stage.double.fails = lambda _: code
    with pytest.raises(EngineUnavailable, match=code):
        await put(stage.engine, post("a"))
    stage.double.fails = lambda _: None
    await put(stage.engine, post("a"))


async def test_payloads_are_halved_until_the_server_takes_them(stage: Stage) -> None:
    """A request that is too large is sent in parts; a document that is too large alone is refused (C33)."""
    stage.double.payload_limit = 400_000
    fat = "ふとい" * 5_000
    giant = post("giant", "きょだい" + "あ" * 100_000)
    documents = [post(f"{number:02}", fat) for number in range(20)]
    result = await stage.engine.write(batch_of([*documents, giant]))
    assert [one.id for one in result.rejected] == [giant["id"]]
    assert len(result.rejected[0].reason) < 200
    assert len(await found(stage.engine, "ふとい")) == 20


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (429, "too_many_search_requests", "too_many"),
        (503, "", "503"),
        (500, "internal", "internal"),
        (403, "invalid_api_key", "meiliAPIKey"),
        (401, "missing_authorization_header", "meiliAPIKey"),
    ],
)
async def test_a_server_that_turns_requests_away_is_unavailable(
    stage: Stage, status: int, code: str, said: str
) -> None:
    """Whatever is asked of it; the message says what an operator can mend."""
    stage.double.answers = lambda *_: (status, code)
    for attempt in (
        put(stage.engine, post("a")),
        found(stage.engine, "a"),
        stage.engine.ping(),
        stage.engine.statistics(),
        stage.engine.prepare(INDEXES),
    ):
        with pytest.raises(EngineUnavailable, match=said if code else "Meilisearch"):
            await attempt


async def test_an_unreachable_host_is_unavailable(stage: Stage) -> None:
    """Nobody listens there."""
    engine = MeilisearchEngine("http://127.0.0.1:9", "key", 100)
    with pytest.raises(EngineUnavailable, match="meiliHost"):
        await engine.prepare(INDEXES)
    with pytest.raises(EngineUnavailable):
        await engine.ping()
    with pytest.raises(EngineUnavailable, match="not prepared"):
        await engine.search(SearchRequest(POSTS))
    await engine.close()


async def test_a_cancelled_or_forgotten_task_is_no_success(stage: Stage) -> None:
    """Somebody's cancelling, and a restart from other data, leave the batch unwritten."""
    stage.double.hold.clear()
    for interfere in (_cancel_all, _forget_all):
        writing = asyncio.create_task(put(stage.engine, post("a")))
        known = len(stage.double.tasks)
        while len(stage.double.tasks) == known:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
        interfere(stage)
        with pytest.raises(EngineUnavailable):
            await writing


def _cancel_all(stage: Stage) -> None:
    task: Task
    for task in stage.double.tasks.values():
        task.status = "canceled"


def _forget_all(stage: Stage) -> None:
    stage.double.tasks.clear()


async def test_a_wiped_server_is_noticed_by_whoever_comes_first(stage: Stage) -> None:
    """A write, a search and a readiness check each say that the index is lost; prepare() mends it (C46)."""
    await put(stage.engine, post("a", "ねこ"))
    stage.double.wipe()
    with pytest.raises(IndexLost):
        await found(stage.engine, "ねこ")
    with pytest.raises(IndexLost, match="concrnt_"):
        await stage.engine.ping()
    # The server makes an index of its own accord; the write is still not taken for done.
    with pytest.raises(IndexLost):
        await put(stage.engine, post("a", "ねこ"))
    with pytest.raises(IndexLost):
        await stage.engine.write(WriteBatch(deletes={USERS: [user()["id"]]}))
    await stage.engine.prepare(INDEXES)
    await put(stage.engine, post("b", "ねこ"))
    assert await found(stage.engine, "ねこ") == ["a", "b"]
    await stage.engine.ping()


async def test_changed_settings_make_a_search_unavailable_not_wrong(stage: Stage) -> None:
    """A filter or an order that somebody took away is no fault of who searches."""
    stage.double.indexes[POSTS].settings["filterableAttributes"] = []
    with pytest.raises(EngineUnavailable, match="settings"):
        await found(stage.engine, "", filters={"owner": "x"})
    await stage.engine.prepare(INDEXES)
    assert await found(stage.engine, "", filters={"owner": "x"}) == []


async def test_hits_of_another_shape_are_not_shown(stage: Stage) -> None:
    """What another program left in the index is not handed out as a document of ours."""
    stage.double.indexes[POSTS].put({"id": "theirs", "body": "ねこ"})
    assert await found(stage.engine, "") == []
