"""What an indexer should know once it has read the logs: a naive reading of the rules, to compare with.

Each feed is folded by itself, one commit at a time, in log order; then the feeds are laid over each other.
So the result cannot depend on who was read first, how often, or in what pages. Nothing is shared with the
indexer: plain dictionaries, `json.loads`, addresses read by `urllib`. Trust is not modelled: every commit
counts, as for an indexer that verifies nothing or a network in which all is proven. Times are microseconds
since the epoch.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from eth_hash.auto import keccak

from indexer.simulation import schemas
from indexer.simulation.addresses import RECORD, Address, Path, Target, read_address, read_target
from indexer.simulation.log import LoggedCommit
from indexer.simulation.server import SimulatedServer

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_CCID = re.compile(r"con[0-9A-Za-z]{39}")
_CSID = re.compile(r"ccs[0-9A-Za-z]{39}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FARTHEST_AHEAD_US = 24 * 3_600 * 1_000_000
_ALPHABET = "0123456789abcdefghjkmnpqrstuvwyz"
_LONGEST_KEY_BYTES = 1_024
_INDEXED = {schemas.PROFILE, schemas.COMMUNITY} | schemas.POSTS

Key = tuple[str, Path]


@dataclass(frozen=True, slots=True)
class ExpectedRecord:
    """A live record. `created_us` is the document's own time, `earliest_us` the first under the key."""

    key: str
    owner: str
    author: str
    schema: str
    value: Any
    cdid: str
    created_us: int
    earliest_us: int
    source: str


@dataclass(frozen=True, slots=True)
class ExpectedEntity:
    """Where a person lives."""

    domain: str
    created_us: int


@dataclass(frozen=True, slots=True)
class ExpectedFollow:
    """Whether somebody follows somebody, and since which transition."""

    valid: bool
    created_us: int


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """The public state: records by key, entities by CCID, follows by (acker, ackee, schema)."""

    records: dict[str, ExpectedRecord]
    entities: dict[str, ExpectedEntity]
    follows: dict[tuple[str, str, str], ExpectedFollow]

    @property
    def users(self) -> dict[str, dict[str, Any]]:
        """The documents of the index of people, by key: what can be said of them without an index."""
        return {
            record.key: {
                "username": _text(record.value.get("username")),
                "description": _text(record.value.get("description")),
                "owner": record.owner,
                "schema": record.schema,
                "created_us": record.earliest_us,
            }
            for record in self.records.values()
            if record.schema == schemas.PROFILE
        }

    @property
    def communities(self) -> dict[str, dict[str, Any]]:
        """The documents of the index of communities, by key."""
        return {
            record.key: {
                "name": _text(record.value.get("name")),
                "shortname": _text(record.value.get("shortname")),
                "description": _text(record.value.get("description")),
                "owner": record.owner,
                "schema": record.schema,
                "created_us": record.earliest_us,
            }
            for record in self.records.values()
            if record.schema == schemas.COMMUNITY
        }

    @property
    def posts(self) -> dict[str, dict[str, Any]]:
        """The documents of the index of posts, by key."""
        return {
            record.key: {
                "body": _text(record.value.get("body")),
                "author": record.author,
                "owner": record.owner,
                "schema": record.schema,
                "created_us": record.created_us,
            }
            for record in self.records.values()
            if record.schema in schemas.POSTS
        }


def expected_state(logs: Mapping[str, Iterable[LoggedCommit]], *, now: datetime) -> ExpectedState:
    """Return the state after all of these logs, by domain; `now` bounds how far ahead a date may lie."""
    latest_us = _microseconds(now) + _FARTHEST_AHEAD_US
    feeds = {domain: _Feed(latest_us).read(rows) for domain, rows in logs.items()}
    return ExpectedState(_merged_records(feeds), _merged_entities(feeds), _merged_follows(feeds))


def expected_of(servers: Mapping[str, SimulatedServer], *, now: datetime) -> ExpectedState:
    """Return the state after the logs of these servers."""
    return expected_state({domain: server.log for domain, server in servers.items()}, now=now)


# -- one feed ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Put:
    """What a feed holds under a key, and the times of all documents there since the key came into being."""

    owner: str
    path: Path
    key: str
    document: dict[str, Any]
    cdid: str
    created_us: int
    times: list[int]
    href: Address | None


@dataclass(frozen=True, slots=True)
class _Removal:
    target: Target
    created_us: int


@dataclass(slots=True)
class _Feed:
    """One server's feed, folded."""

    latest_us: int
    records: defaultdict[str, dict[Path, _Put]] = field(default_factory=lambda: defaultdict(dict))
    removals: defaultdict[str, list[_Removal]] = field(default_factory=lambda: defaultdict(list))
    removed: set[tuple[Key, str]] = field(default_factory=set)
    referrers: defaultdict[str, dict[Key, Address]] = field(default_factory=lambda: defaultdict(dict))
    entities: dict[str, ExpectedEntity] = field(default_factory=dict)
    follows: dict[tuple[str, str, str], ExpectedFollow] = field(default_factory=dict)

    def read(self, rows: Iterable[LoggedCommit]) -> "_Feed":
        for row in rows:
            if not row.hidden:
                self.apply(row.signed)
        return self

    def apply(self, signed: bytes) -> None:
        try:
            text = json.loads(signed)["document"]
            document = json.loads(text)
            created_us = _created(document["createdAt"])
            kind, author = document["kind"], document["author"]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return
        if not 0 <= created_us <= self.latest_us or not isinstance(author, str):
            return
        if kind == "record":
            self.put(text, document, created_us)
        elif kind == "delete":
            self.delete(read_target(document.get("value")), created_us)
        elif kind == "entity":
            self.settle(document, created_us)
        elif kind in ("ack", "unack", "acked", "unacked"):
            self.follow(document, created_us)

    def put(self, text: str, document: dict[str, Any], created_us: int) -> None:
        address = read_address(document.get("key"))
        if address is None or not _storable(address, document):
            return
        key, cdid = (address.owner, address.path), _cdid(text, created_us)
        if (key, cdid) in self.removed:
            return
        before = self.records[address.owner].get(address.path)
        times = [*(before.times if before is not None else ()), created_us]
        value = document.get("value")
        is_reference = document.get("schema") == schemas.REFERENCE and isinstance(value, dict)
        href = read_address(value.get("href")) if is_reference and value is not None else None
        self.forget_reference(key)
        if href is not None:
            self.referrers[href.owner][key] = href
        self.records[address.owner][address.path] = _Put(
            address.owner, address.path, address.key, document, cdid, created_us, times, href
        )

    def delete(self, target: Target | None, created_us: int) -> None:
        if target is None:
            return
        self.removals[target.owner].append(_Removal(target, created_us))
        gone = [put for put in self.records[target.owner].values() if _covers(target, put)]
        hrefs = [put.path for put in gone] if target.reach == "document" else []
        for put in gone:
            self.remove((put.owner, put.path))
        for key, href in list(self.referrers[target.owner].items()):
            if target.covers(href.owner, href.path) or href.path in hrefs or _names(target, href):
                self.remove(key)

    def remove(self, key: Key) -> None:
        owner, path = key
        put = self.records[owner].pop(path, None)
        if put is not None:
            self.forget_reference(key, put)
            self.removed.add((key, put.cdid))

    def forget_reference(self, key: Key, put: _Put | None = None) -> None:
        put = put if put is not None else self.records[key[0]].get(key[1])
        if put is not None and put.href is not None:
            self.referrers[put.href.owner].pop(key, None)

    def settle(self, document: dict[str, Any], created_us: int) -> None:
        author, value = document["author"], document.get("value")
        domain = value.get("domain") if isinstance(value, dict) else None
        if not _CCID.fullmatch(author) or not isinstance(domain, str):
            return
        known = self.entities.get(author)
        if known is None or created_us > known.created_us:
            self.entities[author] = ExpectedEntity(domain, created_us)

    def follow(self, document: dict[str, Any], created_us: int) -> None:
        acker, schema = document["author"], document.get("schema")
        ackee = read_address(document.get("associate"))
        well_formed = (
            not document.get("key")
            and _CCID.fullmatch(acker) is not None
            and ackee is not None
            and ackee.scheme == RECORD
            and not ackee.path
            and not ackee.hint
            and _CCID.fullmatch(ackee.owner) is not None
        )
        if not well_formed or ackee is None or schema != schemas.FOLLOW:
            return
        pair, valid = (acker, ackee.owner, schema), document["kind"] in ("ack", "acked")
        known = self.follows.get(pair)
        if known is None or created_us > known.created_us:
            self.follows[pair] = ExpectedFollow(valid, created_us)


# -- all feeds --------------------------------------------------------------------------------------


def _merged_records(feeds: Mapping[str, _Feed]) -> dict[str, ExpectedRecord]:
    """Lay the feeds over each other: what no other feed removed, the newest of each key."""
    standing: defaultdict[str, list[tuple[str, _Put]]] = defaultdict(list)
    removed_documents = _removed_documents(feeds)
    for domain, feed in feeds.items():
        others = [other for name, other in feeds.items() if name != domain]
        for put in _puts(feed):
            bars = [*_bars(put, others), *_reference_bars(put, others, removed_documents)]
            if any(((put.owner, put.path), put.cdid) in other.removed for other in others):
                continue
            put.times = [at for at in put.times if at > max(bars, default=-1)]
            if put.created_us > max(bars, default=-1):
                standing[put.key].append((domain, put))
    return {key: _winner(copies) for key, copies in standing.items()}


def _removed_documents(feeds: Mapping[str, _Feed]) -> dict[str, list[tuple[Key, int]]]:
    """Return by owner which keys lost their document to a `ccfs` delete of another feed, and when."""
    lost: defaultdict[str, list[tuple[Key, int]]] = defaultdict(list)
    for feed in feeds.values():
        for put in _puts(feed):
            for other in feeds.values():
                for removal in other.removals.get(put.owner, ()) if other is not feed else ():
                    if removal.target.reach == "document" and _covers(removal.target, put):
                        lost[put.owner].append(((put.owner, put.path), removal.created_us))
        for (owner, path), cdid in feed.removed:
            for removal in feed.removals.get(owner, ()):
                if removal.target.reach == "document" and removal.target.cdid == cdid:
                    lost[owner].append(((owner, path), removal.created_us))
    return lost


def _bars(put: _Put, others: list[_Feed]) -> Iterator[int]:
    """Yield the times of other feeds' deletes that cover a record."""
    for other in others:
        for removal in other.removals.get(put.owner, ()):
            if _covers(removal.target, put):
                yield removal.created_us


def _reference_bars(
    put: _Put, others: list[_Feed], removed_documents: Mapping[str, list[tuple[Key, int]]]
) -> Iterator[int]:
    """Yield the times of other feeds' deletes that cover what a reference refers to."""
    href = put.href
    if href is None:
        return
    for other in others:
        for removal in other.removals.get(href.owner, ()):
            if removal.target.covers(href.owner, href.path) or _names(removal.target, href):
                yield removal.created_us
    for key, created_us in removed_documents.get(href.owner, ()):
        if key == (href.owner, href.path):
            yield created_us


def _winner(copies: list[tuple[str, _Put]]) -> ExpectedRecord:
    """Return the newest copy, of equally new ones that with the greater CDID."""
    _, best = max(copies, key=lambda copy: (copy[1].created_us, copy[1].cdid))
    senders = [domain for domain, put in copies if put.cdid == best.cdid]
    return ExpectedRecord(
        key=best.key,
        owner=best.owner,
        author=best.document["author"],
        schema=_text(best.document.get("schema")),
        value=best.document.get("value"),
        cdid=best.cdid,
        created_us=best.created_us,
        earliest_us=min(at for _, put in copies for at in put.times),
        source=best.owner if best.owner in senders else senders[0],
    )


def _merged_entities(feeds: Mapping[str, _Feed]) -> dict[str, ExpectedEntity]:
    merged: dict[str, ExpectedEntity] = {}
    for feed in feeds.values():
        for person, entity in feed.entities.items():
            if person not in merged or entity.created_us > merged[person].created_us:
                merged[person] = entity
    return merged


def _merged_follows(feeds: Mapping[str, _Feed]) -> dict[tuple[str, str, str], ExpectedFollow]:
    merged: dict[tuple[str, str, str], ExpectedFollow] = {}
    for feed in feeds.values():
        for pair, follow in feed.follows.items():
            if pair not in merged or follow.created_us > merged[pair].created_us:
                merged[pair] = follow
    return merged


# -- small readings ---------------------------------------------------------------------------------


def _puts(feed: _Feed) -> Iterator[_Put]:
    for records in feed.records.values():
        yield from records.values()


def _covers(target: Target, put: _Put) -> bool:
    if target.reach == "document":
        return (put.owner, put.cdid) == (target.owner, target.cdid)
    return target.covers(put.owner, put.path)


def _names(target: Target, href: Address) -> bool:
    """Tell whether a reference points by `ccfs` at the very document that a delete names."""
    return target.reach == "document" and href.cdid == target.cdid


def _storable(address: Address, document: dict[str, Any]) -> bool:
    """Tell whether a record is well-formed enough to be kept."""
    path = "/".join(address.path)
    if address.scheme != RECORD or not path or "\0" in path or address.owner.startswith("@"):
        return False
    if len(path.encode("utf-8", "surrogatepass")) > _LONGEST_KEY_BYTES:
        return False
    schema = document.get("schema")
    if schema in _INDEXED and not isinstance(document.get("value"), dict):
        return False
    return schema != schemas.COMMUNITY or not (
        _CCID.fullmatch(address.owner) or _CSID.fullmatch(address.owner)
    )


def _created(text: object) -> int:
    if not isinstance(text, str) or not _RFC3339.fullmatch(text):
        raise ValueError("no RFC 3339 time")
    return _microseconds(datetime.fromisoformat(text.upper()).astimezone(UTC))


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _cdid(document: str, created_us: int) -> str:
    """Return the CDID: milliseconds and hash, five bits a letter from the left."""
    raw = (created_us // 1_000).to_bytes(6, "big") + keccak(document.encode("utf-8", "surrogatepass"))[:10]
    bits = "".join(f"{byte:08b}" for byte in raw) + "00"
    return "".join(_ALPHABET[int(bits[at : at + 5], 2)] for at in range(0, len(bits), 5))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
