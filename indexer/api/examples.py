"""Example values of the OpenAPI document and the documentation page. Nobody here exists."""

from collections.abc import Mapping
from typing import Any, Final

from indexer.engines.ids import document_id

QUERY: Final = "猫"
PERSON: Final = "con1qxyl9c2m8y7n4z5s0dkvw3hj6r8ta2uepq9f7x"
SERVER_KEY: Final = "ccs1v5k0w7h2q9r4m8x3z6t1y0n5d2f8j7s4a9c3e6"
FQDN: Final = "alpha.example"
COMMUNITY_KEY: Final = "cckv://alpha.example/concrnt.world/communities/cats"
PROFILE_KEY: Final = f"cckv://{PERSON}/concrnt.world/profiles/main"
POST_KEY: Final = f"{PROFILE_KEY}/posts/1"
CURSOR: Final = "WzMxODU3MzI2MDAsMCwiMjAyNS0wMy0xNFQxMjozMDowMCswMDowMCIsImNja3Y6Ly8uLi4iXQ"
DOCUMENT: Final = f"ccfs://{PERSON}/concrnt/06ae2wq8y1c5h4n9m3k7r0t2yz"
MARKDOWN_SCHEMA: Final = "https://schema.concrnt.world/m/markdown.json"

USER: Final[dict[str, Any]] = {
    "id": document_id(PROFILE_KEY),
    "type": "user",
    "cckv": PROFILE_KEY,
    "ccfs": f"ccfs://{PERSON}/concrnt/06ae2wq8y1c5h4n9m3k7r0t2yz",
    "ccid": PERSON,
    "owner": PERSON,
    "sourceServer": FQDN,
    "schema": "https://schema.concrnt.world/p/main.json",
    "username": "みけ",
    "description": "猫とコーヒー。",
    "avatar": "https://alpha.example/mike.webp",
    "banner": "",
    "subprofiles": [],
    "badges": [],
    "ancestors": [
        f"cckv://{PERSON}",
        f"cckv://{PERSON}/concrnt.world",
        f"cckv://{PERSON}/concrnt.world/profiles",
    ],
    "createdAt": "2025-03-01T09:00:00Z",
    "indexedAt": "2025-03-14T12:30:01.25Z",
    "activityScore": 3.42,
    "postCount7d": 3,
    "postCount30d": 9,
    "lastPostAt": "2025-03-14T12:30:00Z",
    "activityHistory": [{"date": "2025-03-13", "posts": 0}, {"date": "2025-03-14", "posts": 2}],
}

COMMUNITY: Final[dict[str, Any]] = {
    "id": document_id(COMMUNITY_KEY),
    "type": "community",
    "cckv": COMMUNITY_KEY,
    "ccfs": "ccfs://alpha.example/concrnt/06ae2wq8y1c5h4n9m3k7r0t2yz",
    "owner": FQDN,
    "sourceServer": FQDN,
    "schema": "https://schema.concrnt.world/t/community.json",
    "name": "猫の広場",
    "shortname": "cats",
    "description": "猫の写真と話。",
    "icon": "https://alpha.example/cats.webp",
    "banner": "",
    "ancestors": [
        "cckv://alpha.example",
        "cckv://alpha.example/concrnt.world",
        "cckv://alpha.example/concrnt.world/communities",
    ],
    "createdAt": "2025-01-10T00:00:00Z",
    "indexedAt": "2025-03-14T12:30:01.25Z",
    "activityScore": 17.9,
    "postCount7d": 21,
    "postCount30d": 64,
    "activeAuthors7d": 8,
    "lastPostAt": "2025-03-14T12:30:00Z",
    "activityHistory": [
        {"date": "2025-03-13", "posts": 4, "authors": 3},
        {"date": "2025-03-14", "posts": 2, "authors": 2},
    ],
}

POST: Final[dict[str, Any]] = {
    "id": document_id(POST_KEY),
    "type": "post",
    "cckv": POST_KEY,
    "ccfs": f"ccfs://{PERSON}/concrnt/06ae2wq8y1c5h4n9m3k7r0t2yz",
    "author": PERSON,
    "owner": PERSON,
    "sourceServer": FQDN,
    "schema": MARKDOWN_SCHEMA,
    "body": "東京の猫カフェに行ってきた",
    "value": {"body": "東京の猫カフェに行ってきた"},
    "ancestors": [
        f"cckv://{PERSON}",
        f"cckv://{PERSON}/concrnt.world",
        f"cckv://{PERSON}/concrnt.world/profiles",
        f"cckv://{PERSON}/concrnt.world/profiles/main",
        f"cckv://{PERSON}/concrnt.world/profiles/main/posts",
    ],
    "createdAt": "2025-03-14T12:30:00Z",
    "indexedAt": "2025-03-14T12:30:01.25Z",
}

SERVER: Final[dict[str, Any]] = {
    "id": document_id(FQDN),
    "type": "server",
    "fqdn": FQDN,
    "csid": SERVER_KEY,
    "version": "2.0",
    "softwareVersion": "v2.1.0",
    "softwareBuildTime": "2025-02-01T00:00:00Z",
    "meta": {"name": "Alpha"},
    "lastSeenAt": "2025-03-14T12:20:00Z",
    "lastCrawledAt": "2025-03-14T12:29:45Z",
    "status": "active",
}

STATISTICS: Final[dict[str, Any]] = {
    "servers": {"count": 3, "lastCrawlAt": "2025-03-14T12:29:45Z"},
    "cursors": {"count": 3, "failureCount": 0, "catchingUpCount": 1},
    "search": {
        "engine": "postgres",
        "indexes": {
            "concrnt_users": {"numberOfDocuments": 1200, "isIndexing": False},
            "concrnt_communities": {"numberOfDocuments": 80, "isIndexing": False},
            "concrnt_posts": {"numberOfDocuments": 48000, "isIndexing": True},
            "concrnt_servers": {"numberOfDocuments": 3, "isIndexing": False},
        },
        "queueDepth": 240,
    },
}


CRAWLED: Final[dict[str, Any]] = {
    "status": "indexed",
    "result": {
        "kind": "post",
        "schema": MARKDOWN_SCHEMA,
        "id": document_id(POST_KEY),
        "cckv": POST_KEY,
        "ccfs": DOCUMENT,
        "sourceServer": FQDN,
    },
}


def search_answer(hit: Mapping[str, Any]) -> dict[str, Any]:
    """A search answer with one hit, and more to come."""
    return {
        "hits": [hit],
        "query": QUERY,
        "limit": 1,
        "offset": 0,
        "estimatedTotalHits": 3,
        "nextCursor": CURSOR,
        "processingTimeMs": 3,
    }


EVERYWHERE: Final[dict[str, Any]] = {
    "query": QUERY,
    "limit": 5,
    "users": {"hits": [USER], "estimatedTotalHits": 1},
    "communities": {"hits": [COMMUNITY], "estimatedTotalHits": 1},
    "posts": {"hits": [POST], "estimatedTotalHits": 1},
    "servers": {"hits": [], "estimatedTotalHits": 0},
    "processingTimeMs": 4,
}

TYPED: Final = "み"

SUGGESTIONS: Final[dict[str, Any]] = {
    "query": TYPED,
    "limit": 8,
    "users": [
        {
            "id": USER["id"],
            "type": "user",
            "cckv": PROFILE_KEY,
            "ccid": PERSON,
            "username": "みけ",
            "avatar": "https://alpha.example/mike.webp",
            "sourceServer": FQDN,
            "activityScore": 3.42,
        }
    ],
    "communities": [],
    "processingTimeMs": 1,
}
