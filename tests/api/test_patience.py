"""Waiting for what may never come: how soon that is told, and what is left behind."""

from __future__ import annotations

import asyncio
import time

import pytest

from indexer.api.errors import UnavailableError
from indexer.api.patience import MOST_ABANDONED, Patience

pytestmark = pytest.mark.anyio


async def _stubborn(released: asyncio.Event) -> None:
    """Wait on, whoever cancels it: as a connection that is given back to a pool does."""
    while not released.is_set():
        try:
            await released.wait()
        except asyncio.CancelledError:
            continue


async def test_a_database_that_answers_is_waited_for_and_one_that_does_not_is_told() -> None:
    """The same slow work, and the whole difference is the probe."""
    hangs = asyncio.Event()

    async def answers() -> bool:
        if hangs.is_set():
            await asyncio.Event().wait()
        return True

    async def slow() -> str:
        await asyncio.sleep(0.2)
        return "found"

    patience = Patience(10, answers, moment_seconds=0.02, probe_seconds=0.05)
    assert await patience.wait(slow()) == "found"
    hangs.set()
    patience = Patience(10, answers, moment_seconds=0.02, probe_seconds=0.05)
    began, released = time.monotonic(), asyncio.Event()
    with pytest.raises(UnavailableError, match="the database"):
        await patience.wait(_stubborn(released))
    assert time.monotonic() - began < 5
    released.set()


async def test_what_can_not_be_cancelled_holds_nobody_up_and_is_bounded() -> None:
    """Past the bound nothing is begun; once it has ended, all is as before."""
    released, begun = asyncio.Event(), 0

    async def work() -> None:
        nonlocal begun
        begun += 1
        await _stubborn(released)

    async def answer() -> str:
        return "found"

    patience = Patience(0.05, moment_seconds=0.02)
    waits = [patience.wait(work()) for _ in range(MOST_ABANDONED)]
    ended = await asyncio.gather(*waits, return_exceptions=True)
    assert {type(each) for each in ended} == {TimeoutError}
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await patience.wait(work())
    assert begun == MOST_ABANDONED
    released.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await patience.wait(answer()) == "found"
