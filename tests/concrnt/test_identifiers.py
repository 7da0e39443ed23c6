"""Identifiers: the form of ids, and the one spelling of a server's name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.concrnt.identifiers import (
    MalformedName,
    canonical_fqdn,
    is_ccid,
    is_csid,
    is_domain_owner,
    is_fqdn,
)

ALICE = "con" + "0" * 38 + "1"


def test_ids_are_told_apart_by_form_only() -> None:
    """Forty-two letters and digits with the right prefix: bech32 is not asked for."""
    assert is_ccid(ALICE)
    assert is_csid("ccs" + "0" * 39)
    assert not is_csid(ALICE)
    assert not is_ccid("ccs" + "0" * 39)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "con",
        ALICE[:-1],
        ALICE + "0",
        "con" + "." * 39,
        "con" + "0" * 38 + "/",
        "con" + "٣" * 39,
        f"{ALICE}\n",
    ],
)
def test_other_forms_are_no_ids(text: str) -> None:
    """Length, dots, other scripts and line ends all count."""
    assert not is_ccid(text)


def test_an_owner_that_is_no_person_and_no_key_is_a_domain() -> None:
    """A hostname is a domain owner; a CCID or CSID, though hostnames by their letters, are not."""
    assert is_domain_owner("alpha.example")
    assert not is_domain_owner(ALICE)
    assert not is_domain_owner("ccs" + "0" * 39)
    assert not is_domain_owner("")
    assert not is_domain_owner("@alpha.example")


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("Alpha.Example", "alpha.example"),
        ("alpha.example.", "alpha.example"),
        ("日本.example", "xn--wgv71a.example"),
        ("XN--WGV71A.example", "xn--wgv71a.example"),
        ("alpha。example", "alpha.example"),
        ("ａｌｐｈａ.example", "alpha.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("e\u0301.example", "xn--9ca.example"),
        ("single", "single"),
        ("3com.example", "3com.example"),
        ("a." * 126 + "a", "a." * 126 + "a"),
    ],
)
def test_one_server_has_one_spelling(name: str, canonical: str) -> None:
    """Case, final dot, width, normal form and IDNA lead to the same name."""
    assert canonical_fqdn(name) == canonical


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a..b",
        "alpha.example..",
        ".alpha.example",
        "alpha.example:443",
        "https://alpha.example/",
        "//alpha.example",
        "alpha.example/",
        "user@alpha.example",
        "@alpha.example",
        "alpha example",
        " alpha.example",
        "alpha.example\n",
        "alpha\0.example",
        "a_b.example",
        "-a.example",
        "a-.example",
        "a" * 64 + ".example",
        "a." * 126 + "aa",
        "日" * 300,
        "\ud800.example",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0x",
        "[::1]",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "１２７.０.０.１",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "alpha.1",
        "٣.example",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "a.localhost",
    ],
)
def test_what_would_lead_elsewhere_is_no_name(name: str) -> None:
    """Schemes, ports, userinfo, addresses in any spelling, the local host and non-hostnames are refused."""
    with pytest.raises(MalformedName):
        canonical_fqdn(name)


@given(st.text(max_size=60))
def test_canonical_names_are_their_own_canonical_name(name: str) -> None:
    """Whatever is accepted is a lower-case ASCII hostname and stays as it is."""
    try:
        canonical = canonical_fqdn(name)
    except MalformedName:
        return
    assert canonical_fqdn(canonical) == canonical
    assert canonical == canonical.lower()
    assert is_fqdn(canonical)
    assert len(canonical) <= 253
