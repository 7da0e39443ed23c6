"""CCURIs: one canonical spelling for each key, and nothing else passes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indexer.concrnt.uri import (
    MalformedURI,
    UriFault,
    ancestors_of,
    compose_document,
    compose_key,
    owner_of,
    parent_of,
    parse_ccuri,
)

ALICE = "con" + "0" * 38 + "1"
CDID = "06ga9v1jffasz1zz3khsacbghm"
STEPS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8), max_size=5
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (f"cckv://{ALICE}", f"cckv://{ALICE}"),
        (f"cckv://{ALICE}/", f"cckv://{ALICE}"),
        (f"cckv://{ALICE}/a/b", f"cckv://{ALICE}/a/b"),
        (f"cckv://{ALICE}@alpha.example/a/b", f"cckv://{ALICE}/a/b"),
        ("cckv://Alpha.Example/a", "cckv://alpha.example/a"),
        ("cckv://alpha.example@Beta.Example./a", "cckv://alpha.example/a"),
        ("cckv://日本.example/a", "cckv://xn--wgv71a.example/a"),
        ("cckv://@Alpha.Example/a", "cckv://@alpha.example/a"),
        ("cckv://o/%61%E3%81%82", "cckv://o/aあ"),
        ("cckv://o/あ", "cckv://o/あ"),
        ("cckv://o/a%2Fb", "cckv://o/a%2Fb"),
        ("cckv://o/a%2fb", "cckv://o/a%2Fb"),
        ("cckv://o/a%25b", "cckv://o/a%25b"),
        ("cckv://o/a?b=c#d", "cckv://o/a%3Fb=c%23d"),
        ("cckv://o/a%3Fb", "cckv://o/a%3Fb"),
        ("cckv://o/a%20b", "cckv://o/a b"),
        ("cckv://o/a+b", "cckv://o/a+b"),
        ("cckv://o/a/", "cckv://o/a/"),
        ("cckv://o/a//b", "cckv://o/a//b"),
        ("cckv://o/./../a", "cckv://o/./../a"),
        ("cckv://o/%2E%2E", "cckv://o/.."),
        ("cckv://o/a*%2A", "cckv://o/a**"),
        ("cckv://o/a\\'\"\n", "cckv://o/a\\'\"\n"),
        (f"ccfs://{ALICE}/concrnt/{CDID}", f"ccfs://{ALICE}/concrnt/{CDID}"),
        (f"ccfs://{ALICE}/{CDID}", f"ccfs://{ALICE}/concrnt/{CDID}"),
        (f"ccfs://{ALICE}@alpha.example/{CDID}", f"ccfs://{ALICE}/concrnt/{CDID}"),
        (f"ccfs://o/blob/{'AB' * 32}", f"ccfs://o/blob/{'ab' * 32}"),
        ("https://example.com/?q=%zz", "https://example.com/?q=%zz"),
        ("http://example.com", "http://example.com"),
    ],
)
def test_spellings_lead_to_the_canonical_one(text: str, canonical: str) -> None:
    """Hints, case of names, escapes and the old flat form do not make another identity."""
    assert parse_ccuri(text).canonical == canonical
    assert parse_ccuri(text) == parse_ccuri(canonical)
    assert not parse_ccuri(text) != parse_ccuri(canonical)  # noqa: SIM202 (a Struct has a != of its own)
    assert hash(parse_ccuri(text)) == hash(parse_ccuri(canonical))
    assert str(parse_ccuri(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", UriFault.SCHEME),
        ("a/b", UriFault.SCHEME),
        ("cckv:/o/a", UriFault.SCHEME),
        ("CCKV://o/a", UriFault.SCHEME),
        ("ftp://o/a", UriFault.SCHEME),
        ("https://", UriFault.SCHEME),
        (" cckv://o/a", UriFault.SCHEME),
        ("cckv://", UriFault.OWNER),
        ("cckv:///a", UriFault.OWNER),
        ("cckv://@/a", UriFault.OWNER),
        ("cckv://a_b/a", UriFault.OWNER),
        ("cckv://127.0.0.1/a", UriFault.OWNER),
        ("cckv://alpha.example:443/a", UriFault.OWNER),
        ("cckv://%61lpha.example/a", UriFault.OWNER),
        ("cckv://o*", UriFault.OWNER),
        (f"cckv://{ALICE.upper()}/a", UriFault.OWNER),
        (f"cckv://{'a' * 100_000}/a", UriFault.OWNER),
        (f"cckv://{ALICE}@/a", UriFault.HINT),
        (f"cckv://{ALICE}@a@b/a", UriFault.HINT),
        (f"cckv://{ALICE}@10.0.0.1/a", UriFault.HINT),
        ("cckv://o/%", UriFault.ESCAPE),
        ("cckv://o/a%2", UriFault.ESCAPE),
        ("cckv://o/a%zz", UriFault.ESCAPE),
        ("cckv://o/%FF", UriFault.ENCODING),
        ("cckv://o/%ED%A0%80", UriFault.ENCODING),
        ("cckv://o/%E3%81", UriFault.ENCODING),
        ("cckv://o/%E3/%81%82", UriFault.ENCODING),
        ("cckv://o/a%00b", UriFault.CHARACTER),
        ("cckv://o/a\0b", UriFault.CHARACTER),
        ("cckv://o/\ud800", UriFault.CHARACTER),
        ("https://example.com/\ud800", UriFault.CHARACTER),
        ("ccfs://o", UriFault.FORM),
        ("ccfs://o/", UriFault.FORM),
        ("ccfs://o/concrnt", UriFault.FORM),
        (f"ccfs://o/other/{CDID}", UriFault.FORM),
        (f"ccfs://o/concrnt/{CDID.upper()}", UriFault.FORM),
        (f"ccfs://o/concrnt/{CDID}/", UriFault.FORM),
        (f"ccfs://o/concrnt/{CDID}x", UriFault.FORM),
        ("ccfs://o/blob/00", UriFault.FORM),
    ],
)
def test_anything_else_is_an_error_with_a_reason(text: str, fault: UriFault) -> None:
    """No other form parses, and the reason says which part is at fault."""
    with pytest.raises(MalformedURI) as caught:
        parse_ccuri(text)
    assert caught.value.reason is fault


def test_the_parts_of_a_uri_are_at_hand() -> None:
    """Owner, hint, steps, document and size come from one parse."""
    uri = parse_ccuri(f"cckv://{ALICE}@alpha.example/a/%E3%81%82")
    assert (uri.owner, uri.hint, uri.steps) == (ALICE, "alpha.example", ("a", "あ"))
    assert uri.key == f"cckv://{ALICE}/a/あ"
    assert uri.decoded_path_bytes == 5
    assert uri.is_key
    assert uri.cdid is None
    assert parse_ccuri(f"ccfs://o/{CDID}").cdid == CDID
    assert parse_ccuri(f"ccfs://o/blob/{'ab' * 32}").cdid is None
    assert parse_ccuri("cckv://@alpha.example/a").is_alias
    for text in (f"cckv://{ALICE}", "cckv://@alpha.example/a", f"ccfs://o/{CDID}", "https://a.example/"):
        assert not parse_ccuri(text).is_key


def test_ancestors_come_from_the_owner_down() -> None:
    """The parent is the last ancestor; the owner has none; an encoded slash is no step."""
    assert parse_ccuri("cckv://o/a/b/c").ancestors == ("cckv://o", "cckv://o/a", "cckv://o/a/b")
    assert parse_ccuri("cckv://o/a/b/c").parent == "cckv://o/a/b"
    assert parse_ccuri("cckv://o/a%2Fb").ancestors == ("cckv://o",)
    assert parse_ccuri("cckv://o").ancestors == ()
    assert parse_ccuri("cckv://o").parent is None
    assert parse_ccuri(f"ccfs://o/{CDID}").ancestors == ()
    assert parse_ccuri(f"ccfs://o/{CDID}").parent is None


@given(STEPS)
@example(["a", "", "b", ""])
@example(["?#%/", "%2F"])
def test_composed_keys_parse_to_their_steps(steps: list[str]) -> None:
    """Whatever the steps hold, the canonical key leads back to them."""
    if steps == [""]:
        return  # "cckv://o/" is the bare owner
    key = compose_key("o", *steps)
    uri = parse_ccuri(key)
    assert uri.steps == tuple(steps)
    assert uri.canonical == key
    assert owner_of(key) == "o"
    assert parent_of(key) == (compose_key("o", *steps[:-1]) if steps else None)
    assert ancestors_of(key) == tuple(compose_key("o", *steps[:end]) for end in range(len(steps)))


@given(st.text(max_size=40).map("cckv://o/".__add__))
def test_a_canonical_key_is_its_own_canonical_key(text: str) -> None:
    """Parsing is idempotent, whatever was parsed."""
    try:
        canonical = parse_ccuri(text).canonical
    except MalformedURI:
        return
    assert parse_ccuri(canonical).canonical == canonical


@given(STEPS, STEPS)
def test_different_steps_are_different_keys(one: list[str], other: list[str]) -> None:
    """No two paths share a spelling: normal forms, cases and empty steps all count."""
    assert (compose_key("o", *one) == compose_key("o", *other)) == (one == other)


def test_a_document_has_one_uri() -> None:
    """The nested form is the canonical one."""
    assert parse_ccuri(compose_document("o", CDID)).canonical == compose_document("o", CDID)
