"""Where a hit stands in its search, and what comes behind it. Pure.

A position is the level of the query (how many parts were given up), the scores of the ranking rules, the
value of the asked order, and the key. Together they order all hits, and no two are equal. Positions are what
cursors hold; nothing in one that comes from a client is trusted: its parts become numbers and texts of closed
forms in a filter expression, or it is no cursor.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec

from indexer.engines.base import FieldType, InvalidCursor
from indexer.engines.meilisearch.settings import KEY_ORDER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from indexer.engines.base import IndexDefinition, SearchRequest, SortOrder

_VERSION: Final = 1
"""Raised when positions come to mean something else."""

_RULES: Final = ("typo", "exactness", "attributeRank", "proximity")
KEY_ASCENDING: Final = tuple(f"{field}:asc" for field in KEY_ORDER)
"""The end of every order, as it is asked for."""

_ORDERED_TEXT: Final = re.compile("[0-9a-v]{0,460}")

SortValue = int | float | str | None


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a search. ``passed``: about how many hits of the level stand before or at it."""

    level: int
    passed: int
    ranks: tuple[float, ...]
    value: SortValue
    key: str
    rest: str | None


def position_of(
    hit: Mapping[str, Any], level: int, passed: int, request: SearchRequest, *, ranked: bool
) -> Position:
    """Read the position of a hit that was asked for with its score details."""
    details = hit["_rankingScoreDetails"]
    ranks = ranks_of(hit) if ranked else ()
    value = details[sort_expression(request.sort)]["value"] if request.sort is not None else None
    return Position(
        level, passed, ranks, value, details["order_key:asc"]["value"], details["order_rest:asc"]["value"]
    )


def ranks_of(hit: Mapping[str, Any]) -> tuple[float, ...]:
    """Read the scores of the ranking rules, the most important first; more is better."""
    details = hit["_rankingScoreDetails"]
    return tuple(round(details[rule]["score"], 9) for rule in _RULES if rule in details)


def sort_expression(sort: SortOrder) -> str:
    """Write an order."""
    return f"order_{sort.field}:{'desc' if sort.descending else 'asc'}"


def behind(position: Position, request: SearchRequest) -> list[str]:
    """Write "comes later in the asked order, then by key": expressions of which one must hold."""
    key, rest = f'order_key = "{position.key}"', position.rest
    later = [f'order_key > "{position.key}"']
    if rest is not None:
        later += [
            f'{key} AND order_rest > "{rest}"',
            f"{key} AND order_rest IS NULL",
            f"{key} AND order_rest NOT EXISTS",
        ]
    if request.sort is None:
        return later
    name = f"order_{request.sort.field}"
    absent = [f"{name} IS NULL", f"{name} NOT EXISTS"]
    if position.value is None:
        return [f"{one} AND {other}" for one in absent for other in later]
    sign = "<" if request.sort.descending else ">"
    at = position.value if isinstance(position.value, str) else repr(position.value)
    return [f'{name} {sign} "{at}"', *(f'{name} = "{at}" AND {one}' for one in later), *absent]


def sort_positions(places: Sequence[tuple[Position, str]], *, descending: bool) -> list[str]:
    """Return ids in the order of their positions."""

    def by_value(place: tuple[Position, str]) -> Any:
        return place[0].value

    # Sorting is stable: the last order first. Absent values come last both ways.
    ordered = sorted(places, key=lambda place: (place[0].key, place[0].rest is None, place[0].rest or ""))
    present = [place for place in ordered if place[0].value is not None]
    absent = [place for place in ordered if place[0].value is None]
    ordered = [*sorted(present, key=by_value, reverse=descending), *absent]
    ordered.sort(key=lambda place: (place[0].level, [-rank for rank in place[0].ranks]))
    return [identifier for _, identifier in ordered]


# --- cursors ------------------------------------------------------------------------------------------------


class _Parts(msgspec.Struct, array_like=True):
    seal: int
    level: int
    passed: int
    ranks: tuple[float, ...]
    value: str | int | float | None
    key: str
    rest: str | None


_decoder = msgspec.json.Decoder(_Parts)


def write_cursor(request: SearchRequest, position: Position) -> str:
    """Write a position as a cursor of a request."""
    parts = _Parts(
        _seal(request),
        position.level,
        position.passed,
        position.ranks,
        position.value,
        position.key,
        position.rest,
    )
    return urlsafe_b64encode(msgspec.json.encode(parts)).rstrip(b"=").decode()


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
    texts = [text for text in (parts.key, parts.rest) if text is not None]
    is_ours = all(map(_ORDERED_TEXT.fullmatch, texts)) and min(parts.level, parts.passed) >= 0
    if not is_ours or not _fits(definition, request, parts.value):
        raise InvalidCursor("the cursor is none that was given here")
    return Position(parts.level, parts.passed, parts.ranks, parts.value, parts.key, parts.rest)


def _fits(definition: IndexDefinition, request: SearchRequest, value: SortValue) -> bool:
    if value is None:
        return True
    if request.sort is None:
        return False
    if isinstance(value, str):
        is_text = definition.sortable[request.sort.field] is FieldType.TEXT
        return is_text and _ORDERED_TEXT.fullmatch(value) is not None
    return definition.sortable[request.sort.field] is not FieldType.TEXT


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
