"""Cursors of viewer mode: where a page ended, in the ranked part or in the rest.

A cursor holds the moment at which the ranking is made, so that weights stay what they were while time goes
by, and the place: score and id of the last ranked hit, or the own cursor of the engine behind the last
other hit. It is good for the search that made it alone, and for a week from that moment. Nothing in it is
trusted: a ranking is never made at a moment that no cursor given here can hold.
"""

from __future__ import annotations

import binascii
import math
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from zlib import crc32

from indexer.engines.base import InvalidCursor

if TYPE_CHECKING:
    from indexer.api.kinds import SearchKind
    from indexer.api.parameters import SearchParameters

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">IBqd")  # seal, part, microseconds since the epoch, score: 21 bytes
_HEAD_CHARACTERS: Final = 28
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RANKED, _REST = 0, 1

OLDEST: Final = timedelta(days=7)
"""How long one may page on: then the ranking of the first page says nothing any more."""

FARTHEST_AHEAD: Final = timedelta(minutes=1)
"""How far the clock of another process, which gave the cursor, may be ahead of ours."""


@dataclass(frozen=True, slots=True)
class RankedPlace:
    """Behind the ranked hit with this score and this id."""

    score: float
    id: str


@dataclass(frozen=True, slots=True)
class RestPlace:
    """Behind a hit that is not ranked: the engine's cursor."""

    cursor: str


@dataclass(frozen=True, slots=True)
class ViewerCursor:
    """Where to go on in a search for a viewer, and the moment at which it is ranked."""

    now: datetime
    place: RankedPlace | RestPlace


def write_viewer_cursor(kind: SearchKind, asked: SearchParameters, cursor: ViewerCursor) -> str:
    """Write a cursor of a search."""
    moment = (cursor.now - _EPOCH) // timedelta(microseconds=1)
    if isinstance(cursor.place, RestPlace):
        head = _HEAD.pack(_seal(kind, asked), _REST, moment, 0.0)
        return urlsafe_b64encode(head).decode() + cursor.place.cursor
    head = _HEAD.pack(_seal(kind, asked), _RANKED, moment, cursor.place.score)
    return urlsafe_b64encode(head + cursor.place.id.encode()).rstrip(b"=").decode()


def read_viewer_cursor(kind: SearchKind, asked: SearchParameters, now: datetime) -> ViewerCursor | None:
    """Read the cursor of a search, if it has one.

    Raises `InvalidCursor`, also for one whose moment is too long ago or has not come yet.
    """
    if asked.cursor is None:
        return None
    try:
        seal, part, moment, score = _HEAD.unpack(_decoded(asked.cursor[:_HEAD_CHARACTERS]))
        began_at = _EPOCH + timedelta(microseconds=moment)
        last = _decoded(asked.cursor[_HEAD_CHARACTERS:]).decode() if part == _RANKED else ""
    except (struct.error, OverflowError, ValueError) as error:
        raise InvalidCursor("the cursor is none that was given here") from error
    if seal != _seal(kind, asked):
        raise InvalidCursor("the cursor belongs to another query or viewer")
    if not now - OLDEST <= began_at <= now + FARTHEST_AHEAD:
        raise InvalidCursor("the cursor is of another time")
    if part == _RANKED and math.isfinite(score):
        return ViewerCursor(began_at, RankedPlace(score, last))
    if part == _REST:
        return ViewerCursor(began_at, RestPlace(asked.cursor[_HEAD_CHARACTERS:]))
    raise InvalidCursor("the cursor is none that was given here")


def _decoded(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError("no base64") from error


def _seal(kind: SearchKind, asked: SearchParameters) -> int:
    """Return what tells searches apart; not a secret, a safeguard against mistakes."""
    said = (_VERSION, kind.index, asked.query, asked.viewer)
    return crc32(repr(said).encode("utf-8", "backslashreplace"))
