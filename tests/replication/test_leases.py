"""Several processes on one database: claims, fencing, roles."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from indexer.mirror import lock
from indexer.mirror.servers import CursorAdvance, LeaseLostError, ServerState
from indexer.replication.page import read_rows
from indexer.simulation import faults
from indexer.simulation.faults import Endpoint
from indexer.simulation.scripted import ALICE, ALPHA, BETA, post
from tests.replication.network import stage
from tests.replication.stage import NOW, SCHEMAS, Mirror, open_mirror

if TYPE_CHECKING:
    from indexer.simulation.wire import Reply, Request

pytestmark = pytest.mark.anyio


async def _know(mirror: Mirror, *domains: str) -> None:
    await mirror.servers.discover(list(domains), now=NOW, aliases_since=NOW, at_most=100, per_parent=100)


async def test_a_server_is_claimed_by_one_process_at_a_time(database_url: str) -> None:
    """Two claims side by side share the servers; nothing is claimed twice."""
    async with open_mirror(database_url) as mirror:
        domains = [f"s{n}.example{n}.org" for n in range(20)]
        await _know(mirror, *domains)
        claims = await asyncio.gather(
            *(mirror.servers.claim_due(now=NOW, limit=8, holder=f"h{n}", lease_seconds=30) for n in range(4))
        )
        claimed = [lease.domain for leases in claims for lease in leases]
        assert len(claimed) == len(set(claimed))
        rest = await mirror.servers.claim_due(now=NOW, limit=20, holder="h", lease_seconds=30)
        assert sorted([*claimed, *(lease.domain for lease in rest)]) == sorted(domains)


async def test_a_lease_that_ran_out_is_claimed_again_and_fences_its_old_holder(database_url: str) -> None:
    """The page of a holder that slept has no effect, and neither has how its run ended."""
    async with open_mirror(database_url) as mirror:
        await _know(mirror, ALPHA)
        (slept,) = await mirror.servers.claim_due(now=NOW, limit=1, holder="slept", lease_seconds=0)
        (new,) = await mirror.servers.claim_due(now=NOW, limit=1, holder="new", lease_seconds=30)
        await mirror.servers.begin(ALPHA)
        rows = read_rows([post(ALICE, "1", "x")], now=NOW, indexed=SCHEMAS.malformed_kinds)
        advance = CursorAdvance(ALPHA, "2025-03-01T00:00:00Z", 1, rows.digests, lease=slept)
        with pytest.raises(LeaseLostError):
            await mirror.writer.write(rows.rows, advance, behind=0, now=NOW)
        assert await mirror.keys() == set()
        with pytest.raises(LeaseLostError):
            await mirror.servers.wait(slept, until=NOW, now=NOW, why="late")
        assert await mirror.servers.renew([slept, new], lease_seconds=30) == {ALPHA}
        state = await mirror.servers.state_of(ALPHA)
        assert state is not None
        assert (state.cursor, state.state) == (None, ServerState.DISCOVERED)


async def test_a_cancelled_run_gives_its_lease_up(database_url: str) -> None:
    """Another process can follow the server at once."""
    async with stage(database_url) as on:
        await on.discovery.run()
        gate = asyncio.Event()
        on[ALPHA].faults.always(faults.hold(gate), on=Endpoint.REPLICATION)
        run = asyncio.ensure_future(on.schedule.follow(ALPHA))
        await on[ALPHA].wait_for_requests(1)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        rows = await on.mirror.rows("select lease_until from mirror.servers where domain = $1", ALPHA)
        assert rows == [{"lease_until": None}]


async def test_a_role_is_held_by_one_and_taken_over_when_it_runs_out(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A holder that stops renewing loses it; one that goes gives it up."""
    monkeypatch.setattr(lock, "_RETRY_SECONDS", 0.02)
    async with open_mirror(database_url) as mirror:
        async with lock.role(mirror.database, "projection", "a") as lost_by_a:
            waiting = asyncio.ensure_future(_hold(mirror, "b"))
            done, _ = await asyncio.wait([waiting], timeout=0.2)
            assert not done
            await mirror.database.execute("update mirror.leases set until = now() - interval '1 second'")
            await asyncio.wait_for(waiting, 5)
            assert not lost_by_a.is_set()  # it will be told at its next renewal
        async with lock.role(mirror.database, "projection", "c"):
            rows = await mirror.rows("select holder from mirror.leases")
            assert rows == [{"holder": "c"}]


async def _hold(mirror: Mirror, holder: str) -> None:
    async with lock.role(mirror.database, "projection", holder):
        pass


async def test_failures_back_off_by_steps_and_success_resets(database_url: str) -> None:
    """C31: the next poll, 5 minutes, 15, an hour; a success begins anew."""
    async with stage(database_url) as on:
        await on.discovery.run()
        on[ALPHA].faults.always(faults.status(500))
        waits = []
        for _ in range(5):
            await on.follow(ALPHA)
            waits.append((await on.report(ALPHA)).next_poll_at - on.clock.now)
        for wait, due in zip(waits, (15, 300, 900, 3600, 3600), strict=True):
            assert abs(wait.total_seconds() - due) <= due * 0.1
        on[ALPHA].faults.clear()
        await on.follow(ALPHA)
        assert (await on.report(ALPHA)).consecutive_failures == 0


async def test_a_long_silence_makes_a_server_stale_and_an_answer_active_again(database_url: str) -> None:
    """Thirty failures in a row over three days: asked once a day."""
    async with stage(database_url) as on:
        await on.discovery.run()
        on[BETA].faults.always(faults.status(500))
        for _ in range(31):
            await on.follow(BETA, after=timedelta(hours=3))
        report = await on.report(BETA)
        assert report.state == "stale"
        assert report.next_poll_at - on.clock.now > timedelta(hours=21)
        on[BETA].faults.clear()
        await on.follow(BETA)
        assert (await on.report(BETA)).state == "following"


async def test_a_busy_server_is_polled_often_and_a_quiet_one_rarely(database_url: str) -> None:
    """Something new: the shortest interval; nothing: twice the last one."""
    async with stage(database_url) as on:
        await on.discovery.run()
        waits = []
        for number in range(6):
            if number in (0, 4):
                received = datetime(2025, 3, 1, 0, number, tzinfo=UTC).isoformat()
                on[ALPHA].receive(received, post(ALICE, str(number), "x"))
            await on.follow(ALPHA)
            waits.append((await on.report(ALPHA)).next_poll_at - on.clock.now)
        for wait, due in zip(waits, (15, 30, 60, 120, 15, 30), strict=True):
            assert abs(wait.total_seconds() - due) <= due * 0.1


async def test_a_server_that_says_how_much_it_allows_has_room_left_for_others(database_url: str) -> None:
    """Pages are read until a quarter of its limit is left, then again when it is set back; no failure."""
    left = 8

    def limited(_: Request, honest: Reply) -> Reply:
        nonlocal left
        left -= 1
        return honest.with_headers(ratelimit_limit="8", ratelimit_remaining=str(left), ratelimit_reset="60")

    async with stage(database_url, page_limit=1) as on:
        await on.discovery.run()
        for number in range(8):
            on[ALPHA].receive(f"2025-03-01T00:00:0{number}Z", post(ALICE, str(number), "x"))
        on[ALPHA].faults.always(limited, on=Endpoint.REPLICATION)
        await on.follow(ALPHA)
        report = await on.report(ALPHA)
        assert (report.state, report.failure_class, report.consecutive_failures) == (
            "waiting",
            "rate_limited",
            0,
        )
        assert report.next_poll_at - on.clock.now >= timedelta(seconds=59)
        assert (left, len(on.asked(ALPHA))) == (2, 6)
        left = 8
        await on.follow(ALPHA, after=timedelta(seconds=61))
        assert len(await on.mirror.keys()) == 8
        assert (await on.report(ALPHA)).state == "following"
        assert len(on.asked(ALPHA)) == 8, "it goes on where it stood"
