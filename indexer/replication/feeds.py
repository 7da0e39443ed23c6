"""Asking a server: its well-known, its list of servers, pages of its feed.

Turns what the peer client answers into values or one exception, `PeerError`, whose class says what kind of
failure it was. Holds no state; every request names the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from indexer.concrnt.client import FailureClass, PeerError
from indexer.concrnt.pages import BadPayload, decode_page
from indexer.concrnt.templates import UnsafeTemplate, expand
from indexer.concrnt.wellknown import (
    KNOWN_SERVERS,
    RESOLVE,
    WELL_KNOWN_PATH,
    decode_known_servers,
    decode_well_known,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from indexer.concrnt.client import Response
    from indexer.concrnt.pages import Page
    from indexer.concrnt.wellknown import KnownServers, WellKnown

T = TypeVar("T")


class Peers(Protocol):
    """The client that talks to strangers."""

    async def get(self, fqdn: str, path_and_query: str) -> Response:
        """One GET; raises `PeerError`."""
        ...


class Feeds:
    """What other servers answer. Every method raises `PeerError`."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def well_known(self, fqdn: str) -> WellKnown:
        """What a server says of itself."""
        return _decoded(decode_well_known, await self._body(fqdn, WELL_KNOWN_PATH))

    async def known_servers(self, fqdn: str, endpoints: Mapping[str, str]) -> KnownServers:
        """The servers that a server knows."""
        template = endpoints.get(KNOWN_SERVERS)
        if template is None:
            raise PeerError(FailureClass.BAD_PAYLOAD, f"{fqdn} has no known-servers endpoint")
        return _decoded(decode_known_servers, await self._body(fqdn, _expand(template, {})))

    async def page(
        self,
        fqdn: str,
        template: str,
        *,
        since: str | None,
        limit: int,
        until: str | None = None,
        order: str | None = None,
        owner: str | None = None,
    ) -> Page:
        """A page of a server's feed, of one owner's commits or of all; instants are texts, sent as is."""
        values = {"owner": owner, "since": since, "until": until, "limit": str(limit), "order": order}
        path = _expand(template, {name: value for name, value in values.items() if value is not None})
        return _decoded(decode_page, await self._body(fqdn, path))

    async def resolve(self, fqdn: str, endpoints: Mapping[str, str], uri: str) -> bytes | None:
        """What a server holds at a URI, as it sent it; None when it is absent or not readable by anyone."""
        template = endpoints.get(RESOLVE)
        if template is None:
            raise PeerError(FailureClass.BAD_PAYLOAD, f"{fqdn} has no resolve endpoint")
        try:
            return await self._body(fqdn, _expand(template, {"uri": uri}))
        except PeerError as error:
            if error.status in (403, 404, 410):
                return None
            raise

    async def _body(self, fqdn: str, path: str) -> bytes:
        response = await self._peers.get(fqdn, path)
        if response.status != 200:
            raise PeerError(FailureClass.BAD_PAYLOAD, f"status {response.status} where 200 was due")
        return response.body


def _expand(template: str, values: Mapping[str, str]) -> str:
    try:
        return expand(template, **values)
    except UnsafeTemplate as error:
        raise PeerError(FailureClass.BAD_PAYLOAD, f"unsafe endpoint template: {error}") from error


def _decoded(decode: Callable[[bytes], T], body: bytes) -> T:
    try:
        return decode(body)
    except BadPayload as error:
        raise PeerError(FailureClass.BAD_PAYLOAD, str(error)[:200]) from error
