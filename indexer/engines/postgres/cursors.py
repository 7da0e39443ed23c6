"""Cursors: where a page ended, in a form that goes to a client and comes back.

A cursor holds the rank, the sort value and the key of the last hit, which no document shares with another; so
what is written or removed meanwhile moves nothing that was not yet shown. It is good for the request that
made it alone. Nothing in it is trusted: its parts become parameters of the right type, or it is no cursor.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zlib import crc32

import msgspec

from indexer.engines.base import FieldType, InvalidCursor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.engines.base import IndexDefinition, SearchRequest

_VERSION: Final = 2
"""Raised when ranks come to mean something else."""

_MAX_RANK: Final = 2**31 - 1
_MAX_INTEGER: Final = 2**63 - 1

SortValue = str | int | float | datetime | None


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a ranked result."""

    rank: int
    value: SortValue
    key: str


class _Parts(msgspec.Struct, array_like=True):
    seal: int
    rank: int
    value: str | int | float | None
    key: str


_decoder = msgspec.json.Decoder(_Parts)
_SORT_TYPES: Final[Mapping[FieldType, type]] = {
    FieldType.TIME: str,
    FieldType.TEXT: str,
    FieldType.INTEGER: int,
    FieldType.NUMBER: float,
}


def write_cursor(request: SearchRequest, position: Position) -> str:
    """Write a position as a cursor of a request."""
    value = position.value.isoformat() if isinstance(position.value, datetime) else position.value
    encoded = msgspec.json.encode(_Parts(_seal(request), position.rank, value, position.key))
    return urlsafe_b64encode(encoded).rstrip(b"=").decode()


def read_cursor(definition: IndexDefinition, request: SearchRequest) -> Position | None:
    """Read the cursor of a request, if it has one.

    Raises:
        InvalidCursor: it is no cursor of this request.

    """
    if request.cursor is None:
        return None
    try:
        padded = request.cursor.encode("ascii") + b"=" * (-len(request.cursor) % 4)
        parts = _decoder.decode(urlsafe_b64decode(padded))
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidCursor("the cursor is none that was given here") from error
    if parts.seal != _seal(request):
        raise InvalidCursor("the cursor belongs to another query, filter or order")
    if not 0 <= parts.rank <= _MAX_RANK or not _is_storable(parts.key):
        raise InvalidCursor("the cursor is none that was given here")
    return Position(parts.rank, _value(definition, request, parts.value), parts.key)


def _value(definition: IndexDefinition, request: SearchRequest, value: str | float | None) -> SortValue:
    if value is None or request.sort is None:
        return None
    kind = definition.sortable[request.sort.field]
    if kind is FieldType.NUMBER and isinstance(value, int):
        value = float(value)
    if not isinstance(value, _SORT_TYPES[kind]):
        raise InvalidCursor("the cursor is none that was given here")
    if kind is FieldType.TIME:
        return _time(str(value))
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        raise InvalidCursor("the cursor is none that was given here")
    if isinstance(value, str) and not _is_storable(value):
        raise InvalidCursor("the cursor is none that was given here")
    return value


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidCursor("the cursor is none that was given here") from error
    return moment


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _seal(request: SearchRequest) -> int:
    """Return what tells requests apart; not a secret, a safeguard against mistakes."""
    sort = request.sort
    said = (
        _VERSION,
        request.index,
        request.query,
        sorted(request.filters.items()),
        (sort.field, sort.descending) if sort is not None else None,
    )
    return crc32(repr(said).encode("utf-8", "backslashreplace"))
