# ruff: noqa: N815 - these are the names on the wire
"""The forms of the answers, for the OpenAPI document: answers are not made from these, nor checked by them.

Hits are the search engine's documents as they are (behaviour.md section 5); engines may add fields later, so
hits allow more than is named here.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class ApiErrorBody(BaseModel):
    """What every error looks like."""

    message: str = Field(description="For people; may change.")
    code: str = Field(description="For programs; does not change.")


class Health(BaseModel):
    """The process lives."""

    status: Literal["ok"]


class Hit(BaseModel):
    """What every hit has."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="The engine's primary key: unpadded base64url of the key, or a hash of it.")
    formatted: dict[str, str] | None = Field(
        None,
        alias="_formatted",
        description="With `highlight`: the searchable texts as HTML, `<em>` around what matched, everything "
        "else escaped; long ones cropped around the first match.",
    )


class RecordHit(Hit):
    """What hits have that are records of the network."""

    cckv: str = Field(description="The key of the record.")
    ccfs: str | None = Field(None, description="The URI of this very document.")
    owner: str = Field(description="Whose key it is: a CCID or an FQDN.")
    sourceServer: str = Field(description="The server that it was read from.")
    document_schema: str = Field(alias="schema", description="The URL of the document's schema.")
    ancestors: list[str] = Field(description="The keys above this one, from the owner down.")
    createdAt: str = Field(description="RFC 3339, UTC.")
    indexedAt: str = Field(description="When it was last indexed; RFC 3339, UTC.")


class Activity(BaseModel):
    """Figures of the last days; absent until first computed."""

    activityScore: float | None = Field(None, description="Posts of 30 days, newer ones weighing more.")
    postCount7d: int | None = None
    postCount30d: int | None = None
    lastPostAt: str | None = Field(None, description="RFC 3339, UTC; absent without posts.")
    followeeScore: float | None = Field(
        None, description="With `viewer`: the score of the followees' entries. Absent where none count."
    )
    followeePostCount30d: int | None = Field(None, description="With `viewer`: how many those are.")


class UserDay(BaseModel):
    """One UTC day of a person."""

    date: str
    posts: int


class CommunityDay(BaseModel):
    """One UTC day of a community."""

    date: str
    posts: int
    authors: int


class UserHit(RecordHit, Activity):
    """A profile."""

    type: Literal["user"]
    ccid: str
    username: str
    description: str
    avatar: str
    banner: str
    subprofiles: list[Any]
    badges: list[Any]
    activityHistory: list[UserDay] | None = Field(None, description="Oldest first, today last.")


class CommunityHit(RecordHit, Activity):
    """A community."""

    type: Literal["community"]
    name: str
    shortname: str
    description: str
    icon: str
    banner: str
    activeAuthors7d: int | None = None
    topAuthors: list[str] | None = Field(
        None, description="With `viewer`: the CCIDs of up to 5 followees, most entries first."
    )
    activityHistory: list[CommunityDay] | None = Field(None, description="Oldest first, today last.")


class PostHit(RecordHit):
    """A post."""

    type: Literal["post"]
    author: str = Field(description="Who wrote it (CCID).")
    body: str = Field(description="The text; empty for a bare reroute.")
    value: Any = Field(description="The whole value of the document, as its schema says.")


class ServerHit(Hit):
    """A server."""

    type: Literal["server"]
    fqdn: str
    csid: str
    version: str
    softwareVersion: str
    softwareBuildTime: str
    meta: Any = Field(None, description="What the server says of itself.")
    lastSeenAt: str = Field(description="When discovery last saw it; RFC 3339, UTC.")
    lastCrawledAt: str | None = Field(None, description="When its feed was last read; RFC 3339, UTC.")
    status: Literal["active", "stale", "disabled"]


class SearchAnswer(BaseModel):
    """What every search answers."""

    query: str = Field(description="`q` as sent.")
    limit: int = Field(description="The limit that was applied.")
    offset: int = Field(description="The offset that was applied.")
    estimatedTotalHits: int = Field(description="How many documents match, as far as the engine counts.")
    nextCursor: str | None = Field(
        description="What to send as `cursor` for the next page; null when this is the last."
    )
    processingTimeMs: int = Field(description="The engine's own time.")


class UserAnswer(SearchAnswer):
    """People found."""

    hits: list[UserHit]


class CommunityAnswer(SearchAnswer):
    """Communities found."""

    hits: list[CommunityHit]


class PostAnswer(SearchAnswer):
    """Posts found."""

    hits: list[PostHit]


class ServerAnswer(SearchAnswer):
    """Servers found."""

    hits: list[ServerHit]


class UserGroup(BaseModel):
    """The best people."""

    hits: list[UserHit]
    estimatedTotalHits: int


class CommunityGroup(BaseModel):
    """The best communities."""

    hits: list[CommunityHit]
    estimatedTotalHits: int


class PostGroup(BaseModel):
    """The best posts."""

    hits: list[PostHit]
    estimatedTotalHits: int


class ServerGroup(BaseModel):
    """The best servers."""

    hits: list[ServerHit]
    estimatedTotalHits: int


class EverywhereAnswer(BaseModel):
    """The best hits of every kind."""

    query: str = Field(description="`q` as sent.")
    limit: int = Field(description="The limit that was applied to each kind.")
    users: UserGroup
    communities: CommunityGroup
    posts: PostGroup
    servers: ServerGroup
    processingTimeMs: int = Field(description="The engine's own time, for the slowest kind.")


class SuggestedUser(BaseModel):
    """A person, as a search box shows them."""

    id: str
    type: Literal["user"]
    cckv: str
    ccid: str
    username: str
    avatar: str
    sourceServer: str
    activityScore: float | None = None


class SuggestedCommunity(BaseModel):
    """A community, as a search box shows it."""

    id: str
    type: Literal["community"]
    cckv: str
    owner: str
    name: str
    shortname: str
    icon: str
    sourceServer: str
    activityScore: float | None = None
    activeAuthors7d: int | None = None


class SuggestAnswer(BaseModel):
    """Names that begin with what was typed, the most active first."""

    query: str = Field(description="`q` as sent.")
    limit: int = Field(description="The limit that was applied to each kind.")
    users: list[SuggestedUser]
    communities: list[SuggestedCommunity]
    processingTimeMs: int = Field(description="The engine's own time.")


class ServerCounts(BaseModel):
    """The servers of our layer."""

    count: int
    lastCrawlAt: str | None = Field(description="When any of them was last asked; RFC 3339, UTC.")


class CursorCounts(BaseModel):
    """The feeds that are followed."""

    count: int
    failureCount: int = Field(description="Feeds whose last run failed.")
    catchingUpCount: int = Field(description="Feeds not yet read to their end.")


class IndexCounts(BaseModel):
    """One index of the engine."""

    numberOfDocuments: int
    isIndexing: bool


class EngineCounts(BaseModel):
    """The search engine."""

    engine: str
    indexes: dict[str, IndexCounts] = Field(description="By name of the index.")
    queueDepth: int = Field(description="Changes that are not yet searchable.")


class StatisticsAnswer(BaseModel):
    """How much there is, and how far behind it is."""

    servers: ServerCounts
    cursors: CursorCounts
    search: EngineCounts
    meilisearch: dict[str, Any] | None = Field(
        None, description="The engine's own figures, where it has any."
    )


class CrawledDocument(BaseModel):
    """A document that was fetched and is in the index, or about to be."""

    kind: Literal["user", "community", "post"]
    schema_: str = Field(alias="schema")
    id: str = Field(description="As in search answers.")
    cckv: str = Field(description="Its key, as the document spells it.")
    ccfs: str
    sourceServer: str = Field(description="Where it was fetched.")


class CrawlAnswer(BaseModel):
    """What became of a document that was asked for."""

    status: Literal["indexed"]
    result: CrawledDocument
