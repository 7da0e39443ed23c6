"""The builders that trials are written with."""

import json
from typing import Any

import pytest

from indexer.concrnt.keys import decode_address, recover_address
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BOB,
    Delegate,
    ack,
    acked,
    community_key,
    delete,
    document_address,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    record,
    reference,
    scripted_network,
    scripted_server,
    signed,
)


def opened(commit: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    outer = json.loads(commit)
    return json.loads(outer["document"]), outer["proof"]


def test_authors_decide_the_proof() -> None:
    """Text proves nothing, a key pair signs, a delegate signs by its subkey."""
    aiko, phone = key_pair("aiko"), key_pair("aiko's phone")
    delegate = Delegate(aiko, phone)
    assert opened(profile(ALICE))[1] == {"type": "none"}
    for author, key in ((aiko, aiko), (delegate, phone)):
        commit = post(author, "1", "やあ")
        document, proof = opened(commit)
        assert document["author"] == aiko.ccid
        assert recover_address(json.loads(commit)["document"], proof["signature"]) == key.address
    assert opened(post(delegate, "1", "やあ"))[1]["key"] == opened(delegate.enactment())[0]["key"]
    assert opened(signed({"kind": "rumour"}, proof={"type": "odd"})) == ({"kind": "rumour"}, {"type": "odd"})
    assert json.loads(signed("no json"))["document"] == "no json"


def test_documents_are_as_asked() -> None:
    """Fields come through as given; None leaves the key and the date out."""
    assert "key" not in opened(record(None, 1, author=ALICE, schema="x"))[0]
    assert "createdAt" not in opened(delete(None, author=ALICE, created_at=None))[0]
    assert "body" not in opened(post(ALICE, "1", None, rerouteMessageId="x"))[0]["value"]
    assert opened(post(ALICE, "1", "", distributes=["a"]))[0]["distributes"] == ["a"]
    assert opened(entity(ALICE, ALPHA, alias="a.example"))[0]["value"] == {
        "domain": ALPHA,
        "alias": "a.example",
    }
    entry, proof = opened(reference(community_key(ALPHA, "cats"), post_key(ALICE, "1"), author=ALICE))
    assert entry["value"]["href"] == proof["href"] == post_key(ALICE, "1")
    assert document_address(profile(ALICE), ALICE).startswith(f"ccfs://{ALICE}/concrnt/06")


@pytest.mark.parametrize(("kind", "embedded"), [("acked", "ack"), ("unacked", "unack")])
def test_derived_follows_embed_what_they_come_from(kind: str, embedded: str) -> None:
    """The ackee's commit equals the embedded one in every field but kind."""
    aiko = key_pair("aiko")
    document, proof = opened(acked(aiko, BOB, kind=kind))
    inner = json.loads(proof["document"])
    assert {**inner, "kind": kind, "key": ""} == document
    assert inner["kind"] == embedded
    signature = proof["proof"]["signature"]
    assert recover_address(proof["document"], signature) == decode_address(aiko.ccid)
    assert opened(ack(aiko, BOB))[0]["associate"] == f"cckv://{BOB}"


@pytest.mark.anyio
async def test_a_script_is_a_list() -> None:
    """A server is written as (time, commit) pairs; commits may be bytes, whole mappings or documents."""
    script: list[tuple[str, bytes | dict[str, Any]]] = [
        ("2025-03-01T00:00:01Z", profile(ALICE)),
        ("2025-03-01T00:00:00Z", {"kind": "rumour"}),
        ("2025-03-01T00:00:02Z", {"document": "x", "proof": {}}),
    ]
    server = scripted_server(ALPHA, script)
    assert [json.loads(row.signed)["document"][:8] for row in server.log] == ['{"kind":', '{"kind":', "x"]
    async with scripted_network(server) as network:
        assert list(network.host_overrides) == [ALPHA]
    async with scripted_network() as network:
        assert len(network.servers) == 4
