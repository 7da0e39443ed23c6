"""Several look-ups at once. Owns nothing; those that were not begun are closed, the others ended with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from indexer.mirror.database import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence


async def side_by_side(look_ups: Sequence[Coroutine[None, None, None]], *, at_once: int) -> None:
    """Carry out look-ups, a few at once. Raises `StoreUnavailable` as itself, not in a group."""
    places = asyncio.Semaphore(at_once)

    async def one(look_up: Coroutine[None, None, None]) -> None:
        async with places:
            await look_up

    try:
        async with asyncio.TaskGroup() as group:
            for look_up in look_ups:
                group.create_task(one(look_up))
    except ExceptionGroup as raised:
        away, other = raised.split(StoreUnavailable)
        if away is None or other is not None:
            raise
        raise away.exceptions[0] from None
    finally:
        for look_up in look_ups:
            look_up.close()  # those that the group never began
