"""Checking the proofs of a page's commits: where the documents come from, and where the work is done.

A proof may lean on other documents: a subkey on its enactment, a reference on its post. They are taken from
the mirror, from the page itself, and from what was fetched lately (`FetchedDocuments`), never from the
network. Where one is not here and may yet come, the proof is told to await it.

Recovering a key costs some 50 µs, in the event loop, where others have their turn in between: threads would
spend more on waiting for the interpreter's lock. What will surely be asked and leans on nothing stored is
checked before the page's transaction (`ahead`), while nobody waits for its owners' locks.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from indexer.concrnt.documents import Commit, Kind
from indexer.concrnt.proofs import (
    BY_REFERENCE,
    MAX_CHAIN,
    REVOKED_SUBKEY_SCHEMA,
    ProofFault,
    SignedDocument,
    check_commit,
    leans_on,
    read_signed,
)
from indexer.mirror.trust import load_documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from indexer.concrnt.rows import Proof
    from indexer.mirror.database import Connection
    from indexer.replication.page import Row

AT_ONCE = 100
"""How many proofs are checked before others have their turn: some 6 ms."""
_REMEMBERED = 50_000


@dataclass(frozen=True, slots=True)
class Awaited:
    """The canonical key or `ccfs` URI of a document that a proof leans on and that may yet come."""

    uri: str
    is_enactment: bool


@dataclass(frozen=True, slots=True)
class Proofs:
    """What became of proofs, by their rows' positions: the fault (None: it holds), and what they await."""

    faults: Mapping[int, ProofFault | None] = field(default_factory=dict)
    awaited: Mapping[int, Awaited] = field(default_factory=dict)

    def __add__(self, other: Proofs) -> Proofs:
        return Proofs({**self.faults, **other.faults}, {**self.awaited, **other.awaited})


@dataclass(slots=True)
class FetchedDocuments:
    """Documents that were fetched from where they live, and those that are not there (None); for a while."""

    _kept: OrderedDict[str, tuple[datetime, SignedDocument | None]] = field(default_factory=OrderedDict)

    def remember(self, uri: str, document: SignedDocument | None, *, until: datetime) -> None:
        """Keep what was found, or None for absent."""
        self._kept[uri] = (until, document)
        self._kept.move_to_end(uri)
        while len(self._kept) > _REMEMBERED:
            self._kept.popitem(last=False)

    def knows(self, uri: str, *, now: datetime) -> bool:
        """Whether it was asked for lately."""
        kept = self._kept.get(uri)
        return kept is not None and kept[0] > now

    def get(self, uri: str, *, now: datetime) -> SignedDocument | None:
        """What was found lately."""
        kept = self._kept.get(uri)
        return kept[1] if kept is not None and kept[0] > now else None


class Prover:
    """Checks proofs; owns what was fetched."""

    def __init__(self) -> None:
        self.fetched = FetchedDocuments()

    async def ahead(self, rows: Sequence[Row], positions: Sequence[int]) -> dict[int, ProofFault | None]:
        """Check the proofs at these positions that lean on no other document; the others are left out."""
        commits = {
            position: row
            for position in positions
            if isinstance(row := rows[position], Commit) and leans_on(row.proof) is None
        }
        checked = await _check_all(list(commits.values()), {})
        return dict(zip(commits, checked, strict=True))

    async def prove(
        self,
        connection: Connection,
        rows: Sequence[Row],
        positions: Sequence[int],
        *,
        now: datetime,
        ahead: Mapping[int, ProofFault | None] = MappingProxyType({}),
        stored: Mapping[str, str | None] = MappingProxyType({}),
    ) -> Proofs:
        """Check the proofs of the commits at these positions, but for those checked `ahead`.

        `stored` are documents that were looked up in the mirror already, None for those that are not there.
        """
        known = {position: ahead[position] for position in positions if position in ahead}
        commits = {
            position: row
            for position in positions
            if position not in known and isinstance(row := rows[position], Commit)
        }
        if not commits:
            return Proofs(known)
        documents, unreadable = await self._documents(
            connection, rows, list(commits.values()), stored, now=now
        )
        checked = await _check_all(list(commits.values()), documents)
        faults = known | dict(zip(commits, checked, strict=True))
        awaited = {
            position: missing
            for position, fault in zip(commits, checked, strict=True)
            if fault is ProofFault.UNRESOLVED
            and (missing := self._missing(commits[position].proof, documents, now)) is not None
            and missing.uri not in unreadable
        }
        return Proofs(faults, awaited)

    async def _documents(
        self,
        connection: Connection,
        rows: Sequence[Row],
        commits: Sequence[Commit],
        known: Mapping[str, str | None],
        *,
        now: datetime,
    ) -> tuple[dict[str, SignedDocument], set[str]]:
        """The documents that these proofs lean on, and those that these lean on in turn.

        Also which are stored and no proof can lean on, for they can not be read: none of these will yet come.
        """
        wanted = {uri for commit in commits if (uri := leans_on(commit.proof))}
        found: dict[str, SignedDocument] = {}
        unreadable: set[str] = set()
        own = _records_of(rows) if wanted else {}
        for _ in range(MAX_CHAIN):
            if not wanted:
                break
            stored = {**known, **await load_documents(connection, wanted.difference(known))}
            following: set[str] = set()
            for uri in wanted:
                text = stored.get(uri)
                held = read_signed(text) if text is not None else None
                mine = own.get(_place_of(uri))
                document = _chosen(held, _signed(mine), self.fetched.get(uri, now=now))
                if document is None and text is not None:
                    unreadable.add(uri)
                if document is not None:
                    found[uri] = document
                    if (further := leans_on(document.proof)) is not None and further not in found:
                        following.add(further)
            wanted = following
        return found, unreadable

    def _missing(
        self, proof: Proof | None, documents: Mapping[str, SignedDocument], now: datetime
    ) -> Awaited | None:
        """The document at which the chain of a proof breaks off; None when it was asked for in vain."""
        for _ in range(MAX_CHAIN):
            uri = leans_on(proof)
            if proof is None or uri is None:
                return None
            document = documents.get(uri)
            if document is None:
                awaited = Awaited(uri, is_enactment=proof.type != BY_REFERENCE)
                return None if self.fetched.knows(uri, now=now) else awaited
            proof = document.proof
        return None


async def _check_all(
    commits: Sequence[Commit], documents: Mapping[str, SignedDocument]
) -> list[ProofFault | None]:
    faults: list[ProofFault | None] = []
    for commit in commits:
        if faults and len(faults) % AT_ONCE == 0:
            await asyncio.sleep(0)
        faults.append(check_commit(commit, documents.get))
    return faults


def _chosen(*candidates: SignedDocument | None) -> SignedDocument | None:
    """The mirror's document before the page's and a fetched one; a revocation before what it revokes."""
    present = [candidate for candidate in candidates if candidate is not None]
    revocations = [one for one in present if REVOKED_SUBKEY_SCHEMA in one.document]
    return next(iter([*revocations, *present]), None)


def _records_of(rows: Sequence[Row]) -> dict[str, Commit]:
    """The page's own records, by key and by CDID, of several under one key the last."""
    records: dict[str, Commit] = {}
    for row in rows:
        if isinstance(row, Commit) and row.kind is Kind.RECORD and row.key is not None:
            records[row.key.key] = records[row.cdid] = row
    return records


def _signed(commit: Commit | None) -> SignedDocument | None:
    return None if commit is None else SignedDocument(commit.document, commit.proof)


def _place_of(uri: str) -> str:
    """How a page's own record is found by a canonical URI; that it is the one is for the proof to check."""
    return uri.rpartition("/")[2] if uri.startswith("ccfs:") else uri
