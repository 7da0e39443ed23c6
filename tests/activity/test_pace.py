"""When ticks come."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import pytest

from indexer.activity.keeper import ActivityKeeper
from indexer.mirror.activity import Refreshed

if TYPE_CHECKING:
    from indexer.mirror.activity import Activity, SubjectKind

pytestmark = pytest.mark.anyio


class _Still:
    """A mirror in which nothing changes."""

    async def begin_tick(self, _now: datetime) -> bool:
        return False

    async def refresh(self, _kind: SubjectKind, _now: datetime) -> Refreshed:
        return Refreshed(0, is_last=True)


class _Nobody:
    def activity_refreshed(self, subject: str, result: str, seconds: float) -> None:
        """Nobody watches."""


@pytest.mark.parametrize(
    ("interval", "waits"),
    [(600.0, [15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]), (0.2, [0.2] * 8)],
)
async def test_the_first_ticks_follow_each_other_soon(interval: float, waits: list[float]) -> None:
    """The first may come in the middle of a backfill; in the end the interval is kept."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == len(waits):
            raise asyncio.CancelledError

    async def deliver() -> int:
        return 0

    keeper = ActivityKeeper(
        cast("Activity", _Still()),
        deliver=deliver,
        interval_seconds=interval,
        metrics=_Nobody(),
        clock=lambda: datetime(2025, 3, 1, tzinfo=UTC),
        sleep=sleep,
    )
    with pytest.raises(asyncio.CancelledError):
        await keeper.run()
    assert slept == waits
