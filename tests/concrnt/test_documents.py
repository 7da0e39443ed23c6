"""Commits: what is well-formed, what is ignored, and what is malformed for which reason."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.concrnt.cdid import cdid
from indexer.concrnt.documents import (
    REFERENCE_SCHEMA,
    Commit,
    Ignored,
    Intermediate,
    Kind,
    Malformed,
    MalformedKind,
    Proof,
    Reason,
    parse_commit,
)
from indexer.concrnt.payload import decode_value
from indexer.concrnt.uri import Scope

NOW = datetime(2026, 9, 20, 12, tzinfo=UTC)
ALICE = "con" + "0" * 38 + "1"
BOB = "con" + "0" * 38 + "2"
CDID = "06ga9v1jffasz1zz3khsacbghm"
PROFILE = "https://schema.concrnt.world/p/main.json"
COMMUNITY = "https://schema.concrnt.world/t/community.json"
POST = "https://schema.concrnt.world/m/markdown.json"
FOLLOW = "https://schema.concrnt.world/ack/follow.json"
INDEXED = {PROFILE: MalformedKind.PROFILE, COMMUNITY: MalformedKind.COMMUNITY, POST: MalformedKind.POST}
ABSENT = object()

RECORD = {
    "kind": "record",
    "key": f"cckv://{ALICE}/concrnt.world/profiles/main/posts/1",
    "value": {"body": "ねこ"},
    "author": ALICE,
    "schema": POST,
    "createdAt": "2026-09-15T12:00:00.123456789Z",
}
DELETE = {
    "kind": "delete",
    "value": f"cckv://{ALICE}/a/*",
    "author": ALICE,
    "createdAt": "2026-09-15T12:00:00Z",
}
ACK = {
    "kind": "ack",
    "value": {},
    "author": ALICE,
    "schema": FOLLOW,
    "associate": f"cckv://{BOB}",
    "createdAt": "2026-09-15T12:00:00Z",
}
ENTITY = {
    "kind": "entity",
    "value": {"domain": "Alpha.Example"},
    "author": ALICE,
    "createdAt": "2026-09-15T12:00:00Z",
}


def row(document: Any, **members: Any) -> str:
    """A signed document around a document, as a feed's row."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return json.dumps({"document": text, **members}, ensure_ascii=False)


def changed(document: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A document with some fields replaced, or left out where they are ABSENT."""
    return {name: value for name, value in {**document, **fields}.items() if value is not ABSENT}


def parse(raw: str | bytes) -> Commit | Intermediate | Ignored | Malformed:
    return parse_commit(raw, now=NOW, indexed=INDEXED)


def commit(raw: str | bytes) -> Commit:
    parsed = parse(raw)
    assert isinstance(parsed, Commit), parsed
    return parsed


def malformed(raw: str | bytes) -> tuple[MalformedKind, Reason]:
    parsed = parse(raw)
    assert isinstance(parsed, Malformed), parsed
    return parsed.kind, parsed.reason


# --- the well-formed ---


def test_a_record_is_read_whole() -> None:
    """Key, value, author, schema, time, texts and CDID, each in the form that the rest works with."""
    raw = row(RECORD, proof={"type": "none"})
    record = commit(raw)
    assert record.kind is Kind.RECORD
    assert record.key is not None
    assert record.key.key == RECORD["key"] == record.key_text
    assert record.value == '{"body": "ねこ"}'.encode()
    assert (record.author, record.schema) == (ALICE, POST)
    assert record.created_at == datetime(2026, 9, 15, 12, 0, 0, 123456, tzinfo=UTC)
    assert json.loads(record.document) == RECORD
    assert record.signed == raw
    assert record.proof == Proof(type="none")
    assert record.cdid == cdid(record.document, record.created_at)
    assert (record.associate, record.target, record.href, record.domain) == (None, None, None, None)
    assert commit(raw.encode()) == record


def test_a_key_keeps_its_spelling_beside_the_canonical_one() -> None:
    """Answers show the key as the document spells it; identity is canonical and has no hint."""
    record = commit(row(changed(RECORD, key="cckv://Alpha.Example@beta.example/%61/b%2Fc")))
    assert record.key_text == "cckv://Alpha.Example@beta.example/%61/b%2Fc"
    assert record.key is not None
    assert record.key.key == "cckv://alpha.example/a/b%2Fc"


@pytest.mark.parametrize(
    ("author", "read"),
    [(ALICE, ALICE), ("ccs" + "0" * 39, "ccs" + "0" * 39), ("Alpha.Example", "alpha.example")],
)
def test_a_record_is_written_by_a_person_or_a_server(author: str, read: str) -> None:
    """CCID, CSID and server's name are authors; names are canonical."""
    assert commit(row(changed(RECORD, author=author))).author == read


@pytest.mark.parametrize("kind", ["ack", "unack", "acked", "unacked"])
def test_acks_say_whom_they_are_about(kind: str) -> None:
    """The followed person is a bare owner; an empty key is none."""
    for document in (
        changed(ACK, kind=kind),
        changed(ACK, kind=kind, key=""),
        changed(ACK, kind=kind, key=None),
    ):
        ack = commit(row(document))
        assert ack.kind == kind
        assert ack.associate is not None
        assert ack.associate.owner == BOB
        assert ack.key is None
        assert ack.key_text == ""


@pytest.mark.parametrize(
    ("target", "scope"),
    [
        (f"cckv://{ALICE}/a", Scope.KEY),
        (f"cckv://{ALICE}/a/*", Scope.BELOW),
        (f"cckv://{ALICE}/a*", Scope.TREE),
        (f"ccfs://{ALICE}/{CDID}", Scope.DOCUMENT),
    ],
)
def test_deletes_carry_their_target(target: str, scope: Scope) -> None:
    """A delete needs no schema; its value is its target."""
    delete = commit(row(changed(DELETE, value=target)))
    assert delete.target is not None
    assert delete.target.scope is scope
    assert delete.schema == ""


def test_entities_name_a_server() -> None:
    """The domain is canonical; other fields of the value do not matter."""
    assert commit(row(ENTITY)).domain == "alpha.example"
    assert (
        commit(row(changed(ENTITY, value={"domain": "alpha.example", "alias": 5}))).domain == "alpha.example"
    )


@pytest.mark.parametrize(
    ("value", "href"),
    [
        ({"href": f"cckv://{ALICE}@alpha.example/%61"}, f"cckv://{ALICE}/a"),
        ({"href": f"ccfs://{ALICE}/{CDID}"}, f"ccfs://{ALICE}/concrnt/{CDID}"),
        ({"href": f"ccfs://{ALICE}/blob/{'ab' * 32}"}, None),
        ({"href": f"cckv://{ALICE}"}, None),
        ({"href": "https://example.com/"}, None),
        ({"href": "cckv://@alpha.example/a"}, None),
        ({"href": f"cckv://{ALICE}/{'a' * 1025}"}, None),
        ({"href": "a\0"}, None),
        ({"href": "\ud800"}, None),
        ({"href": 5}, None),
        ({"href": None}, None),
        ({}, None),
        ([], None),
        ("x", None),
    ],
)
def test_references_say_what_they_point_to(value: Any, href: str | None) -> None:
    """A canonical key or document; whatever is neither is no error, and points nowhere."""
    document = json.dumps(changed(RECORD, schema=REFERENCE_SCHEMA, value=value))
    assert commit(row(document)).href == href


def test_what_no_rule_needs_may_be_of_any_type() -> None:
    """Unread fields, single fields of a value and fields of other kinds never make a commit malformed."""
    record = changed(
        RECORD,
        value={"username": 5},
        associate=7,
        onUpdate=[1],
        distributes="x",
        policy={"a": []},
        references=None,
    )
    assert decode_value(commit(row(record)).value) == {"username": 5}
    assert commit(row(RECORD, references=[[]], cckv=5, ccfs={})).key_text == RECORD["key"]
    assert commit(row(changed(DELETE, schema=None, key=5))).target is not None


@pytest.mark.parametrize(
    ("proof", "read"),
    [
        (None, None),
        ("x", None),
        ([], None),
        ({"type": 5, "signature": None, "key": "k"}, Proof(key="k")),
        (
            {"type": "document-direct", "document": "{}", "proof": {"type": "none", "signature": []}},
            Proof(type="document-direct", document="{}", proof=Proof(type="none")),
        ),
    ],
)
def test_proofs_are_kept_with_tolerance(proof: Any, read: Proof | None) -> None:
    """Whether a proof holds is decided elsewhere; its absence or shape makes no commit malformed."""
    assert commit(row(RECORD, proof=proof)).proof == read


def test_a_proof_in_a_proof_in_a_proof_ends_somewhere() -> None:
    """A chain of a hundred thousand proofs is cut; the commit stands."""
    chain = '{"proof":' * 100_000 + "null" + "}" * 100_000
    record = commit(f'{{"document":{json.dumps(json.dumps(RECORD))},"proof":{chain}}}')
    assert record.key_text == RECORD["key"]


# --- what is no commit of ours, and no error ---


def test_a_row_with_only_a_key_is_intermediate() -> None:
    """An intermediate key holds no document and is no error."""
    assert parse('{"cckv":"cckv://o/a"}') == Intermediate("cckv://o/a")
    assert parse('{"cckv":"cckv://o/a","document":"","proof":null}') == Intermediate("cckv://o/a")


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "rumour"},
        {"kind": "association", "associate": 5, "author": None},
        changed(RECORD, kind="Record"),
        {"kind": "rumour", "key": [], "createdAt": {}, "author": 1},
    ],
)
def test_other_kinds_are_ignored_whatever_they_hold(document: dict[str, Any]) -> None:
    """Kinds of the future are counted, not judged."""
    assert parse(row(document)) == Ignored(document["kind"])


def test_an_ignored_kind_is_cut() -> None:
    """What a stranger calls his kind stays short; depth is no matter there."""
    assert parse(row({"kind": "x" * 1000})) == Ignored("x" * 64)
    deep = '{"kind":"rumour","value":' + "[" * 10_000 + "]" * 10_000 + "}"
    assert parse(row(deep)) == Ignored("rumour")


# --- the malformed ---


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", Reason.ROW_NOT_JSON),
        ("nope", Reason.ROW_NOT_JSON),
        ('{"document":"x"', Reason.ROW_NOT_JSON),
        ('{"document":nope}', Reason.ROW_NOT_JSON),
        ("null", Reason.ROW_NOT_OBJECT),
        ("5", Reason.ROW_NOT_OBJECT),
        ('"x"', Reason.ROW_NOT_OBJECT),
        ("[]", Reason.ROW_NOT_OBJECT),
        ("{}", Reason.NO_DOCUMENT),
        ('{"cckv":5}', Reason.NO_DOCUMENT),
        ('{"ccfs":"ccfs://o/x"}', Reason.NO_DOCUMENT),
        ('{"document":null}', Reason.NO_DOCUMENT),
        ('{"document":{}}', Reason.DOCUMENT_NOT_STRING),
        ('{"document":5}', Reason.DOCUMENT_NOT_STRING),
        (row("nope"), Reason.DOCUMENT_NOT_JSON),
        (row('{"kind":"record",}'), Reason.DOCUMENT_NOT_JSON),
        (row('{"kind":"record","value":01}'), Reason.DOCUMENT_NOT_JSON),
        (row("[1]"), Reason.DOCUMENT_NOT_OBJECT),
        (row("null"), Reason.DOCUMENT_NOT_OBJECT),
        (row('"x"'), Reason.DOCUMENT_NOT_OBJECT),
        (row("{}"), Reason.NO_KIND),
        (row({"kind": ""}), Reason.NO_KIND),
        (row({"kind": None}), Reason.NO_KIND),
        (row({"kind": 5}), Reason.MALFORMED_KIND),
        (row({"kind": ["record"]}), Reason.MALFORMED_KIND),
    ],
)
def test_what_can_not_be_read_is_a_malformed_commit(raw: str, reason: Reason) -> None:
    """Rows and documents of other shapes are counted as commits, with their reason."""
    assert malformed(raw) == (MalformedKind.COMMIT, reason)
    assert malformed(raw.encode()) == (MalformedKind.COMMIT, reason)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"author": ABSENT}, Reason.NO_AUTHOR),
        ({"author": ""}, Reason.NO_AUTHOR),
        ({"author": 5}, Reason.MALFORMED_AUTHOR),
        ({"author": "a b"}, Reason.MALFORMED_AUTHOR),
        ({"author": "127.0.0.1"}, Reason.MALFORMED_AUTHOR),
        ({"author": ALICE + "\0"}, Reason.MALFORMED_AUTHOR),
        ({"author": ALICE + "\ud800"}, Reason.MALFORMED_AUTHOR),
        ({"key": ABSENT}, Reason.NO_KEY),
        ({"key": None}, Reason.NO_KEY),
        ({"key": ""}, Reason.NO_KEY),
        ({"key": {}}, Reason.MALFORMED_KEY),
        ({"key": "x"}, Reason.MALFORMED_KEY),
        ({"key": f"cckv://{ALICE}/a%00b"}, Reason.MALFORMED_KEY),
        ({"key": f"cckv://{ALICE}/a\0b"}, Reason.MALFORMED_KEY),
        ({"key": f"cckv://{ALICE}/a\ud800b"}, Reason.MALFORMED_KEY),
        ({"key": f"cckv://{ALICE}/a%zz"}, Reason.MALFORMED_KEY),
        ({"key": f"ccfs://{ALICE}/{CDID}"}, Reason.MALFORMED_KEY),
        ({"key": "https://example.com/a"}, Reason.MALFORMED_KEY),
        ({"key": "cckv://@alpha.example/a"}, Reason.MALFORMED_KEY),
        ({"key": f"cckv://{ALICE}"}, Reason.KEY_WITHOUT_PATH),
        ({"key": f"cckv://{ALICE}/"}, Reason.KEY_WITHOUT_PATH),
        ({"key": f"cckv://{ALICE}/{'a' * 1025}"}, Reason.KEY_TOO_LONG),
        ({"key": f"cckv://{ALICE}/{'あ' * 342}"}, Reason.KEY_TOO_LONG),
        ({"createdAt": ABSENT}, Reason.NO_CREATED_AT),
        ({"createdAt": ""}, Reason.NO_CREATED_AT),
        ({"createdAt": 1700000000000}, Reason.MALFORMED_CREATED_AT),
        ({"createdAt": "infinity"}, Reason.MALFORMED_CREATED_AT),
        ({"createdAt": "2025-03-01T10:00:00"}, Reason.MALFORMED_CREATED_AT),
        ({"createdAt": "0001-01-01T00:00:00+14:00"}, Reason.DATE_OUT_OF_RANGE),
        ({"createdAt": "0001-01-01T00:00:00Z"}, Reason.DATE_OUT_OF_RANGE),
        ({"createdAt": "1969-12-31T23:59:59.999999999Z"}, Reason.DATE_OUT_OF_RANGE),
        ({"createdAt": "9999-12-31T23:59:59-12:00"}, Reason.DATE_OUT_OF_RANGE),
        ({"createdAt": "9999-12-31T23:59:59Z"}, Reason.FUTURE_DATE),
        ({"createdAt": "2026-09-21T12:00:00.000001Z"}, Reason.FUTURE_DATE),
        ({"value": ABSENT}, Reason.VALUE_NOT_OBJECT),
        ({"value": None}, Reason.VALUE_NOT_OBJECT),
        ({"value": []}, Reason.VALUE_NOT_OBJECT),
        ({"value": "{}"}, Reason.VALUE_NOT_OBJECT),
    ],
)
@pytest.mark.parametrize("schema", [PROFILE, COMMUNITY, POST])
def test_a_malformed_record_is_counted_by_its_schema(
    fields: dict[str, Any], reason: Reason, schema: str
) -> None:
    """Profiles, communities and posts have counts of their own."""
    raw = row(json.dumps(changed(RECORD, schema=schema, **fields)))
    assert malformed(raw) == (INDEXED[schema], reason)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (ABSENT, Reason.NO_SCHEMA),
        ("", Reason.NO_SCHEMA),
        (5, Reason.MALFORMED_SCHEMA),
        ("a\0", Reason.MALFORMED_SCHEMA),
        ("\ud800", Reason.MALFORMED_SCHEMA),
        ("あ" * 342, Reason.MALFORMED_SCHEMA),
        ("a" * 5_000_000, Reason.MALFORMED_SCHEMA),
    ],
)
def test_a_record_needs_a_schema_that_can_be_stored(schema: Any, reason: Reason) -> None:
    """Without one, or with one that no database holds, it is a malformed commit."""
    assert malformed(row(json.dumps(changed(RECORD, schema=schema)))) == (MalformedKind.COMMIT, reason)


def test_a_record_of_another_schema_may_hold_any_value() -> None:
    """Only indexed schemas need an object; the value may even be missing."""
    for value, text in ((None, b"null"), ([1], b"[1]"), ("x", b'"x"'), (ABSENT, b"null")):
        assert commit(row(changed(RECORD, schema="urn:other", value=value))).value == text


def test_limits_are_inclusive() -> None:
    """A key of exactly 1,024 bytes, the epoch itself, and a day ahead to the microsecond pass."""
    commit(row(changed(RECORD, key=f"cckv://{ALICE}/" + "a" * 1024)))
    commit(row(changed(RECORD, key=f"cckv://{ALICE}/" + "%61" * 1024)))
    commit(row(changed(RECORD, createdAt="1970-01-01T00:00:00Z")))
    ahead = commit(row(changed(RECORD, createdAt="2026-09-21T12:00:00.000000999Z")))
    assert ahead.created_at == NOW + timedelta(days=1)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"value": ABSENT}, Reason.NO_TARGET),
        ({"value": None}, Reason.NO_TARGET),
        ({"value": ""}, Reason.NO_TARGET),
        ({"value": 5}, Reason.MALFORMED_TARGET),
        ({"value": {"href": "cckv://o/a"}}, Reason.MALFORMED_TARGET),
        ({"value": f"cckv://{ALICE}"}, Reason.MALFORMED_TARGET),
        ({"value": f"cckv://{ALICE}*"}, Reason.MALFORMED_TARGET),
        ({"value": f"cckv://{ALICE}/*"}, Reason.MALFORMED_TARGET),
        ({"value": f"cckv://{ALICE}/a*b"}, Reason.MALFORMED_TARGET),
        ({"value": f"cckv://{ALICE}/a\ud800"}, Reason.MALFORMED_TARGET),
        ({"author": ABSENT}, Reason.NO_AUTHOR),
        ({"createdAt": "2099-01-01T00:00:00Z"}, Reason.FUTURE_DATE),
        ({"schema": 5}, Reason.MALFORMED_SCHEMA),
    ],
)
def test_a_malformed_delete_is_counted_as_one(fields: dict[str, Any], reason: Reason) -> None:
    """A delete of nothing, of a bare owner, or with a star in the middle."""
    assert malformed(row(json.dumps(changed(DELETE, **fields)))) == (MalformedKind.DELETE, reason)


@pytest.mark.parametrize("kind", ["ack", "unack", "acked", "unacked"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"key": f"cckv://{ALICE}/a"}, Reason.ACK_WITH_KEY),
        ({"key": 5}, Reason.ACK_WITH_KEY),
        ({"author": "alpha.example"}, Reason.MALFORMED_AUTHOR),
        ({"author": "ccs" + "0" * 39}, Reason.MALFORMED_AUTHOR),
        ({"schema": ABSENT}, Reason.NO_SCHEMA),
        ({"associate": ABSENT}, Reason.MALFORMED_ASSOCIATE),
        ({"associate": 5}, Reason.MALFORMED_ASSOCIATE),
        ({"associate": f"cckv://{BOB}/a"}, Reason.MALFORMED_ASSOCIATE),
        ({"associate": f"cckv://{BOB}@alpha.example"}, Reason.MALFORMED_ASSOCIATE),
        ({"associate": "cckv://alpha.example"}, Reason.MALFORMED_ASSOCIATE),
        ({"associate": "cckv://@alpha.example"}, Reason.MALFORMED_ASSOCIATE),
        ({"associate": f"ccfs://{BOB}/{CDID}"}, Reason.MALFORMED_ASSOCIATE),
        ({"associate": BOB}, Reason.MALFORMED_ASSOCIATE),
    ],
)
def test_a_malformed_ack_is_counted_as_one(kind: str, fields: dict[str, Any], reason: Reason) -> None:
    """Key, author and associate of the four kinds of acks follow the same rules (CIP-10)."""
    assert malformed(row(changed(ACK, kind=kind, **fields))) == (MalformedKind.ACK, reason)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"value": ABSENT}, Reason.VALUE_NOT_OBJECT),
        ({"value": "alpha.example"}, Reason.VALUE_NOT_OBJECT),
        ({"value": {}}, Reason.MALFORMED_DOMAIN),
        ({"value": {"domain": 5}}, Reason.MALFORMED_DOMAIN),
        ({"value": {"domain": "127.0.0.1"}}, Reason.MALFORMED_DOMAIN),
        ({"value": {"domain": "\ud800"}}, Reason.MALFORMED_DOMAIN),
        ({"author": "alpha.example"}, Reason.MALFORMED_AUTHOR),
    ],
)
def test_a_malformed_entity_is_a_malformed_commit(fields: dict[str, Any], reason: Reason) -> None:
    """An entity has to be a person's and to name a server."""
    assert malformed(row(json.dumps(changed(ENTITY, **fields)))) == (MalformedKind.COMMIT, reason)


# --- characters that databases refuse ---


@pytest.mark.parametrize(
    "value",
    [
        {"body": "ねこ\0だいすき"},
        {"username": "\0\0"},
        {"a": {"b": [{"c\0": "\0"}]}},
        {"body": "\ud800"},
        {"body": "shown: \\u0000"},
    ],
)
def test_odd_characters_inside_a_value_are_kept(value: Any) -> None:
    """NUL and lone surrogates in a value are the projection's matter; what is stored can be stored."""
    document = json.dumps(changed(RECORD, value=value))
    record = commit(row(document))
    assert decode_value(record.value) == value
    assert record.signed == row(document)
    assert "\0" not in record.signed
    record.signed.encode()


def test_a_nul_in_the_documents_own_text_is_malformed() -> None:
    """Escaped once in the row, it stands raw in the document, which no JSON allows."""
    document = json.dumps(RECORD, ensure_ascii=False).replace("ねこ", "ね\0こ")
    assert malformed(row(document)) == (MalformedKind.COMMIT, Reason.DOCUMENT_WITH_NUL)


def test_raw_control_characters_in_a_value_are_tolerated() -> None:
    """They reach the value as escapes, so that every decoder reads it."""
    document = json.dumps(RECORD, ensure_ascii=False).replace("ねこ", "ね\nこ\t")
    record = commit(row(document))
    assert json.loads(record.value) == {"body": "ね\nこ\t"}
    assert record.document == document


def test_a_lone_surrogate_in_the_documents_own_text_reads_as_the_network_reads_it() -> None:
    """The document gets bytes (U+FFFD), hence a CDID; the value keeps an escape; all can be stored."""
    document = json.dumps(RECORD, ensure_ascii=False).replace("ねこ", "ね\ud800")
    record = commit(json.dumps({"document": document}))
    assert record.document == document.replace("\ud800", "\ufffd")
    assert json.loads(record.value) == {"body": "ね\ud800"}
    assert record.cdid == cdid(record.document, record.created_at)
    record.signed.encode()
    raw = commit(json.dumps({"document": document}, ensure_ascii=False))
    assert raw.cdid == record.cdid
    raw.signed.encode()


def test_bytes_that_are_no_utf8_cost_themselves() -> None:
    """In a value and in unread members they become U+FFFD."""
    record = commit(row(RECORD, note="x").encode().replace(b'"x"', b'"\xff"'))
    assert record.signed.endswith('"\ufffd"}')
    assert decode_value(commit(row(RECORD).encode().replace("ねこ".encode(), b"\xff")).value) == {
        "body": "\ufffd"
    }


@pytest.mark.parametrize("depth", [101, 2_000, 100_000])
def test_a_value_nested_too_deep_costs_its_own_commit(depth: int) -> None:
    """It is malformed, counted by its schema, whatever the stack could take."""
    nested = "[" * depth + "]" * depth
    document = json.dumps(RECORD).replace('{"body": "\\u306d\\u3053"}', f'{{"body":{nested}}}')
    assert malformed(row(document)) == (MalformedKind.POST, Reason.DOCUMENT_TOO_DEEP)


def test_a_field_nested_too_deep_is_one_of_a_wrong_type() -> None:
    """Depth beside the document, in references, is no matter."""
    nested = "[" * 100_000 + "]" * 100_000
    record = commit(f'{{"document":{json.dumps(json.dumps(RECORD))},"references":{nested}}}')
    assert record.key_text == RECORD["key"]
    document = json.dumps(RECORD).replace('"author": "' + ALICE + '"', f'"author": {nested}')
    assert malformed(row(document)) == (MalformedKind.POST, Reason.DOCUMENT_TOO_DEEP)


def test_of_equal_names_the_last_counts() -> None:
    """In the row and in the document, by both decoders."""
    for spoiler in ("", "\n"):
        document = json.dumps(RECORD)[:-1] + f', "value": {{"body": "last{spoiler}"}}}}'
        raw = '{"document":"x","document":' + json.dumps(document) + "}"
        assert decode_value(commit(raw).value) == {"body": f"last{spoiler}"}


def test_a_body_of_five_megabytes_is_a_commit_like_any_other() -> None:
    """Size alone makes nothing malformed."""
    assert len(commit(row(changed(RECORD, value={"body": "あ" * 1_700_000}))).value) > 5_000_000


# --- the dead letter ---


def test_a_dead_letter_is_short_plain_text_with_the_digest_of_the_whole() -> None:
    """Sixteen KiB of printable ASCII can be stored anywhere; the same bad row has the same digest."""
    raw = '{"document": {"あ": "\0\x7f\ud800", "x": "' + "あ" * 100_000 + '"}}'
    parsed = parse(raw)
    assert isinstance(parsed, Malformed)
    assert len(parsed.text) == 16 * 1024
    assert parsed.text.isascii()
    assert parsed.text.isprintable()
    assert parsed.text.startswith('{"document": {"\\u3042": "\\u0000\\u007f')
    assert parsed.digest == hashlib.sha256(raw.encode("utf-8", "surrogatepass")).digest()
    assert parse(raw) == parsed


def test_a_dead_letter_of_broken_bytes_is_plain_text_too() -> None:
    """Bytes that are no UTF-8 do not keep a bad row from being kept."""
    parsed = parse(b'{"document": "\xff')
    assert isinstance(parsed, Malformed)
    assert parsed.text == '{"document": "\\ufffd'
    assert parsed.digest == hashlib.sha256(b'{"document": "\xff').digest()


# --- both readers agree ---

FIELDS = st.sampled_from(["kind", "key", "value", "author", "schema", "createdAt", "associate"])
ODD_VALUES = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=6),
    st.lists(st.integers(), max_size=2),
    st.just({}),
    st.sampled_from(
        [ALICE, "alpha.example", f"cckv://{BOB}", f"cckv://{ALICE}/a*", "delete", "unack", "entity"]
    ),
)


@given(st.sampled_from([RECORD, DELETE, ACK, ENTITY]), st.dictionaries(FIELDS, ODD_VALUES, max_size=3))
def test_the_fast_and_the_tolerant_reader_agree(document: dict[str, Any], fields: dict[str, Any]) -> None:
    """A member that only the tolerant reader takes changes nothing but the texts; nothing ever raises."""
    plain = json.dumps({**document, **fields})
    spoilt = plain[:-1] + ', "spoiler": "\\ud800"}'
    one, other = parse(row(plain)), parse(row(spoilt))
    if isinstance(one, Commit):
        assert isinstance(other, Commit)
        assert (one.kind, one.key, one.author, one.schema, one.created_at, one.value) == (
            other.kind,
            other.key,
            other.author,
            other.schema,
            other.created_at,
            other.value,
        )
        assert (one.associate, one.target, one.domain) == (other.associate, other.target, other.domain)
    elif isinstance(one, Malformed):
        assert isinstance(other, Malformed)
        assert (one.kind, one.reason) == (other.kind, other.reason)
    else:
        assert one == other


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_nothing_that_a_stranger_sends_raises(raw: str | bytes) -> None:
    """Any bytes, any text: the answer is a value."""
    assert parse(raw) is not None
