"""A naive model of one feed: commits one at a time over plain dictionaries, after section 3 of behaviour.md.

It shares no code with planning: documents are read with `json`, keys are compared as lists of steps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from indexer.simulation.signing import cdid_of

START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Held:
    """A live record."""

    cdid: str
    created_at: datetime
    first_created_at: datetime
    value: Any


def steps_of(uri: str) -> tuple[str, ...]:
    """A key as its owner and decoded steps."""
    owner, *steps = uri.removeprefix("cckv://").split("/")
    return (owner.partition("@")[0], *[unquote(step) for step in steps])


@dataclass
class NaiveFeed:
    """What one server's feed, read once from its start, makes of the mirror."""

    records: dict[tuple[str, ...], Held] = field(default_factory=dict)
    gone: set[tuple[tuple[str, ...], str]] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    acks: dict[tuple[str, str, str], tuple[datetime, bool]] = field(default_factory=dict)

    def take(self, commit: bytes) -> None:
        """Take one commit of the feed."""
        text = json.loads(commit)["document"]
        document = json.loads(text)
        cdid = cdid_of(text, document["createdAt"])
        created_at = datetime.fromisoformat(document["createdAt"])
        if document["kind"] == "record":
            self._put(document, cdid, created_at)
        elif document["kind"] == "delete" and cdid not in self.deletes:
            self.deletes.add(cdid)
            self._delete(document["value"])
        elif document["kind"] in ("ack", "unack", "acked", "unacked"):
            self._ack(document, created_at)

    def _put(self, document: dict[str, Any], cdid: str, created_at: datetime) -> None:
        key = steps_of(document["key"])
        if (key, cdid) in self.gone:
            return
        held = self.records.get(key)
        if held is None:
            self.records[key] = Held(cdid, created_at, created_at, document["value"])
        elif held.cdid != cdid:
            self.gone.add((key, held.cdid))
            first = min(held.first_created_at, created_at)
            self.records[key] = Held(cdid, created_at, first, document["value"])

    def _delete(self, target: str) -> None:
        removed = [key for key, held in self.records.items() if _covers(target, key, held)]
        hrefs = {"cckv://" + "/".join(quote(step, safe="") for step in key) for key in removed}
        hrefs |= {f"ccfs://{key[0]}/concrnt/{self.records[key].cdid}" for key in removed}
        for key in removed:
            self._drop(key)
        for key, held in list(self.records.items()):
            href = held.value.get("href") if isinstance(held.value, dict) else None
            if href is None:
                continue
            covered = href.startswith("cckv:") and _covers(target, steps_of(href), None)
            if _spelled(href) in hrefs or href == target or covered:
                self._drop(key)

    def _drop(self, key: tuple[str, ...]) -> None:
        self.gone.add((key, self.records.pop(key).cdid))

    def _ack(self, document: dict[str, Any], created_at: datetime) -> None:
        pair = (document["author"], document["associate"].removeprefix("cckv://"), document["schema"])
        if pair not in self.acks or created_at > self.acks[pair][0]:
            self.acks[pair] = (created_at, document["kind"] in ("ack", "acked"))


def _spelled(href: str) -> str:
    """One spelling of an href, every step quoted."""
    if not href.startswith("cckv:"):
        return href
    return "cckv://" + "/".join(quote(step, safe="") for step in steps_of(href))


def _covers(target: str, key: tuple[str, ...], held: Held | None) -> bool:
    if target.startswith("ccfs://"):
        owner, _, cdid = target.removeprefix("ccfs://").split("/")
        return held is not None and key[0] == owner and held.cdid == cdid
    if target.endswith("/*"):
        base = steps_of(target[:-2])
        return len(key) > len(base) and key[: len(base)] == base
    if target.endswith("*"):
        base = steps_of(target[:-1])
        return key[: len(base)] == base
    return key == steps_of(target)


@dataclass
class NaiveNetwork:
    """What several servers' feeds make of the mirror: section 3, rule 2, read without any order.

    Of each key the newest document stands (createdAt, then the greater CDID) that no delete covers which is
    not older. Keys and targets are compared as lists of steps; deletes by document are not heard here.
    """

    documents: dict[tuple[tuple[str, ...], str], datetime] = field(default_factory=dict)
    spelled: dict[tuple[str, ...], str] = field(default_factory=dict)
    deletes: set[tuple[str, datetime, str]] = field(default_factory=set)
    acks: dict[tuple[str, str], set[tuple[datetime, bool]]] = field(default_factory=dict)

    def hear(self, commit: bytes) -> None:
        """Hear one commit, from whichever server."""
        text = json.loads(commit)["document"]
        document = json.loads(text)
        cdid = cdid_of(text, document["createdAt"])
        created_at = datetime.fromisoformat(document["createdAt"])
        if document["kind"] == "record":
            key = steps_of(document["key"])
            self.documents[key, cdid] = created_at
            self.spelled[key] = document["key"]
        elif document["kind"] == "delete":
            self.deletes.add((document["value"], created_at, cdid))
        else:
            said = (created_at, document["kind"] == "ack")
            self.acks.setdefault((document["author"], document["associate"]), set()).add(said)

    def standing(self) -> set[tuple[str, str]]:
        """(key, CDID) of what stands."""
        newest: dict[tuple[str, ...], tuple[datetime, str]] = {}
        for (key, cdid), created_at in self.documents.items():
            newest[key] = max(newest.get(key, (created_at, cdid)), (created_at, cdid))
        return {
            (self.spelled[key], order[1])
            for key, order in newest.items()
            if not any(_covers(target, key, None) and order <= (at, by) for target, at, by in self.deletes)
        }

    def earliest(self) -> dict[str, datetime]:
        """The first createdAt of what stands, since the newest delete of its key that is older."""
        lives = {}
        for spelled, standing in self.standing():
            key = steps_of(spelled)
            order = (self.documents[key, standing], standing)
            ends = [
                (at, by) for target, at, by in self.deletes if _covers(target, key, None) and (at, by) < order
            ]
            lives[spelled] = min(
                at
                for (other, cdid), at in self.documents.items()
                if other == key and (at, cdid) > max(ends, default=(START, ""))
            )
        return lives

    def follows(self) -> set[bool]:
        """Whether each pair stands as followed: the newest say."""
        return {max(said)[1] for said in self.acks.values()}
