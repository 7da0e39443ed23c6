"""Pages: what the replication feed and the query endpoint answer (CIP-16; protocol.md, section 4).

A page that is no page must never pass for an empty one: a follower would take the server for caught up. So
``{}``, lists, HTML and wrong types are :class:`BadPayload`, and only ``next: null`` says that there is no
more. Rows are cut out here, not judged: :func:`indexer.concrnt.documents.parse_commit` does that, one by
one, so that a broken row costs one row. Only text that is no JSON at all costs the page.
"""

from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from indexer.concrnt.payload import BadPayload, decode_leniently, decode_text, split_array, split_object
from indexer.concrnt.times import MalformedTime, parse_instant

__all__ = ["MAX_ROWS", "BadPayload", "Item", "Page", "decode_page"]

Item = bytes
"""One row as it came: JSON text, in bytes that should be UTF-8."""

MAX_ROWS: Final = 1_000
"""Servers hold 100 rows a page; what sends ten times that sends no page."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page, in log order.

    Attributes:
        items: the rows, unparsed.
        prev: receipt time of the first row before access filtering, as the server wrote it.
        next: receipt time of the first row past the page, as the server wrote it: to be echoed byte for byte.
            None is the only sign of the end.
        prev_ns: ``prev`` in nanoseconds since the epoch, for comparison.
        next_ns: ``next`` likewise.

    """

    items: tuple[Item, ...]
    prev: str | None
    next: str | None
    prev_ns: int | None
    next_ns: int | None


class _Wire(msgspec.Struct):
    items: list[Raw] | UnsetType | None = UNSET
    prev: str | UnsetType | None = UNSET
    next: str | UnsetType | None = UNSET


_DECODER: Final = msgspec.json.Decoder(_Wire)


def decode_page(body: bytes) -> Page:
    """Decode a page.

    Raises:
        BadPayload: no JSON object, neither rows nor cursors in it, a member of another type, a cursor that is
            no time, or more than :data:`MAX_ROWS` rows.

    """
    try:
        wire = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _decode_row_by_row(body)
    if wire.items is UNSET and wire.prev is UNSET and wire.next is UNSET:
        raise BadPayload("neither rows nor cursors")
    rows = wire.items or []
    if len(rows) > MAX_ROWS:
        raise BadPayload(f"more than {MAX_ROWS} elements")
    return _page(
        tuple([bytes(row) for row in rows]),
        None if wire.prev is UNSET else wire.prev,
        None if wire.next is UNSET else wire.next,
    )


def _decode_row_by_row(body: bytes) -> Page:
    members = split_object(decode_text(body))
    if not members.keys() & {"items", "prev", "next"}:
        raise BadPayload("neither rows nor cursors")
    items = members.get("items", "null")
    rows = [] if items == "null" else split_array(items, at_most=MAX_ROWS)
    return _page(tuple([row.encode() for row in rows]), _cursor(members, "prev"), _cursor(members, "next"))


def _cursor(members: dict[str, str], name: str) -> str | None:
    cursor = decode_leniently(members.get(name, "null"))
    if cursor is None or isinstance(cursor, str):
        return cursor
    raise BadPayload(f"{name} is no text")


def _page(items: tuple[Item, ...], prev: str | None, following: str | None) -> Page:
    return Page(items, prev, following, _instant(prev), _instant(following))


def _instant(cursor: str | None) -> int | None:
    try:
        return None if cursor is None else parse_instant(cursor)
    except MalformedTime as error:
        raise BadPayload("a cursor that is no time") from error
