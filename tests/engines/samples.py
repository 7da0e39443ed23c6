"""Documents as the projection makes them, with only what a test cares about spelled out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indexer.concrnt.uri import ancestors_of
from indexer.engines.base import SearchRequest, SortOrder, WriteBatch
from indexer.engines.ids import document_id
from indexer.engines.indexes import COMMUNITIES, POSTS, SERVERS, USERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.engines.base import Document, Engine

ALICE = "con" + "1".rjust(39, "0")
BOB = "con" + "2".rjust(39, "0")
NEWEST_FIRST = SortOrder("createdAt")


def post(name: str, body: str = "", **fields: Any) -> Document:
    """A post by ALICE at alpha.example under ``.../posts/<name>``."""
    key = fields.pop("key", f"cckv://{ALICE}/concrnt.world/profiles/main/posts/{name}")
    return {
        "id": document_id(key),
        "type": "post",
        "cckv": key,
        "author": ALICE,
        "owner": ALICE,
        "sourceServer": "alpha.example",
        "schema": "https://schema.concrnt.world/m/markdown.json",
        "body": body,
        "value": {"body": body},
        "ancestors": list(ancestors_of(key)),
        "createdAt": "2025-03-01T00:00:00Z",
        "indexedAt": "2025-03-02T00:00:00Z",
        **fields,
    }


def user(ccid: str = ALICE, profile: str = "main", **fields: Any) -> Document:
    """A profile."""
    key = f"cckv://{ccid}/concrnt.world/profiles/{profile}"
    return {
        "id": document_id(key),
        "type": "user",
        "cckv": key,
        "ccid": ccid,
        "owner": ccid,
        "sourceServer": "alpha.example",
        "schema": "https://schema.concrnt.world/p/main.json",
        "username": "",
        "description": "",
        "avatar": "",
        "banner": "",
        "subprofiles": [],
        "badges": [],
        "ancestors": list(ancestors_of(key)),
        "createdAt": "2025-03-01T00:00:00Z",
        "indexedAt": "2025-03-02T00:00:00Z",
        **fields,
    }


def community(name: str, **fields: Any) -> Document:
    """A community of alpha.example."""
    key = f"cckv://alpha.example/concrnt.world/communities/{name}"
    return {
        "id": document_id(key),
        "type": "community",
        "cckv": key,
        "owner": "alpha.example",
        "sourceServer": "alpha.example",
        "schema": "https://schema.concrnt.world/t/community.json",
        "name": name,
        "shortname": "",
        "description": "",
        "icon": "",
        "banner": "",
        "ancestors": list(ancestors_of(key)),
        "createdAt": "2025-03-01T00:00:00Z",
        "indexedAt": "2025-03-02T00:00:00Z",
        **fields,
    }


def server(fqdn: str, **fields: Any) -> Document:
    """A server."""
    return {
        "id": document_id(fqdn),
        "type": "server",
        "fqdn": fqdn,
        "csid": "ccs" + "1".rjust(39, "0"),
        "version": "2.0",
        "softwareVersion": "v2.0.1",
        "softwareBuildTime": "",
        "meta": {},
        "lastSeenAt": "2025-03-01T00:00:00Z",
        "status": "active",
        **fields,
    }


_INDEX_OF = {"user": USERS, "community": COMMUNITIES, "post": POSTS, "server": SERVERS}


def batch_of(documents: Sequence[Document]) -> WriteBatch:
    """Upserts of documents, each into the index of its type."""
    upserts: dict[str, list[Document]] = {}
    for document in documents:
        upserts.setdefault(_INDEX_OF[document["type"]], []).append(document)
    return WriteBatch(upserts=upserts)


async def put(engine: Engine, *documents: Document) -> None:
    """Write documents, all of which must be accepted."""
    result = await engine.write(batch_of(documents))
    assert result.rejected == []


async def found(engine: Engine, query: str, index: str = POSTS, **fields: Any) -> list[str]:
    """The last steps of the keys (names of servers) of what a search finds, in order."""
    fields.setdefault("limit", 100)
    result = await engine.search(SearchRequest(index, query, **fields))
    return [hit["fqdn" if index == SERVERS else "cckv"].rsplit("/", 1)[-1] for hit in result.hits]
