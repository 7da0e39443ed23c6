"""Delivering activity to the search engine: the numbers that the mirror keeps, as figures of documents.

What it owns: the order "read numbers, write them, note it". A subject is noted as delivered only at the
revision that was written, and only when every live key that shows it has its document: a document that the
projector has not made yet gets its figures with a later delivery, and none is ever made here. The
projector's writes leave figures as they are (`engines/base.py`), so that the two never undo each other,
whichever comes last.

What is written moves with time in no way: the rank to sort by, the counts, the days that have entries, and
under `activityBasis` what a score at any moment is made from. `activity/answer.py` makes an answer of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from indexer.engines.ids import document_id
from indexer.engines.indexes import COMMUNITIES, USERS
from indexer.mirror.activity import SubjectKind, kind_of
from indexer.projection.documents import rfc3339

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.engines.base import Document, Engine
    from indexer.mirror.activity import Activity, ActivityRow, Undelivered

SUBJECTS_AT_ONCE: Final = 1_000
_INDEX_OF: Final = {SubjectKind.COMMUNITY: COMMUNITIES, SubjectKind.USER: USERS}


class FigureDelivery:
    """Brings the numbers of one mirror to one engine."""

    def __init__(
        self,
        activity: Activity,
        engine: Engine,
        *,
        profile_schemas: Sequence[str],
        community_schemas: Sequence[str],
    ) -> None:
        self._activity = activity
        self._engine = engine
        self._profile_schemas = profile_schemas
        self._community_schemas = community_schemas

    async def deliver(self) -> int:
        """Deliver what the engine lacks; returns how many subjects wait for a document of theirs.

        Does nothing while everything is counted again: answers would be ordered by two half-lives at once.
        """
        if await self._activity.recount_state() is not None:
            return 0
        after, waiting = 0, 0
        while batch := await self._activity.undelivered(
            after=after,
            limit=SUBJECTS_AT_ONCE,
            profile_schemas=self._profile_schemas,
            community_schemas=self._community_schemas,
        ):
            after = batch[-1].id
            waiting += await self._deliver(batch)
        return waiting

    async def index_was_built(self, uid: str) -> None:
        """Deliver everything again: what went into the old index in the last moment is not in this one."""
        if uid in _INDEX_OF.values():
            await self._activity.deliver_all()

    async def _deliver(self, batch: Sequence[Undelivered]) -> int:
        missing: set[str] = set()
        for kind, index in _INDEX_OF.items():
            figures = {
                document_id(key): figures_of(each.row)
                for each in batch
                if kind_of(each.row.subject) is kind
                for key in each.keys
            }
            if figures:
                missing.update(await self._engine.put_figures(index, figures))
        delivered = [
            each.id
            for each in batch
            if not missing or not any(document_id(key) in missing for key in each.keys)
        ]
        await self._activity.note_delivered(delivered)
        return len(batch) - len(delivered)


def figures_of(row: ActivityRow) -> Document:
    """Return the figures of a subject's documents. `activityScore` is the rank, as orders need it."""
    basis: dict[str, Any] = {"halfLife": row.half_life_seconds, "weight": row.weight, "held": row.held}
    if row.newest_at is not None:
        basis["at"] = rfc3339(row.newest_at)
    figures: Document = {
        "activityScore": row.rank,
        "postCount7d": row.posts_7d,
        "postCount30d": row.posts_30d,
    }
    if row.authors_7d is not None:
        figures["activeAuthors7d"] = row.authors_7d
    if row.last_at is not None:
        figures["lastPostAt"] = rfc3339(row.last_at)
    figures["activityHistory"] = [
        [day.isoformat(), posts] if row.authors_7d is None else [day.isoformat(), posts, authors]
        for day, posts, authors in row.history()
    ]
    figures["activityBasis"] = basis
    return figures
