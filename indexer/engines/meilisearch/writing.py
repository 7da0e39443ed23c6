"""Writing into one index: portions, tasks, and finding the document that spoils a task.

A portion is bounded by bytes and by count. All portions of a batch are under way at once; the engine works on
them in the order in which they were sent, and joins what it can. A portion that the server does not take
(413) and a task that failed for what it holds are halved, until the document that is to blame stands alone;
alone it is tried once more, since the fault may have been the engine's. Only when it fails again, while the
engine can do other work, is it refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from indexer.engines.base import EngineUnavailable, RejectedDocument
from indexer.engines.meilisearch.tasks import wait_for_tasks
from indexer.engines.meilisearch.wire import PayloadTooLarge, Refused, task_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from indexer.engines.meilisearch.wire import Wire

PORTION_BYTES: Final = 16 * 1024 * 1024
PORTION_DOCUMENTS: Final = 10_000
PORTION_IDS: Final = 50_000


@dataclass(frozen=True, slots=True)
class Line:
    """A document on its way: its id and its line of NDJSON."""

    id: str
    text: bytes


def portions(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Cut lines into portions; one that is larger than a portion goes alone."""
    portion: list[Line] = []
    size = 0
    for line in lines:
        if portion and (len(portion) >= PORTION_DOCUMENTS or size + len(line.text) > PORTION_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(line)
        size += len(line.text)
    if portion:
        yield portion


class IndexWriter:
    """Writes into one index.

    Args:
        wire: the server.
        uid: the index.
        lays_over: the fields of a document are laid over those that are stored, which otherwise all go.
        creates: a document that is not there is made; otherwise the server leaves it out when its turn comes.

    """

    def __init__(self, wire: Wire, uid: str, *, lays_over: bool, creates: bool = True) -> None:
        self._wire = wire
        self._uid = uid
        self._method = "PUT" if lays_over else "POST"
        self._path = f"/indexes/{uid}/documents?primaryKey=id{'' if creates else '&skipCreation=true'}"

    async def delete(self, ids: Sequence[str]) -> list[int]:
        """Send ids to be removed; returns the tasks."""
        path = f"/indexes/{self._uid}/documents/delete-batch"
        starts = range(0, len(ids), PORTION_IDS)
        return [
            (await self._wire.send("POST", path, list(ids[start : start + PORTION_IDS])))["taskUid"]
            for start in starts
        ]

    async def send(self, lines: Sequence[Line]) -> list[tuple[int, Sequence[Line]]]:
        """Send one portion; returns its tasks with what each holds, more than one where it had to be halved.

        Raises:
            PayloadTooLarge: a single document is too large.

        """
        try:
            return [(await self._send(lines), lines)]
        except PayloadTooLarge:
            if len(lines) == 1:
                raise
        middle = len(lines) // 2
        return [*await self.send(lines[:middle]), *await self.send(lines[middle:])]

    async def _send(self, lines: Sequence[Line]) -> int:
        answer = await self._wire.send_lines(self._method, self._path, b"".join(line.text for line in lines))
        number: int = answer["taskUid"]
        return number

    async def put(self, lines: Sequence[Line]) -> list[RejectedDocument]:
        """Write lines, task after task, to their end; returns those that are refused."""
        try:
            task = await self._finished(await self._send(lines))
            failure = task_failure(task)
        except (PayloadTooLarge, Refused) as error:
            failure = error
        if failure is None:
            return []
        return await self.settle(lines, failure)

    async def settle(self, lines: Sequence[Line], failure: Exception) -> list[RejectedDocument]:
        """Write what a failed task, or a request that was not taken, held.

        Raises:
            EngineUnavailable: the failure is not a document's fault.

        """
        if not isinstance(failure, PayloadTooLarge | Refused):
            raise failure
        if len(lines) > 1:
            middle = len(lines) // 2
            return [*await self.put(lines[:middle]), *await self.put(lines[middle:])]
        return await self._try_alone(lines[0], failure)

    async def _try_alone(self, line: Line, failure: Exception) -> list[RejectedDocument]:
        if isinstance(failure, PayloadTooLarge):
            return [self._rejected(line, f"Meilisearch takes no document of {len(line.text):,} bytes")]
        try:
            again = task_failure(await self._finished(await self._send([line])))
        except Refused as error:
            again = error
        if again is None:
            return []
        if not isinstance(again, Refused):
            raise again
        if again.code == "internal" and not await self._works():
            raise EngineUnavailable("Meilisearch: internal error")
        return [self._rejected(line, str(again))]

    async def _works(self) -> bool:
        """Tell whether the index takes any work at all: removing nothing."""
        (task,) = await self.delete(["nothing-has-this-id"])
        return task_failure(await self._finished(task)) is None

    async def _finished(self, number: int) -> Any:
        return (await wait_for_tasks(self._wire, [number]))[number]

    def _rejected(self, line: Line, reason: str) -> RejectedDocument:
        return RejectedDocument(self._uid, line.id, reason)
