"""The judge of pages: reads the facts, has proofs checked, asks `trust.py`.

What it owns: the mode and the prover. Judging runs in a page's transaction and never waits for another
server. What a crash leaves: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.concrnt.documents import Commit, Kind
from indexer.concrnt.identifiers import is_ccid, is_csid, is_domain_owner
from indexer.mirror.trust import load_facts
from indexer.replication.proving import Prover
from indexer.replication.trust import Judging, TrustMode, owners_in

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

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

    def close(self) -> None:
        """End the pool of threads."""
        self.prover.close()

    async def judge(
        self, connection: Connection, rows: Sequence[Row], source: str, *, now: datetime
    ) -> Judgement:
        """What rows of this server are worth."""
        owners = owners_in(rows)
        of_whom = set(owners)
        people = [owner for owner in of_whom if is_ccid(owner)]
        csid = any(is_csid(owner) for owner in of_whom)
        told = [row.author for row in rows if isinstance(row, Commit) and row.kind is Kind.ENTITY]
        domains = _domains(rows, of_whom) | {source}
        facts = await load_facts(connection, source, people, csid=csid, told=told, domains=domains)
        judging = Judging(rows, owners, facts, self.mode, follows=self._follows)
        proofs = await self.prover.prove(connection, rows, judging.to_prove(), now=now)
        judging.settle(proofs.faults)
        if further := judging.still_to_prove():
            proofs += await self.prover.prove(connection, rows, further, now=now)
        return judging.conclude(proofs.faults, proofs.awaited)


def _domains(rows: Sequence[Row], owners: Collection[str]) -> set[str]:
    """The domains that a page speaks for."""
    told = {row.domain for row in rows if isinstance(row, Commit) and row.domain is not None}
    return told | {owner for owner in owners if is_domain_owner(owner)}
