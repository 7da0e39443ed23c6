"""Asking an owner's own server what is still there (C30): people leave, records turn private, no log tells.

For each stored record of the owner the server's resolve endpoint is asked. Only a clear "absent, or not
readable by anyone" (404, 410, 403) counts; any other failure ends the errand, and nothing is concluded from
it. A redirect to elsewhere means that something is there. References are not asked for: a server answers
them with what they lead to, and they go with it. What is gone is withdrawn in batches, each one
transaction; whoever begins again goes on with what is left.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from indexer.concrnt.client import FailureClass, PeerError
from indexer.concrnt.identifiers import is_ccid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from indexer.mirror.owners import OwnedKey
    from indexer.replication.feeds import Feeds

KEYS_AT_ONCE: Final = 200
REQUESTS_AT_ONCE: Final = 4


class OwnerStore(Protocol):
    """What the mirror holds of owners (`mirror/owners.py`)."""

    async def home(self, ccid: str) -> str | None:
        """Where a person lives."""
        ...

    async def keys(self, owner: str, after: str, limit: int) -> list[OwnedKey]:
        """The next keys of an owner."""
        ...

    async def withdraw(self, owner: str, gone: Sequence[OwnedKey], *, now: datetime) -> tuple[int, int]:
        """Take documents away, and the references to them."""
        ...

    async def forget_follows(self, ccid: str) -> int:
        """Take away whom a person follows."""
        ...


@dataclass(slots=True)
class Verified:
    """What was found. ``has_left``: the server does not know the person any more."""

    owner: str
    server: str
    has_left: bool = False
    asked: int = 0
    withdrawn: list[str] = field(default_factory=list)
    references: int = 0
    follows: int = 0


class UnknownHome(Exception):  # noqa: N818 - says what is the matter
    """Nobody knows which server to ask."""


async def verify_owner(
    owner: str, feeds: Feeds, store: OwnerStore, *, clock: Callable[[], datetime], only_look: bool = False
) -> Verified:
    """Ask for everything that is stored of an owner; withdraw what is gone, unless ``only_look``.

    Raises:
        UnknownHome: where the owner lives is not surely known, or another server answers there.
        PeerError: the server did not answer rightly.
        StoreUnavailable: the mirror is away.

    """
    home = await store.home(owner)
    if home is None:
        raise UnknownHome(owner)
    told = await feeds.well_known(home)
    if told.domain != home:
        raise UnknownHome(owner)  # whoever answers there now speaks for another name
    endpoints = told.endpoints
    found = Verified(owner, home)
    found.has_left = is_ccid(owner) and not await _is_there(feeds, home, endpoints, f"cckv://{owner}")
    after = ""
    while keys := await store.keys(owner, after, KEYS_AT_ONCE):
        after = keys[-1].key
        gone = await _gone(feeds, home, endpoints, keys)
        found.asked += len(keys)
        found.withdrawn += [one.key for one in gone]
        if gone and not only_look:
            _, references = await store.withdraw(owner, gone, now=clock())
            found.references += references
    if found.has_left and not only_look:
        found.follows = await store.forget_follows(owner)
    return found


async def _gone(
    feeds: Feeds, home: str, endpoints: Mapping[str, str], keys: Sequence[OwnedKey]
) -> list[OwnedKey]:
    places = asyncio.Semaphore(REQUESTS_AT_ONCE)

    async def is_there(key: str) -> bool:
        async with places:
            return await _is_there(feeds, home, endpoints, key)

    answers = await asyncio.gather(*(is_there(one.key) for one in keys))
    return [one for one, present in zip(keys, answers, strict=True) if not present]


async def _is_there(feeds: Feeds, home: str, endpoints: Mapping[str, str], uri: str) -> bool:
    try:
        return await feeds.resolve(home, endpoints, uri) is not None
    except PeerError as error:
        if error.failure is FailureClass.REDIRECT:
            return True
        raise
