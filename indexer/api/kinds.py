"""The four searches as data: which index, which filters, which order, whether a viewer may ask.

What can be filtered and sorted in an index is the engine room's to say (``engines/indexes.py``); here is
which part of it the API offers (behaviour.md section 7).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from indexer.api import examples, models
from indexer.engines.base import SortOrder
from indexer.engines.indexes import BY_UID, COMMUNITIES, POSTS, SERVERS, USERS


@dataclass(frozen=True, slots=True)
class FilterParameter:
    """A parameter that narrows a search to documents with exactly this value in the field of its name."""

    name: str
    description: str
    example: str


@dataclass(frozen=True, slots=True)
class SearchKind:
    """One search endpoint."""

    name: str
    index: str
    summary: str
    description: str
    filters: tuple[FilterParameter, ...]
    default_sort: SortOrder
    viewer: bool
    """Whether the parameter ``viewer`` means something here."""
    answer: type[BaseModel]
    example_hit: Mapping[str, Any]
    suggested: tuple[str, ...] = ()
    """The fields that a suggestion shows; empty where nothing is suggested."""

    def suggestion(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """What a search box needs of a document."""
        return {field: document[field] for field in self.suggested if field in document}

    @property
    def path(self) -> str:
        """Where the endpoint is."""
        return f"/api/v1/search/{self.name}"

    @property
    def sortable(self) -> tuple[str, ...]:
        """The fields that ``sort`` accepts."""
        return tuple(BY_UID[self.index].sortable)


_SOURCE_SERVER: Final = FilterParameter(
    "sourceServer", "Only what came from this server (FQDN).", examples.FQDN
)
_NEWEST: Final = SortOrder("createdAt", descending=True)
_ACTIVITY_NOTE: Final = (
    "Sort by `activityScore` for the most active first; what has no activity figures yet comes last."
)
_VIEWER_NOTE: Final = (
    "With `viewer` (a CCID) the answer is ranked by what the people whom that person follows did in the last "
    "30 days: {what}. What matches `q` without being ranked follows, by relevance. Filters count for nothing "
    "then, and `sort` is refused."
)
_RANKED_PEOPLE: Final = _VIEWER_NOTE.format(what="those people themselves, by their posts")
_RANKED_COMMUNITIES: Final = _VIEWER_NOTE.format(what="communities, by the entries of those people in them")

SEARCH_KINDS: Final = (
    SearchKind(
        name="users",
        index=USERS,
        summary="Search people",
        description="Profiles, subprofiles included, by name, description, CCID or key. "
        f"{_ACTIVITY_NOTE}\n\n{_RANKED_PEOPLE}",
        filters=(
            _SOURCE_SERVER,
            FilterParameter("owner", "Only the profiles of this person (CCID).", examples.PERSON),
        ),
        default_sort=_NEWEST,
        viewer=True,
        answer=models.UserAnswer,
        example_hit=examples.USER,
        suggested=("id", "type", "cckv", "ccid", "username", "avatar", "sourceServer", "activityScore"),
    ),
    SearchKind(
        name="communities",
        index=COMMUNITIES,
        summary="Search communities",
        description="Communities that servers own, by name, description or key. "
        f"{_ACTIVITY_NOTE}\n\n{_RANKED_COMMUNITIES}",
        filters=(
            _SOURCE_SERVER,
            FilterParameter("owner", "Only the communities of this server (FQDN).", examples.FQDN),
            FilterParameter(
                "cckv", "Only the community with this key: the way to look one up.", examples.COMMUNITY_KEY
            ),
        ),
        default_sort=_NEWEST,
        viewer=True,
        answer=models.CommunityAnswer,
        example_hit=examples.COMMUNITY,
        suggested=(
            *("id", "type", "cckv", "owner", "name", "shortname", "icon", "sourceServer"),
            *("activityScore", "activeAuthors7d"),
        ),
    ),
    SearchKind(
        name="posts",
        index=POSTS,
        summary="Search posts",
        description="Posts by their text, author or key. Better matches come first, equal ones newest first.",
        filters=(
            FilterParameter("author", "Only posts written by this person (CCID).", examples.PERSON),
            _SOURCE_SERVER,
            FilterParameter("schema", "Only posts of this schema (URL).", examples.MARKDOWN_SCHEMA),
        ),
        default_sort=_NEWEST,
        viewer=False,
        answer=models.PostAnswer,
        example_hit=examples.POST,
    ),
    SearchKind(
        name="servers",
        index=SERVERS,
        summary="Search servers",
        description="The servers of the network that are followed, by domain, CSID or software version.",
        filters=(
            FilterParameter(
                "status", "Only servers of this status: `active`, `stale` or `disabled`.", "active"
            ),
        ),
        default_sort=SortOrder("lastSeenAt", descending=True),
        viewer=False,
        answer=models.ServerAnswer,
        example_hit=examples.SERVER,
    ),
)
"""Every search, in the order in which the documentation lists them."""

SUGGESTED_KINDS: Final = tuple(kind for kind in SEARCH_KINDS if kind.suggested)
"""The kinds whose names are suggested."""
