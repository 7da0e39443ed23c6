"""Keys, signatures and CDIDs, against vectors made by the network's own client."""

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import bech32
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.concrnt.cdid import ALPHABET, cdid, cdid_at, is_cdid
from indexer.concrnt.keys import (
    KeyPair,
    MalformedAddress,
    MalformedSignature,
    decode_address,
    encode_address,
    recover_address,
)
from indexer.concrnt.times import parse_instant, to_datetime

VECTORS = Path(__file__).parent.parent / "vectors" / "proofs.json"
DIRECT = "concrnt-ecrecover-direct"


@cache
def vectors() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))
    return loaded


def case(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(case for case in vectors()["cases"] if case["name"] == name)
    return found


@pytest.mark.parametrize("name", [case["name"] for case in vectors()["cases"]])
def test_the_cdid_of_every_vector_is_the_networks(name: str) -> None:
    """Milliseconds and ten bytes of keccak256, in the network's base32."""
    document = case(name)["signedDocument"]["document"]
    created_at = to_datetime(parse_instant(json.loads(document)["createdAt"]))
    assert cdid(document, created_at) == case(name)["cdid"]


@pytest.mark.parametrize("who", ["alice", "bob", "alice-phone"])
def test_a_private_key_gives_the_vectors_ids(who: str) -> None:
    """Address, bech32 and prefixes are the network's."""
    identity = vectors()["identities"][who]
    keys = KeyPair.from_hex(identity["privateKey"])
    assert (keys.ccid, keys.ckid) == (identity["ccid"], identity["ckid"])
    assert keys.csid.startswith("ccs1")
    assert {decode_address(key_id) for key_id in (keys.ccid, keys.csid, keys.ckid)} == {keys.address}


@pytest.mark.parametrize(
    "name",
    [
        case["name"]
        for case in vectors()["cases"]
        if case["signedDocument"]["proof"]["type"] == DIRECT and case["expect"] == "valid"
    ],
)
def test_valid_direct_signatures_recover_their_author(name: str) -> None:
    """The recovered address is the one in the author's CCID, also from upper-case hex."""
    signed = case(name)["signedDocument"]
    author = json.loads(signed["document"])["author"]
    assert recover_address(signed["document"], signed["proof"]["signature"]) == decode_address(author)


@pytest.mark.parametrize("name", ["direct-wrong-key", "direct-changed-document"])
def test_other_keys_and_changed_documents_recover_somebody_else(name: str) -> None:
    """A signature over other bytes or by another key leads to another address."""
    signed = case(name)["signedDocument"]
    author = json.loads(signed["document"])["author"]
    assert recover_address(signed["document"], signed["proof"]["signature"]) != decode_address(author)


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "00",
        case("direct-short-signature")["signedDocument"]["proof"]["signature"],
        case("direct")["signedDocument"]["proof"]["signature"][:-2] + "02",
        case("direct")["signedDocument"]["proof"]["signature"][:-2] + "1b",
        case("direct")["signedDocument"]["proof"]["signature"] + "00",
        "0x" + case("direct")["signedDocument"]["proof"]["signature"][2:],
        "0" * 130,
        "f" * 128 + "00",
        "٠" * 130,
    ],
)
def test_what_is_no_signature_is_malformed(signature: str) -> None:
    """Length, hex, the recovery byte and values outside of the curve are all checked."""
    with pytest.raises(MalformedSignature):
        recover_address("{}", signature)


def test_signing_is_the_inverse_of_recovering() -> None:
    """A document signed by a key leads back to its address, Japanese text included."""
    keys = KeyPair.from_seed("あおい")
    assert keys == KeyPair.from_seed("あおい".encode())
    assert keys != KeyPair.from_seed("みどり")
    signature = keys.sign("こんにちは")
    assert len(signature) == 130
    assert recover_address("こんにちは", signature) == keys.address


def test_a_private_key_is_never_shown() -> None:
    """The representation of a key pair, as a log would print it, holds ids only."""
    identity = vectors()["identities"]["alice"]
    assert "PrivateKey" not in repr(KeyPair.from_hex(identity["privateKey"]))
    assert identity["privateKey"] not in repr(KeyPair.from_hex(identity["privateKey"]))


@pytest.mark.parametrize("secret", ["", "00", "0" * 64, "f" * 64, "zz" * 32])
def test_what_is_no_private_key_is_refused(secret: str) -> None:
    """Short, zero, beyond the curve's order, or no hex."""
    with pytest.raises(ValueError):
        KeyPair.from_hex(secret)


@pytest.mark.parametrize(
    "key_id", ["", "con" + "0" * 39, "abc1qqqq", "con1", "CON19FYU0V9LZ3ZV3Q5QT590C2SVGTC2X739X85HC3"]
)
def test_ids_that_are_no_bech32_have_no_address(key_id: str) -> None:
    """Ids of the right form need not be valid: there is nothing to compare a key with."""
    with pytest.raises(MalformedAddress):
        decode_address(key_id)


@given(st.binary(min_size=20, max_size=20), st.sampled_from(["con", "ccs", "cck"]))
def test_addresses_survive_bech32(address: bytes, prefix: str) -> None:
    """Encoding and decoding undo each other; every id has 42 characters."""
    key_id = encode_address(prefix, address)
    assert len(key_id) == 42
    assert decode_address(key_id) == address


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(min_value=0, max_value=2**48 - 1))
def test_cdids_match_a_naive_base32(document: str, milliseconds: int) -> None:
    """Five bits a letter from the left: the plain way gives the same text."""
    raw = milliseconds.to_bytes(6, "big") + naive_keccak(document)[:10]
    bits = "".join(f"{byte:08b}" for byte in raw) + "00"
    expected = "".join(ALPHABET[int(bits[start : start + 5], 2)] for start in range(0, 130, 5))
    assert cdid_at(document.encode(), milliseconds) == expected
    assert is_cdid(expected)


def naive_keccak(document: str) -> bytes:
    from Crypto.Hash import keccak  # noqa: PLC0415 - a second implementation, for this comparison only

    digest: bytes = keccak.new(digest_bits=256, data=document.encode()).digest()
    return digest


@given(st.lists(st.integers(min_value=0, max_value=2**48 - 1), min_size=2, max_size=2, unique=True))
def test_cdids_sort_as_their_times_do(times: list[int]) -> None:
    """An earlier document has the smaller CDID."""
    earlier, later = sorted(times)
    assert cdid_at(b"b", earlier) < cdid_at(b"a", later)


def test_times_that_six_bytes_do_not_hold_have_no_cdid() -> None:
    """Before 1970 and after the year 10000 there is no CDID; the milliseconds are cut."""
    with pytest.raises(ValueError):
        cdid("{}", datetime(1969, 12, 31, tzinfo=UTC))
    with pytest.raises(ValueError):
        cdid_at(b"{}", 2**48)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert cdid("{}", moment) == cdid("{}", moment + timedelta(microseconds=999))


@pytest.mark.parametrize("text", ["", "0" * 25, "0" * 27, "i" * 26, "0" * 25 + "\n", "O" * 26])
def test_other_texts_are_no_cdids(text: str) -> None:
    """Length and alphabet are fixed."""
    assert not is_cdid(text)


@given(st.sampled_from(["con", "ccs", "cck"]), st.binary(min_size=20, max_size=20), st.data())
def test_ids_are_decoded_as_the_library_does(prefix: str, address: bytes, data: st.DataObject) -> None:
    """Each address comes back; an id with any one character changed is none, as for the bech32 library."""
    key_id = encode_address(prefix, address)
    assert decode_address(key_id) == address
    place = data.draw(st.integers(0, len(key_id) - 1))
    character = data.draw(st.characters(codec="ascii", exclude_characters=key_id[place]))
    changed = key_id[:place] + character + key_id[place + 1 :]
    known, words = bech32.bech32_decode(changed)
    assert known is None or words is None or known not in ("con", "ccs", "cck") or changed != changed.lower()
    with pytest.raises(MalformedAddress):
        decode_address(changed)
