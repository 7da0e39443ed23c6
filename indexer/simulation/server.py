"""One simulated Concrnt server: what it says about itself, its log, and answers to section 4's endpoints.

The server follows its own endpoint templates: what a test changes in `endpoints` is what it serves.
Everything that a test may want to be different is a plain attribute, read at each request. A reference
resolves to a 302 to the resolve address of its `href` on the same server. Questions about what a server does
not hold are put to `relays`, the servers it would ask in the real network.
"""

import asyncio
import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from indexer.concrnt.times import MalformedTime, parse_instant
from indexer.simulation.addresses import DOCUMENT, Address, read_address
from indexer.simulation.faults import Endpoint, FaultPlan
from indexer.simulation.log import MOST_ROWS, CommitLog, PageRequest
from indexer.simulation.schemas import REFERENCE
from indexer.simulation.state import Held, ServerState
from indexer.simulation.wire import Reply, Request, Whole, json_reply

MAINNET = "concrnt-mainnet"
TEMPLATES = {
    "net.concrnt.core.resolve": "/api/v2/resolve?uri={uri}",
    "net.concrnt.core.known-servers": "/api/v2/known-servers",
    "net.concrnt.core.replication": "/api/v2/replication{?owner,since,until,limit,order}",
    "net.concrnt.core.query": ("/api/v2/query{?prefix,schema,since,until,limit,order,parent,author,orderby}"),
    "net.concrnt.core.associations": (
        "/api/v2/associations{?uri,schema,variant,author,since,until,limit,order}"
    ),
}
_WELL_KNOWN_PATH = "/.well-known/concrnt"
_WORTH_COMPRESSING = 1_024
_REMEMBERED_REQUESTS = 20_000


class SimulatedServer:
    """A server of the simulated network. It has no port of its own: a listener hands it requests."""

    def __init__(
        self,
        domain: str,
        log: CommitLog | None = None,
        *,
        csid: str = "ccs" + "0" * 39,
        layer: str = MAINNET,
        most_rows: int = MOST_ROWS,
        compresses: bool = True,
        keeps_deleted_documents: bool = False,
    ) -> None:
        self.domain = domain
        self.domain_shown = domain
        self.csid = csid
        self.layer = layer
        self.most_rows = most_rows
        self.compresses = compresses
        self.log = log if log is not None else CommitLog()
        self.state = ServerState(self.log, keeps_deleted_documents=keeps_deleted_documents)
        self.endpoints: dict[str, Any] = dict(TEMPLATES)
        self.software: dict[str, Any] = {
            "version": "v2.0.0",
            "buildMachine": "simulation",
            "buildTime": "2025-01-01T00:00:00Z",
            "goVersion": "go1.24.0",
        }
        self.meta: dict[str, Any] | None = {"nickname": domain.partition(".")[0]}
        self.peers: list[SimulatedServer] = []
        self.relays: Sequence[SimulatedServer] = ()
        self.known_servers: Sequence[object] | None = None
        """The known-servers list as it stands; None makes it from `peers`."""
        self.faults = FaultPlan()
        self.requests: list[Request] = []
        """What was asked, oldest first; the oldest are forgotten in a long run."""
        self._asked = asyncio.Condition()
        self._answers: dict[Endpoint, Callable[[Request], Reply]] = {
            Endpoint.WELL_KNOWN: self._answer_well_known,
            Endpoint.KNOWN_SERVERS: self._answer_known_servers,
            Endpoint.REPLICATION: self._answer_replication,
            Endpoint.RESOLVE: self._answer_resolve,
            Endpoint.QUERY: self._answer_query,
            Endpoint.ASSOCIATIONS: self._answer_associations,
        }

    # -- the log -----------------------------------------------------------------------------------

    def receive(self, receipt: str | int, *commits: bytes, hidden: bool = False) -> None:
        """Log commits at one receipt time (RFC 3339 text or nanoseconds)."""
        receipt_ns = parse_instant(receipt) if isinstance(receipt, str) else receipt
        for commit in commits:
            self.log.add(receipt_ns, commit, hidden=hidden)

    def current_records(self, owner: str | None = None) -> list[Held]:
        """Return the records that anyone may read now, of one owner or of all."""
        return [held for held in self.state.catch_up().records(owner) if not self._is_dangling(held)]

    def _is_dangling(self, held: Held) -> bool:
        """Tell whether a record is a reference to a post that its own server has deleted."""
        target = read_address(held.href)
        return target is not None and any(
            relay.state.catch_up().has_deleted(target.owner, target.path) for relay in self.relays
        )

    # -- what was asked ----------------------------------------------------------------------------

    def requests_to(self, endpoint: Endpoint) -> list[Request]:
        """Return the requests to one endpoint, oldest first."""
        return [request for request in self.requests if request.endpoint == endpoint]

    async def wait_for_requests(self, count: int, *, to: Endpoint = Endpoint.REPLICATION) -> list[Request]:
        """Wait until an endpoint was asked `count` times; return those requests."""
        async with self._asked:
            await self._asked.wait_for(lambda: len(self.requests_to(to)) >= count)
        return self.requests_to(to)

    # -- HTTP --------------------------------------------------------------------------------------

    async def handle(self, request: Request) -> Reply:
        """Answer one request: the truth, then what the fault plan makes of it, compressed when asked."""
        endpoint = self._endpoint_of(request.path)
        request = replace(request, endpoint=endpoint or "")
        await self._remember(request)
        reply = self.faults.apply(request, self._honest(request, endpoint))
        return self._compressed(request, reply)

    def well_known(self) -> dict[str, Any]:
        """Return what the server says about itself."""
        shown: dict[str, Any] = {
            "version": "2.0",
            "domain": self.domain_shown,
            "csid": self.csid,
            "layer": self.layer,
            "endpoints": self.endpoints,
            "softwareInfo": self.software,
        }
        return shown if self.meta is None else {**shown, "meta": self.meta}

    def _endpoint_of(self, path: str) -> Endpoint | None:
        if path == _WELL_KNOWN_PATH:
            return Endpoint.WELL_KNOWN
        for name, template in self.endpoints.items():
            if isinstance(template, str) and template.partition("{")[0].partition("?")[0] == path:
                return _ENDPOINTS.get(name)
        return None

    async def _remember(self, request: Request) -> None:
        async with self._asked:
            if len(self.requests) >= _REMEMBERED_REQUESTS:
                del self.requests[: _REMEMBERED_REQUESTS // 2]
            self.requests.append(request)
            self._asked.notify_all()

    def _honest(self, request: Request, endpoint: Endpoint | None) -> Reply:
        answer = self._answers.get(endpoint) if endpoint is not None else None
        if answer is None:
            return _not_found()
        try:
            return answer(request)
        except MalformedTime:
            return _refused("malformed time")

    def _compressed(self, request: Request, reply: Reply) -> Reply:
        fit = (
            reply.status == 200
            and len(reply.body) >= _WORTH_COMPRESSING
            and isinstance(reply.delivery, Whole)
        )
        asked = "gzip" in request.headers.get("accept-encoding", "")
        if not (self.compresses and fit and asked) or "content-encoding" in reply.headers:
            return reply
        packed = gzip.compress(reply.body, compresslevel=1, mtime=0)
        return Reply(200, packed, {**reply.headers, "content-encoding": "gzip"}, wait=reply.wait)

    # -- the endpoints -----------------------------------------------------------------------------

    def _answer_well_known(self, _request: Request) -> Reply:
        return json_reply(msgspec.json.encode(self.well_known()))

    def _answer_known_servers(self, _request: Request) -> Reply:
        known = self.known_servers
        if known is None:
            known = [peer.well_known() for peer in self.peers]
        return json_reply(msgspec.json.encode(known))

    def _answer_replication(self, request: Request) -> Reply:
        wanted = self._page_request(request)
        owner = request.query.get("owner")
        page = self.log.page(wanted, only=_owned_by(owner) if owner else None)
        return json_reply(page.encode())

    def _answer_resolve(self, request: Request) -> Reply:
        uri = request.query.get("uri", "")
        address = read_address(uri if "://" in uri else unquote(uri))
        if address is None:
            return _refused("no Concrnt URI")
        for server in (self, *self.relays):
            reply = server._resolve(address)  # noqa: SLF001 - a relay is one of us
            if reply is not None:
                return reply
        return _not_found()

    def _resolve(self, address: Address) -> Reply | None:
        """Answer from what this server holds itself; None when it holds nothing of the kind."""
        if not address.path:
            return self._resolve_owner(address.owner)
        state = self.state.catch_up()
        if address.scheme == DOCUMENT:
            return _signed(state.document(address.owner, address.cdid or ""))
        held = state.record(self._person_of(address.owner), address.path)
        if held is None or self._is_dangling(held):
            return None
        if held.schema == REFERENCE:
            path = str(self.endpoints["net.concrnt.core.resolve"]).partition("{")[0]
            return Reply(302, b"", {"location": f"{path}{quote(held.href, safe='')}"})
        return _signed(held)

    def _resolve_owner(self, owner: str) -> Reply | None:
        if owner in (self.domain, self.csid):
            return json_reply(msgspec.json.encode(self.well_known()))
        return _signed(self.state.catch_up().entity(self._person_of(owner)))

    def _person_of(self, owner: str) -> str:
        """Return the person behind an alias, or the owner as it is."""
        if not owner.startswith("@"):
            return owner
        return self.state.catch_up().person_of_alias(owner[1:]) or owner

    def _answer_query(self, request: Request) -> Reply:
        query = request.query
        prefix, parent = read_address(query.get("prefix")), read_address(query.get("parent"))
        narrowed = prefix or parent
        held = self.current_records(narrowed.owner if narrowed is not None else None)
        if prefix is not None:
            held = [one for one in held if one.key.startswith(prefix.key)]
        if parent is not None:
            held = [one for one in held if one.key.rpartition("/")[0] == parent.key]
        return self._created_page(request, _matching(held, query))

    def _answer_associations(self, request: Request) -> Reply:
        uri = request.query.get("uri", "")
        target = read_address(uri if "://" in uri else unquote(uri))
        if target is None:
            return _refused("no Concrnt URI")
        held = self.state.catch_up().associations(target.owner, target.path)
        return self._created_page(request, _matching(held, request.query))

    def _created_page(self, request: Request, held: Iterable[Held]) -> Reply:
        """Page documents by createdAt, in the feed's manner."""
        rows = CommitLog()
        for one in sorted(held, key=lambda one: (one.created_ns, one.key, one.cdid)):
            rows.add(one.created_ns, one.signed)
        return json_reply(rows.page(self._page_request(request)).encode())

    def _page_request(self, request: Request) -> PageRequest:
        query = request.query
        return PageRequest(
            since_ns=_instant(query.get("since")),
            until_ns=_instant(query.get("until")),
            limit=_clamped(query.get("limit"), self.most_rows),
            descending=query.get("order") == "desc",
        )


_ENDPOINTS = {
    "net.concrnt.core.resolve": Endpoint.RESOLVE,
    "net.concrnt.core.known-servers": Endpoint.KNOWN_SERVERS,
    "net.concrnt.core.replication": Endpoint.REPLICATION,
    "net.concrnt.core.query": Endpoint.QUERY,
    "net.concrnt.core.associations": Endpoint.ASSOCIATIONS,
}


def _signed(held: Held | None) -> Reply | None:
    return None if held is None else json_reply(held.signed)


def _not_found() -> Reply:
    return json_reply(b'{"error":"not found"}', 404)


def _refused(reason: str) -> Reply:
    return json_reply(msgspec.json.encode({"error": reason}), 400)


def _matching(held: Iterable[Held], query: Mapping[str, str]) -> list[Held]:
    """Keep what has the schema, author and variant that were asked for, if any."""
    wanted = {name: query[name] for name in ("schema", "author", "variant") if query.get(name)}
    return [one for one in held if all(getattr(one, name) == text for name, text in wanted.items())]


def _owned_by(owner: str) -> Callable[[bytes], bool]:
    """Return a test for commits of one owner: of the key, else of the associate, else the author."""

    def owned(signed: bytes) -> bool:
        try:
            document = msgspec.json.decode(msgspec.json.decode(signed)["document"])
            address = read_address(document.get("key")) or read_address(document.get("associate"))
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError, RecursionError):
            return False
        return bool((address.owner if address is not None else document.get("author")) == owner)

    return owned


def _instant(text: str | None) -> int | None:
    return parse_instant(text) if text else None


def _clamped(text: str | None, most: int) -> int:
    """Read a `limit`; what is no number asks for the most."""
    try:
        return min(max(int(text or most), 1), most)
    except ValueError:
        return most
