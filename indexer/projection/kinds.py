"""Which index a schema belongs to. The lists are configured (behaviour.md, section 1, ``crawl.*Schemas``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.engines.indexes import COMMUNITIES, POSTS, USERS

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kinds:
    """The indexed schemas. A schema on two lists counts for the first of users, communities, posts."""

    def __init__(
        self, *, profile_schemas: Iterable[str], community_schemas: Iterable[str], post_schemas: Iterable[str]
    ) -> None:
        self._index_of = {
            **dict.fromkeys(post_schemas, POSTS),
            **dict.fromkeys(community_schemas, COMMUNITIES),
            **dict.fromkeys(profile_schemas, USERS),
        }

    def index_of(self, schema: str) -> str | None:
        """Return the uid of the index of a schema's records, None when they are not indexed."""
        return self._index_of.get(schema)

    def schemas_of(self, index: str) -> list[str]:
        """Return the schemas of an index's records, in order."""
        return sorted(schema for schema, uid in self._index_of.items() if uid == index)
