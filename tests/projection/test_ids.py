"""Ids of documents: bounded, reversible while short, never shared (case C06)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.engines.ids import MAX_ID_LENGTH, document_id, key_of_document, key_of_id


@pytest.mark.parametrize(
    ("key", "identifier"),
    [
        ("alpha.example", "YWxwaGEuZXhhbXBsZQ"),
        ("cckv://con1/ねこ", "Y2NrdjovL2NvbjEv44Gt44GT"),
        ("k" * 383, "a2tr" * 127 + "a2s"),
        ("k" * 384, "sha256-1fe4c038cae5a1367603203d7beecd21db04f7d21b359e6691ee128f180848ec"),
    ],
)
def test_ids_are_base64url_or_a_digest(key: str, identifier: str) -> None:
    """Up to 511 characters an id is unpadded base64url; beyond, a digest."""
    assert document_id(key) == identifier


@given(st.text(), st.text())
def test_ids_tell_keys_apart(one: str, other: str) -> None:
    """Two keys have two ids, in the letters and the length that Meilisearch takes."""
    assert (document_id(one) == document_id(other)) == (one == other)
    assert re.fullmatch(r"[A-Za-z0-9_-]{0,511}", document_id(one * 50))
    assert len(document_id(one * 500)) <= MAX_ID_LENGTH


@given(st.text())
def test_ids_give_their_key_back(key: str) -> None:
    """An id that is no digest can be read; of a digest nothing is known."""
    identifier = document_id(key)
    assert key_of_id(identifier) == (None if identifier.startswith("sha256-") else key)


def test_the_key_of_a_hashed_document() -> None:
    """Where the id is a digest, the key comes from the spelled link, canonical."""
    key = "cckv://alpha.example/" + "ね" * 300
    spelled = "cckv://alpha.example@hint.example/" + "%E3%81%AD" * 300
    assert key_of_document({"id": document_id(key), "cckv": spelled}) == key
    for document in ({"id": document_id(key), "cckv": "nonsense"}, {"id": document_id(key)}):
        assert key_of_document(document) == document_id(key)
    assert key_of_document({"id": "€€"}) == "€€"
