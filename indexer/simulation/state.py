"""What a server holds at the end of its log: the answers to resolve, query and associations.

The state is folded from the log one commit at a time, when somebody asks and only as far as needed, so a
server that is merely followed never pays for it. Rows hidden from anonymous readers change the state, but
what they hold is never given out.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import msgspec

from indexer.concrnt.cdid import cdid_at
from indexer.concrnt.times import NANOSECONDS_PER_MILLISECOND, parse_instant
from indexer.simulation.addresses import Path, Target, read_address, read_target
from indexer.simulation.log import CommitLog, LoggedCommit
from indexer.simulation.schemas import REFERENCE

Key = tuple[str, Path]
"""Owner and path: the identity of a record."""


@dataclass(frozen=True, slots=True)
class Held:
    """A document that the server holds, with what questions ask about it."""

    signed: bytes
    hidden: bool
    created_ns: int
    cdid: str
    author: str
    schema: str
    key: str = ""
    href: str = ""
    variant: str = ""


class ServerState:
    """The current state of one server."""

    def __init__(self, log: CommitLog, *, keeps_deleted_documents: bool = False) -> None:
        self.log = log
        self.keeps_deleted_documents = keeps_deleted_documents
        self._start()

    def _start(self) -> None:
        self._applied = 0
        self._generation = self.log.generation
        self._records: defaultdict[str, dict[Path, Held]] = defaultdict(dict)
        self._documents: dict[tuple[str, str], Held] = {}
        self._entities: dict[str, Held] = {}
        self._aliases: dict[str, str] = {}
        self._associations: defaultdict[Key, list[Held]] = defaultdict(list)
        self._gone: set[Key] = set()
        self._referrers: defaultdict[str, defaultdict[Path, set[Key]]] = defaultdict(lambda: defaultdict(set))

    def catch_up(self) -> "ServerState":
        """Fold what the log has gained; start afresh when rows moved or went."""
        if self._generation != self.log.generation:
            self._start()
        for row in self.log.rows_from(self._applied):
            self._apply(row)
        self._applied = len(self.log)
        return self

    # -- questions ---------------------------------------------------------------------------------

    def record(self, owner: str, path: Path) -> Held | None:
        """Return the record under a key, when anyone may read it."""
        return _readable(self._records.get(owner, {}).get(path))

    def document(self, owner: str, document_cdid: str) -> Held | None:
        """Return one document by its CDID."""
        return _readable(self._documents.get((owner, document_cdid)))

    def entity(self, person: str) -> Held | None:
        """Return the entity document of a person who is known here."""
        return self._entities.get(person)

    def person_of_alias(self, alias: str) -> str | None:
        """Return the person whose entity document claims an alias."""
        return self._aliases.get(alias)

    def records(self, owner: str | None = None) -> list[Held]:
        """Return the records that anyone may read, of one owner or of all."""
        chosen = [self._records.get(owner, {})] if owner is not None else list(self._records.values())
        return [held for records in chosen for held in records.values() if not held.hidden]

    def has_deleted(self, owner: str, path: Path) -> bool:
        """Tell whether what lay under a key was deleted here; references to it elsewhere go with it."""
        return (owner, path) in self._gone

    def associations(self, owner: str, path: Path) -> list[Held]:
        """Return the associations of the document under a key."""
        return [held for held in self._associations.get((owner, path), ()) if not held.hidden]

    # -- folding -----------------------------------------------------------------------------------

    def _apply(self, row: LoggedCommit) -> None:
        commit = _read(row)
        if commit is None:
            return  # a scripted log may hold anything; what no server would keep is only passed on
        kind = commit.document.get("kind")
        if kind == "record":
            self._put(commit)
        elif kind == "entity":
            self._settle(commit)
        elif kind == "association":
            self._associate(commit)
        elif kind == "delete":
            self._delete(read_target(commit.document.get("value")))

    def _put(self, commit: "_Commit") -> None:
        address = read_address(commit.document.get("key"))
        if address is None or not address.path:
            return
        held = commit.held(key=address.key)
        self._drop_referrer((address.owner, address.path))
        self._records[address.owner][address.path] = held
        self._gone.discard((address.owner, address.path))
        self._documents[address.owner, held.cdid] = held
        target = read_address(held.href)
        if target is not None:
            self._referrers[target.owner][target.path].add((address.owner, address.path))

    def _settle(self, commit: "_Commit") -> None:
        held = commit.held()
        known = self._entities.get(held.author)
        if known is not None and known.created_ns >= held.created_ns:
            return
        self._entities[held.author] = held
        self._documents[held.author, held.cdid] = held
        value = commit.document.get("value")
        if isinstance(value, dict) and isinstance(value.get("alias"), str):
            self._aliases[value["alias"]] = held.author

    def _associate(self, commit: "_Commit") -> None:
        target = read_address(commit.document.get("associate"))
        if target is None:
            return
        held = commit.held()
        self._associations[target.owner, target.path].append(held)
        self._documents[target.owner, held.cdid] = held

    def _delete(self, target: Target | None) -> None:
        if target is None:
            return
        if target.reach == "document":
            self._delete_document(target.owner, target.cdid)
            return
        if target.reach == "key":
            self._remove((target.owner, target.path))
            self._drop_references_to(target.owner, target.path)
            return
        for path in [path for path in self._records[target.owner] if target.covers(target.owner, path)]:
            self._remove((target.owner, path))
        for path in [path for path in self._referrers[target.owner] if target.covers(target.owner, path)]:
            self._drop_references_to(target.owner, path)

    def _delete_document(self, owner: str, document_cdid: str) -> None:
        held = self._documents.get((owner, document_cdid))
        if held is None:
            return
        address = read_address(held.key)
        if address is not None and self._records[owner].get(address.path) is held:
            self._remove((owner, address.path))
            self._drop_references_to(owner, address.path)
            return
        for associated in self._associations.values():
            associated[:] = [other for other in associated if other is not held]
        self._forget_document(owner, held)

    def _remove(self, key: Key) -> None:
        owner, path = key
        held = self._records[owner].pop(path, None)
        if held is None:
            return
        self._gone.add(key)
        self._forget_document(owner, held)
        self._associations.pop(key, None)
        if held.href:
            self._unlink(held.href, key)

    def _drop_references_to(self, owner: str, path: Path) -> None:
        for referrer in list(self._referrers[owner].pop(path, ())):
            self._remove(referrer)

    def _drop_referrer(self, key: Key) -> None:
        held = self._records[key[0]].get(key[1])
        if held is not None and held.href:
            self._unlink(held.href, key)

    def _unlink(self, href: str, key: Key) -> None:
        target = read_address(href)
        if target is not None and target.path in self._referrers[target.owner]:
            self._referrers[target.owner][target.path].discard(key)

    def _forget_document(self, owner: str, held: Held) -> None:
        if not self.keeps_deleted_documents:
            self._documents.pop((owner, held.cdid), None)


def _readable(held: Held | None) -> Held | None:
    return None if held is None or held.hidden else held


@dataclass(frozen=True, slots=True)
class _Commit:
    """A logged commit, decoded."""

    row: LoggedCommit
    document: dict[str, Any]
    created_ns: int
    cdid: str

    def held(self, *, key: str = "") -> Held:
        value = self.document.get("value")
        schema = _text(self.document.get("schema"))
        return Held(
            signed=self.row.signed,
            hidden=self.row.hidden,
            created_ns=self.created_ns,
            cdid=self.cdid,
            author=_text(self.document.get("author")),
            schema=schema,
            key=key,
            href=_text(value.get("href")) if isinstance(value, dict) and schema == REFERENCE else "",
            variant=_text(self.document.get("associationVariant")),
        )


def _read(row: LoggedCommit) -> _Commit | None:
    try:
        outer = msgspec.json.decode(row.signed)
        text = outer["document"]
        document = msgspec.json.decode(text)
        created_ns = parse_instant(document["createdAt"])
        identity = _stated_cdid(outer) or cdid_at(text.encode(), created_ns // NANOSECONDS_PER_MILLISECOND)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return _Commit(row, document, created_ns, identity)


def _stated_cdid(outer: dict[str, Any]) -> str:
    """Return the CDID that the commit carries already: the server itself put it there."""
    address = read_address(outer.get("ccfs"))
    return (address.cdid or "") if address is not None else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
