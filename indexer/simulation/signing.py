"""Signed documents: making the JSON of a commit, and the proofs that go with it.

Document strings are compact JSON, a commit is the JSON object around one. Signatures are deterministic
(RFC 6979), so equal input gives equal bytes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from indexer.concrnt.cdid import cdid_at
from indexer.concrnt.keys import KeyPair
from indexer.concrnt.times import NANOSECONDS_PER_MILLISECOND, parse_instant

DIRECT = "concrnt-ecrecover-direct"
BY_SUBKEY = "concrnt-ecrecover-subkey"
BY_REFERENCE = "document-reference"
BY_EMBEDDING = "document-direct"
NO_PROOF: Mapping[str, Any] = {"type": "none"}

_encode = msgspec.json.Encoder().encode


def document_text(document: Mapping[str, Any]) -> str:
    """Return the string that is signed."""
    return _encode(document).decode()


def direct_proof(document: str, key: KeyPair) -> dict[str, Any]:
    """Sign with a person's own key."""
    return {"type": DIRECT, "signature": key.sign(document)}


def subkey_proof(document: str, subkey: KeyPair, enacted_at_key: str) -> dict[str, Any]:
    """Sign with a subkey whose enact document lies under `enacted_at_key`."""
    return {"type": BY_SUBKEY, "key": enacted_at_key, "signature": subkey.sign(document)}


def reference_proof(href: str) -> dict[str, Any]:
    """Point to the post that a reference refers to."""
    return {"type": BY_REFERENCE, "href": href}


def embedding_proof(document: str, proof: Mapping[str, Any]) -> dict[str, Any]:
    """Embed the signed `ack` or `unack` that an `acked` or `unacked` was derived from."""
    return {"type": BY_EMBEDDING, "document": document, "proof": dict(proof)}


def commit_bytes(document: str, proof: Mapping[str, Any] | None, **addresses: str) -> bytes:
    """Return the JSON of a commit; `addresses` are its `cckv` and `ccfs`, when it states them."""
    commit: dict[str, Any] = {**addresses, "document": document}
    if proof is not None:
        commit["proof"] = proof
    return _encode(commit)


def cdid_of(document: str, created_at: str) -> str:
    """Return the CDID of a document string with this `createdAt`."""
    return cdid_at(document.encode(), parse_instant(created_at) // NANOSECONDS_PER_MILLISECOND)


def ccfs_of(document: str, created_at: str, owner: str) -> str:
    """Return the address of a document by its content."""
    return f"ccfs://{owner}/concrnt/{cdid_of(document, created_at)}"


def enactment_key(person: str, subkey: KeyPair) -> str:
    """Return the key under which a person's subkey is enacted."""
    return f"cckv://{person}/keys/{subkey.ckid}"
