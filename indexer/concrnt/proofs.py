"""Proofs: whether a signed document was said by whom it names as its author (protocol.md, section 3).

Pure, given a resolver of documents: nothing is asked here, and nothing is remembered but decoded addresses.
:func:`check` never raises for what a stranger wrote: it returns None when the proof holds, else the
:class:`ProofFault`. What was decided where the protocol is silent:

* A chain is counted in documents: a direct proof is one, a subkey's two, a reference to a post that a subkey
  signed three. More than :data:`MAX_CHAIN` fail.
* A document that a resolver returns has to *be* the one that was asked for: its own key, or its CDID, is
  compared. So a resolver need not be trusted, and a document moved below another key proves nothing.
* An enact document lies below its author's own key. A revoked subkey is good for what was created no later
  than the revocation; the enact document inside a revocation is checked like one that was resolved.
* ``acked`` and ``unacked`` hold by ``document-direct`` only, and nothing else does.
* Empty, for the comparison of an embedded document, are null, ``""``, ``[]`` and ``{}``.
* A server's own documents are signed by its key: a CSID as author is compared like a CCID.

Speed: one recovery costs some 50 µs. Addresses are compared as bytes and decoded once for each id.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import msgspec

from indexer.concrnt.cdid import cdid_at
from indexer.concrnt.documents import REFERENCE_SCHEMA, Commit, Kind
from indexer.concrnt.keys import (
    CCID_PREFIX,
    CKID_PREFIX,
    CSID_PREFIX,
    MalformedAddress,
    MalformedSignature,
    decode_address,
    recover_address,
)
from indexer.concrnt.payload import MAX_NESTING, nesting_exceeds
from indexer.concrnt.rows import Proof, Row, read_row
from indexer.concrnt.times import NANOSECONDS_PER_MILLISECOND, MalformedTime, parse_instant
from indexer.concrnt.uri import CCURI, MalformedURI, parse_ccuri

DIRECT: Final = "concrnt-ecrecover-direct"
SUBKEY: Final = "concrnt-ecrecover-subkey"
BY_REFERENCE: Final = "document-reference"
BY_EMBEDDING: Final = "document-direct"

SUBKEY_SCHEMA: Final = "https://schema.concrnt.net/subkey.json"
REVOKED_SUBKEY_SCHEMA: Final = "https://schema.concrnt.net/revoked-subkey.json"

MAX_CHAIN: Final = 4

_EMBEDDED_KINDS: Final = {Kind.ACKED.value: Kind.ACK.value, Kind.UNACKED.value: Kind.UNACK.value}
_CACHED_ADDRESSES: Final = 65_536


class ProofFault(StrEnum):
    """Why a proof does not hold."""

    NO_PROOF = "no_proof"
    UNKNOWN_TYPE = "unknown_type"
    MALFORMED = "malformed"
    """A signature, URI or document that can not be read."""
    OTHER_SIGNER = "other_signer"
    UNRESOLVED = "unresolved"
    """The document that the proof leans on is not to be had, or another one was given for it."""
    NO_ENACTMENT = "no_enactment"
    """What lies under the subkey's key does not enact it, or not for this author."""
    OUTSIDE_ITS_TIME = "outside_its_time"
    """Created before the subkey was enacted, or after it was revoked."""
    OTHER_DOCUMENT = "other_document"
    """The reference or the embedded document says something else than the document does."""
    TOO_DEEP = "too_deep"


class SignedDocument(msgspec.Struct, frozen=True):
    """A document string, exactly as signed, and its unverified proof."""

    document: str
    proof: Proof | None = None


Resolver = Callable[[str], SignedDocument | None]
"""Gives the document at a canonical key or ``ccfs`` URI, None where it is not to be had. It must not wait."""


def nothing_resolves(_uri: str) -> None:
    """Resolve nothing: proofs that lean on other documents do not hold."""


def read_signed(text: str | bytes) -> SignedDocument | None:
    """Read the JSON of a signed document, as tolerantly as a row is read; None where it is none."""
    try:
        return _SIGNED.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        row = read_row(text)
        return SignedDocument(row.document, row.proof) if isinstance(row, Row) else None


def leans_on(proof: Proof | None) -> str | None:
    """Return the canonical URI of the document that a proof leans on; None where it leans on none."""
    if proof is None or proof.type not in (SUBKEY, BY_REFERENCE, BY_EMBEDDING):
        return None
    if proof.type == BY_EMBEDDING:
        return leans_on(proof.proof) if proof.proof is not None and proof.proof.type == SUBKEY else None
    uri = _uri(proof.key if proof.type == SUBKEY else proof.href)
    return uri.canonical if uri is not None else None


def check_commit(commit: Commit, resolve: Resolver = nothing_resolves) -> ProofFault | None:
    """Check a parsed commit; the fast way to :func:`check` for what nearly all are."""
    proof = commit.proof
    if proof is not None and proof.type == DIRECT and commit.kind not in (Kind.ACKED, Kind.UNACKED):
        return _signed_by(commit.document, proof.signature, commit.author)
    return check(SignedDocument(commit.document, proof), resolve)


def check(signed: SignedDocument, resolve: Resolver = nothing_resolves) -> ProofFault | None:
    """Check a signed document. Returns None when its proof holds.

    Args:
        signed: the document string as received, and its proof.
        resolve: gives the documents that proofs lean on.

    """
    try:
        _check(_read(signed), resolve, depth=1)
    except _Fails as fails:
        return fails.fault
    return None


class _Fails(Exception):  # noqa: N818 - control flow of this module: a rule says no from any depth
    def __init__(self, fault: ProofFault) -> None:
        super().__init__(fault)
        self.fault = fault


class _Fields(msgspec.Struct):
    kind: str = ""
    author: str = ""
    schema: str = ""
    createdAt: str = ""  # noqa: N815 - the name on the wire
    key: str | None = None
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Enactment(msgspec.Struct):
    ckid: str = ""


class _Reference(msgspec.Struct):
    href: str = ""


_SIGNED: Final = msgspec.json.Decoder(SignedDocument)
_FIELDS: Final = msgspec.json.Decoder(_Fields)
_ENACTMENT: Final = msgspec.json.Decoder(_Enactment)
_REFERENCE: Final = msgspec.json.Decoder(_Reference)


@dataclass(frozen=True, slots=True)
class _Document:
    text: str
    fields: _Fields
    proof: Proof | None

    @property
    def created_ns(self) -> int:
        try:
            return parse_instant(self.fields.createdAt)
        except MalformedTime as error:
            raise _Fails(ProofFault.MALFORMED) from error


def _read(signed: SignedDocument) -> _Document:
    if nesting_exceeds(signed.document, MAX_NESTING):
        raise _Fails(ProofFault.MALFORMED)
    try:
        return _Document(signed.document, _FIELDS.decode(signed.document), signed.proof)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise _Fails(ProofFault.MALFORMED) from error


def _check(document: _Document, resolve: Resolver, depth: int) -> None:
    if depth > MAX_CHAIN:
        raise _Fails(ProofFault.TOO_DEEP)
    proof = document.proof
    if proof is None or proof.type in ("", "none"):
        raise _Fails(ProofFault.NO_PROOF)
    derived = document.fields.kind in _EMBEDDED_KINDS
    if derived is not (proof.type == BY_EMBEDDING):
        raise _Fails(ProofFault.OTHER_DOCUMENT)
    match proof.type:
        case "concrnt-ecrecover-direct":
            _require(_signed_by(document.text, proof.signature, document.fields.author))
        case "concrnt-ecrecover-subkey":
            _check_subkey(document, proof, resolve, depth)
        case "document-reference":
            _check_reference(document, proof, resolve, depth)
        case "document-direct":
            _check_embedding(document, proof, resolve, depth)
        case _:
            raise _Fails(ProofFault.UNKNOWN_TYPE)


# -- signatures -------------------------------------------------------------------------------------


def _require(fault: ProofFault | None) -> None:
    if fault is not None:
        raise _Fails(fault)


def _signed_by(document: str, signature: str, author: str) -> ProofFault | None:
    address = _address(author)
    if address is None or not author.startswith((CCID_PREFIX, CSID_PREFIX)):
        return ProofFault.MALFORMED
    return _recovers(document, signature, address)


def _recovers(document: str, signature: str, address: bytes) -> ProofFault | None:
    try:
        recovered = recover_address(document, signature)
    except (MalformedSignature, UnicodeError):
        return ProofFault.MALFORMED
    return None if recovered == address else ProofFault.OTHER_SIGNER


@lru_cache(maxsize=_CACHED_ADDRESSES)
def _address(key_id: str) -> bytes | None:
    """The address of an id, None where it is no bech32 (as ids of old data are)."""
    try:
        return decode_address(key_id)
    except MalformedAddress:
        return None


# -- subkeys ----------------------------------------------------------------------------------------


def _check_subkey(document: _Document, proof: Proof, resolve: Resolver, depth: int) -> None:
    author = document.fields.author
    enactment = _resolved(proof.key, resolve)
    last_ns: int | None = None
    if enactment.fields.schema == REVOKED_SUBKEY_SCHEMA:
        _check_master(enactment, author, resolve, depth + 1)
        last_ns = enactment.created_ns
        enactment, depth = _revoked(enactment), depth + 1
    if enactment.fields.schema != SUBKEY_SCHEMA:
        raise _Fails(ProofFault.NO_ENACTMENT)
    _check_master(enactment, author, resolve, depth + 1)
    created_ns = document.created_ns
    if created_ns < enactment.created_ns or (last_ns is not None and created_ns > last_ns):
        raise _Fails(ProofFault.OUTSIDE_ITS_TIME)
    ckid = _decode(_ENACTMENT, enactment.fields.value).ckid
    address = _address(ckid) if ckid.startswith(CKID_PREFIX) else None
    if address is None:
        raise _Fails(ProofFault.NO_ENACTMENT)
    _require(_recovers(document.text, proof.signature, address))


def _check_master(document: _Document, author: str, resolve: Resolver, depth: int) -> None:
    """An enactment or revocation: by the same author, below that author's key, signed by the master key."""
    key = _uri(document.fields.key)
    is_own = key is not None and key.is_key and key.owner == author
    if document.fields.author != author or not is_own:
        raise _Fails(ProofFault.NO_ENACTMENT)
    if document.proof is None or document.proof.type != DIRECT:
        raise _Fails(ProofFault.NO_ENACTMENT)
    _check(document, resolve, depth)


def _revoked(revocation: _Document) -> _Document:
    """The enact document that a revocation holds; it stood under the same key."""
    signed = read_signed(bytes(revocation.fields.value))
    if signed is None:
        raise _Fails(ProofFault.NO_ENACTMENT)
    enactment = _read(signed)
    key, former = _uri(revocation.fields.key), _uri(enactment.fields.key)
    if key is None or former is None or key != former:
        raise _Fails(ProofFault.NO_ENACTMENT)
    return enactment


# -- references and what acks are derived into ----------------------------------------------------


def _check_reference(document: _Document, proof: Proof, resolve: Resolver, depth: int) -> None:
    if document.fields.schema != REFERENCE_SCHEMA:
        raise _Fails(ProofFault.OTHER_DOCUMENT)
    told, proven = _uri(_decode(_REFERENCE, document.fields.value).href), _uri(proof.href)
    if told is None or proven is None or told != proven:
        raise _Fails(ProofFault.OTHER_DOCUMENT)
    referred = _resolved(proof.href, resolve)
    if referred.fields.author != document.fields.author:
        raise _Fails(ProofFault.OTHER_SIGNER)
    _check(referred, resolve, depth + 1)


def _check_embedding(document: _Document, proof: Proof, resolve: Resolver, depth: int) -> None:
    embedded = _read(SignedDocument(proof.document, proof.proof))
    if embedded.fields.kind != _EMBEDDED_KINDS[document.fields.kind]:
        raise _Fails(ProofFault.OTHER_DOCUMENT)
    if _told(embedded.text) != _told(document.text):
        raise _Fails(ProofFault.OTHER_DOCUMENT)
    if embedded.proof is None or embedded.proof.type not in (DIRECT, SUBKEY):
        raise _Fails(ProofFault.NO_PROOF)
    _check(embedded, resolve, depth + 1)


def _told(document: str) -> dict[str, Any]:
    """Every field of a document but its kind, the empty ones left out."""
    fields: dict[str, Any] = msgspec.json.decode(document)
    return {
        name: value for name, value in fields.items() if name != "kind" and value not in (None, "", [], {})
    }


# -- documents --------------------------------------------------------------------------------------


def _resolved(text: str, resolve: Resolver) -> _Document:
    """The document that a proof leans on, and really that one."""
    uri = _uri(text)
    if uri is None or not (uri.is_key or uri.cdid is not None):
        raise _Fails(ProofFault.MALFORMED)
    signed = resolve(uri.canonical)
    if signed is None:
        raise _Fails(ProofFault.UNRESOLVED)
    document = _read(signed)
    if not _is_at(document, uri):
        raise _Fails(ProofFault.UNRESOLVED)
    return document


def _is_at(document: _Document, uri: CCURI) -> bool:
    if uri.cdid is not None:
        milliseconds = document.created_ns // NANOSECONDS_PER_MILLISECOND
        return cdid_at(document.text.encode(), milliseconds) == uri.cdid
    return _uri(document.fields.key) == uri


def _uri(text: str | None) -> CCURI | None:
    try:
        return parse_ccuri(text) if text else None
    except MalformedURI:
        return None


_Decoded = Any


def _decode(decoder: msgspec.json.Decoder[_Decoded], value: msgspec.Raw) -> _Decoded:
    try:
        return decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise _Fails(ProofFault.MALFORMED) from error
