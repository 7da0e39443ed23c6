"""One bad server, of any kind, never delays another; and how soon, how often servers are asked (C31)."""

from __future__ import annotations

from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING

import pytest

from indexer.simulation import faults
from indexer.simulation.faults import Endpoint
from indexer.simulation.scripted import ALICE, ALPHA, BETA, SEED, post, post_key
from tests.replication.network import START, Stage, stage

if TYPE_CHECKING:
    from datetime import datetime

    from indexer.simulation.faults import Fault

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

MISBEHAVIOUR: dict[str, Fault] = {
    "500": faults.status(500),
    "404": faults.status(404),
    "403": faults.status(403),
    "html": faults.html(),
    "204": faults.no_content(),
    "elsewhere": faults.redirect("https://www.other.example/"),
    "inside": faults.redirect("http://127.0.0.1:7700/"),
    "silent": faults.silence(),
    "drips": faults.drip(0.2),
    "drips headers": faults.drip(0.2, headers=True),
    "endless": faults.endless(seconds=0.05),
    "resets": faults.reset(),
    "cut": faults.cut_short(),
    "gzip": faults.broken_gzip_trailer(),
    "truncated": faults.truncated_gzip(),
    "too large": faults.gzip_bomb(33 * 2**20),
    "no page": faults.body(b"{}"),
    "list": faults.body(b"[]"),
    "backwards": faults.next_cursor("1999-01-01T00:00:00Z"),
    "no time": faults.next_cursor("yesterday"),
}
THROTTLING: dict[str, tuple[Fault, int]] = {
    "seconds": (faults.slow_down(120), 30),
    "date": (faults.slow_down(START + timedelta(minutes=40)), 8),
    "for ever": (faults.slow_down(999_999), 2),
    "503": (faults.slow_down(code=503), 60),
}
ROUND = timedelta(minutes=3)
ROUNDS = 20


def _received(at: datetime, on: Stage, domain: str, number: int) -> str:
    """Let a server receive a post; its key's last step."""
    identity = f"{domain}-{number}"
    on[domain].receive(at.isoformat(), post(ALICE, identity, "x"))
    return identity


async def _rounds(on: Stage, healthy: list[str]) -> None:
    """An hour of simulated time; each healthy server has something new in each round, and it is found."""
    await on.discovery.run()
    for number in range(ROUNDS):
        new = {post_key(ALICE, _received(on.clock.now, on, domain, number)) for domain in healthy}
        on.clock.now += ROUND
        await on.schedule.run_once()
        assert new <= await on.mirror.keys(), f"round {number}"


async def test_twenty_servers_that_misbehave_delay_none_of_thirty_others(database_url: str) -> None:
    """Each in its own way. What a healthy one has new is found in the same round, for an hour."""
    assert len(MISBEHAVIOUR) == 20
    bad = {f"bad{number}.example{number}.org": fault for number, fault in enumerate(MISBEHAVIOUR.values())}
    healthy = [f"good{number}.example{number}.net" for number in range(29)]
    async with stage(database_url, SEED, *healthy, *bad, request_timeout=0.4) as on:
        for domain, fault in bad.items():
            on[domain].receive("2025-03-01T00:00:00Z", post(ALICE, domain, "x"))
            on[domain].faults.always(fault, on=Endpoint.REPLICATION)
        await _rounds(on, healthy)
        for domain, kind in zip(bad, MISBEHAVIOUR, strict=True):
            report = await on.report(domain)
            assert (report.state, report.last_error is not None) == ("backing_off", True), kind
            # At once, at the next poll, after 5 minutes, after 15; then the hour is over.
            assert report.consecutive_failures == 4, kind
            assert len(on.asked(domain)) <= 2 * 4, kind
        for domain in healthy:
            report = await on.report(domain)
            assert (report.state, report.consecutive_failures) == ("following", 0)
            assert len(on.asked(domain)) <= 2 * ROUNDS


async def test_the_dead_and_the_throttling_starve_nobody(database_url: str) -> None:
    """C31: fifty black holes and four servers that ask for quiet, beside one that is alive."""
    dead = [f"dead{number}.example{number}.org" for number in range(50)]
    throttling = {f"busy{number}.example.net": trial for number, trial in enumerate(THROTTLING.values())}
    async with stage(database_url, SEED, ALPHA, *dead, *throttling, request_timeout=0.2) as on:
        for domain in dead:
            on[domain].faults.always(faults.silence())
        for domain, (fault, _) in throttling.items():
            on[domain].faults.always(fault, on=Endpoint.REPLICATION)
        await _rounds(on, [ALPHA])
        for domain in dead:
            report = await on.report(domain)
            assert report.failure_class == "timeout"
            assert len(on[domain].requests) == report.consecutive_failures == 4
        for domain, (_, most) in throttling.items():
            report = await on.report(domain)
            assert (report.state, report.consecutive_failures) == ("waiting", 0)
            assert 1 <= len(on.asked(domain)) <= most, domain
            assert report.next_poll_at - on.clock.now <= timedelta(hours=1)
        waits = {(await on.report(domain)).next_poll_at for domain in dead}
        assert len(waits) == len(dead), "spread by jitter"
        for domain in dead[:2]:
            on[domain].faults.clear()
            await on.follow(domain)
            assert (await on.report(domain)).state == "following", "success resets"


async def test_a_busy_server_is_read_soon_and_a_quiet_one_seldom(database_url: str) -> None:
    """Within the shortest interval in the median; not more than once in the longest, when nothing happens."""
    async with stage(database_url, SEED, ALPHA, BETA) as on:
        await on.discovery.run()
        committed: dict[str, datetime] = {}
        seen: dict[str, datetime] = {}
        last = on.clock.now
        end = on.clock.now + timedelta(minutes=30)
        while on.clock.now < end:
            due = await on.mirror.servers.next_due(at_work=[])
            assert due is not None
            on.clock.now = max(due, on.clock.now + timedelta(milliseconds=1))
            while last + timedelta(seconds=7) <= on.clock.now:
                last += timedelta(seconds=7)
                committed[post_key(ALICE, _received(last, on, ALPHA, len(committed)))] = last
            await on.schedule.run_once()
            for key in await on.mirror.keys() - seen.keys():
                seen[key] = on.clock.now
        delays = [(seen[key] - at).total_seconds() for key, at in committed.items() if key in seen]
        assert len(delays) > 200
        assert median(delays) <= 15 + 2
        assert len(on.asked(ALPHA)) <= 30 * 60 / (15 * 0.9) * 2
        before = len(on.asked(BETA))
        for _ in range(6 * 60):
            await on.crawl()
        assert len(on.asked(BETA)) - before <= 6 * 60 / (15 * 0.9)
