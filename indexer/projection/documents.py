"""From a stored record to its search document (behaviour.md, section 5). Pure.

What is stored is the truth; a document can always be made again. Rules that hold for every kind:

* Own fields are made from what the mirror knows; content can fill only the fields that the table gives it, so
  nothing inside a value ever overwrites ``id`` or ``type``.
* A field of a wrong type counts as absent; absent strings are ``""``, absent lists ``[]``.
* ``cckv`` is as the document spells it; ``id`` and ``ancestors`` come from the canonical key.
* Text holds no NUL and no lone surrogate (see :mod:`indexer.projection.json_text`).

A record that has no document (its value is no object, or a person's community) yields None: it is in no
index.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any, Protocol

from indexer.concrnt.identifiers import is_domain_owner
from indexer.concrnt.uri import ancestors_of
from indexer.engines.ids import document_id
from indexer.engines.indexes import COMMUNITIES, POSTS, USERS
from indexer.projection.json_text import decode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from indexer.engines.base import Document


class StoredRecord(Protocol):
    """What projecting needs to know of a live record. A frozen dataclass with these fields fits."""

    @property
    def key(self) -> str:
        """The canonical key."""

    @property
    def document(self) -> str:
        """The document (not the signed document around it) as JSON text."""

    @property
    def cdid(self) -> str:
        """The document's content id."""

    @property
    def author(self) -> str:
        """Who signed it."""

    @property
    def owner(self) -> str:
        """The first part of the key."""

    @property
    def schema(self) -> str:
        """The schema URL."""

    @property
    def source(self) -> str:
        """The FQDN of the server that the record came from."""

    @property
    def created_at(self) -> datetime:
        """The document's own createdAt, aware."""

    @property
    def first_created_at(self) -> datetime:
        """The earliest createdAt under the key since it last came into being, aware."""


class StoredServer(Protocol):
    """What projecting needs to know of a server. A frozen dataclass with these fields fits."""

    @property
    def fqdn(self) -> str:
        """The canonical name."""

    @property
    def csid(self) -> str:
        """The id of its key."""

    @property
    def version(self) -> str:
        """The version of the protocol that the server's well-known names."""

    @property
    def software_version(self) -> str:
        """``softwareInfo.version``."""

    @property
    def software_build_time(self) -> str:
        """``softwareInfo.buildTime``."""

    @property
    def meta(self) -> str | None:
        """``meta`` of the well-known as JSON text."""

    @property
    def last_seen_at(self) -> datetime:
        """When discovery last saw it, aware."""

    @property
    def last_crawled_at(self) -> datetime | None:
        """When its feed was last read, aware; None: never."""

    @property
    def status(self) -> str:
        """``active``, ``stale`` or ``disabled``."""


def record_document(index: str, record: StoredRecord, indexed_at: datetime) -> Document | None:
    """Return the record's document for an index of records, None when it has none there."""
    try:
        content = decode_json(record.document)
    except ValueError:
        return None
    value = content.get("value") if isinstance(content, dict) else None
    if not isinstance(value, dict):
        return None
    spelled_key = _text(content, "key") or record.key
    return _BUILDERS[index](record, spelled_key, value, rfc3339(indexed_at))


def server_document(server: StoredServer) -> Document:
    """Return the document of a server."""
    document = {
        "id": document_id(server.fqdn),
        "type": "server",
        "fqdn": server.fqdn,
        "csid": server.csid,
        "version": server.version,
        "softwareVersion": server.software_version,
        "softwareBuildTime": server.software_build_time,
        "meta": _meta(server.meta),
        "lastSeenAt": rfc3339(server.last_seen_at),
    }
    if server.last_crawled_at is not None:
        document["lastCrawledAt"] = rfc3339(server.last_crawled_at)
    document["status"] = server.status
    return document


def rfc3339(moment: datetime) -> str:
    """Write an aware time in UTC with ``Z`` and no more fraction digits than it needs."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    if moment.microsecond:
        text = text.rstrip("0")
    return text + "Z"


def _user(record: StoredRecord, spelled_key: str, value: Mapping[str, Any], indexed_at: str) -> Document:
    return {
        **_identity("user", record, spelled_key),
        "ccid": record.owner,
        "owner": record.owner,
        "sourceServer": record.source,
        "schema": record.schema,
        "username": _text(value, "username"),
        "description": _text(value, "description"),
        "avatar": _text(value, "avatar"),
        "banner": _text(value, "banner"),
        "subprofiles": [entry for entry in _list(value, "subprofiles") if isinstance(entry, str)],
        "badges": [
            {"seriesId": entry["seriesId"], "badgeId": entry["badgeId"]}
            for entry in _list(value, "badges")
            if isinstance(entry, dict)
            and isinstance(entry.get("seriesId"), str)
            and isinstance(entry.get("badgeId"), str)
        ],
        "ancestors": list(ancestors_of(record.key)),
        "createdAt": rfc3339(record.first_created_at),
        "indexedAt": indexed_at,
    }


def _community(
    record: StoredRecord, spelled_key: str, value: Mapping[str, Any], indexed_at: str
) -> Document | None:
    if not is_domain_owner(record.owner):
        return None
    return {
        **_identity("community", record, spelled_key),
        "owner": record.owner,
        "sourceServer": record.source,
        "schema": record.schema,
        "name": _text(value, "name"),
        "shortname": _text(value, "shortname"),
        "description": _text(value, "description"),
        "icon": _text(value, "icon"),
        "banner": _text(value, "banner"),
        "ancestors": list(ancestors_of(record.key)),
        "createdAt": rfc3339(record.first_created_at),
        "indexedAt": indexed_at,
    }


def _post(record: StoredRecord, spelled_key: str, value: Mapping[str, Any], indexed_at: str) -> Document:
    return {
        **_identity("post", record, spelled_key),
        "author": record.author,
        "owner": record.owner,
        "sourceServer": record.source,
        "schema": record.schema,
        "body": _text(value, "body"),
        "value": value,
        "ancestors": list(ancestors_of(record.key)),
        "createdAt": rfc3339(record.created_at),
        "indexedAt": indexed_at,
    }


_BUILDERS: Mapping[str, Callable[[StoredRecord, str, Mapping[str, Any], str], Document | None]] = {
    USERS: _user,
    COMMUNITIES: _community,
    POSTS: _post,
}


def _identity(kind: str, record: StoredRecord, spelled_key: str) -> Document:
    identity: Document = {"id": document_id(record.key), "type": kind, "cckv": spelled_key}
    if record.cdid:
        identity["ccfs"] = f"ccfs://{record.owner}/concrnt/{record.cdid}"
    return identity


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    entries = value.get(name)
    return entries if isinstance(entries, list) else []


def _meta(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        meta = decode_json(text)
    except ValueError:
        return {}
    return meta if isinstance(meta, dict) else {}
