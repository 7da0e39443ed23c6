"""Scripted servers for tests: say what was committed when, and let the indexer follow.

    async with scripted_network("seed.example", "alpha.example") as network:
        alpha = network["alpha.example"]
        alpha.receive("2025-03-01T00:00:00Z", profile(ALICE, username="ありす"), post(ALICE, "1", "やあ"))
        alpha.faults.next(slow_down(120))
        settings = {"crawl": {"seed": "seed.example", "hostOverrides": network.host_overrides}}

Builders return the JSON of one commit. An author given as text makes a commit that proves nothing
(`proof: none`); given as a `KeyPair` it is signed by that key, given as a `Delegate` by a subkey. What a
builder does not cover is written with `signed` from any document, or as bytes. `created_at` is RFC 3339 text
and is not checked; it defaults to `CREATED_AT`.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from indexer.concrnt.keys import KeyPair
from indexer.simulation import schemas
from indexer.simulation.log import CommitLog, Precision
from indexer.simulation.run import RunningNetwork, serve
from indexer.simulation.server import MAINNET, SimulatedServer
from indexer.simulation.signing import (
    NO_PROOF,
    ccfs_of,
    cdid_of,
    commit_bytes,
    direct_proof,
    document_text,
    embedding_proof,
    enactment_key,
    reference_proof,
    subkey_proof,
)

ALICE = "con" + "0" * 38 + "1"
BOB = "con" + "0" * 38 + "2"
CAROL = "con" + "0" * 38 + "3"
SEED = "seed.example"
ALPHA = "alpha.example"
BETA = "beta.example"
GAMMA = "gamma.example"
CREATED_AT = "2025-03-01T00:00:00Z"


@cache
def key_pair(name: str) -> KeyPair:
    """Return the key pair of a test person or server: one per name, the same in every run."""
    return KeyPair.from_seed(f"scripted {name}")


@dataclass(frozen=True, slots=True)
class Delegate:
    """A person who signs with a subkey; `enactment` is the commit that makes it hold."""

    person: KeyPair
    subkey: KeyPair

    @property
    def enacted_at(self) -> str:
        """The key of the enact document."""
        return enactment_key(self.person.ccid, self.subkey)

    def enactment(self, *, created_at: str = CREATED_AT) -> bytes:
        """Return the commit that enacts the subkey, signed by the person."""
        value = {"ckid": self.subkey.ckid}
        return record(
            self.enacted_at, value, author=self.person, schema=schemas.SUBKEY, created_at=created_at
        )


Author = str | KeyPair | Delegate


def author_id(author: Author) -> str:
    """Return the id that a document names as its author."""
    if isinstance(author, Delegate):
        return author.person.ccid
    return author.ccid if isinstance(author, KeyPair) else author


# -- commits ----------------------------------------------------------------------------------------


def signed(
    document: Mapping[str, Any] | str, author: Author = "", *, proof: Mapping[str, Any] | None = None
) -> bytes:
    """Return the commit of any document, or of any text in its place; `proof` overrides the author's."""
    text = document if isinstance(document, str) else document_text(document)
    return commit_bytes(text, proof if proof is not None else _proof(text, author))


def record(
    key: str | None,
    value: object,
    *,
    author: Author,
    schema: str,
    created_at: str | None = CREATED_AT,
    **more: object,
) -> bytes:
    """Return the commit of a record; `more` are further fields of the document."""
    return _commit(author, kind="record", key=key, schema=schema, value=value, createdAt=created_at, **more)


def profile(
    author: Author,
    *,
    name: str = "main",
    created_at: str = CREATED_AT,
    schema: str = schemas.PROFILE,
    **value: object,
) -> bytes:
    """Return the commit of a profile: `profile(ALICE, username="ありす")`."""
    return record(profile_key(author, name), value, author=author, schema=schema, created_at=created_at)


def post(
    author: Author,
    identity: str,
    body: str | None,
    *,
    profile_name: str = "main",
    created_at: str = CREATED_AT,
    schema: str = schemas.MARKDOWN,
    distributes: Iterable[str] = (),
    **value: object,
) -> bytes:
    """Return the commit of a post; without `body` it has none, as a bare reroute."""
    content = value if body is None else {"body": body, **value}
    more = {"distributes": list(distributes)} if distributes else {}
    key = post_key(author, identity, profile_name)
    return record(key, content, author=author, schema=schema, created_at=created_at, **more)


def community(
    domain: str, identity: str, *, author: Author, created_at: str = CREATED_AT, **value: object
) -> bytes:
    """Return the commit of a community: `community(ALPHA, "cats", author=ALICE, name="ねこ")`."""
    key = community_key(domain, identity)
    return record(key, value, author=author, schema=schemas.COMMUNITY, created_at=created_at)


def reference(
    timeline: str,
    href: str,
    *,
    author: Author,
    created_at: str = CREATED_AT,
    name: str | None = None,
    content_type: str = schemas.MARKDOWN,
) -> bytes:
    """Return the reference that a distributed post leaves under a timeline, proof `document-reference`.

    `name` is its last step: the CDID of the post; without it, one made from `href`.
    """
    step = name if name is not None else cdid_of(href, CREATED_AT)
    value = {"href": href, "contentType": content_type}
    document = _document(
        author,
        kind="record",
        key=f"{timeline}/{step}",
        schema=schemas.REFERENCE,
        value=value,
        createdAt=created_at,
    )
    return commit_bytes(document_text(document), reference_proof(href))


def delete(target: object, *, author: Author, created_at: str | None = CREATED_AT) -> bytes:
    """Return the commit of a delete: `delete(post_key(ALICE, "1") + "*", author=ALICE)`."""
    return _commit(author, kind="delete", schema=schemas.DELETE, value=target, createdAt=created_at)


def ack(
    author: Author,
    followee: Author,
    *,
    kind: str = "ack",
    created_at: str = CREATED_AT,
    schema: str = schemas.FOLLOW,
    associate: str | None = None,
    **more: object,
) -> bytes:
    """Return an `ack` or `unack` from the acker's server; `associate` overrides the followee's URI."""
    return _commit(author, **_ack_fields(kind, followee, created_at, schema, associate), **more)


def acked(
    author: Author,
    followee: Author,
    *,
    kind: str = "acked",
    created_at: str = CREATED_AT,
    schema: str = schemas.FOLLOW,
) -> bytes:
    """Return the `acked` or `unacked` that the ackee's server derives, embedding what it was derived from."""
    fields = _ack_fields(kind, followee, created_at, schema, None)
    embedded = document_text(_document(author, **{**fields, "kind": kind.removesuffix("ed")}))
    proof = embedding_proof(embedded, _proof(embedded, author))
    return commit_bytes(document_text(_document(author, key="", **fields)), proof)


def entity(author: Author, domain: str, *, created_at: str = CREATED_AT, alias: str | None = None) -> bytes:
    """Return the entity document that says where a person lives."""
    value = {"domain": domain} if alias is None else {"domain": domain, "alias": alias}
    return _commit(author, kind="entity", schema=schemas.ENTITY, value=value, createdAt=created_at)


def association(
    author: Author,
    target: str,
    *,
    schema: str = schemas.LIKE,
    created_at: str = CREATED_AT,
    value: object = None,
    **more: object,
) -> bytes:
    """Return an association: a like unless `schema` says otherwise."""
    return _commit(
        author,
        kind="association",
        schema=schema,
        value=value if value is not None else {},
        associate=target,
        createdAt=created_at,
        **more,
    )


# -- addresses --------------------------------------------------------------------------------------


def profile_key(person: Author, name: str = "main") -> str:
    """Return the key of a profile."""
    return f"cckv://{author_id(person)}/concrnt.world/profiles/{name}"


def post_key(person: Author, identity: str, profile_name: str = "main") -> str:
    """Return the key of a post."""
    return f"{profile_key(person, profile_name)}/posts/{identity}"


def community_key(domain: str, identity: str) -> str:
    """Return the key of a community."""
    return f"cckv://{domain}/concrnt.world/communities/{identity}"


def document_address(commit: bytes, owner: Author) -> str:
    """Return the `ccfs` address of the document in a commit."""
    text = msgspec.json.decode(commit)["document"]
    return ccfs_of(text, msgspec.json.decode(text)["createdAt"], author_id(owner))


# -- the making of a commit -------------------------------------------------------------------------


def _commit(author: Author, **fields: object) -> bytes:
    return signed(_document(author, **fields), author)


def _document(author: Author, **fields: object) -> dict[str, object]:
    """Return a document; `key`, `createdAt` and `associate` are left out when they are None."""
    left_out = {name for name in ("key", "createdAt", "associate") if fields.get(name) is None}
    ordered = {"kind": fields.pop("kind"), "author": author_id(author), **fields}
    return {name: value for name, value in ordered.items() if name not in left_out}


def _ack_fields(
    kind: str, followee: Author, created_at: str, schema: str, associate: str | None
) -> dict[str, object]:
    target = associate if associate is not None else f"cckv://{author_id(followee)}"
    return {"kind": kind, "schema": schema, "value": {}, "associate": target, "createdAt": created_at}


def _proof(document: str, author: Author) -> Mapping[str, Any]:
    if isinstance(author, Delegate):
        return subkey_proof(document, author.subkey, author.enacted_at)
    return direct_proof(document, author) if isinstance(author, KeyPair) else NO_PROOF


# -- servers ----------------------------------------------------------------------------------------


def scripted_server(
    domain: str,
    script: Iterable[tuple[str, bytes | Mapping[str, Any]]] = (),
    *,
    layer: str = MAINNET,
    most_rows: int = 100,
    precision: Precision = Precision.NANOSECONDS,
    keeps_deleted_documents: bool = False,
) -> SimulatedServer:
    """Return a server whose log is a list of (receipt time, commit); a commit as bytes or as a document.

    A commit that is a mapping with a `document` is taken as the whole commit, any other as a document without
    a proof.
    """
    server = SimulatedServer(
        domain,
        CommitLog(precision=precision),
        csid=key_pair(domain).csid,
        layer=layer,
        most_rows=most_rows,
        keeps_deleted_documents=keeps_deleted_documents,
    )
    for receipt, commit in script:
        server.receive(receipt, _as_bytes(commit))
    return server


def _as_bytes(commit: bytes | Mapping[str, Any]) -> bytes:
    if isinstance(commit, bytes):
        return commit
    return msgspec.json.encode(commit) if "document" in commit else signed(commit)


class ScriptedNetwork:
    """Scripted servers on ports of their own; the first of them is the seed and knows the others."""

    def __init__(self, servers: Mapping[str, SimulatedServer]) -> None:
        self.servers = dict(servers)
        self.running = RunningNetwork({})
        seed, *others = self.servers.values()
        seed.peers = others

    def __getitem__(self, domain: str) -> SimulatedServer:
        return self.servers[domain]

    @property
    def host_overrides(self) -> dict[str, str]:
        """Domain → base URL."""
        return self.running.host_overrides


@asynccontextmanager
async def scripted_network(*servers: str | SimulatedServer) -> AsyncIterator[ScriptedNetwork]:
    """Run scripted servers, given ready or by their domain, for as long as the block lasts.

    Without arguments these are the seed, alpha, beta and gamma of the trials.
    """
    chosen = servers or (SEED, ALPHA, BETA, GAMMA)
    made = [scripted_server(server) if isinstance(server, str) else server for server in chosen]
    network = ScriptedNetwork({server.domain: server for server in made})
    network.running = await serve(network)
    try:
        yield network
    finally:
        await network.running.stop()
