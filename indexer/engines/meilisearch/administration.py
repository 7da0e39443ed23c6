"""The indexes of one server: made, set up, swapped and removed; each call returns when the server is done.

Uids are ours; on the server a prefix stands before each. A build has a name of its own there, another each
time: what a process sends into a build that another has put an end to reaches none that counts.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from indexer.engines.base import EngineUnavailable, IndexLost, build_uid
from indexer.engines.meilisearch.settings import changes, is_foreign, settings_of
from indexer.engines.meilisearch.tasks import TASK_SECONDS, wait_for_tasks
from indexer.engines.meilisearch.wire import REQUEST_SECONDS, Refused, task_failure

if TYPE_CHECKING:
    from indexer.engines.base import IndexDefinition
    from indexer.engines.meilisearch.wire import Wire

SETTINGS_SECONDS: Final = 24 * 3600.0
"""New settings may mean that everything is indexed again."""

_MANY_INDEXES: Final = 1_000


class Administration:
    """Looks after the indexes of one server."""

    def __init__(self, wire: Wire, prefix: str, max_total_hits: int) -> None:
        self._wire = wire
        self._prefix = prefix
        self._max_total_hits = max_total_hits
        self._builds: dict[str, str] = {}

    def name_build(self, uid: str) -> None:
        """Give a build a name that none had before."""
        self._builds[uid] = f"{uid}_{secrets.token_hex(6)}"

    def forget_build(self, uid: str) -> None:
        """Know a build no more."""
        self._builds.pop(uid, None)

    def uid(self, uid: str) -> str:
        """Return what an index is called on the server."""
        return self._prefix + self._builds.get(uid, uid)

    def own_uid(self, uid: str) -> str:
        """Return what we call an index of the server."""
        own = uid.removeprefix(self._prefix)
        return next((build for build, name in self._builds.items() if name == own), own)

    def path(self, uid: str) -> str:
        """Return the path of an index."""
        return f"/indexes/{self.uid(uid)}"

    async def present(self, *, seconds: float = REQUEST_SECONDS) -> dict[str, str]:
        """Return when each index was made."""
        answer = await self._wire.get(f"/indexes?limit={_MANY_INDEXES}", seconds=seconds)
        return {
            self.own_uid(index["uid"]): index["createdAt"]
            for index in answer["results"]
            if index["uid"].startswith(self._prefix)
        }

    async def make(self, uid: str) -> None:
        """Make an index that is missing; raises `EngineUnavailable` for one with another primary key."""
        try:
            index = await self._wire.get(self.path(uid))
        except IndexLost:
            try:
                new = {"uid": self.uid(uid), "primaryKey": "id"}
                await self._done(await self._wire.send("POST", "/indexes", new))
            except Refused as error:
                if error.code != "index_already_exists":  # made by another process in between
                    raise EngineUnavailable(str(error)) from error
            return
        if index["primaryKey"] is None:
            await self._done(await self._wire.send("PATCH", self.path(uid), {"primaryKey": "id"}))
        elif index["primaryKey"] != "id":
            raise EngineUnavailable(
                f"the index {self.uid(uid)} of Meilisearch has the primary key "
                f"{index['primaryKey']!r}, not 'id': remove it, and it is made again"
            )

    async def is_settled(self, definition: IndexDefinition) -> bool:
        """Tell whether an index has our settings; changes nothing."""
        current = await self._wire.get(f"{self.path(definition.uid)}/settings")
        return not changes(current, settings_of(definition, self._max_total_hits))

    async def put_settings(self, definition: IndexDefinition) -> bool:
        """Change settings that differ; False for an index that another program has filled: that one stays."""
        path = f"{self.path(definition.uid)}/settings"
        current = await self._wire.get(path)
        if is_foreign(current) and await self._holds_documents(definition.uid):
            return False
        differing = changes(current, settings_of(definition, self._max_total_hits))
        if differing:
            try:
                await self._done(await self._wire.send("PATCH", path, differing), seconds=SETTINGS_SECONDS)
            except Refused as error:
                raise EngineUnavailable(
                    f"this Meilisearch does not take our settings: {error.code}; is its version supported?"
                ) from error
        return True

    async def remove_builds(self, uid: str) -> None:
        """Remove every build of an index, under whatever name; that one is gone already is no error."""
        for name in await self.present():
            if name == build_uid(uid) or name.startswith(f"{build_uid(uid)}_"):
                with suppress(IndexLost):
                    await self._done(await self._wire.send("DELETE", self.path(name)))

    async def swap(self, uid: str, other: str) -> None:
        """Swap two indexes at one instant."""
        pair = [self.uid(uid), self.uid(other)]
        await self._done(await self._wire.send("POST", "/swap-indexes", [{"indexes": pair}]))

    async def swap_is_pending(self) -> bool:
        """Tell whether a swap waits or is under way."""
        pending = "/tasks?limit=1&types=indexSwap&statuses=enqueued,processing"
        return bool((await self._wire.get(pending))["results"])

    async def _holds_documents(self, uid: str) -> bool:
        stats = await self._wire.get(f"{self.path(uid)}/stats")
        return bool(stats["numberOfDocuments"])

    async def _done(self, answer: Any, *, seconds: float = TASK_SECONDS) -> None:
        number = answer["taskUid"]
        failure = task_failure((await wait_for_tasks(self._wire, [number], seconds=seconds))[number])
        if failure is not None:
            raise failure
