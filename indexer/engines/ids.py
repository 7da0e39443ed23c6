"""Ids of search documents: one bounded, collision-free id per key (behaviour.md, section 5)."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from indexer.concrnt.uri import MalformedURI, parse_ccuri

if TYPE_CHECKING:
    from indexer.engines.base import Document

MAX_ID_LENGTH: Final = 511
"""Meilisearch's limit; longer ids are hashed, in every engine alike."""

_HASHED: Final = "sha256-"


def document_id(key: str) -> str:
    """Return the id of the document of a canonical key (of an FQDN, for a server)."""
    encoded = key.encode()
    text = urlsafe_b64encode(encoded).rstrip(b"=").decode()
    if len(text) <= MAX_ID_LENGTH:
        return text
    return _HASHED + hashlib.sha256(encoded).hexdigest()


def key_of_id(identifier: str) -> str | None:
    """Return the key that an id was made from; None when the id is a digest, or no id of ours."""
    if identifier.startswith(_HASHED):
        return None
    try:
        return urlsafe_b64decode(identifier + "=" * (-len(identifier) % 4)).decode()
    except ValueError:
        return None


def key_of_document(document: Document) -> str:
    """Return the key of a document: what ends every order.

    A hashed id gives no key back; then it is the canonical form of ``cckv``, which that id was made of.
    """
    identifier: str = document["id"]
    key = key_of_id(identifier)
    if key is not None:
        return key
    spelled = document.get("cckv")
    try:
        return parse_ccuri(spelled).key if isinstance(spelled, str) else identifier
    except MalformedURI:
        return identifier
