"""From a document to what is stored of it in Meilisearch, and back. Pure.

Meilisearch never sees a stranger's field names, types or letters. What it stores, besides ``id``:

``document``
: The document as answers show it, as JSON text. So nothing inside ``value`` is a field (``_geo``, 70,000
  names), nothing is nested too deep, and every number comes back as it was.
``figures``
: The fields that :meth:`Engine.put_figures` has laid over it, as JSON text.
``search_<field>``
: A searchable field in our own cut (see ``letters.py``).
``exact_<field>``
: A digest of a filterable field's value, or a list of them: Meilisearch compares text without case and normal
  form, digests it compares exactly. And no value of a stranger ever stands in a filter expression.
``order_<field>``
: A sortable field: times as microseconds since the epoch, text as hexadecimal digits, which sort as its
  bytes.
``order_key``, ``order_rest``
: What ends every order: the first bytes of the key, and where it is longer a digest of all of it.
``begins``
: Each name from each of its words on, in hexadecimal digits: what suggestions look for the beginning of.
``exact_id``
: A digest of the id, for searches among given documents.

Documents of an index that has figures are laid over what is stored, so that their figures stay; every other
field is then named, as null where it is absent. Documents of other indexes replace what is stored.
"""

from __future__ import annotations

import hashlib
import math
import re
from base64 import b32hexencode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from indexer.engines.base import FieldType
from indexer.engines.ids import key_of_document
from indexer.engines.meilisearch.letters import LETTERS_VERSION, write_field
from indexer.engines.text import TEXT_VERSION, clip, field_terms, fold, parse_query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from indexer.engines.base import Document, IndexDefinition

SHAPE: Final = f"2.{LETTERS_VERSION}.{TEXT_VERSION}"
"""What a stored document's form depends on."""

SHOWN: Final = ("document", "figures")
SORTED_CHARACTERS: Final = 128
MAX_FACET_BYTES: Final = 460
"""Meilisearch sorts by the first 468 bytes of a text."""

NAME_WORDS: Final = 8
"""From how many of its words on a name is suggested."""

_KEY_BYTES: Final = MAX_FACET_BYTES * 5 // 8
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Unstorable(ValueError):  # noqa: N818 - says what the document is
    """The document can not be stored; the message says why and holds nothing of it."""


def digest(value: str) -> str:
    """Return what an exact filter compares."""
    return hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def filter_of(filters: Mapping[str, str], among: Sequence[str] = ()) -> list[str]:
    """Write filters, all of which must hold; ``among`` are the only ids that may be found, unless empty.

    Field names are ours, values are digests: nothing has to be escaped, because nothing of a stranger's
    stands in an expression.
    """
    conditions = [f'exact_{name} = "{digest(value)}"' for name, value in filters.items()]
    if among:
        conditions.append(f"exact_id IN [{', '.join(map(digest, among))}]")
    return conditions


def begins_with(typed: str) -> str | None:
    """Write "has a name that begins so"; None when nothing that could be a name was typed."""
    text = parse_query(typed).text
    return f'begins STARTS WITH "{_hexadecimal(text)}"' if text else None


class DocumentMaker:
    """Makes the stored form of one index's documents."""

    def __init__(self, definition: IndexDefinition) -> None:
        self._definition = definition
        self._figures = frozenset(definition.figures)
        self.lays_over = bool(definition.figures)
        """Whether a document is laid over what is stored, or replaces it."""

    def line(self, document: Document) -> bytes:
        """Return a document as a line of NDJSON.

        Raises:
            Unstorable: the document is no JSON, or holds a NUL.

        """
        stored = {
            "document": _text_of(document),
            "exact_id": digest(document["id"]),
            **self._order_of_key(document),
            **self._searched(document),
            **self._filtered(document),
            **self._sorted(document),
            **self._named(document),
        }
        if not self.lays_over:
            stored = {name: value for name, value in stored.items() if value is not None}
        return encode_line({"id": document["id"], **stored})

    def figures_line(self, identifier: str, figures: Document) -> bytes:
        """Return the figures of a document as a line of NDJSON; they take the place of those before.

        Raises:
            Unstorable: as above.

        """
        orders = {
            f"order_{field}": _SORT_VALUE[kind](figures.get(field))
            for field, kind in self._definition.sortable.items()
            if field in self._figures
        }
        return encode_line({"id": identifier, "figures": _text_of(figures), **orders})

    @property
    def figure_fields(self) -> list[str]:
        """The stored fields that hold figures."""
        return ["figures", *(f"order_{field}" for field in self._definition.figures)]

    def _order_of_key(self, document: Document) -> Document:
        key = key_of_document(document).encode("utf-8", "surrogatepass")
        rest = hashlib.blake2b(key, digest_size=16).hexdigest() if len(key) > _KEY_BYTES else None
        return {
            "order_key": b32hexencode(key[:_KEY_BYTES]).decode().rstrip("=").lower(),
            "order_rest": rest,
        }

    def _searched(self, document: Document) -> Document:
        fields: Document = {}
        for field in self._definition.searchable:
            value = document.get(field)
            fields[f"search_{field}"] = (
                (write_field(value, is_name=field in self._definition.names) or None)
                if isinstance(value, str)
                else None
            )
        return fields

    def _filtered(self, document: Document) -> Document:
        fields: Document = {}
        for field in self._definition.filterable:
            value = document.get(field)
            exact: str | list[str] | None = None
            if isinstance(value, str):
                exact = digest(value)
            elif isinstance(value, list):
                exact = [digest(entry) for entry in value if isinstance(entry, str)]
            fields[f"exact_{field}"] = exact
        return fields

    def _named(self, document: Document) -> Document:
        if not self._definition.names:
            return {}
        names = [value for field in self._definition.names if isinstance(value := document.get(field), str)]
        begins = {
            _hexadecimal(" ".join(words[start:]))
            for words in (field_terms(name).text.split(" ", NAME_WORDS) for name in names if name)
            for start in range(min(len(words), NAME_WORDS))
        }
        return {"begins": sorted(begins - {""}) or None}

    def _sorted(self, document: Document) -> Document:
        return {
            f"order_{field}": _SORT_VALUE[kind](document.get(field))
            for field, kind in self._definition.sortable.items()
            if field not in self._figures or field in document
        }


def shown_document(hit: Mapping[str, Any]) -> Document | None:
    """Return the document of a hit; None for one that we have not stored in this form."""
    document = hit.get("document")
    if not isinstance(document, str):
        return None
    shown = _decode(document)
    figures = hit.get("figures")
    return shown if figures is None else {**shown, **_decode(figures)}


def _text_of(document: Document) -> str:
    try:
        encoded = _encode(document)
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError) as error:
        raise Unstorable(f"not encodable: {type(error).__name__}") from error
    # A NUL is what the projection never makes; the other engine can not hold it either.
    if b"\\u0000" in encoded and _NUL.search(encoded):
        raise Unstorable("not storable: it holds a NUL")
    return encoded.decode()


def encode_line(stored: Document) -> bytes:
    """Write stored fields as a line of NDJSON. Raises `Unstorable`."""
    try:
        return _encode(stored) + b"\n"
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise Unstorable(f"not encodable: {type(error).__name__}") from error


def _time(value: Any) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment - _EPOCH) // _MICROSECOND if moment.tzinfo is not None else None


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    return _hexadecimal(clip(fold(clip(value, SORTED_CHARACTERS)), SORTED_CHARACTERS)) or None


def _hexadecimal(text: str) -> str:
    """Write a text so that it sorts by its bytes, whatever compares it."""
    return text.encode("utf-8", "surrogatepass").hex()[:MAX_FACET_BYTES]


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


_SORT_VALUE: Final[Mapping[FieldType, Callable[[Any], int | float | str | None]]] = {
    FieldType.TIME: _time,
    FieldType.TEXT: _text,
    FieldType.INTEGER: _number,
    FieldType.NUMBER: _number,
}
