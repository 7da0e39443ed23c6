"""Targets of deletes: by path step and literally (CIP-4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.concrnt.uri import MalformedURI, Scope, UriFault, compose_key, parse_ccuri, parse_delete_target

FOLDER = "cckv://alpha.example/concrnt.world/communities"
CDID = "06ga9v1jffasz1zz3khsacbghm"
STORED = [
    "a_b/1",
    "axb/1",
    "a%25/2",
    "ab/2",
    "a\\c/1",
    "note",
    "note/1",
    "notebook",
    "notebook/1",
    "note%2A",
    "note*",
]


@pytest.mark.parametrize(
    ("target", "taken"),
    [
        ("a_b/*", {"a_b/1"}),
        ("a%25*", {"a%/2"}),
        ("a\\c*", {"a\\c/1"}),
        ("note/*", {"note/1"}),
        ("note*", {"note", "note/1"}),
        ("note", {"note"}),
        ("note%2A", {"note*"}),
        ("NOTE*", set()),
    ],
)
def test_each_target_takes_only_its_own(target: str, taken: set[str]) -> None:
    """No letter but the star at the end is a sign, and an encoded star is a letter."""
    parsed = parse_delete_target(f"{FOLDER}/{target}")
    keys = {parse_ccuri(f"{FOLDER}/{key}").canonical for key in STORED}
    expected = {
        compose_key("alpha.example", "concrnt.world", "communities", *key.split("/")) for key in taken
    }
    assert {key for key in keys if parsed.covers(key)} == expected


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        (f"{FOLDER}/no*te", UriFault.STAR),
        (f"{FOLDER}/note**", UriFault.STAR),
        (f"{FOLDER}/*/note", UriFault.STAR),
        ("cckv://alpha.example*", UriFault.BARE_OWNER),
        ("cckv://alpha.example/*", UriFault.BARE_OWNER),
        ("cckv://alpha.example//*", UriFault.BARE_OWNER),
        ("cckv://alpha.example", UriFault.BARE_OWNER),
        ("cckv://alpha.example/", UriFault.BARE_OWNER),
        ("cckv://@alpha.example/a", UriFault.OWNER),
        ("cckv://*/a", UriFault.STAR),
        ("*", UriFault.SCHEME),
        ("", UriFault.SCHEME),
        (f"ccfs://o/concrnt/{CDID}*", UriFault.STAR),
        ("ccfs://o/*", UriFault.FORM),
        (f"ccfs://o/blob/{'ab' * 32}", UriFault.FORM),
        ("https://alpha.example/a", UriFault.FORM),
        ("https://alpha.example/*", UriFault.FORM),
        (f"cckv://o/{'a' * 1025}", UriFault.KEY_TOO_LONG),
        ("cckv://o/a%00*", UriFault.CHARACTER),
    ],
)
def test_what_is_no_target_takes_nothing(target: str, fault: UriFault) -> None:
    """Stars elsewhere, bare owners, aliases, files and links are malformed, with a reason."""
    with pytest.raises(MalformedURI) as caught:
        parse_delete_target(target)
    assert caught.value.reason is fault


def test_a_hint_is_no_part_of_a_target() -> None:
    """The same target with a routing hint is the same target."""
    assert parse_delete_target("cckv://o@alpha.example/a/*") == parse_delete_target("cckv://o/a/*")


def test_a_document_is_named_by_owner_and_cdid() -> None:
    """A ccfs target takes one document in either form, and no key."""
    target = parse_delete_target(f"ccfs://o@alpha.example/{CDID}")
    assert (target.scope, target.owner, target.key, target.cdid) == (Scope.DOCUMENT, "o", None, CDID)
    assert target == parse_delete_target(f"ccfs://o/concrnt/{CDID}")
    assert target.covers_document("o", CDID)
    assert not target.covers_document("p", CDID)
    assert not target.covers("cckv://o/a")
    assert not parse_delete_target("cckv://o/a").covers_document("o", CDID)


STEPS = st.lists(st.text(st.sampled_from("a*%/_\\?あ"), min_size=1, max_size=2), min_size=1, max_size=3)


@given(STEPS, STEPS, st.sampled_from([Scope.KEY, Scope.BELOW, Scope.TREE]))
def test_covering_agrees_with_a_model_on_lists_of_steps(
    base: list[str], key: list[str], scope: Scope
) -> None:
    """Compared with lists of steps, whatever letters stand in them."""
    sign = {Scope.KEY: "", Scope.BELOW: "/*", Scope.TREE: "*"}[scope]
    target = parse_delete_target(compose_key("o", *base).replace("*", "%2A") + sign)
    below = len(key) > len(base) and key[: len(base)] == base
    same = key == base
    expected = {Scope.KEY: same, Scope.BELOW: below, Scope.TREE: same or below}[scope]
    assert target.covers(compose_key("o", *key)) == expected
