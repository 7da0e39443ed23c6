"""JSON as strangers send it: cut in one pass, with as little lost as possible."""

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.concrnt.payload import (
    BadPayload,
    decode_leniently,
    decode_value,
    nesting_exceeds,
    repair,
    split_array,
    split_object,
    storable,
)

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=8))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)
LAYOUTS = st.sampled_from([(None, (",", ":")), (None, (" , ", " : ")), (2, (",", ": "))])


@given(st.lists(VALUES, max_size=5), LAYOUTS, st.booleans())
def test_arrays_are_cut_where_their_elements_end(values: list[Any], layout: Any, ascii_only: bool) -> None:
    """Each piece decodes to the element that it was cut out as, however the text is laid out."""
    text = json.dumps(values, indent=layout[0], separators=layout[1], ensure_ascii=ascii_only)
    assert [json.loads(piece) for piece in split_array(text, at_most=5)] == values


@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=5), LAYOUTS)
def test_objects_are_cut_where_their_members_end(members: dict[str, Any], layout: Any) -> None:
    """Names are decoded, values are left as they are."""
    text = json.dumps(members, indent=layout[0], separators=layout[1])
    assert {name: json.loads(piece) for name, piece in split_object(text).items()} == members


@given(st.text('[]{}",:\\a1 ', max_size=30))
def test_a_cut_never_fails_otherwise(text: str) -> None:
    """Any text is either cut, or BadPayload; what JSON accepts is cut."""
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    for cut, kind in ((split_object, dict), (lambda text: split_array(text, at_most=99), list)):
        try:
            cut(text)
        except BadPayload:
            assert not isinstance(whole, kind)


@given(VALUES, st.integers(0, 5))
def test_nesting_is_counted_as_brackets_nest(value: Any, limit: int) -> None:
    """Brackets inside strings do not count."""

    def depth(value: Any) -> int:
        if isinstance(value, dict):
            return 1 + max((depth(inner) for inner in value.values()), default=0)
        if isinstance(value, list):
            return 1 + max((depth(inner) for inner in value), default=0)
        return 0

    text = json.dumps(value)
    assert nesting_exceeds(text, limit) == (depth(value) > limit)
    assert nesting_exceeds(text.encode(), limit) == (depth(value) > limit)


def test_of_equal_names_the_last_counts() -> None:
    """Duplicates are legal JSON; escapes in a name do not make another name."""
    assert split_object(r'{"a":1,"\u0061":2}') == {"a": "2"}


def test_more_elements_than_allowed_are_refused() -> None:
    """A list has an end, also a hostile one."""
    assert split_array("[1,2]", at_most=2) == ["1", "2"]
    with pytest.raises(BadPayload):
        split_array("[1,2,3]", at_most=2)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 2_000_000 + "]" * 2_000_000,
        '[{"a":' * 300_000 + "0" + "}]" * 300_000,
        "[" + "[[]]," * 400_000 + "0]",
        "[" * 2_000_000,
        '["' + "\\" * 2_000_000,
        '["' + '\\"' * 1_000_000,
        "[" + " " * 4_000_000,
    ],
    ids=["deep", "mixed", "wide", "unclosed", "backslashes", "quotes", "blanks"],
)
def test_hostile_text_is_cut_in_linear_time(text: str) -> None:
    """Megabytes of brackets, quotes and blanks neither end the stack nor take long."""
    started = time.process_time()
    with suppress(BadPayload):
        split_array(text, at_most=1_000_000)
    nesting_exceeds(text, 100)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("depth", [101, 10_000, 1_000_000])
def test_what_is_nested_too_deep_is_not_decoded(depth: int) -> None:
    """A hundred levels are enough; more end neither the stack nor the process."""
    assert decode_value("[" * 100 + "]" * 100)
    for decode in (decode_value, decode_leniently):
        with pytest.raises(BadPayload):
            decode("[" * depth + "]" * depth)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud800"', "\ud800"),
        ('"a\nb"', "a\nb"),
        ('"a\0b"', "a\0b"),
        (b'"\xff"', "\ufffd"),
        (r'"\ud83d\ude00"', "😀"),
        ("18446744073709551615", 18446744073709551615),
        ("100000000000000000000000", 1e23),
        ("-100000000000000000000000", -1e23),
        ("1" * 5000, None),
        ("1e400", None),
        ("-1e400", None),
        ("1e-400", 0.0),
    ],
)
def test_values_are_decoded_with_tolerance(text: str | bytes, value: Any) -> None:
    """Odd strings are kept, and no number is infinite or longer than 64 bits."""
    assert decode_value(text) == value
    assert type(decode_value(text)) is type(value)


@pytest.mark.parametrize(
    "text", ["", "nope", "NaN", "Infinity", "[1,]", "{", "'a'", r'"\q"', "01", "1 2", b"\xff"]
)
def test_what_is_no_json_is_bad_payload(text: str | bytes) -> None:
    """Tolerance ends where JSON's grammar does."""
    with pytest.raises(BadPayload):
        decode_value(text)


@given(st.text(max_size=12))
def test_repaired_text_is_strict_json_of_the_same_value(value: str) -> None:
    """Raw controls and lone surrogates become escapes; PostgreSQL could store the result."""
    raw = '{"a": "' + value.replace("\\", "\\\\").replace('"', '\\"') + '"}'
    repaired = repair(raw)
    assert json.loads(repaired) == {"a": value}
    repaired.encode()
    assert "\0" not in repaired


def test_storable_text_changes_nothing_else() -> None:
    """Only what PostgreSQL refuses is escaped; a shown escape stays as it was."""
    assert storable('"ねこ\0\ud800\n"') == '"ねこ\\u0000\\ud800\n"'
    assert storable(r'"\\u0000 \u0000"') == r'"\\u0000 \u0000"'
