"""Crawls by hand, as the public API asks for them: the sentences and statuses of what can become of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from indexer.api.crawl import IndexedDocument
from indexer.api.errors import ApiError, UnavailableError
from indexer.replication.crawl import CrawlError, CrawlFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.replication.crawl import ManualCrawl

_STATUSES: Final[Mapping[CrawlFault, int]] = {
    CrawlFault.NO_DOCUMENT_URI: 400,
    CrawlFault.NOT_FOLLOWED: 400,
    CrawlFault.BLOCKED_ADDRESS: 400,
    CrawlFault.OTHER_DOCUMENT: 400,
    CrawlFault.NOT_INDEXED: 400,
    CrawlFault.MALFORMED: 400,
    CrawlFault.REJECTED: 400,
    CrawlFault.ABSENT: 404,
    CrawlFault.SUPERSEDED: 404,
    CrawlFault.AWAY: 502,
    CrawlFault.BUSY: 503,
}


class HandCrawler:
    """Crawls by hand, for the API."""

    def __init__(self, crawl: ManualCrawl) -> None:
        self._crawl = crawl

    async def crawl(self, ccfs: str) -> IndexedDocument:
        """Index the document of a `ccfs` URI. Raises `ApiError`."""
        try:
            done = await self._crawl.crawl(ccfs)
        except CrawlError as error:
            status = _STATUSES[error.fault]
            raise (
                UnavailableError(error.message) if status == 503 else ApiError(status, error.message)
            ) from error
        return IndexedDocument(done.kind, done.schema, done.key, done.cckv, done.ccfs, done.source_server)
