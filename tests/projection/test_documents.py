"""From records to documents: golden files, and what hostile content can not do (cases C04, C34)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.engines.ids import document_id
from indexer.engines.indexes import BY_UID, COMMUNITIES, POSTS, SERVERS, USERS
from indexer.projection.documents import record_document, rfc3339, server_document
from tests.projection.stage import ALICE, COMMUNITY, NOON, POST, PROFILE, Record, Server, post, record

GOLDEN = Path(__file__).parent.parent / "golden"
INDEXED_AT = datetime(2025, 3, 2, 1, 2, 3, 450_000, tzinfo=UTC)
FIRST = datetime(2024, 12, 31, 23, 59, 59, tzinfo=UTC)
OWN_FIELDS = {
    USERS: {"id", "type", "cckv", "ccfs", "ccid", "owner", "sourceServer", "schema", "ancestors"},
    COMMUNITIES: {"id", "type", "cckv", "ccfs", "owner", "sourceServer", "schema", "ancestors"},
    POSTS: {"id", "type", "cckv", "ccfs", "author", "owner", "sourceServer", "schema", "ancestors"},
}


@dataclass(frozen=True)
class Golden:
    """A golden file: a record or server, and the document that it has."""

    name: str
    index: str
    stored: Record | Server


USER_KEY = f"cckv://{ALICE}/concrnt.world/profiles/main"
COMMUNITY_KEY = "cckv://alpha.example/concrnt.world/communities/neko"
CASES = [
    Golden(
        "user",
        USERS,
        record(
            USER_KEY,
            {
                "username": "ねこまる",
                "description": "猫と暮らす",
                "avatar": "https://images.example/a.png",
                "banner": "https://images.example/b.png",
                "subprofiles": [f"cckv://{ALICE}/concrnt.world/profiles/sub"],
                "badges": [{"seriesId": "s", "badgeId": "b", "extra": 1}],
                "unknown": "ignored",
            },
            schema=PROFILE,
            first_created_at=FIRST,
        ),
    ),
    Golden("user_empty", USERS, record(USER_KEY, {}, schema=PROFILE, cdid="")),
    Golden(
        "user_wrong_types",
        USERS,
        record(
            USER_KEY,
            {
                "username": [1],
                "description": None,
                "avatar": {"url": "x"},
                "banner": True,
                "subprofiles": ["a", 1, None, ["b"], "c"],
                "badges": [
                    "no",
                    {"seriesId": "s"},
                    {"seriesId": 1, "badgeId": "b"},
                    {"seriesId": "s", "badgeId": "b"},
                ],
                "id": "mine",
                "type": "server",
                "ccid": "someone",
                "createdAt": "1999-01-01T00:00:00Z",
                "activityScore": 10**9,
            },
            schema=PROFILE,
        ),
    ),
    Golden(
        "community",
        COMMUNITIES,
        record(
            COMMUNITY_KEY,
            {"name": "ねこ部", "shortname": "neko", "description": "猫の話", "icon": "i", "banner": "b"},
            schema=COMMUNITY,
            owner="alpha.example",
            first_created_at=FIRST,
        ),
    ),
    Golden(
        "post",
        POSTS,
        record(
            f"cckv://{ALICE}/concrnt.world/profiles/main/posts/p1",
            {"body": "今日は雨が降る 🐱", "emojis": {"neko": {"imageURL": "https://images.example/n.png"}}},
            first_created_at=FIRST,
        ),
    ),
    Golden("post_bare_reroute", POSTS, record(f"cckv://{ALICE}/r", {"rerouteMessageId": "x"})),
    Golden(
        "post_hostile_value",
        POSTS,
        record(
            f"cckv://{ALICE}/h",
            r"""{"body": "ねこ\u0000だいすき\ud800", "id": 1, "type": "server", "_geo": {"lat": "a"},
                "_vectors": "x", "a\u0000b": ["\u0000", {"\udc00": 1.50}], "shown": "\\u0000"}""",
        ),
    ),
    Golden(
        "post_spelled_otherwise",
        POSTS,
        replace(
            record(f"cckv://{ALICE}/ねこ/a%2Fb", {"body": "x"}),
            document=f'{{"key":"cckv://{ALICE}@alpha.example/%E3%81%AD%E3%81%93/a%2fb","value":{{"body":"x"}}}}',
        ),
    ),
    Golden(
        "server",
        SERVERS,
        Server(meta='{"nickname": "アルファ", "maintainer": {"name": "a"}}', last_crawled_at=INDEXED_AT),
    ),
    Golden(
        "server_unknown",
        SERVERS,
        Server(csid="", version="", software_version="", meta="[1]", status="stale"),
    ),
]


def document_of(case: Golden) -> dict[str, Any] | None:
    """The document of a case."""
    if isinstance(case.stored, Server):
        return server_document(case.stored)
    return record_document(case.index, case.stored, INDEXED_AT)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_documents_are_as_in_the_golden_files(case: Golden) -> None:
    """Each record becomes exactly the document on file, fields in order."""
    document = document_of(case)
    expected = json.loads((GOLDEN / f"{case.name}.json").read_text(encoding="utf-8"))
    assert document == expected
    assert document is not None
    assert list(document) == list(expected)


def test_every_golden_file_has_its_case() -> None:
    """No file is left behind."""
    assert {path.stem for path in GOLDEN.glob("*.json")} == {case.name for case in CASES}


@pytest.mark.parametrize("uid", BY_UID)
def test_documents_have_every_field_that_is_searched_or_filtered(uid: str) -> None:
    """What the definitions of the indexes name is in the documents."""
    document = document_of(next(case for case in CASES if case.index == uid))
    assert document is not None
    definition = BY_UID[uid]
    assert {*definition.searchable, *definition.filterable} <= set(document)


@pytest.mark.parametrize("value", ["null", "[]", '"text"', "1", "true"])
@pytest.mark.parametrize("index", [USERS, COMMUNITIES, POSTS])
def test_a_value_that_is_no_object_has_no_document(index: str, value: str) -> None:
    """Such a record is in no index."""
    assert (
        record_document(index, record("cckv://alpha.example/x", value, owner="alpha.example"), NOON) is None
    )


@pytest.mark.parametrize("text", ["", "[]", "{", '{"key": "x"}', '{"value": {}', "nonsense"])
def test_a_document_that_is_none_has_no_document(text: str) -> None:
    """Neither has one that can not be read."""
    assert record_document(POSTS, replace(post("p"), document=text), NOON) is None


@pytest.mark.parametrize("owner", [ALICE, "ccs" + "1".rjust(39, "0"), "no hostname"])
def test_a_community_belongs_to_a_domain(owner: str) -> None:
    """A person's or a key's community is in no index (section 3, rule 7)."""
    stored = record(f"cckv://{owner}/c", {"name": "x"}, schema=COMMUNITY, owner=owner)
    assert record_document(COMMUNITIES, stored, NOON) is None


def test_values_of_any_depth() -> None:
    """A value nested 10,000 deep keeps its body, and its document can be encoded."""
    deep = '{"body": "ねこ", "deep": ' + '{"a":[' * 5_000 + "]}" * 5_000 + "}"
    document = record_document(POSTS, record(f"cckv://{ALICE}/d", deep), NOON)
    assert document is not None
    assert document["body"] == "ねこ"
    msgspec.json.decode(msgspec.json.encode(document))
    meta = '{"a":' * 500 + "1" + "}" * 500
    msgspec.json.decode(msgspec.json.encode(server_document(Server(meta=meta))))


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOON, "2025-03-01T12:00:00Z"),
        (NOON.replace(microsecond=120_000), "2025-03-01T12:00:00.12Z"),
        (NOON.replace(microsecond=1), "2025-03-01T12:00:00.000001Z"),
        (datetime(2025, 3, 1, 1, tzinfo=timezone(timedelta(hours=9))), "2025-02-28T16:00:00Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_times_are_rfc_3339_in_utc(moment: datetime, text: str) -> None:
    """With Z and no more digits than needed, in any year."""
    assert rfc3339(moment) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
FIELDS = st.sampled_from(
    ["username", "subprofiles", "badges", "name", "body", "id", "type", "owner", "cckv", "ancestors", "value"]
)


@given(st.dictionaries(FIELDS | st.text(), JSON, max_size=8))
def test_content_never_overwrites_what_is_ours(value: dict[str, Any]) -> None:
    """Whatever a value holds, own fields are from the mirror, types are right, and JSON comes out."""
    text = json.dumps({"key": "cckv://alpha.example/x", "value": value})
    stored = Record("cckv://alpha.example/x", text, owner="alpha.example")
    for index, own in OWN_FIELDS.items():
        empty = record_document(index, replace(stored, document='{"value": {}}'), NOON)
        full = record_document(index, stored, NOON)
        assert empty is not None
        assert full is not None
        assert {name: full[name] for name in own} == {name: empty[name] for name in own}
        assert full["id"] == document_id(stored.key)
        for name, content in full.items():
            assert name == "value" or type(content) is type(empty[name])
        msgspec.json.decode(msgspec.json.encode(full))


def test_schemas_name_their_index() -> None:
    """A post's document says its schema as stored."""
    document = record_document(POSTS, post("p"), NOON)
    assert document is not None
    assert document["schema"] == POST
