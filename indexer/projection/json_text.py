"""Strangers' JSON, read for indexing: always a plain value that a database and any JSON encoder can hold.

Three things that JSON allows and our stores do not are cured in the *text*, before it is decoded, so that
object keys and the deepest strings are cured as well and no tree is ever walked:

* NUL characters and lone surrogates become U+FFFD (behaviour.md, section 3, rule 9);
* containers nested deeper than :data:`MAX_DEPTH` become ``null``: search engines refuse them (Meilisearch
  reads 128 levels), and decoders recurse;
* numbers beyond a double become ``null`` when encoded again.

Text that only a tolerant decoder reads (raw control characters inside strings) is read tolerantly here too,
since what the mirror accepted must not be lost on its way to the index.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 100

# An escape sequence. A pair of surrogates is one character; what remains in the last alternative stands
# alone.
_ESCAPE = re.compile(
    r"\\(?:[^u]"
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|u0000"
    r"|u[dD][89a-fA-F][0-9a-fA-F]{2})",
    re.DOTALL,
)
_LONE_LENGTH: Final = len(r"\u0000")
_RAW_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)

_decode = msgspec.json.Decoder().decode


def decode_json(text: str) -> Any:
    """Decode JSON text of a stranger.

    Args:
        text: JSON, possibly with what is described above.

    Returns:
        Plain dicts, lists, strings, numbers, booleans and None, at most ``MAX_DEPTH`` deep.

    Raises:
        ValueError: the text is no JSON at all.

    """
    if "\\u0000" in text or "\\ud" in text or "\\uD" in text:
        text = _ESCAPE.sub(_storable_escape, text)
    if text.count("[") + text.count("{") > MAX_DEPTH:
        text = _cut_depth(text)
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return _decode_tolerantly(_RAW_UNSTORABLE.sub("\ufffd", text))


def _storable_escape(match: re.Match[str]) -> str:
    escape = match.group()
    return "\\ufffd" if len(escape) == _LONE_LENGTH else escape


def _decode_tolerantly(text: str) -> Any:
    try:
        return json.loads(text, strict=False, parse_int=_integer, parse_constant=lambda _: None)
    except RecursionError as error:  # brackets that are never closed: the cut could not pair them
        raise ValueError("nested too deep") from error


def _integer(digits: str) -> int | float:
    # Python refuses to convert more than some thousand digits; as a double such a number is infinite.
    return int(digits) if len(digits) < 400 else float(digits)


def _cut_depth(text: str) -> str:
    """Replace every container below ``MAX_DEPTH`` by null. Iterative: depth costs no stack."""
    depth = 0
    kept_from = 0
    pieces: list[str] = []
    for match in _STRING_OR_BRACKET.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            if depth == MAX_DEPTH + 1:
                pieces.append(text[kept_from : match.start()])
        elif first != '"':
            if depth == MAX_DEPTH + 1:
                pieces.append("null")
                kept_from = match.end()
            depth -= 1
    if not pieces:
        return text
    pieces.append(text[kept_from:])
    return "".join(pieces)
