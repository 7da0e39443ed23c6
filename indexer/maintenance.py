"""Making indexes, mirror and network agree by hand, wired: `reindex`, `rebuild` and `verify`.

Whichever process projects does the building: one that runs already, or the command's own.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from indexer.app import make_judge, make_peers, open_for_reading, open_house, schemas_of, utc_now
from indexer.concrnt.client import PeerError
from indexer.concrnt.identifiers import MalformedName, canonical_fqdn, is_ccid, is_csid
from indexer.engines.base import EngineUnavailable
from indexer.errors import ExpectedError, unwrapped
from indexer.mirror.database import StoreUnavailable
from indexer.mirror.owners import Owners
from indexer.projection.comparing import IndexComparer
from indexer.replication.feeds import Feeds
from indexer.replication.rejudge import judge_stored
from indexer.replication.trust import TrustMode
from indexer.replication.verifying import UnknownHome, verify_owner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from indexer.app import House
    from indexer.config import Settings
    from indexer.mirror.builds import Build
    from indexer.mirror.database import Database
    from indexer.projection.comparing import Comparison

_BUILD_LOOK_SECONDS: Final = 0.5
_KEYS_SHOWN: Final = 20


async def run_builds(
    settings: Settings,
    uids: Sequence[str],
    *,
    reason: str,
    show: Callable[[Sequence[Build]], None],
    judging: bool = False,
) -> list[dict[str, Any]]:
    """Have indexes built anew and wait until they stand in their places; `show` is called with what is left.

    Whichever process projects does the work: one that runs already, or this one. With `judging`, what is
    stored is first judged again in the configured mode of trust.
    """
    began = time.monotonic()
    ended: dict[str, float] = {}
    with unwrapped():
        async with open_house(settings) as house:
            try:
                if judging:
                    await _judge_again(settings, house.database)
                await house.builds.request(uids, reason, now=utc_now())
            except StoreUnavailable as error:
                raise ExpectedError(str(error), code="database_away") from error
            async with _projecting(house) as work:
                while len(ended) < len(uids):
                    left = [build for build in await house.builds.builds() if build.index_uid in uids]
                    now = time.monotonic() - began
                    present = {build.index_uid for build in left}
                    ended |= {uid: now for uid in uids if uid not in present and uid not in ended}
                    show(left)
                    await _watched(work)
                sizes = (await house.projecting_engine.statistics()).indexes
    return [
        {"index": uid, "documents": sizes[uid].number_of_documents, "seconds": round(ended[uid], 1)}
        for uid in uids
    ]


async def _judge_again(settings: Settings, database: Database) -> None:
    """Apply `trust.mode` to what is stored."""
    await judge_stored(database, make_judge(settings), schemas_of(settings), now=utc_now())


async def run_comparison(settings: Settings, uids: Sequence[str], *, repairing: bool) -> list[dict[str, Any]]:
    """Compare indexes with the mirror; with `repairing`, wait until what differed was projected again."""
    with unwrapped():
        async with open_house(settings) as house:
            comparer = IndexComparer(house.projecting_engine, house.builds, house.keeper.kinds, utc_now)
            try:
                found = [await comparer.compare(uid) for uid in uids]
                if repairing:
                    await _repair(house, comparer, found)
            except (EngineUnavailable, StoreUnavailable) as error:
                raise ExpectedError(str(error), code="engine_away") from error
    return [
        {
            "index": one.index,
            "documents": one.documents,
            **{name: len(getattr(one, name)) for name in ("missing", "different", "extra", "foreign")},
            "keys": sorted([*one.missing, *one.different, *one.extra, *one.foreign])[:_KEYS_SHOWN],
            "ok": one.is_equal,
            "repaired": repairing and not one.is_equal,
        }
        for one in found
    ]


async def _repair(house: House, comparer: IndexComparer, found: Sequence[Comparison]) -> None:
    for one in found:
        await comparer.repair(one)
    marks = [key for one in found for key in (*one.missing, *one.different, *one.extra)]
    async with _projecting(house) as work:
        while await house.builds.marked(marks):
            await _watched(work)


@asynccontextmanager
async def _projecting(house: House) -> AsyncIterator[asyncio.Task[None]]:
    """Project meanwhile, when no other process does."""
    work = asyncio.create_task(house.project(), name="projection")
    try:
        yield work
    except StoreUnavailable as error:
        raise ExpectedError(str(error), code="database_away") from error
    finally:
        work.cancel()
        await asyncio.wait({work})


async def _watched(work: asyncio.Task[None]) -> None:
    """Let work go on for a while. Raises what it raised."""
    await asyncio.wait({work}, timeout=_BUILD_LOOK_SECONDS)
    if work.done():
        work.result()


def _owner(text: str) -> str:
    """A CCID, a CSID, or a server's name in its one spelling; refused before the store is opened."""
    if is_ccid(text) or is_csid(text):
        return text
    try:
        return canonical_fqdn(text)
    except MalformedName as error:
        message = f"{text} is no owner: neither a CCID (con1…) nor a bare domain"
        raise ExpectedError(message, code="no_owner", exit_code=2) from error


async def run_verification(settings: Settings, owner: str, *, only_look: bool) -> dict[str, Any]:
    """Ask an owner's own server what is still there, as `verify --json` prints it.

    `withdrawn` tells whether anything was taken away. Raises `ExpectedError`.
    """
    owner = _owner(owner)
    async with open_for_reading(settings) as database, make_peers(settings) as peers:
        try:
            judged = settings.trust.mode.value != TrustMode.OFF.value
            owners = Owners(database, sure_only=judged)
            found = await verify_owner(owner, Feeds(peers), owners, clock=utc_now, only_look=only_look)
        except UnknownHome as error:
            message = f"it is not surely known which server speaks for {owner}, so there is nobody to ask"
            raise ExpectedError(message, code="unknown_owner") from error
        except PeerError as error:
            raise ExpectedError(f"the owner's server: {error}", code="server_away") from error
    return {
        "owner": found.owner,
        "server": found.server,
        "hasLeft": found.has_left,
        "asked": found.asked,
        "gone": found.withdrawn,
        "references": found.references,
        "follows": found.follows,
        "withdrawn": not only_look and bool(found.withdrawn or found.has_left),
    }
