"""From a feed's page to rows that can be planned. Pure.

Each row comes with a digest, by which rows that were read before are known again.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from indexer.concrnt.documents import Commit, Ignored, Intermediate, Malformed, MalformedKind, parse_commit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from indexer.concrnt.pages import Item


Row = Commit | Intermediate | Ignored | Malformed


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in log order and their digests, one for one."""

    rows: tuple[Row, ...]
    digests: tuple[int, ...]

    @property
    def distinct(self) -> frozenset[int]:
        """The digests of rows that hold a document; others are alike."""
        return frozenset(
            digest
            for row, digest in zip(self.rows, self.digests, strict=True)
            if isinstance(row, Commit | Ignored)
        )

    def __add__(self, other: Rows) -> Rows:
        return Rows(self.rows + other.rows, self.digests + other.digests)


def read_rows(items: Sequence[Item], *, now: datetime, indexed: Mapping[str, MalformedKind]) -> Rows:
    """Parse the items of a page."""
    rows = tuple(parse_commit(item, now=now, indexed=indexed) for item in items)
    return Rows(rows, tuple(digest_of(item) for item in items))


def digest_of(item: Item) -> int:
    """A row's digest: 64 bits, signed, so that a database's bigint holds it."""
    return int.from_bytes(blake2b(item, digest_size=8).digest(), "big", signed=True)
