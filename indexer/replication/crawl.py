"""The manual crawl: one document, asked for by hand (behaviour.md, section 7).

A client that has just written something wants it found at once; an operator wants to know why it is not. The
document is fetched from the server where its owner lives, never from whom a URI's hint names, and applied in
a transaction of its own, judged as a row of that server's feed that was read before: it replaces nothing
newer and brings back nothing that was deleted, and what the feed comes to later settles it by createdAt. Who
asked is told what became of it; nothing is counted with the server, and nothing is kept of what is refused.

What it owns: bounds, since strangers ask: so many crawls at once, so many look-ups an hour in all and of one
host, one deadline for all that a crawl asks for. They are in memory: a crash leaves nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from indexer.concrnt.client import FailureClass, PeerError
from indexer.concrnt.documents import Commit, Ignored, Intermediate, Malformed, Reason, parse_commit
from indexer.concrnt.identifiers import is_ccid, is_csid
from indexer.concrnt.proofs import MAX_CHAIN, read_signed
from indexer.concrnt.uri import MalformedURI, owner_of, parse_ccuri
from indexer.mirror.changes import EntityStanding
from indexer.mirror.servers import ServerState
from indexer.replication.budget import HourlyBudget
from indexer.replication.residents import FOUND_FOR, entity_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from indexer.concrnt.uri import CCURI
    from indexer.mirror.changes import Changes
    from indexer.mirror.knowledge import Knowledge
    from indexer.mirror.servers import Servers
    from indexer.replication.feeds import Feeds
    from indexer.replication.plan import Schemas
    from indexer.replication.proving import FetchedDocuments
    from indexer.replication.writer import PageWriter

log = structlog.get_logger(__name__)

CRAWL_SECONDS = 25.0
"""How long a crawl may take, whatever the servers do that it asks."""
AT_ONCE = 16
PER_HOST_AND_HOUR = 600
IN_ALL_AND_HOUR = 6000
PEOPLE_AND_HOUR = 600
"""How many people the seed is asked about: not to the cost of the seed's own documents."""
UNKNOWN_FOR = timedelta(minutes=5)
_REMEMBERED = 10_000
_NO_PAYLOAD = frozenset({Reason.ROW_NOT_JSON, Reason.ROW_NOT_OBJECT, Reason.NO_DOCUMENT})


class CrawlFault(StrEnum):
    """Why a document was not indexed: a closed list."""

    NO_DOCUMENT_URI = "no_document_uri"
    NOT_FOLLOWED = "not_followed"
    """Its server is of another layer, another server's alias, or paused."""
    BLOCKED_ADDRESS = "blocked_address"
    OTHER_DOCUMENT = "other_document"
    """The server answered with another document than was asked for."""
    NOT_INDEXED = "not_indexed"
    MALFORMED = "malformed"
    REJECTED = "rejected"
    ABSENT = "absent"
    SUPERSEDED = "superseded"
    """It was deleted, or a newer document stands under its key."""
    AWAY = "away"
    """A server did not answer, or not rightly."""
    BUSY = "busy"
    """Too much is asked of us at present."""


class CrawlError(Exception):
    """A document was not indexed; the message is for whoever asked, and tells nothing of networks."""

    def __init__(self, fault: CrawlFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message


@dataclass(frozen=True, slots=True)
class Crawled:
    """A document that is in the mirror now. `kind` is `user`, `community` or `post`.

    `key` is canonical, `cckv` as the document spells it, `ccfs` canonical.
    """

    kind: str
    schema: str
    key: str
    cckv: str
    ccfs: str
    source_server: str


class ManualCrawl:
    """Fetches and applies single documents. Any number may be asked for at once; each process has one."""

    def __init__(
        self,
        feeds: Feeds,
        servers: Servers,
        knowledge: Knowledge,
        page_writer: PageWriter,
        fetched: FetchedDocuments | None,
        *,
        seed: str,
        layer: str,
        schemas: Schemas,
        clock: Callable[[], datetime],
        seconds: float = CRAWL_SECONDS,
    ) -> None:
        """`fetched`: where proofs find enactments, None where nobody is judged. A `layer` of "" means any."""
        self._feeds = feeds
        self._servers = servers
        self._knowledge = knowledge
        self._page_writer = page_writer
        self._fetched = fetched
        self._seed = seed
        self._layer = layer
        self._schemas = schemas
        self._clock = clock
        self._seconds = seconds
        self._at_work = 0
        self._all = HourlyBudget(IN_ALL_AND_HOUR)
        self._hosts = HourlyBudget(PER_HOST_AND_HOUR)
        self._people = HourlyBudget(PEOPLE_AND_HOUR)
        self._unknown: dict[str, datetime] = {}

    async def crawl(self, text: str) -> Crawled:
        """Fetch and apply the document of a `ccfs` URI. Raises `CrawlError`, `StoreUnavailable`."""
        uri = document_uri(text)
        if self._at_work >= AT_ONCE or not self._all.take("", now=self._clock()):
            raise CrawlError(CrawlFault.BUSY, "too many documents are asked for at the moment")
        self._at_work += 1
        try:
            async with asyncio.timeout(self._seconds):
                return await self._crawl(uri)
        except TimeoutError as error:
            raise CrawlError(CrawlFault.AWAY, "the owner's server did not answer in time") from error
        except PeerError as error:
            raise _told(error, uri) from error
        finally:
            self._at_work -= 1

    async def _crawl(self, uri: CCURI) -> Crawled:
        server = await self._server_of(uri.owner)
        self._take(server)
        endpoints = await self._endpoints(server)
        answer = await self._feeds.resolve(server, endpoints, uri.canonical)
        if answer is None:
            raise CrawlError(CrawlFault.ABSENT, "its owner's server has no such document for all to read")
        commit = self._document(answer, uri)
        kind = self._schemas.kind_of(commit.schema)
        if kind is None:
            raise CrawlError(CrawlFault.NOT_INDEXED, "documents of its schema are not indexed")
        await self._apply(commit, server)
        assert commit.key is not None
        if not await self._knowledge.document_stands(commit.key.key, commit.cdid):
            raise CrawlError(CrawlFault.SUPERSEDED, "it was deleted, or a newer one stands under its key")
        log.info("a document was crawled by hand", uri=uri.canonical, server=server)
        return Crawled(kind, commit.schema, commit.key.key, commit.key_text, uri.canonical, server)

    # --- where to ask

    async def _server_of(self, owner: str) -> str:
        """Where an owner lives, by the mirror, else by the seed."""
        if is_ccid(owner):
            return await self._home_of(owner)
        if not is_csid(owner):
            return await self._knowledge.server_named(owner)
        server = await self._knowledge.server_with_key(owner)
        if server is None:
            raise CrawlError(CrawlFault.ABSENT, "no server, or more than one, has its owner's key")
        return server

    async def _home_of(self, person: str) -> str:
        home = await self._knowledge.home_of(person)
        judged = self._fetched is not None
        if home is not None and (not judged or home[1] is not EntityStanding.CLAIMED):
            return home[0]
        asked = await self._ask_seed(person)
        if asked is not None:
            return asked
        if home is not None:
            return home[0]
        raise CrawlError(CrawlFault.ABSENT, "it is not known on which server its owner lives")

    async def _ask_seed(self, person: str) -> str | None:
        """Where a person lives, by the seed's word, which is stored; "unknown" is remembered for a while."""
        now = self._clock()
        if self._unknown.get(person, now) > now:
            return None
        if not self._people.take("", now=now):
            raise CrawlError(CrawlFault.BUSY, "the seed was asked about too many people this hour")
        endpoints = await self._endpoints(self._seed)
        answer = await self._feeds.resolve(self._seed, endpoints, f"cckv://{person}")
        entity = entity_in(answer, person, schemas=self._schemas, now=now)
        if entity is None:
            self._unknown.pop(person, None)
            self._unknown[person] = now + UNKNOWN_FOR
            if len(self._unknown) > _REMEMBERED:
                del self._unknown[next(iter(self._unknown))]
            return None
        await self._page_writer.settle(entity, self._seed, now=now)
        home = await self._knowledge.home_of(person)
        return home[0] if home else None

    async def _endpoints(self, server: str) -> Mapping[str, str]:
        """The endpoints of a server that may be asked; from its own well-known where they are not known."""
        state = await self._servers.state_of(server)
        if state is not None and state.state is ServerState.PAUSED:
            raise CrawlError(CrawlFault.NOT_FOLLOWED, "its server is paused by the operator")
        is_ours = state is not None and (not self._layer or state.layer == self._layer)
        if state is not None and state.endpoints and is_ours:
            return state.endpoints
        well_known = await self._feeds.well_known(server)
        if well_known.domain != server:
            raise CrawlError(CrawlFault.NOT_FOLLOWED, "its owner's server calls itself by another name")
        if self._layer and well_known.layer != self._layer:
            raise CrawlError(CrawlFault.NOT_FOLLOWED, "its owner's server belongs to another layer")
        return well_known.endpoints

    def _take(self, host: str) -> None:
        if not self._hosts.take(host, now=self._clock()):
            raise CrawlError(CrawlFault.BUSY, "its owner's server was asked too often this hour")

    # --- what came

    def _document(self, answer: bytes, uri: CCURI) -> Commit:
        """The document that was asked for, out of an answer."""
        row = parse_commit(answer, now=self._clock(), indexed=self._schemas.malformed_kinds)
        if isinstance(row, Malformed) and row.reason not in _NO_PAYLOAD:
            raise CrawlError(CrawlFault.MALFORMED, f"it is malformed: {row.reason.value}")
        if isinstance(row, Malformed | Intermediate):
            raise CrawlError(CrawlFault.AWAY, "its owner's server answered with no document")
        if isinstance(row, Ignored):
            raise CrawlError(CrawlFault.NOT_INDEXED, "documents of its kind are not indexed")
        if row.cdid != uri.cdid:
            raise CrawlError(CrawlFault.OTHER_DOCUMENT, "its owner's server answered with another document")
        if row.key is None:
            raise CrawlError(CrawlFault.NOT_INDEXED, "documents of its kind are not indexed")
        if row.key.owner != uri.owner:
            raise CrawlError(CrawlFault.OTHER_DOCUMENT, "it belongs to another owner than the URI says")
        return row

    async def _apply(self, commit: Commit, server: str) -> None:
        """Apply it; enactments of subkeys that its proof leans on are fetched first where need be."""
        for _ in range(MAX_CHAIN):
            changes = await self._page_writer.write_one(commit, server, now=self._clock())
            if not changes.waiting or not await self._fetch_enactment(changes):
                break
        if any(not one.accepted for one in changes.waiting):
            raise CrawlError(
                CrawlFault.REJECTED, "it is not accepted: its proof leans on what can not be had"
            )
        for letter in changes.dead_letters:
            if letter.reason == Reason.COMMUNITY_OF_A_PERSON:
                raise CrawlError(CrawlFault.REJECTED, "a community whose owner is a person is not indexed")
            raise CrawlError(CrawlFault.REJECTED, f"it is not accepted: {letter.reason}")

    async def _fetch_enactment(self, changes: Changes) -> bool:
        """Fetch what the document waits for from where its own owner lives; whether that was tried."""
        awaited = changes.waiting[0]
        if not awaited.is_enactment or self._fetched is None:
            return False
        server = await self._server_of(owner_of(awaited.href))
        self._take(server)
        body = await self._feeds.resolve(server, await self._endpoints(server), awaited.href)
        document = None if body is None else read_signed(body)
        self._fetched.remember(awaited.href, document, until=self._clock() + FOUND_FOR)
        return True


def document_uri(text: str) -> CCURI:
    """Read a document's URI. Raises `CrawlError`."""
    try:
        uri = parse_ccuri(text.strip())
    except MalformedURI as error:
        raise CrawlError(CrawlFault.NO_DOCUMENT_URI, _WANTED) from error
    if uri.cdid is None or uri.is_alias:
        raise CrawlError(CrawlFault.NO_DOCUMENT_URI, _WANTED)
    return uri


_WANTED = "ccfs is no document's URI: ccfs://OWNER/concrnt/CDID, the owner a CCID, a CSID or a server's name"


def _told(error: PeerError, uri: CCURI) -> CrawlError:
    """What a stranger may know of a failure: not whether a port is open, or what is there."""
    log.info("a document could not be crawled by hand", uri=uri.canonical, why=str(error))
    if error.failure is FailureClass.BLOCKED_ADDRESS:
        return CrawlError(CrawlFault.BLOCKED_ADDRESS, "its server is not on the public internet")
    return CrawlError(CrawlFault.AWAY, "its owner's server did not answer, or not as it should")
