"""Ranking for a viewer, by the database: who or what the viewer's followees were active in.

Each answer is one statement: the follows of the viewer by the primary key of `acks`, then for each followee
the numbers kept by ticks (people), or the entries of 30 days by the index `records_author_entries`
(communities). The cost grows with the followees and their entries, not with the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from indexer.statements import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from indexer.mirror.database import Database

_SQL = load("indexer.mirror", "queries/ranking.sql")
_MONTH = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A followee (`subject` is the CCID) or a community (its key). `shown` is the key that stands for it."""

    subject: str
    shown: str
    score: float
    posts: int
    top_authors: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class RankedPage:
    """A part of a ranking, in order, and how many are ranked in all."""

    ranked: Sequence[Ranked]
    total: int


class ViewerRanking:
    """Ranks over one mirror. Every method raises `StoreUnavailable`.

    `among` restricts a ranking to these subjects; without `limit` it comes whole.
    """

    def __init__(
        self,
        database: Database,
        *,
        half_life_seconds: float,
        ack_schemas: Sequence[str],
        profile_schemas: Sequence[str],
        community_schemas: Sequence[str],
    ) -> None:
        self._database = database
        self._half_life = half_life_seconds
        self._acks = list(ack_schemas)
        self._profiles = list(profile_schemas)
        self._communities = list(community_schemas)

    async def people(
        self,
        viewer: str,
        now: datetime,
        *,
        among: Sequence[str] | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> RankedPage:
        """Followees with a profile and entries, by score, then by the key of their profile."""
        return await self._page("rank_people", viewer, self._acks, now, among, offset, limit)

    async def communities(
        self,
        viewer: str,
        now: datetime,
        *,
        among: Sequence[str] | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> RankedPage:
        """Communities in which followees have entries, by score, then by key."""
        counted_with = (self._communities, self._half_life, now - _MONTH)
        return await self._page(
            "rank_communities", viewer, self._acks, now, among, offset, limit, *counted_with
        )

    async def profiles_of(self, people: Sequence[str]) -> list[tuple[str, str]]:
        """(CCID, key) of every profile of these people."""
        rows = await self._database.fetch(_SQL["profiles_of"], list(people), self._profiles)
        return [(row["subject"], row["key"]) for row in rows]

    async def _page(self, statement: str, *arguments: Any) -> RankedPage:
        rows = await self._database.fetch(_SQL[statement], *arguments)
        ranked = [
            Ranked(row["subject"], row["shown"], row["score"], row["posts"], row["top_authors"])
            for row in rows
        ]
        return RankedPage(ranked, rows[0]["total"] if rows else 0)
