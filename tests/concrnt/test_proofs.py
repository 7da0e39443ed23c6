"""Proofs, against vectors made by the network's own client and against chains of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.concrnt.documents import REFERENCE_SCHEMA
from indexer.concrnt.proofs import ProofFault, SignedDocument, check, leans_on, read_signed
from indexer.concrnt.rows import Proof
from indexer.concrnt.uri import parse_ccuri
from indexer.simulation import schemas
from indexer.simulation.scripted import (
    Delegate,
    acked,
    document_address,
    key_pair,
    post,
    post_key,
    profile,
    record,
    reference,
    signed,
)
from indexer.simulation.signing import document_text, reference_proof

if TYPE_CHECKING:
    from indexer.concrnt.keys import KeyPair

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "proofs.json").read_text("utf-8"))
CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in VECTORS["cases"]}
ALICE, BOB = key_pair("alice"), key_pair("bob")
PHONE = Delegate(ALICE, key_pair("alice's phone"))


def read(commit: bytes) -> SignedDocument:
    document = read_signed(commit)
    assert document is not None
    return document


class Documents(dict[str, SignedDocument]):
    """Documents by the address that they are asked for with."""

    def __call__(self, uri: str) -> SignedDocument | None:
        return self.get(uri)

    @classmethod
    def of(cls, *commits: bytes) -> Documents:
        documents = cls()
        for commit in commits:
            one = read(commit)
            fields = json.loads(one.document)
            documents[parse_ccuri(fields["key"]).canonical] = one
            documents[parse_ccuri(document_address(commit, fields["author"])).canonical] = one
        return documents


def _vector(name: str) -> bytes:
    return msgspec.json.encode(CASES[name]["signedDocument"])


@pytest.mark.parametrize("name", CASES)
def test_every_vector_holds_or_fails_as_it_says(name: str) -> None:
    """The enactment lies at its key, the revocation where the vector says so; the first posts stay valid."""
    at_key = ["subkey-enact", "subkey-revocation"] if name == "subkey" else ["subkey-enact"]
    if name == "subkey-after-revocation":
        at_key = ["subkey-revocation"]
    for enacted in at_key:
        fault = check(read(_vector(name)), Documents.of(_vector(enacted)))
        assert (fault is None) is (CASES[name]["expect"] == "valid"), fault


def _revocation(at: str) -> bytes:
    return record(
        PHONE.enacted_at,
        msgspec.json.decode(PHONE.enactment()),
        author=ALICE,
        schema=schemas.REVOKED_SUBKEY,
        created_at=at,
    )


@pytest.mark.parametrize(
    ("created_at", "fault"),
    [
        ("2025-02-28T23:59:59.999999999Z", ProofFault.OUTSIDE_ITS_TIME),
        ("2025-03-01T00:00:00Z", None),
        ("2025-03-05T00:00:00Z", None),
        ("2025-03-05T00:00:00.000000001Z", ProofFault.OUTSIDE_ITS_TIME),
    ],
)
def test_a_subkey_is_good_from_its_enactment_to_its_revocation(
    created_at: str, fault: ProofFault | None
) -> None:
    """Both instants included, to the nanosecond."""
    said = read(post(PHONE, "1", "やあ", created_at=created_at))
    assert check(said, Documents.of(_revocation("2025-03-05T00:00:00Z"))) is fault


def test_an_enactment_counts_for_its_author_at_its_own_key_only() -> None:
    """Somebody else's, one that a subkey signed, one moved to another key, none at all: no proof."""
    said = read(post(PHONE, "1", "やあ"))
    enactment = PHONE.enactment()
    value = {"ckid": PHONE.subkey.ckid}
    by_bob = record(PHONE.enacted_at, value, author=BOB, schema=schemas.SUBKEY)
    by_itself = record(PHONE.enacted_at, value, author=PHONE, schema=schemas.SUBKEY)
    elsewhere = record(f"{PHONE.enacted_at}/x", value, author=ALICE, schema=schemas.SUBKEY)
    wrong_schema = record(PHONE.enacted_at, value, author=ALICE, schema=schemas.LIST)
    assert check(said, Documents.of(enactment)) is None
    assert check(said) is ProofFault.UNRESOLVED
    for other in (by_bob, by_itself, elsewhere, wrong_schema):
        documents = Documents({PHONE.enacted_at: read(other)})
        assert check(said, documents) in (ProofFault.NO_ENACTMENT, ProofFault.UNRESOLVED)


def test_a_revocation_by_somebody_else_is_none_at_all() -> None:
    """A revocation has to be signed by the person whose subkey it is."""
    forged = record(
        PHONE.enacted_at,
        msgspec.json.decode(PHONE.enactment()),
        author=BOB,
        schema=schemas.REVOKED_SUBKEY,
        created_at="2025-03-05T00:00:00Z",
    )
    documents = Documents({PHONE.enacted_at: read(forged)})
    assert check(read(post(PHONE, "1", "x")), documents) is ProofFault.NO_ENACTMENT


@pytest.mark.parametrize("author", [ALICE, PHONE])
@pytest.mark.parametrize("by", ["key", "document"])
def test_a_reference_holds_when_its_post_does(author: KeyPair | Delegate, by: str) -> None:
    """The same author, the same href; a post of somebody else, or another one, proves nothing."""
    said = post(author, "1", "やあ")
    href = post_key(author, "1") if by == "key" else document_address(said, author)
    points = read(reference("cckv://beta.example/t", href, author=author))
    documents = Documents.of(said, PHONE.enactment())
    assert check(points, documents) is None
    assert check(points) is ProofFault.UNRESOLVED
    uri = parse_ccuri(href).canonical
    for other, fault in (
        (post(author, "2", "やあ"), ProofFault.UNRESOLVED),
        (signed({"kind": "record", "key": href, "author": BOB.ccid}, BOB), None),
    ):
        found = check(points, Documents({**documents, uri: read(other)}))
        assert found is not None if fault is None else found is fault
    elsewhere = SignedDocument(points.document, Proof(type="document-reference", href=post_key(BOB, "1")))
    assert check(elsewhere, documents) is ProofFault.OTHER_DOCUMENT


def test_chains_of_more_than_four_documents_fail() -> None:
    """Reference to reference to reference to post is four documents; one more is too many."""
    commits = [post(ALICE, "1", "やあ")]
    faults = []
    for number in range(4):
        href = json.loads(read(commits[-1]).document)["key"]
        commits.append(reference(f"cckv://{ALICE.ccid}/t{number}", href, author=ALICE, name="r"))
        faults.append(check(read(commits[-1]), Documents.of(*commits)))
    assert faults == [None, None, None, ProofFault.TOO_DEEP]


def test_a_reference_that_refers_to_itself_fails() -> None:
    """A circle is a chain without end."""
    key = f"cckv://{ALICE.ccid}/t/r"
    document = {
        "kind": "record",
        "key": key,
        "author": ALICE.ccid,
        "schema": REFERENCE_SCHEMA,
        "value": {"href": key},
        "createdAt": "2025-03-01T00:00:00Z",
    }
    commit = signed(document, proof=reference_proof(key))
    assert check(read(commit), Documents.of(commit)) is ProofFault.TOO_DEEP


@pytest.mark.parametrize("author", [ALICE, PHONE])
def test_an_acked_holds_by_the_ack_inside_it(author: KeyPair | Delegate) -> None:
    """Signed by the acker or a subkey; what is derived from it differs in its kind only."""
    said = read(acked(author, BOB))
    assert check(said, Documents.of(PHONE.enactment())) is None
    fields = json.loads(said.document)
    reordered = document_text({**dict(reversed(fields.items())), "distributes": [], "policy": None})
    assert check(SignedDocument(reordered, said.proof), Documents.of(PHONE.enactment())) is None
    for change in ({"createdAt": "2025-03-02T00:00:00Z"}, {"kind": "unacked"}, {"policy": "x"}):
        changed = SignedDocument(document_text({**fields, **change}), said.proof)
        assert check(changed, Documents.of(PHONE.enactment())) is ProofFault.OTHER_DOCUMENT


def test_what_a_proof_leans_on_is_named() -> None:
    """The enactment of a subkey, the post of a reference, the enactment behind an embedded ack."""
    assert leans_on(read(post(PHONE, "1", "x")).proof) == PHONE.enacted_at
    assert leans_on(read(acked(PHONE, BOB)).proof) == PHONE.enacted_at
    assert leans_on(read(profile(ALICE)).proof) is None
    by_reference = read(reference("cckv://beta.example/t", post_key(ALICE, "1"), author=ALICE))
    assert leans_on(by_reference.proof) == post_key(ALICE, "1")


_proofs = st.builds(
    Proof,
    type=st.sampled_from(
        ["", "none", "concrnt-ecrecover-direct", "concrnt-ecrecover-subkey", "document-reference", "x"]
    ),
    signature=st.one_of(st.text(), st.binary(min_size=65, max_size=65).map(bytes.hex)),
    key=st.one_of(st.text(), st.just(PHONE.enacted_at)),
    href=st.one_of(st.text(), st.just(post_key(ALICE, "1"))),
)


@given(document=st.one_of(st.text(), st.just(read(profile(ALICE)).document)), proof=_proofs)
def test_no_input_raises_and_no_random_proof_holds(document: str, proof: Proof) -> None:
    """Strangers write both."""
    assert check(SignedDocument(document, proof), Documents.of(PHONE.enactment())) is not None
