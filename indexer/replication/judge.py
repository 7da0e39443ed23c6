"""The judge of pages: reads the facts, has proofs checked, asks `trust.py`.

What it owns: the mode and the prover. Judging runs in a page's transaction and never waits for another
server; what needs nothing stored is done before it (`prove_ahead`), for owners are locked during it. What a
crash leaves: nothing.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from indexer.concrnt.documents import Commit, Kind
from indexer.concrnt.identifiers import is_ccid, is_csid, is_domain_owner
from indexer.concrnt.proofs import leans_on
from indexer.mirror.trust import load_facts
from indexer.replication.proving import Prover
from indexer.replication.trust import Judging, TrustMode, owners_in

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from indexer.concrnt.proofs import ProofFault
    from indexer.mirror.database import Connection
    from indexer.replication.page import Row
    from indexer.replication.trust import Judgement


class Judge:
    """Judges rows in one mode, which is not `off`."""

    def __init__(self, mode: TrustMode, *, follows: Collection[str]) -> None:
        """`follows` are the schemas of acks that are kept."""
        assert mode is not TrustMode.OFF
        self.mode = mode
        self.prover = Prover()
        self._follows = follows

    async def prove_ahead(self, rows: Sequence[Row], *, behind: int) -> Mapping[int, ProofFault | None]:
        """Check, of the rows past those read before, the proofs that any judging will ask for: by position.

        In `authority` those of where people live, and of follows that another server tells of.
        """
        positions = [at for at in range(behind, len(rows)) if self._is_always_proven(rows[at])]
        return await self.prover.ahead(rows, positions)

    def _is_always_proven(self, row: Row) -> bool:
        if not isinstance(row, Commit) or (row.associate is not None and row.schema not in self._follows):
            return False
        if self.mode is TrustMode.STRICT:
            return True
        return row.kind in (Kind.ENTITY, Kind.ACKED, Kind.UNACKED)

    async def judge(
        self,
        connection: Connection,
        rows: Sequence[Row],
        source: str,
        *,
        now: datetime,
        ahead: Mapping[int, ProofFault | None] = MappingProxyType({}),
    ) -> Judgement:
        """What rows of this server are worth; `ahead` as `prove_ahead` gave it for the same rows."""
        owners = owners_in(rows)
        of_whom = set(owners)
        people = [owner for owner in of_whom if is_ccid(owner)]
        csid = any(is_csid(owner) for owner in of_whom)
        told = [row.author for row in rows if isinstance(row, Commit) and row.kind is Kind.ENTITY]
        domains = _domains(rows, of_whom) | {source}
        proven = [row for row in rows if isinstance(row, Commit) and self._is_always_proven(row)]
        uris = {uri for row in proven if (uri := leans_on(row.proof)) is not None}
        facts = await load_facts(connection, source, people, csid=csid, told=told, domains=domains, uris=uris)
        judging = Judging(rows, owners, facts, self.mode, follows=self._follows)
        prove = partial(self.prover.prove, connection, rows, now=now, ahead=ahead, stored=facts.documents)
        proofs = await prove(judging.to_prove())
        judging.settle(proofs.faults)
        if further := judging.still_to_prove():
            proofs += await prove(further)
        return judging.conclude(proofs.faults, proofs.awaited)


def _domains(rows: Sequence[Row], owners: Collection[str]) -> set[str]:
    """The domains that a page speaks for."""
    told = {row.domain for row in rows if isinstance(row, Commit) and row.domain is not None}
    return told | {owner for owner in owners if is_domain_owner(owner)}
