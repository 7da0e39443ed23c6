"""Servers that say they have moved: the redirect of an old domain's well-known, read and not followed.

It counts when it leads to another domain whose own well-known carries the same server key (behaviour.md,
section 2): who holds the old domain gives away what is its own, and nothing of others. New names come by
way of discovery, within its bounds, and a server moves seldom (`Moves`). Any other redirect is the failure
that it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from indexer.concrnt.client import FailureClass, PeerError
from indexer.concrnt.identifiers import MalformedName, canonical_fqdn
from indexer.mirror.moves import MoveRefusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from indexer.mirror.moves import Moved, Moves
    from indexer.mirror.servers import FeedState, Lease
    from indexer.replication.feeds import Feeds

log = structlog.get_logger(__name__)

_HTTPS_PORT = 443


class Moving:
    """Lets servers move that say so. An empty `layer` means any."""

    def __init__(
        self, feeds: Feeds, moves: Moves, *, discover: Callable[[list[str]], Awaitable[object]], layer: str
    ) -> None:
        """`discover` adds servers within discovery's bounds."""
        self._discover = discover
        self._feeds = feeds
        self._moves = moves
        self._layer = layer

    async def has_moved(self, state: FeedState, error: PeerError, lease: Lease, *, now: datetime) -> bool:
        """Whether the failure of a server's well-known says that it has moved; then it has been moved.

        Raises `LeaseLostError`, `StoreUnavailable`.
        """
        if error.failure is not FailureClass.REDIRECT or error.location is None or not state.csid:
            return False
        named = domain_in(error.location)
        if named is None or named == state.domain:
            return False
        done: Moved | MoveRefusal | None
        done = await self._moves.refusal_of_redirect(state.domain, named, now=now)
        if done is None:
            if not await self._is_same(named, state.csid):
                return False
            await self._discover([named])
            done = await self._moves.move(state.domain, named, now=now, by_operator=False, lease=lease)
        if isinstance(done, MoveRefusal):
            log.warning("a server can not move", server=state.domain, to=named, why=done.value)
            return False
        log.warning("a server has moved", server=state.domain, to=named)
        return True

    async def _is_same(self, domain: str, csid: str) -> bool:
        """Whether a domain says of itself that it is this server, in our layer."""
        try:
            said = await self._feeds.well_known(domain)
        except PeerError as error:
            log.info("a server's new domain does not answer", domain=domain, why=str(error))
            return False
        return said.domain == domain and said.csid == csid and self._layer in ("", said.layer)


def domain_in(location: str) -> str | None:
    """The server that a redirect leads to, canonical; None where it is no plain HTTPS host."""
    try:
        parts = urlsplit(location)
        port = parts.port or _HTTPS_PORT
    except ValueError:
        return None
    if parts.scheme != "https" or port != _HTTPS_PORT or "@" in parts.netloc or not parts.hostname:
        return None
    try:
        return canonical_fqdn(parts.hostname)
    except MalformedName:
        return None
