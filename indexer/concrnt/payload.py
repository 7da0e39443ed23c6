"""JSON as strangers send it: what is refused, and how little is lost with what is broken.

The fast decoder (msgspec) is strict. It refuses a whole text for a lone surrogate or a raw control
character in some string, for bytes that are no UTF-8, and for nesting that would end the stack. Where it
does, this module cuts a text into the members of its object, or the elements of its array, without decoding
any of them: in one pass, without recursion, whatever the depth. So what is broken costs itself only.

A cut looks at brackets and strings and nothing else. That a piece is JSON is found out when it is decoded.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MAX_NESTING: Final = 100
"""How deep a document or a well-known may nest. Search engines refuse documents from 128 levels on (the usual
limit of their parsers), and a document becomes part of a batch there."""

_MAX_INTEGER: Final = (1 << 64) - 1
_MAX_INTEGER_DIGITS: Final = 20

# Possessive (++, *+): what has been read is never looked at again, which keeps every cut linear.
_STRING: Final = r'"(?:[^"\\]++|\\.)*+"'
_FLAT: Final = rf'(?:[^"\[\]{{}}]++|{_STRING})*+'
# A run of opening or of closing brackets, after whatever does not change the depth.
_TURN: Final = re.compile(rf"(?:{_FLAT}(?:\[{_FLAT}\]|\{{{_FLAT}\}}))*+{_FLAT}([\[{{]++|[\]}}]++)", re.DOTALL)
_MEMBER_NAME: Final = re.compile(rf"[ \t\n\r]*+({_STRING})[ \t\n\r]*+:[ \t\n\r]*+", re.DOTALL)
_SCALAR: Final = re.compile(rf'{_STRING}|[^ \t\n\r,:"\[\]{{}}]++', re.DOTALL)
_STRING_TOKEN: Final = re.compile(_STRING, re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_BLANK: Final = re.compile(r"[ \t\n\r]*+")
# msgspec decodes integers of any length as such; few databases and no search engine can take them.
_LONG_NUMBER: Final = re.compile(r"[0-9]{20}")
_BRACKETS: Final = re.compile(rf"{_STRING}|[\[{{]++|[\]}}]++", re.DOTALL)


class BadPayload(ValueError):  # noqa: N818 - the name of the failure class
    """A success whose body is not what was asked for."""


def decode_text(body: bytes) -> str:
    """Decode bytes as UTF-8; what is none becomes U+FFFD, so that it costs no more than itself."""
    return body.decode("utf-8", "replace")


def split_object(text: str) -> dict[str, str]:
    """Cut the text of a JSON object into its members.

    Returns:
        The raw text of each member by its decoded name; the last of equal names.

    Raises:
        BadPayload: no object, or its brackets, strings, colons and commas do not close.

    """
    members: dict[str, str] = {}
    position, closed = _enter(text, "{", "}")
    while not closed:
        name = _MEMBER_NAME.match(text, position)
        if name is None:
            raise BadPayload("an object without the name of a member")
        end = _end_of_value(text, name.end())
        members[_decode_name(name[1])] = text[name.end() : end]
        position, closed = _after_value(text, end, "}")
    return members


def split_array(text: str, *, at_most: int) -> list[str]:
    """Cut the text of a JSON array into the raw texts of its elements.

    Raises:
        BadPayload: no array, more elements than ``at_most``, or something in it does not close.

    """
    elements: list[str] = []
    position, closed = _enter(text, "[", "]")
    while not closed:
        if len(elements) == at_most:
            raise BadPayload(f"more than {at_most} elements")
        end = _end_of_value(text, position)
        elements.append(text[position:end])
        position, closed = _after_value(text, end, "]")
    return elements


def nesting_exceeds(text: str | bytes, limit: int) -> bool:
    """Tell whether the brackets of a JSON text nest deeper than the limit."""
    # Counting comes first: it is C code, and nearly no text has so many brackets at all.
    if isinstance(text, bytes):
        if text.count(b"[") + text.count(b"{") <= limit:
            return False
        text = decode_text(text)
    elif text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for token in _BRACKETS.finditer(text):
        letter = text[token.start()]
        run = token.end() - token.start()
        if letter in "[{":
            depth += run
            if depth > limit:
                return True
        elif letter != '"':
            depth -= run
    return False


def decode_leniently(text: str | bytes) -> Any:
    """Decode a JSON text to plain Python values, as tolerantly as JSON's grammar allows.

    Raw control characters and lone surrogates in strings are kept. Integers of more than 64 bits become
    floats, numbers beyond a float's range None, so that no infinity reaches a database, an index or an
    answer.

    Raises:
        BadPayload: no JSON, or nested too deep.

    """
    if nesting_exceeds(text, MAX_NESTING):
        raise BadPayload("nested too deep")
    try:
        return _LENIENT.decode(decode_text(text) if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        raise BadPayload("not JSON") from error


def decode_value(text: str | bytes) -> Any:
    """Decode a JSON text: fast where it is well-behaved, else as :func:`decode_leniently` does.

    Raises:
        BadPayload: no JSON, or nested too deep.

    """
    if nesting_exceeds(text, MAX_NESTING):
        raise BadPayload("nested too deep")
    if _LONG_NUMBER.search(decode_text(text) if isinstance(text, bytes) else text):
        return decode_leniently(text)
    try:
        return _FAST.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return decode_leniently(text)


def repair(text: str) -> str:
    """Return a leniently read JSON text as strict JSON: control characters in strings escaped."""
    return storable(_STRING_TOKEN.sub(lambda token: _CONTROL.sub(_escape, token[0]), text))


def storable(text: str) -> str:
    r"""Return a JSON text without the two things that PostgreSQL's text refuses.

    Those are raw NULs and lone surrogates. Both can only stand inside strings, where ``\u0000`` and
    ``\udxxx`` mean the same.
    """
    return _UNSTORABLE.sub(_escape, text)


def string_in(members: Mapping[str, Any], name: str) -> str:
    """Return a member that should be text, ``""`` where it is absent or something else."""
    value = members.get(name)
    return value if isinstance(value, str) else ""


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _enter(text: str, opening: str, closing: str) -> tuple[int, bool]:
    position = _skip_blank(text, 0)
    if not text.startswith(opening, position):
        raise BadPayload(f"does not begin with {opening}")
    position = _skip_blank(text, position + 1)
    if text.startswith(closing, position):
        _expect_end(text, position + 1)
        return position, True
    return position, False


def _after_value(text: str, end: int, closing: str) -> tuple[int, bool]:
    position = _skip_blank(text, end)
    if text.startswith(",", position):
        return _skip_blank(text, position + 1), False
    if text.startswith(closing, position):
        _expect_end(text, position + 1)
        return position, True
    raise BadPayload(f"neither a comma nor {closing} after a value")


def _expect_end(text: str, position: int) -> None:
    if _skip_blank(text, position) != len(text):
        raise BadPayload("text after the end")


def _skip_blank(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    return blank.end() if blank else position


def _end_of_value(text: str, start: int) -> int:
    """Return where the value that begins at ``start`` ends."""
    if not text.startswith(("{", "["), start):
        scalar = _SCALAR.match(text, start)
        if scalar is None:
            raise BadPayload("no value")
        return scalar.end()
    depth = 1
    position = start + 1
    while turn := _TURN.match(text, position):
        first, position = turn.span(1)
        if text[first] in "[{":
            depth += position - first
        elif position - first >= depth:
            return first + depth
        else:
            depth -= position - first
    raise BadPayload("brackets or a string without an end")


def _decode_name(raw: str) -> str:
    try:
        name = json.loads(raw, strict=False)
    except ValueError as error:
        raise BadPayload("the name of a member is no string") from error
    return str(name)


def _integer(digits: str) -> int | float | None:
    if len(digits) <= _MAX_INTEGER_DIGITS and abs(int(digits)) <= _MAX_INTEGER:
        return int(digits)
    return _float(digits)


def _float(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_FAST: Final = msgspec.json.Decoder()
_LENIENT: Final = json.JSONDecoder(
    strict=False, parse_int=_integer, parse_float=_float, parse_constant=_refuse_constant
)
