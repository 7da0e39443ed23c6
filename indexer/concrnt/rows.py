"""Rows: the JSON text of signed documents, read but not judged (protocol.md, section 2).

There are two readers. The fast one is a msgspec pass over the row and one over the document string; a
backfill is millions of them. Where it refuses, the tolerant one cuts the texts into members and decodes what
it needs, so that what is broken costs itself only. Wherever both can read, they give the same answer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from indexer.concrnt.payload import (
    MAX_NESTING,
    BadPayload,
    decode_leniently,
    decode_text,
    nesting_exceeds,
    repair,
    split_object,
    storable,
    string_in,
)
from indexer.concrnt.reasons import Reason

_MAX_PROOF_DEPTH: Final = 8
_UNREADABLE: Final = object()
_NO_VALUE: Final = b"null"
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Proof(msgspec.Struct, frozen=True):
    """A proof as it came, unverified (protocol.md, section 3); absent and mistyped fields are ``""``.

    A msgspec Struct, not a dataclass: it is filled by the decoder itself, in the pass over the row.
    """

    type: str = ""
    signature: str = ""
    key: str = ""
    href: str = ""
    document: str = ""
    proof: "Proof | None" = None


class _RowWire(msgspec.Struct):
    document: str | None = None
    proof: Proof | None = None


class DocumentFields(msgspec.Struct):
    """The fields of a document that rules look at. From the tolerant reader they may be of any type."""

    kind: str
    key: str | None = None
    value: msgspec.Raw = msgspec.Raw(_NO_VALUE)
    author: str | None = None
    schema: str | None = None
    createdAt: str | None = None  # noqa: N815 - the name on the wire
    associate: str | None = None


class Row(msgspec.Struct):
    """A row as either reader leaves it.

    Attributes:
        fields: of the document; their types are not to be relied on.
        document: the document string, exactly as signed; it can always be encoded.
        signed: the JSON text of the row, as received where PostgreSQL can store it.
        proof: unverified.
        too_deep: whether the document nests deeper than is accepted.

    """

    fields: DocumentFields
    document: str
    signed: str
    proof: Proof | None
    too_deep: bool = False


@dataclass(frozen=True, slots=True)
class Intermediate:
    """A row without a document: a key that only leads to others."""

    cckv: str


class _Unreadable(Exception):  # noqa: N818 - control flow of this module
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


_ROW: Final = msgspec.json.Decoder(_RowWire)
_DOCUMENT: Final = msgspec.json.Decoder(DocumentFields)


def read_row(raw: str | bytes) -> Row | Intermediate | Reason:
    """Read the JSON text of a signed document, without judging what it says."""
    return _read_fast(raw) or _read_tolerantly(raw)


def _read_fast(raw: str | bytes) -> Row | None:
    """Read what the strict decoder takes; None where it refuses."""
    try:
        row = _ROW.decode(raw)
        if not row.document or nesting_exceeds(row.document, MAX_NESTING):
            return None
        fields = _DOCUMENT.decode(row.document)
        if not fields.kind:
            return None
        signed = raw if isinstance(raw, str) else raw.decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return Row(fields, row.document, signed, row.proof)


def _read_tolerantly(raw: str | bytes) -> Row | Intermediate | Reason:
    """Read whatever can be read, a member at a time."""
    text = raw if isinstance(raw, str) else decode_text(raw)
    try:
        row = _split(text, Reason.ROW_NOT_OBJECT, Reason.ROW_NOT_JSON)
        document = _member(row, "document")
        if document is None or document == "":
            cckv = _member(row, "cckv")
            return Intermediate(cckv) if isinstance(cckv, str) and cckv else Reason.NO_DOCUMENT
        if not isinstance(document, str):
            return Reason.DOCUMENT_NOT_STRING
        if "\0" in document:
            return Reason.DOCUMENT_WITH_NUL
        fields = _read_document(document)
    except _Unreadable as unreadable:
        return unreadable.reason
    return Row(
        fields,
        _LONE_SURROGATE.sub("\ufffd", document),
        storable(text),
        _read_proof(_member(row, "proof")),
        nesting_exceeds(document, MAX_NESTING),
    )


def _read_document(document: str) -> DocumentFields:
    members = _split(document, Reason.DOCUMENT_NOT_OBJECT, Reason.DOCUMENT_NOT_JSON)
    kind = _member(members, "kind")
    if kind is None or kind == "":
        raise _Unreadable(Reason.NO_KIND)
    if not isinstance(kind, str):
        raise _Unreadable(Reason.MALFORMED_KIND)
    return DocumentFields(
        kind=kind,
        key=_member(members, "key"),
        value=msgspec.Raw(repair(members.get("value", "null")).encode()),
        author=_member(members, "author"),
        schema=_member(members, "schema"),
        createdAt=_member(members, "createdAt"),
        associate=_member(members, "associate"),
    )


def _split(text: str, no_object: Reason, no_json: Reason) -> dict[str, str]:
    """Cut an object into its members; what is not too deep to be looked at must be JSON throughout."""
    try:
        if not nesting_exceeds(text, MAX_NESTING) and not isinstance(decode_leniently(text), dict):
            raise _Unreadable(no_object)
        return split_object(text)
    except BadPayload as error:
        raise _Unreadable(no_json) from error


def _member(members: Mapping[str, str], name: str) -> Any:
    """Decode one member; what can not be decoded (it is nested too deep) is of a wrong type everywhere."""
    try:
        return decode_leniently(members.get(name, "null"))
    except BadPayload:
        return _UNREADABLE


def _read_proof(proof: Any, depth: int = 1) -> Proof | None:
    if not isinstance(proof, dict) or depth > _MAX_PROOF_DEPTH:
        return None
    return Proof(
        type=string_in(proof, "type"),
        signature=string_in(proof, "signature"),
        key=string_in(proof, "key"),
        href=string_in(proof, "href"),
        document=string_in(proof, "document"),
        proof=_read_proof(proof.get("proof"), depth + 1),
    )
