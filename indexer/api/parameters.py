"""Reading the parameters of a search: lenient where a sensible meaning exists, 400 where none does.

The rules (behaviour.md section 7, and what it leaves open):

* The first of repeated parameters counts. Unknown parameters and empty values are ignored.
* ``limit`` and ``offset`` are plain ASCII digits with an optional sign; anything else means the default. A
  number too large for the wire stands for the largest there is.
* ``sort`` is ``field``, ``field:asc`` or ``field:desc``; anything else is an error that names what is
  accepted.
* Filter values are exact and untouched. In ``q`` and in filters NUL becomes U+FFFD, as it did in what is
  indexed; bytes that are no UTF-8 become U+FFFD too.
* ``q`` may have ten thousand characters.
* ``highlight`` is asked for with ``true`` or ``1``; anything else means no.
* ``cursor`` is an engine's word, untouched; with it, ``offset`` does not count. What can be none is an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from indexer.api.errors import BadRequestError
from indexer.api.kinds import SearchKind
from indexer.concrnt.identifiers import is_ccid
from indexer.engines.base import SortOrder

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
DEFAULT_EVERYWHERE_LIMIT = 5
DEFAULT_SUGGESTIONS = 8
MAX_SUGGESTIONS = 20
MAX_QUERY_CHARACTERS = 10_000
MAX_NUMBER = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""

CURSOR = re.compile(r"[A-Za-z0-9_-]{24,8192}")
"""What a cursor looks like (``engines/base.py``)."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_HIGH_BYTES = re.compile(rb"[\x80-\xff]")


@dataclass(frozen=True, slots=True)
class SearchParameters:
    """What one request asks for, made sensible."""

    query: str
    """As sent; the answer echoes it."""
    limit: int
    offset: int
    filters: Mapping[str, str]
    sort: SortOrder
    viewer: str | None
    cursor: str | None = None
    highlight: bool = False

    @property
    def text(self) -> str:
        """The query as an engine may see it."""
        return without_nul(self.query)


@dataclass(frozen=True, slots=True)
class LimitedParameters:
    """What a request asks for that takes a query and a limit only."""

    query: str
    """As sent; the answer echoes it."""
    limit: int
    highlight: bool

    @property
    def text(self) -> str:
        """The query as an engine may see it."""
        return without_nul(self.query)


def read_search(query_string: bytes, kind: SearchKind) -> SearchParameters:
    """Read the parameters of a search of ``kind``; raises BadRequestError."""
    given = first_values(query_string)
    query = read_query(given)
    cursor = read_cursor(given.get("cursor"))
    viewer = given.get("viewer") if kind.viewer else None
    if viewer is not None and not is_ccid(viewer):
        raise BadRequestError("viewer is no CCID: 42 letters and digits that begin with con")
    if viewer is not None and "sort" in given:
        raise BadRequestError("sort cannot be combined with viewer, which has an order of its own")
    return SearchParameters(
        query=query,
        limit=min(max(read_integer(given.get("limit"), DEFAULT_LIMIT), 1), MAX_LIMIT),
        offset=max(read_integer(given.get("offset"), 0), 0) if cursor is None else 0,
        filters={
            filtered.name: without_nul(given[filtered.name])
            for filtered in kind.filters
            if filtered.name in given
        },
        sort=read_sort(given["sort"], kind) if "sort" in given else kind.default_sort,
        viewer=viewer,
        cursor=cursor,
        highlight=read_switch(given.get("highlight")),
    )


def read_limited(query_string: bytes, default: int, most: int) -> LimitedParameters:
    """Read the parameters of what takes a query and a limit only; raises BadRequestError."""
    given = first_values(query_string)
    return LimitedParameters(
        query=read_query(given),
        limit=min(max(read_integer(given.get("limit"), default), 1), most),
        highlight=read_switch(given.get("highlight")),
    )


def read_query(given: Mapping[str, str]) -> str:
    """Read ``q``; raises BadRequestError when it is too long."""
    query = given.get("q", "")
    if len(query) > MAX_QUERY_CHARACTERS:
        raise BadRequestError(f"q has {len(query)} characters; at most {MAX_QUERY_CHARACTERS} are searched")
    return query


def read_cursor(text: str | None) -> str | None:
    """The cursor as given; raises BadRequestError when it can be none."""
    if text is not None and CURSOR.fullmatch(text) is None:
        raise BadRequestError("cursor is the nextCursor of an answer, unchanged")
    return text


def read_switch(text: str | None) -> bool:
    """Whether something was switched on."""
    return text in ("true", "1")


def first_values(query_string: bytes) -> dict[str, str]:
    """The first value of each parameter that is not empty.

    Browsers encode everything, people with a command line do not: bare bytes of UTF-8 are read as such.
    """
    ascii_only = percent_encode_high_bytes(query_string).decode("ascii")
    values: dict[str, str] = {}
    for name, value in parse_qsl(ascii_only, keep_blank_values=True, errors="replace"):
        values.setdefault(name, value)
    return {name: value for name, value in values.items() if value}


def percent_encode_high_bytes(text: bytes) -> bytes:
    """The text with every byte that is not ASCII percent-encoded."""
    return text if text.isascii() else _HIGH_BYTES.sub(lambda found: b"%%%02X" % found[0][0], text)


def read_integer(text: str | None, default: int) -> int:
    """The number in ``text``, at most ``MAX_NUMBER`` either way; the default when it is none."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return default
    digits = text.lstrip("+-").lstrip("0")
    number = int(digits or "0") if len(digits) <= len(str(MAX_NUMBER)) else MAX_NUMBER
    return -min(number, MAX_NUMBER) if text[0] == "-" else min(number, MAX_NUMBER)


def read_sort(text: str, kind: SearchKind) -> SortOrder:
    """The order that ``text`` names; raises BadRequestError with what is accepted."""
    field, colon, direction = text.partition(":")
    if not colon:
        direction = "desc"
    if field not in kind.sortable or direction not in ("asc", "desc"):
        fields = ", ".join(kind.sortable)
        raise BadRequestError(
            f"sort is one of {fields}, alone or followed by :asc or :desc (left out, it is :desc)"
        )
    return SortOrder(field, descending=direction == "desc")


def without_nul(text: str) -> str:
    """The text with U+FFFD in place of NUL, which no database here stores."""
    return text.replace("\x00", "\ufffd")
