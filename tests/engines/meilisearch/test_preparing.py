"""Settings: put in place before anything is written, sent only when they differ (C46)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from indexer.engines.base import EngineUnavailable
from indexer.engines.indexes import BY_UID, INDEXES, POSTS, USERS
from indexer.engines.meilisearch.settings import changes, settings_of
from tests.engines.meili_double import DEFAULTS, Index
from tests.engines.samples import found, post, put, user

if TYPE_CHECKING:
    from tests.engines.meilisearch.conftest import Stage

pytestmark = pytest.mark.anyio


async def test_five_restarts_send_no_settings(stage: Stage) -> None:
    """Nothing differs, so nothing is sent; what was written stays."""
    await put(stage.engine, post("a", "ねこ"))
    before = stage.double.kinds()
    for _ in range(5):
        await stage.another()
    assert stage.double.kinds() == before
    assert await found(stage.engine, "ねこ") == ["a"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rankingRules", ["words", "sort"]),
        ("stopWords", ["ねこ"]),
        ("synonyms", {"a": ["b"]}),
        ("pagination", {"maxTotalHits": 7}),
        ("localizedAttributes", None),
        ("typoTolerance", {**DEFAULTS["typoTolerance"], "enabled": False}),
        ("searchableAttributes", ["search_body"]),
    ],
)
async def test_a_setting_changed_by_hand_is_put_right(stage: Stage, name: str, value: Any) -> None:
    """Only that setting, of that index, is sent."""
    wanted = stage.double.indexes[POSTS].settings[name]
    stage.double.indexes[POSTS].settings[name] = value
    before = len(stage.double.tasks)
    await stage.another()
    assert stage.double.kinds()[before:] == ["settingsUpdate"]
    assert stage.double.indexes[POSTS].settings[name] == wanted


def test_what_the_server_adds_or_reorders_is_no_difference() -> None:
    """Lists without order, and parts of a setting that we do not name, do not count."""
    wanted = settings_of(BY_UID[POSTS], 10_000)
    shuffled = {
        **DEFAULTS,
        **wanted,
        "filterableAttributes": wanted["filterableAttributes"][::-1],
        "typoTolerance": {**wanted["typoTolerance"], "new": True},
    }
    assert changes(shuffled, wanted) == {}
    assert changes({**shuffled, "searchableAttributes": ["*"]}, wanted).keys() == {"searchableAttributes"}


async def test_an_index_without_primary_key_gets_one_before_documents_come(stage: Stage) -> None:
    """It is never guessed; one that is another's is refused with a sentence."""
    stage.double.indexes[POSTS] = Index("other")
    with pytest.raises(EngineUnavailable, match="primary key 'other'"):
        await stage.another()


async def test_figures_stay_when_a_document_is_written_again(stage: Stage) -> None:
    """Whichever comes last; they are shown, sorted by, replaced whole, and create nothing."""
    await put(stage.engine, user(username="ねこ"))
    identifier = user()["id"]
    missing = await stage.engine.put_figures(
        USERS, {identifier: {"activityScore": 2.5, "postCount7d": 3}, "nobody": {"activityScore": 1.0}}
    )
    assert set(missing) == {"nobody"}
    await put(stage.engine, user(username="いぬ", description="x"))
    documents = await stage.engine.fetch_documents(USERS, [identifier, "nobody"])
    assert documents == {
        identifier: {**user(username="いぬ", description="x"), "activityScore": 2.5, "postCount7d": 3}
    }
    await stage.engine.put_figures(USERS, {identifier: {"postCount7d": 4}})
    (shown,) = (await stage.engine.fetch_documents(USERS, [identifier])).values()
    assert "activityScore" not in shown
    assert await found(stage.engine, "ねこ", USERS) == []
    assert (await stage.engine.statistics()).indexes[USERS].number_of_documents == 1
    assert INDEXES[0].figures
