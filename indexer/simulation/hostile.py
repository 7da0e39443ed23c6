"""A hostile server: everything that one server can say of what others said.

    mallory.receive("2025-05-01T00:00:00Z", *all_forgeries(alpha_commits, by=EVE, domain="mallory.example"))

Made of the true commits of others. Each try comes in two forms: without a proof, and signed by the hostile
key in the author's name; what the hostile key says in its own name holds as a signature, and it may not say
it. Nothing here is random: equal input gives equal bytes.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from indexer.concrnt.keys import KeyPair
from indexer.simulation import schemas
from indexer.simulation.signing import (
    NO_PROOF,
    ccfs_of,
    commit_bytes,
    direct_proof,
    document_text,
    embedding_proof,
)

LATER = "2030-01-01T00:00:00Z"
EARLIER = "2001-01-01T00:00:00Z"


class Trick(StrEnum):
    """What a hostile server tries."""

    OVERWRITE = "overwrite"
    """Another document under a key of somebody else: profile, post, community, reference."""
    ADD = "add"
    """A new key below one of somebody else."""
    DELETE = "delete"
    DELETE_RANGE = "delete range"
    DELETE_DOCUMENT = "delete document"
    FOLLOW = "follow"
    """Follows and unfollows in another's name, said and derived."""
    CLAIM = "claim"
    """An entity document that claims somebody, older or newer than the true one."""
    IN_ITS_OWN_NAME = "in its own name"
    """Signed by the hostile key as itself: the signature holds, the right is missing."""
    REPLAY = "replay"
    """The true commit, as it is: allowed, and without effect where it is known."""


def all_forgeries(commits: Iterable[bytes], *, by: KeyPair, domain: str, at: str = LATER) -> list[bytes]:
    """Return every try against these commits, replays aside. `at` is the createdAt that they claim."""
    tries = forgeries(commits, by=by, domain=domain, at=at)
    return [commit for trick, made in tries.items() if trick is not Trick.REPLAY for commit in made]


def forgeries(
    commits: Iterable[bytes], *, by: KeyPair, domain: str, at: str = LATER
) -> dict[Trick, list[bytes]]:
    """Return what the server `domain`, whose key is `by`, can say of these commits, by what it tries."""
    tries: dict[Trick, list[bytes]] = {trick: [] for trick in Trick}
    for commit in commits:
        document = msgspec.json.decode(msgspec.json.decode(commit)["document"])
        if document["author"] == by.ccid:
            continue
        tries[Trick.REPLAY].append(commit)
        for trick, forged in _against(commit, document, domain, at):
            tries[trick] += _unproven_and_forged(forged, by)
        tries[Trick.IN_ITS_OWN_NAME] += [
            _signed({**document_, "author": by.ccid}, by)
            for trick, document_ in _against(commit, document, domain, at)
            if trick in (Trick.OVERWRITE, Trick.DELETE, Trick.DELETE_RANGE, Trick.DELETE_DOCUMENT)
        ]
    return tries


def _against(
    commit: bytes, document: Mapping[str, Any], domain: str, at: str
) -> Iterator[tuple[Trick, dict[str, Any]]]:
    author = document["author"]
    match document["kind"]:
        case "record" if document.get("key"):
            key = document["key"]
            yield Trick.OVERWRITE, {**document, "value": _other(document["value"]), "createdAt": at}
            yield Trick.ADD, {**document, "key": f"{key}/forged", "createdAt": at}
            yield Trick.DELETE, _delete(key, author, at)
            yield Trick.DELETE_RANGE, _delete(f"{key}*", author, at)
            yield Trick.DELETE_RANGE, _delete(f"{key}/*", author, at)
            yield Trick.DELETE_DOCUMENT, _delete(_address(commit, document), author, at)
        case "ack" | "unack" as kind:
            other = "unack" if kind == "ack" else "ack"
            yield Trick.FOLLOW, {**document, "kind": other, "createdAt": at}
            yield Trick.FOLLOW, {**document, "kind": f"{other}ed", "createdAt": at}
        case "entity":
            for moment in (at, EARLIER):
                yield Trick.CLAIM, {**document, "value": {"domain": domain}, "createdAt": moment}
        case _:
            return


def _other(value: object) -> object:
    """Another value that its schema allows; a reference goes on pointing to what it pointed to."""
    if not isinstance(value, dict) or "href" in value:
        return value
    return {
        **value,
        **{name: "偽物" for name in ("body", "username", "name") if name in value},
        "forged": True,
    }


def _delete(target: str, author: str, at: str) -> dict[str, Any]:
    return {
        "kind": "delete",
        "author": author,
        "schema": schemas.DELETE,
        "value": target,
        "createdAt": at,
    }


def _address(commit: bytes, document: Mapping[str, Any]) -> str:
    owner = document["key"].removeprefix("cckv://").partition("/")[0]
    return ccfs_of(msgspec.json.decode(commit)["document"], document["createdAt"], owner)


def _unproven_and_forged(document: Mapping[str, Any], by: KeyPair) -> list[bytes]:
    return [commit_bytes(document_text(document), NO_PROOF), _signed(document, by)]


def _signed(document: Mapping[str, Any], by: KeyPair) -> bytes:
    text = document_text(document)
    if document["kind"] in ("acked", "unacked"):
        embedded = document_text({**document, "kind": document["kind"].removesuffix("ed")})
        return commit_bytes(text, embedding_proof(embedded, direct_proof(embedded, by)))
    return commit_bytes(text, direct_proof(text, by))
