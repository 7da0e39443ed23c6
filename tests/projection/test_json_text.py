"""Strangers' JSON becomes what every store can hold (cases C04, C34)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.projection.json_text import MAX_DEPTH, decode_json

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
SURROGATES = st.text(st.characters(categories=["Cs", "Lu", "Nd"]) | st.sampled_from('\0"\\'))


def depth_of(value: Any) -> int:
    """How many containers stand around the deepest one, itself included."""
    depth, level = 0, [value]
    while level := [entry for entry in level if isinstance(entry, dict | list)]:
        depth += 1
        level = [child for entry in level for child in (entry.values() if isinstance(entry, dict) else entry)]
    return depth


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"ねこ\u0000だいすき"', "ねこ\ufffdだいすき"),
        (r'"ねこ\\u0000だいすき"', r"ねこ\u0000だいすき"),
        (r'"\\\u0000"', "\\\ufffd"),
        (r'"\ud83d\ude00\ud83d"', "😀\ufffd"),
        (r'"\ude00\ud83d"', "\ufffd\ufffd"),
        (r'"\uD800\u0041\uDFFF"', "\ufffdA\ufffd"),
        (r'{"a\u0000b": {"\ud800": ["\u0000"]}}', {"a\ufffdb": {"\ufffd": ["\ufffd"]}}),
        (r'"\u00e9\u3042"', "éあ"),
        ('"raw\nline\x1f"', "raw\nline\x1f"),
        ('"raw' + chr(0xD800) + '\0"', "raw\ufffd\ufffd"),
        ("[NaN, 1e400, -Infinity, 1]", [None, float("inf"), None, 1]),
        ("[" + "9" * 5_000 + "]", [float("inf")]),
        ("123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_what_stores_refuse_is_cured(text: str, value: Any) -> None:
    """NUL, lone surrogates, raw control characters and monstrous numbers become something storable."""
    decoded = decode_json(text)
    assert decoded == value
    msgspec.json.encode(decoded)


@pytest.mark.parametrize(
    "text", ["", "{", "nonsense", '{"a": }', "[1, 2", '"open', "[" * 50_000, '{"a":' * 50_000, "]" * 500]
)
def test_no_json_is_a_value_error(text: str) -> None:
    """What is no JSON raises one error, however deep it goes."""
    with pytest.raises(ValueError):
        decode_json(text)


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 500, 10_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"]":', "}]")])
def test_depth_is_cut(opening: str, closing: str, depth: int) -> None:
    """Containers below the bound become null; what is beside them stays."""
    levels = depth // (2 if len(closing) > 1 else 1)
    text = f'{{"body": "ねこ", "deep": {opening * levels}1{closing * levels}, "after": "いぬ ]}}"}}'
    decoded = decode_json(text)
    assert decoded["body"] == "ねこ"
    assert decoded["after"] == "いぬ ]}"
    assert depth_of(decoded) <= MAX_DEPTH
    if depth < MAX_DEPTH:
        assert decoded == json.loads(text)
    msgspec.json.decode(msgspec.json.encode(decoded))


@given(JSON)
def test_usual_json_is_untouched(value: Any) -> None:
    """JSON without NUL and surrogates decodes to what it says, escaped or not."""
    assert decode_json(json.dumps(value)) == value
    assert decode_json(json.dumps(value, ensure_ascii=False)) == value


@given(SURROGATES, SURROGATES)
def test_whatever_is_escaped_can_be_stored(key: str, text: str) -> None:
    """Any string that JSON can write comes out as UTF-8 without NUL, in keys and values."""
    decoded = decode_json(json.dumps({key: [text]}))
    encoded = msgspec.json.encode(decoded)
    assert b"\\u0000" not in encoded.replace(b"\\\\", b"")
    assert "\0" not in str(decoded)
    (found,) = decoded.values()
    assert found == [
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    ]
