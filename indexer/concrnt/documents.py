"""Commits: signed documents as a feed's rows hold them, parsed and judged (protocol.md, section 2).

:func:`parse_commit` never raises for what a stranger wrote. It returns one of four frozen values:

* :class:`Commit`: well-formed, to be planned. Nothing is verified here.
* :class:`Intermediate`: a row that holds no document, only a key. No error.
* :class:`Ignored`: a kind that this program does not keep (associations, kinds of the future), whatever else
  its document holds.
* :class:`Malformed`: anything else, with a reason from a closed list and a bounded text for the dead letters.

What was decided where the protocol is silent:

* Of equal names in an object the last counts. Members that no rule needs may be of any type.
* Only the document is bounded in nesting (:data:`~indexer.concrnt.payload.MAX_NESTING`): it becomes part of a
  search document. ``references`` beside it may nest as they like.
* Lone surrogates and raw control characters are no JSON to the strict; they are tolerated in ``value`` and
  refused in what names something (key, author, schema, associate). A NUL in the document's own text is
  refused, as no JSON has it. A lone surrogate in that text reads as U+FFFD, as the network's Go servers
  read it, so that the document has bytes to be signed.
* A record's author is a CCID, a CSID or a server's name; of acks and entities a CCID.

Speed matters (a backfill is millions of commits): one msgspec pass over the row, one over the document
string. Where msgspec refuses, the tolerant way decides, and it gives the same answer wherever both can
row.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, assert_never

import msgspec

from indexer.concrnt.cdid import cdid_at
from indexer.concrnt.identifiers import MalformedName, canonical_fqdn, is_ccid, is_csid
from indexer.concrnt.payload import (
    decode_value,
    string_in,
)
from indexer.concrnt.reasons import MalformedKind, Reason
from indexer.concrnt.rows import Intermediate, Proof, Row, read_row
from indexer.concrnt.times import (
    NANOSECONDS_PER_MILLISECOND,
    MalformedTime,
    TimeOutOfRange,
    parse_instant,
    to_datetime,
)
from indexer.concrnt.uri import (
    CCURI,
    MAX_KEY_BYTES,
    DeleteTarget,
    MalformedURI,
    parse_ccuri,
    parse_delete_target,
)

__all__ = [
    "REFERENCE_SCHEMA",
    "Commit",
    "Ignored",
    "Intermediate",
    "Kind",
    "Malformed",
    "MalformedKind",
    "Proof",
    "Reason",
    "parse_commit",
]

REFERENCE_SCHEMA: Final = "https://schema.concrnt.net/reference.json"

MAX_AHEAD: Final = timedelta(hours=24)
MAX_SCHEMA_BYTES: Final = 1024
"""A schema is stored in indexes that hold no megabytes; the network's are some 40 characters."""
MAX_DEAD_LETTER_CHARACTERS: Final = 16 * 1024

_MAX_KIND_CHARACTERS: Final = 64
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_NOT_PLAIN: Final = re.compile(r"[^\t\n\r -~]")


class Kind(StrEnum):
    """The kinds of commits that are kept."""

    RECORD = "record"
    DELETE = "delete"
    ACK = "ack"
    UNACK = "unack"
    ACKED = "acked"
    UNACKED = "unacked"
    ENTITY = "entity"


class Commit(msgspec.Struct, frozen=True):
    """A well-formed commit.

    A msgspec Struct: as frozen as a dataclass, and made in a tenth of the time.

    Attributes:
        kind: which rules apply.
        key: of a record, with a path; else None.
        key_text: the key as the document spells it; ``""`` where there is none.
        value: the raw JSON text of the value, ``null`` where it is absent: see :func:`decode_value`.
        author: CCID, CSID or canonical FQDN.
        schema: not empty in records and acks.
        created_at: aware, UTC, cut to the microsecond; from 1970 to a day ahead of the parser's clock.
        associate: of an ack and its like, the bare ``cckv://<CCID>`` of who is followed; else None.
        target: of a delete; else None.
        href: of a reference record, the canonical key or document that it points to; else None.
        domain: of an entity, the canonical name of the server where the author lives; else None.
        document: the document string, exactly as signed.
        signed: JSON text of the row, as received where PostgreSQL can store it (no NUL, no lone surrogate).
        proof: unverified.
        cdid: of the document string and its createdAt.

    """

    kind: Kind
    key: CCURI | None
    key_text: str
    value: bytes
    author: str
    schema: str
    created_at: datetime
    associate: CCURI | None
    target: DeleteTarget | None
    href: str | None
    domain: str | None
    document: str
    signed: str
    proof: Proof | None
    cdid: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A commit of a kind that is not kept; ``kind`` is what it calls itself, cut to 64 characters."""

    kind: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A commit that changes nothing.

    Attributes:
        kind: what it is counted as.
        reason: why.
        text: the row for the dead letters: printable ASCII (the rest as JSON's escapes), at most 16 KiB.
        digest: sha256 of the whole row as it came: the same bad row read again is the same dead letter.

    """

    kind: MalformedKind
    reason: Reason
    text: str
    digest: bytes


class _ReferenceWire(msgspec.Struct):
    href: str = ""


class _Rejected(Exception):  # noqa: N818 - control flow of this module: rules say no from any depth
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


_REFERENCE: Final = msgspec.json.Decoder(_ReferenceWire)
_KINDS: Final[Mapping[str, Kind]] = {kind.value: kind for kind in Kind}
# Looking up a member of an enum takes longer than most rules do.
_RECORD: Final = Kind.RECORD
_DELETE: Final = Kind.DELETE
_ENTITY: Final = Kind.ENTITY
_FIELD_REASONS: Final[Mapping[str, tuple[Reason, Reason]]] = {
    "author": (Reason.NO_AUTHOR, Reason.MALFORMED_AUTHOR),
    "schema": (Reason.NO_SCHEMA, Reason.MALFORMED_SCHEMA),
    "createdAt": (Reason.NO_CREATED_AT, Reason.MALFORMED_CREATED_AT),
    "key": (Reason.NO_KEY, Reason.MALFORMED_KEY),
    "target": (Reason.NO_TARGET, Reason.MALFORMED_TARGET),
    "associate": (Reason.MALFORMED_ASSOCIATE, Reason.MALFORMED_ASSOCIATE),
}
"""For each field, the reason when it is absent or empty, and when it is something else than wanted."""


def parse_commit(
    raw: str | bytes, *, now: datetime, indexed: Mapping[str, MalformedKind]
) -> Commit | Intermediate | Ignored | Malformed:
    """Parse and judge one row.

    Args:
        raw: the JSON text of a signed document, for example an item of a page.
        now: the clock's time, aware: documents dated more than 24 hours ahead of it are malformed.
        indexed: the schemas whose records are projected, and what a malformed record of each counts as. Their
            values have to be objects.

    Returns:
        See the module. It never raises for what is in ``raw``.

    """
    row = read_row(raw)
    if isinstance(row, Reason):
        return _malformed(raw, MalformedKind.COMMIT, row)
    if isinstance(row, Intermediate):
        return row
    kind = _KINDS.get(row.fields.kind)
    if kind is None:
        return Ignored(row.fields.kind[:_MAX_KIND_CHARACTERS])
    try:
        return _judge(kind, row, now, indexed)
    except _Rejected as rejected:
        return _malformed(raw, _counted_as(kind, row.fields.schema, indexed), rejected.reason)


def _judge(kind: Kind, row: Row, now: datetime, indexed: Mapping[str, MalformedKind]) -> Commit:
    if row.too_deep:
        raise _Rejected(Reason.DOCUMENT_TOO_DEEP)
    fields = row.fields
    value = bytes(fields.value)
    author = _author(kind, fields.author)
    schema = _schema(kind, fields.schema)
    instant = _instant(fields.createdAt)
    created_at = to_datetime(instant)
    if created_at > now + MAX_AHEAD:
        raise _Rejected(Reason.FUTURE_DATE)
    key = associate = target = href = domain = None
    if kind is _RECORD:
        key = _record_key(fields.key)
        if schema in indexed and not value.startswith(b"{"):
            raise _Rejected(Reason.VALUE_NOT_OBJECT)
        if schema == REFERENCE_SCHEMA:
            href = _href(value)
    elif kind is _DELETE:
        target = _target(value)
    elif kind is _ENTITY:
        domain = _domain(value)
    else:
        associate = _ackee(fields.key, fields.associate)
    return Commit(
        kind=kind,
        key=key,
        key_text=fields.key if key is not None and fields.key is not None else "",
        value=value,
        author=author,
        schema=schema,
        created_at=created_at,
        associate=associate,
        target=target,
        href=href,
        domain=domain,
        document=row.document,
        signed=row.signed,
        proof=row.proof,
        cdid=cdid_at(row.document.encode(), instant // NANOSECONDS_PER_MILLISECOND),
    )


def _counted_as(kind: Kind, schema: Any, indexed: Mapping[str, MalformedKind]) -> MalformedKind:
    match kind:
        case Kind.DELETE:
            return MalformedKind.DELETE
        case Kind.ACK | Kind.UNACK | Kind.ACKED | Kind.UNACKED:
            return MalformedKind.ACK
        case Kind.RECORD:
            known = isinstance(schema, str)
            return indexed.get(schema, MalformedKind.COMMIT) if known else MalformedKind.COMMIT
        case Kind.ENTITY:
            return MalformedKind.COMMIT
        case _:
            assert_never(kind)


def _text(value: Any, field: str) -> str:
    if isinstance(value, str) and value:
        return value
    absent, mistyped = _FIELD_REASONS[field]
    raise _Rejected(absent if value is None or value == "" else mistyped)


def _author(kind: Kind, value: Any) -> str:
    author = _text(value, "author")
    if is_ccid(author):
        return author
    if kind is not _RECORD and kind is not _DELETE:
        raise _Rejected(Reason.MALFORMED_AUTHOR)
    if is_csid(author):
        return author
    try:
        return canonical_fqdn(author)
    except MalformedName as error:
        raise _Rejected(Reason.MALFORMED_AUTHOR) from error


def _schema(kind: Kind, value: Any) -> str:
    if not value and (kind is _DELETE or kind is _ENTITY) and (value is None or value == ""):
        return ""
    schema = _text(value, "schema")
    if len(schema) > MAX_SCHEMA_BYTES or not _is_schema(schema):
        raise _Rejected(Reason.MALFORMED_SCHEMA)
    return schema


@lru_cache(maxsize=4096)
def _is_schema(schema: str) -> bool:
    return len(schema.encode("utf-8", "replace")) <= MAX_SCHEMA_BYTES and not _UNSTORABLE.search(schema)


def _instant(value: Any) -> int:
    text = _text(value, "createdAt")
    try:
        instant = parse_instant(text)
    except TimeOutOfRange as error:
        raise _Rejected(Reason.DATE_OUT_OF_RANGE) from error
    except MalformedTime as error:
        raise _Rejected(Reason.MALFORMED_CREATED_AT) from error
    if instant < 0:
        raise _Rejected(Reason.DATE_OUT_OF_RANGE)
    return instant


def _record_key(value: Any) -> CCURI:
    text = _text(value, "key")
    try:
        key = parse_ccuri(text)
    except MalformedURI as error:
        raise _Rejected(Reason.MALFORMED_KEY) from error
    if key.scheme != "cckv" or key.is_alias:
        raise _Rejected(Reason.MALFORMED_KEY)
    if not key.steps:
        raise _Rejected(Reason.KEY_WITHOUT_PATH)
    # Four bytes a character at most: the exact count is for long keys only.
    if len(text) * 4 > MAX_KEY_BYTES and key.decoded_path_bytes > MAX_KEY_BYTES:
        raise _Rejected(Reason.KEY_TOO_LONG)
    return key


def _target(value: bytes) -> DeleteTarget:
    text = _text(decode_value(value), "target")
    try:
        return parse_delete_target(text)
    except MalformedURI as error:
        raise _Rejected(Reason.MALFORMED_TARGET) from error


def _ackee(key: Any, value: Any) -> CCURI:
    if key is not None and key != "":
        raise _Rejected(Reason.ACK_WITH_KEY)
    text = _text(value, "associate")
    try:
        associate = parse_ccuri(text)
    except MalformedURI as error:
        raise _Rejected(Reason.MALFORMED_ASSOCIATE) from error
    bare = associate.scheme == "cckv" and not associate.steps and associate.hint is None
    if not bare or not is_ccid(associate.owner):
        raise _Rejected(Reason.MALFORMED_ASSOCIATE)
    return associate


def _domain(value: bytes) -> str:
    fields = decode_value(value)
    if not isinstance(fields, dict):
        raise _Rejected(Reason.VALUE_NOT_OBJECT)
    try:
        return canonical_fqdn(string_in(fields, "domain"))
    except MalformedName as error:
        raise _Rejected(Reason.MALFORMED_DOMAIN) from error


def _href(value: bytes) -> str | None:
    """Return the canonical key or document that a reference points to, None where it points to neither."""
    try:
        text = _REFERENCE.decode(value).href
    except msgspec.MsgspecError:
        fields = decode_value(value)
        text = string_in(fields, "href") if isinstance(fields, dict) else ""
    try:
        uri = parse_ccuri(text)
    except MalformedURI:
        return None
    is_target = uri.cdid is not None or (uri.is_key and uri.decoded_path_bytes <= MAX_KEY_BYTES)
    return uri.canonical if is_target and not uri.is_alias else None


def _malformed(raw: str | bytes, kind: MalformedKind, reason: Reason) -> Malformed:
    whole = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    # Cut before escaping: a dead letter of 16 KiB must not cost a copy of 30 MiB.
    head = whole[:MAX_DEAD_LETTER_CHARACTERS].decode("utf-8", "replace")
    text = dead_letter_text(head)[:MAX_DEAD_LETTER_CHARACTERS]
    return Malformed(kind, reason, text, hashlib.sha256(whole).digest())


def dead_letter_text(row: str) -> str:
    """Return a row as dead letters hold it: printable ASCII, the rest as JSON's escapes.

    What was JSON still says the same, and doing it again changes nothing.
    """
    return _NOT_PLAIN.sub(lambda match: json.dumps(match[0])[1:-1], row)
