"""The four indexes as data: exactly the second table of behaviour.md, section 5."""

from __future__ import annotations

from typing import Final

from indexer.engines.base import FieldType, IndexDefinition

USERS: Final = "concrnt_users"
COMMUNITIES: Final = "concrnt_communities"
POSTS: Final = "concrnt_posts"
SERVERS: Final = "concrnt_servers"

_TIMES: Final = {"createdAt": FieldType.TIME, "indexedAt": FieldType.TIME}
_ACTIVITY: Final = {
    "activityScore": FieldType.NUMBER,
    "postCount7d": FieldType.INTEGER,
    "postCount30d": FieldType.INTEGER,
    "lastPostAt": FieldType.TIME,
}

INDEXES: Final = (
    IndexDefinition(
        uid=USERS,
        searchable=("username", "description", "ccid", "owner", "cckv", "sourceServer"),
        filterable=("ccid", "owner", "sourceServer", "schema", "ancestors"),
        sortable={**_TIMES, "username": FieldType.TEXT, **_ACTIVITY},
        texts=("username", "description"),
        names=("username",),
        figures=tuple(_ACTIVITY),
    ),
    IndexDefinition(
        uid=COMMUNITIES,
        searchable=("name", "shortname", "description", "owner", "cckv", "sourceServer"),
        filterable=("owner", "sourceServer", "schema", "ancestors", "cckv"),
        sortable={**_TIMES, "name": FieldType.TEXT, **_ACTIVITY, "activeAuthors7d": FieldType.INTEGER},
        texts=("name", "shortname", "description"),
        names=("name", "shortname"),
        figures=(*_ACTIVITY, "activeAuthors7d"),
    ),
    IndexDefinition(
        uid=POSTS,
        searchable=("body", "author", "cckv", "sourceServer"),
        filterable=("author", "owner", "sourceServer", "schema", "ancestors"),
        sortable=_TIMES,
        texts=("body",),
    ),
    IndexDefinition(
        uid=SERVERS,
        searchable=("fqdn", "csid", "softwareVersion"),
        filterable=("status",),
        sortable={"lastSeenAt": FieldType.TIME, "lastCrawledAt": FieldType.TIME},
        names=("fqdn",),
    ),
)
"""Every index, in the order in which answers list them."""

BY_UID: Final = {definition.uid: definition for definition in INDEXES}
