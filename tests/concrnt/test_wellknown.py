"""Well-known documents and known-servers lists: read with tolerance, named canonically."""

import json
from typing import Any

import pytest

from indexer.concrnt.payload import BadPayload
from indexer.concrnt.wellknown import (
    REPLICATION,
    KnownServer,
    Skip,
    SoftwareInfo,
    WellKnown,
    decode_known_servers,
    decode_well_known,
)

CSID = "ccs" + "0" * 39
FULL = {
    "version": "2.0",
    "domain": "Alpha.Example",
    "csid": CSID,
    "layer": "concrnt-mainnet",
    "endpoints": {REPLICATION: "/api/v2/replication{?since}"},
    "softwareInfo": {"version": "1.2", "buildMachine": "m", "buildTime": "t", "goVersion": "go"},
    "meta": {"name": "アルファ"},
}


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def test_a_well_known_is_read_whole() -> None:
    """Every field that the protocol names, the domain in its canonical spelling, meta as JSON text."""
    assert decode_well_known(encode(FULL)) == WellKnown(
        domain="alpha.example",
        csid=CSID,
        version="2.0",
        layer="concrnt-mainnet",
        endpoints={REPLICATION: "/api/v2/replication{?since}"},
        software=SoftwareInfo("1.2", "m", "t", "go"),
        meta='{"name": "アルファ"}',
    )


@pytest.mark.parametrize("odd", [5, None, [], "x", {"a": 1}, True])
def test_members_of_a_wrong_type_are_absent(odd: Any) -> None:
    """Only the domain is needed; the rest may be anything."""
    fields = {name: odd for name in FULL if name != "domain"}
    known = decode_well_known(encode({**fields, "domain": "alpha.example"}))
    assert (known.domain, known.csid) == ("alpha.example", "")
    assert all(isinstance(template, str) for template in known.endpoints.values())
    assert known.software == SoftwareInfo()
    text = odd if isinstance(odd, str) else ""
    assert (known.version, known.layer) == (text, text)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b"{}",
        encode({"domain": ""}),
        encode({"domain": 5}),
        encode({"domain": "127.0.0.1"}),
        encode({"domain": "https://alpha.example/"}),
        b'{"domain":"alpha.example"',
    ],
)
def test_without_a_domain_there_is_no_well_known(body: bytes) -> None:
    """Other shapes, and domains that are no server's name, are bad payload."""
    with pytest.raises(BadPayload):
        decode_well_known(body)


def test_odd_text_in_a_well_known_can_be_stored() -> None:
    """NUL, lone surrogates and bytes that are no UTF-8 become U+FFFD; long texts are cut."""
    body = b'{"domain":"alpha.example","version":"a\\u0000b\\ud800\xff","layer":"' + b"x" * 1000 + b'"}'
    known = decode_well_known(body)
    assert known.version == "a\ufffdb\ufffd\ufffd"
    assert known.layer == "x" * 512


@pytest.mark.parametrize(
    "meta",
    [
        "[" * 500 + "]" * 500,
        '{"a":' * 500 + "0" + "}" * 500,
        '{"a":' * 100_000 + "0" + "}" * 100_000,
        '{"a":"' + "x" * 70_000 + '"}',
        '{"a":nope}',
        '"x"',
    ],
)
def test_a_meta_that_could_do_harm_is_absent(meta: str) -> None:
    """Depth, size and other shapes cost the meta, not the server."""
    known = decode_well_known(f'{{"domain":"alpha.example","meta":{meta},"layer":"l"}}'.encode())
    assert (known.meta, known.layer) == (None, "l")


def test_endpoints_are_bounded() -> None:
    """Templates are texts of sensible length, and there are not endlessly many."""
    many = {f"e{number}": "/x" for number in range(1000)}
    assert len(decode_well_known(encode({**FULL, "endpoints": many})).endpoints) == 256
    odd = {"a": 5, "b": "", "c": "/" + "x" * 3000, "d": "/ok"}
    assert decode_well_known(encode({**FULL, "endpoints": odd})).endpoints == {"d": "/ok"}


def test_a_list_names_each_server_once_for_each_layer() -> None:
    """Letter case, final dot and IDNA make no second server; malformed entries are counted and skipped.

    An entry of another layer takes nothing from an entry of ours with the same name.
    """
    listed = [
        {"domain": "Alpha.Example", "layer": "concrnt-mainnet"},
        {"domain": "alpha.example."},
        {"domain": "alpha.example:443"},
        {"domain": "https://alpha.example/"},
        {"domain": "日本.example", "layer": "other"},
        {"domain": "xn--wgv71a.example", "layer": 5},
        {"domain": "169.254.169.254"},
        {"domain": 5},
        {"domain": ""},
        {"layer": "concrnt-mainnet"},
        "beta.example",
        None,
        5,
        *[{"domain": "gamma.example", "layer": ""}] * 1000,
    ]
    entries, skipped = decode_known_servers(encode(listed))
    assert entries == (
        KnownServer("alpha.example", "concrnt-mainnet"),
        KnownServer("alpha.example", None),
        KnownServer("xn--wgv71a.example", "other"),
        KnownServer("xn--wgv71a.example", None),
        KnownServer("gamma.example", None),
    )
    assert skipped == {Skip.MALFORMED_NAME: 4, Skip.NO_DOMAIN: 2, Skip.NOT_A_WELL_KNOWN: 3}


@pytest.mark.parametrize("bad", ['{"domain":"\\ud800"}', '{"domain":"a\0"}', "[" * 10_000 + "]" * 10_000])
def test_nothing_is_lost_when_one_entry_is_bad(bad: str) -> None:
    """Entries that the fast decoder would refuse cost themselves."""
    entries, skipped = decode_known_servers(f'[{{"domain":"alpha.example"}},{bad}]'.encode())
    assert entries == (KnownServer("alpha.example", None),)
    assert sum(skipped.values()) == 1


def test_a_server_that_knows_nobody_says_null_or_nothing() -> None:
    """Both are empty lists."""
    assert decode_known_servers(b" null ") == decode_known_servers(b"[]") == ((), {})


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>", b'"x"', b"[", b'[{"domain":"alpha.example"}'])
def test_what_is_no_list_is_bad_payload(body: bytes) -> None:
    """A list that cannot be had is no empty list."""
    with pytest.raises(BadPayload):
        decode_known_servers(body)
