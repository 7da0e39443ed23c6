"""The follower's cursor rules (behaviour.md, section 2), against scripted servers over real HTTP."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from indexer.concrnt.times import parse_instant
from indexer.simulation import faults
from indexer.simulation.faults import Endpoint
from indexer.simulation.log import Precision
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    SEED,
    delete,
    post,
    post_key,
    profile,
    profile_key,
    scripted_server,
    signed,
)
from tests.replication.network import Stage, stage

if TYPE_CHECKING:
    from indexer.mirror.servers import CursorAdvance
    from indexer.simulation.server import SimulatedServer

pytestmark = pytest.mark.anyio
T0 = "2025-03-01T00:00:00Z"


def _posts(count: int, *, first: int = 0) -> list[bytes]:
    return [post(ALICE, f"n{number}", f"post {number}") for number in range(first, first + count)]


async def _post_count(on: Stage) -> int:
    rows = await on.mirror.rows("select count(*) from mirror.records where schema like '%markdown%'")
    return int(rows[0]["count"])


# --- the plain way ---------------------------------------------------------------------------------


async def test_a_feed_is_read_page_by_page_and_cursors_are_echoed_byte_for_byte(database_url: str) -> None:
    """Without a cursor there is no `since`; each next request begins exactly at `next`."""
    async with stage(database_url, page_limit=2) as on:
        for number, commit in enumerate(_posts(5)):
            on[ALPHA].receive(f"2025-03-01T00:00:0{number}.12345678{number}Z", commit)
        await on.crawl()
        asked = on.asked(ALPHA)
        assert "since" not in asked[0]
        assert [query.get("since") for query in asked[1:3]] == [
            "2025-03-01T00:00:02.123456782Z",
            "2025-03-01T00:00:04.123456784Z",
        ]
        assert await _post_count(on) == 5
        report = await on.report(ALPHA)
        assert (report.state, report.caught_up, report.commits) == ("following", True, 5)
        assert report.cursor == "2025-03-01T00:00:04.123456784Z"


async def test_the_cursor_of_a_drained_feed_is_prev_of_its_last_page(database_url: str) -> None:
    """Never the local clock; and the next poll begins the overlap before it."""
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, *_posts(1))
        on[ALPHA].receive("2025-03-01T00:00:30Z", *_posts(1, first=1))
        await on.crawl()
        assert (await on.report(ALPHA)).cursor == T0
        await on.follow(ALPHA)
        assert on.asked(ALPHA)[-1]["since"] == "2025-02-28T23:59:50Z"


async def test_rows_read_again_are_counted_once(database_url: str) -> None:
    """Ten polls of a quiet feed count and dead-letter nothing again (C03)."""
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, *_posts(3), b'{"document": 7}')
        await on.crawl()
        for _ in range(10):
            await on.follow(ALPHA)
        report = await on.report(ALPHA)
        assert (report.commits, report.malformed) == (4, 1)
        assert on.counts.kinds == {"post": 3}
        assert on.counts.malformed == {"commit": 1}


@pytest.mark.parametrize("page_limit", [1, 3, 100])
async def test_rows_past_those_read_before_are_counted_whatever_the_page_size(
    database_url: str, page_limit: int
) -> None:
    """The overlap re-enters the last page; only what is new counts."""
    async with stage(database_url, page_limit=page_limit) as on:
        for number, commit in enumerate(_posts(7)):
            on[ALPHA].receive(f"2025-03-01T00:00:0{number}Z", commit)
        await on.crawl()
        on[ALPHA].receive("2025-03-01T00:00:08Z", *_posts(2, first=7))
        await on.follow(ALPHA)
        await on.follow(ALPHA)
        assert (await on.report(ALPHA)).commits == 9
        assert await _post_count(on) == 9


async def test_empty_pages_with_a_next_go_on(database_url: str) -> None:
    """Access filtering empties pages; only `next: null` is the end."""
    async with stage(database_url, page_limit=2) as on:
        for number, commit in enumerate(_posts(4)):
            on[ALPHA].receive(f"2025-03-01T00:00:0{number}Z", commit, hidden=number < 2)
        on[ALPHA].receive("2025-03-01T00:00:09Z", *_posts(1, first=9))
        await on.crawl()
        assert await _post_count(on) == 3


async def test_a_run_ended_by_its_page_limit_goes_on_where_it_stood(database_url: str) -> None:
    """The next request is exactly at the cursor, without overlap; the server is not caught up meanwhile."""
    async with stage(database_url, page_limit=1, max_pages=2) as on:
        for number, commit in enumerate(_posts(5)):
            on[ALPHA].receive(f"2025-03-01T00:00:0{number}Z", commit)
        await on.discovery.run()
        await on.follow(ALPHA)
        report = await on.report(ALPHA)
        assert (report.state, report.caught_up) == ("backfilling", False)
        assert report.next_poll_at == on.clock.now
        await on.follow(ALPHA)
        assert [query.get("since") for query in on.asked(ALPHA)] == [
            None,
            "2025-03-01T00:00:01Z",
            "2025-03-01T00:00:02Z",
            "2025-03-01T00:00:03Z",
        ]


async def test_the_next_page_is_fetched_while_one_is_applied(database_url: str) -> None:
    """The second request is out before the first page is in the mirror."""
    async with stage(database_url, page_limit=1) as on:
        for number, commit in enumerate(_posts(2)):
            on[ALPHA].receive(f"2025-03-01T00:00:0{number}Z", commit)
        await on.discovery.run()
        blocker = await on.mirror.database.pool.acquire()
        transaction = blocker.transaction()
        await transaction.start()
        await blocker.execute("lock table mirror.records in access exclusive mode")
        run = on.follow(ALPHA)
        task = asyncio.ensure_future(run)
        await on[ALPHA].wait_for_requests(2)
        assert not task.done()
        await transaction.rollback()
        await on.mirror.database.pool.release(blocker)
        assert await task
        assert await _post_count(on) == 2


# --- C01: more rows at one instant than a page holds ----------------------------------------------


def _block(rows: int) -> list[bytes]:
    """Rows of one instant; K is put twice, D is put and deleted."""
    block = _posts(rows)
    block[60] = profile(ALICE, name="k", username="old", created_at="2025-03-01T00:00:01Z")
    block[140 if rows > 140 else rows - 1] = profile(
        ALICE, name="k", username="new", created_at="2025-03-01T00:00:02Z"
    )
    block[30] = post(ALICE, "d", "gone")
    block[120 if rows > 120 else rows - 2] = delete(post_key(ALICE, "d"), author=ALICE)
    return block


@pytest.mark.parametrize("page_limit", [1, 7, 99, 100])
@pytest.mark.parametrize(
    ("precision", "gap"),
    [
        (Precision.NANOSECONDS, "2025-03-01T00:00:01Z"),
        (Precision.NANOSECONDS, "2025-03-01T00:00:00.0000004Z"),
        (Precision.MICROSECONDS, "2025-03-01T00:00:00.000001Z"),
        (Precision.MICROSECONDS, "2025-03-01T00:00:01Z"),
    ],
)
async def test_an_instant_of_150_rows_is_read_whole(
    database_url: str, page_limit: int, precision: Precision, gap: str
) -> None:
    """Rows of the descending read are put back into log order; what follows 400 ns later is not jumped."""
    alpha = scripted_server(ALPHA, precision=precision)
    async with stage(database_url, SEED, alpha, page_limit=page_limit) as on:
        alpha.receive(T0, *_block(150))
        alpha.receive(gap, *_posts(5, first=1000))
        await on.crawl()
        assert await _post_count(on) == 150 - 4 + 5
        assert (await on.mirror.value(profile_key(ALICE, "k")))["username"] == "new"
        assert post_key(ALICE, "d") not in await on.mirror.keys()
        assert on.counts.not_whole == 0
        assert len(on.asked(ALPHA)) < 20
        before = await on.mirror.state()
        await on.follow(ALPHA)
        await on.follow(ALPHA)
        assert await on.mirror.state() == before


async def test_an_instant_too_large_to_read_is_counted_and_passed(database_url: str) -> None:
    """250 rows at one time: 200 of them and what follows are applied, and nobody pretends otherwise."""
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, *_posts(250))
        on[ALPHA].receive("2025-03-01T00:00:01Z", *_posts(5, first=1000))
        await on.crawl()
        assert await _post_count(on) == 205
        await on.follow(ALPHA)
        assert on.counts.not_whole == 1
        assert (await on.report(ALPHA)).partial_instants == 1
        assert len(on.asked(ALPHA)) < 20


async def test_a_stalled_instant_at_the_end_is_not_taken_for_a_log_that_went_back(database_url: str) -> None:
    """The step past it finds nothing; the cursor stays at the instant, where rows still stand."""
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, *_posts(150))
        await on.crawl()
        for _ in range(2):
            await on.follow(ALPHA)
        report = await on.report(ALPHA)
        assert (report.state, report.cursor, report.commits) == ("following", T0, 150)


async def test_a_feed_that_never_moves_is_a_bad_payload(database_url: str) -> None:
    """A server that answers the same page whatever is asked ends as a failure, not as a loop."""
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, *_posts(3))
        page = (
            b'{"items":[' + _posts(1)[0] + b'],"prev":"2025-03-01T00:00:00Z","next":"2025-03-01T00:00:00Z"}'
        )
        on[ALPHA].faults.always(faults.body(page), on=Endpoint.REPLICATION)
        await on.crawl()
        assert (await on.report(ALPHA)).failure_class == "bad_payload"
        assert len(on.asked(ALPHA)) < 10


# --- C21, C09: clocks ahead, late rows, logs that went back ---------------------------------------


async def test_a_row_from_2099_does_not_carry_the_cursor_away(database_url: str) -> None:
    """The odd row is applied and shown; what is received today is still read."""
    async with stage(database_url) as on:
        on[ALPHA].receive("2025-05-31T00:00:00Z", *_posts(3))
        on[ALPHA].receive("2099-01-01T00:00:00Z", *_posts(1, first=99))
        await on.crawl()
        assert (await on.report(ALPHA)).cursor == "2025-05-31T00:00:00Z"
        on[ALPHA].receive("2025-06-01T12:00:00Z", *_posts(10, first=10))
        await on.follow(ALPHA)
        assert await _post_count(on) == 14


async def test_a_page_that_begins_ahead_of_our_clock_leaves_the_cursor(database_url: str) -> None:
    """Ten minutes are tolerated; further ahead the server shows as `clock_ahead`."""
    async with stage(database_url, page_limit=1) as on:
        on[ALPHA].receive("2025-06-01T11:59:00Z", *_posts(1))
        on[ALPHA].receive("2025-06-01T12:05:00Z", *_posts(1, first=1))
        on[ALPHA].receive("2025-06-01T12:20:00Z", *_posts(1, first=2))
        await on.crawl()
        report = await on.report(ALPHA)
        assert (report.state, report.cursor) == ("clock_ahead", "2025-06-01T12:05:00Z")
        assert await _post_count(on) == 3
        await on.follow(ALPHA, after=timedelta(minutes=30))
        assert (await on.report(ALPHA)).state == "following"


async def test_a_row_that_surfaces_behind_the_cursor_is_found_by_the_overlap(database_url: str) -> None:
    """Two seconds late: picked up by the next run, once; thirty seconds late is past the overlap."""
    async with stage(database_url) as on:
        on[ALPHA].receive("2025-03-01T00:01:00Z", *_posts(1))
        await on.crawl()
        on[ALPHA].receive("2025-03-01T00:00:58Z", *_posts(1, first=1))
        on[ALPHA].receive("2025-03-01T00:00:30Z", *_posts(1, first=2))
        await on.follow(ALPHA)
        await on.follow(ALPHA)
        keys = await on.mirror.keys()
        assert post_key(ALICE, "n1") in keys
        assert post_key(ALICE, "n2") not in keys


@pytest.mark.parametrize("page_limit", [1, 100])
async def test_a_late_row_does_not_undo_what_followed_it(database_url: str, page_limit: int) -> None:
    """An older version and a removed post surface late: the newer version and the delete stand."""
    late = [
        profile(ALICE, username="v1", created_at="2025-03-01T00:00:50Z"),
        post(ALICE, "gone", "x", created_at="2025-03-01T00:00:50Z"),
    ]
    async with stage(database_url, page_limit=page_limit) as on:
        on[ALPHA].receive(
            "2025-03-01T00:01:00Z", profile(ALICE, username="v2", created_at="2025-03-01T00:00:55Z")
        )
        on[ALPHA].receive(
            "2025-03-01T00:01:01Z",
            delete(post_key(ALICE, "gone"), author=ALICE, created_at="2025-03-01T00:00:56Z"),
        )
        await on.crawl()
        on[ALPHA].receive("2025-03-01T00:00:58Z", *late)
        for _ in range(2):
            await on.follow(ALPHA)
            assert (await on.mirror.value(profile_key(ALICE)))["username"] == "v2"
            assert post_key(ALICE, "gone") not in await on.mirror.keys()


async def test_a_wiped_log_is_noticed_and_read_again_at_most_once_a_day(database_url: str) -> None:
    """Null `prev` and `next` at exactly the cursor; the new log is read from its start."""
    async with stage(database_url, page_limit=3) as on:
        on[ALPHA].receive("2025-03-01T00:00:00Z", *_posts(3))
        on[ALPHA].receive("2025-03-02T00:00:00Z", *_posts(3, first=3))
        await on.crawl()
        before = (await on.mirror.state())["records"]
        on[ALPHA].log.cut_back(parse_instant("2025-03-01T12:00:00Z"))
        await on.follow(ALPHA)
        assert (await on.report(ALPHA)).state == "log_went_back"
        on[ALPHA].receive("2025-03-01T12:00:00Z", *_posts(1, first=50))
        await on.follow(ALPHA)
        assert (await on.report(ALPHA)).state == "log_went_back"
        keys = await on.mirror.keys()
        assert post_key(ALICE, "n50") in keys
        assert {row["key"] for row in before} <= keys
        on[ALPHA].log.wipe()
        asked = len(on.asked(ALPHA))
        await on.follow(ALPHA)
        await on.follow(ALPHA)
        assert all("since" in query for query in on.asked(ALPHA)[asked:])
        await on.follow(ALPHA, after=timedelta(days=1))
        await on.follow(ALPHA)
        assert "since" not in on.asked(ALPHA)[-1]


async def test_a_quiet_feed_whose_row_still_stands_is_not_asked_twice(database_url: str) -> None:
    """A row of the page applied last proves that the log did not go back."""
    async with stage(database_url) as on:
        on[ALPHA].receive("2025-03-01T00:00:00Z", *_posts(1))
        on[ALPHA].receive("2025-03-01T00:00:05Z", *_posts(1, first=1))
        await on.crawl()
        asked = len(on.asked(ALPHA))
        await on.follow(ALPHA)
        assert len(on.asked(ALPHA)) == asked + 1


# --- C22: answers that are no pages ----------------------------------------------------------------

_NO_PAGES = {
    "html": faults.html(),
    "204": faults.no_content(),
    "{}": faults.body(b"{}"),
    "[]": faults.body(b"[]"),
    "cut short": faults.cut_short(),
    "gzip trailer": faults.broken_gzip_trailer(),
    "gzip end": faults.truncated_gzip(),
    "other cursor": faults.next_cursor("yesterday"),
}


@pytest.mark.parametrize("fault", list(_NO_PAGES))
async def test_a_success_that_is_no_page_changes_nothing(database_url: str, fault: str) -> None:
    """It is classed `bad_payload`; neither cursor nor the caught-up flag move; the next poll recovers."""
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, *_posts(3))
        await on.crawl()
        before = await on.report(ALPHA)
        on[ALPHA].receive("2025-03-01T00:00:05Z", *_posts(3, first=3))
        on[ALPHA].faults.next(_NO_PAGES[fault], on=Endpoint.REPLICATION)
        assert not await on.follow(ALPHA)
        after = await on.report(ALPHA)
        assert (after.failure_class, after.state, after.consecutive_failures) == (
            "bad_payload",
            "backing_off",
            1,
        )
        assert (after.cursor, after.caught_up, after.caught_up_at, after.commits) == (
            before.cursor,
            before.caught_up,
            before.caught_up_at,
            before.commits,
        )
        assert await on.follow(ALPHA)
        recovered = await on.report(ALPHA)
        assert (recovered.state, recovered.failure_class, recovered.consecutive_failures) == (
            "following",
            None,
            0,
        )
        assert await _post_count(on) == 6


async def test_redirects_stay_on_their_host(database_url: str) -> None:
    """To another host: refused and classed. On the same host: followed."""
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, *_posts(3))
        on[ALPHA].faults.next(
            faults.redirect("https://www.other.example/", code=301), on=Endpoint.REPLICATION
        )
        await on.crawl()
        assert (await on.report(ALPHA)).failure_class == "redirect"
        on[ALPHA].faults.next(
            faults.redirect("/api/v2/replication?limit=100", code=301), on=Endpoint.REPLICATION
        )
        assert await on.follow(ALPHA)
        assert await _post_count(on) == 3


async def test_an_old_servers_null_items_are_an_empty_end(database_url: str) -> None:
    """`items: null` with `next: null` drains the feed."""
    async with stage(database_url) as on:
        on[ALPHA].faults.next(faults.null_items(), on=Endpoint.REPLICATION)
        await on.crawl()
        report = await on.report(ALPHA)
        assert (report.state, report.caught_up, report.cursor) == ("following", True, None)


async def test_an_empty_page_that_leads_on_finds_the_full_one(database_url: str) -> None:
    """`items: []` with a `next` goes on there."""
    async with stage(database_url) as on:
        on[ALPHA].receive("2025-03-02T00:00:00Z", *_posts(3))
        on[ALPHA].faults.next(faults.empty_page("2025-03-02T00:00:00Z"), on=Endpoint.REPLICATION)
        await on.crawl()
        assert await _post_count(on) == 3


async def test_a_cursor_that_goes_backwards_is_an_error(database_url: str) -> None:
    """`next` older than `since`: nothing of the page is applied, the stored cursor stays."""
    async with stage(database_url, overlap=timedelta(0)) as on:
        on[ALPHA].receive("2025-03-02T00:00:00Z", *_posts(1))
        await on.crawl()
        on[ALPHA].receive("2025-03-02T00:00:05Z", *_posts(1, first=1))
        on[ALPHA].faults.next(faults.next_cursor("2025-03-01T00:00:00Z"), on=Endpoint.REPLICATION)
        await on.follow(ALPHA)
        report = await on.report(ALPHA)
        assert (report.failure_class, report.cursor) == ("bad_payload", "2025-03-02T00:00:00Z")
        assert await _post_count(on) == 1


async def test_slowing_down_is_no_failure(database_url: str) -> None:
    """429 and 503 wait as told, at most an hour, and leave the count of failures alone."""
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, *_posts(1))
        on[ALPHA].faults.next(faults.slow_down(120), on=Endpoint.REPLICATION)
        on[BETA].faults.next(faults.slow_down(999_999, code=503), on=Endpoint.REPLICATION)
        await on.crawl()
        alpha, beta = await on.report(ALPHA), await on.report(BETA)
        assert (alpha.state, alpha.failure_class, alpha.consecutive_failures) == (
            "waiting",
            "rate_limited",
            0,
        )
        assert alpha.next_poll_at == on.clock.now + timedelta(seconds=120)
        assert beta.next_poll_at == on.clock.now + timedelta(hours=1)
        assert ("alpha.example", "transient") in on.counts.requests
        await on.follow(ALPHA, after=timedelta(seconds=121))
        assert (await on.report(ALPHA)).failure_class is None


# --- C03, and the bad input: one bad row costs one row --------------------------------------


def _bad_page() -> list[bytes]:
    rows = _posts(20)
    rows[3] = b"null"
    rows[7] = b'{"document": {"kind": "record"}}'
    rows[9] = b'{"document": "no json"}'
    rows[11] = b'{"document": "[1,2]"}'
    rows[13] = signed(
        {"kind": "record", "key": f"cckv://{ALICE}/x", "schema": "s", "createdAt": T0, "value": {}}
    )
    rows[15] = b'{"cckv": "cckv://alpha.example/some/folder"}'
    rows[16] = signed({"kind": "rumour", "author": 7})
    rows[17] = profile(ALICE, username=[1, 2])
    return rows


async def test_one_bad_row_costs_one_row(database_url: str) -> None:
    """C03: good rows apply, bad ones are counted by kind and kept once each with a reason."""
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, *_bad_page())
        await on.crawl()
        for _ in range(3):
            await on.follow(ALPHA)
        letters = await on.mirror.rows("select reason from mirror.dead_letters order by reason")
        assert [row["reason"] for row in letters] == [
            "document_not_json",
            "document_not_object",
            "document_not_string",
            "no_author",
            "row_not_object",
        ]
        assert await _post_count(on) == 12
        assert on.counts.kinds == {"post": 12, "user": 1, "ignored": 2}
        assert (await on.report(ALPHA)).caught_up


async def test_a_server_that_fails_leaves_the_others_alone(database_url: str) -> None:
    """One discovery run, four servers, one of them broken."""
    async with stage(database_url) as on:
        on[ALPHA].faults.always(faults.status(500))
        on[BETA].receive(T0, *_posts(2))
        await on.crawl()
        assert (await on.report(ALPHA)).failure_class == "http_5xx"
        assert await _post_count(on) == 2


# --- discovery -------------------------------------------------------------------------------------


async def _states(on: Stage) -> dict[str, str]:
    rows = await on.mirror.rows("select domain, state from mirror.servers")
    return {row["domain"]: row["state"] for row in rows}


async def test_servers_without_an_endpoint_or_of_another_layer_are_shown_and_asked_again(
    database_url: str,
) -> None:
    """They are states, no failures; discovery asks them again."""
    other: SimulatedServer = scripted_server("other.example", layer="concrnt-devnet")
    bare = scripted_server("bare.example")
    template = bare.endpoints.pop("net.concrnt.core.replication")
    async with stage(database_url, SEED, other, bare) as on:
        on[SEED].known_servers = [{"domain": "other.example"}, bare.well_known()]
        bare.receive(T0, *_posts(1))
        await on.crawl()
        states = await _states(on)
        assert states == {SEED: "following", "other.example": "wrong_layer", "bare.example": "no_endpoint"}
        assert (await on.report("bare.example")).consecutive_failures == 0
        bare.endpoints["net.concrnt.core.replication"] = template
        await on.crawl()
        assert (await on.report("bare.example")).state == "following"


async def test_one_server_under_many_names_is_one_server(database_url: str) -> None:
    """C51: canonical names, malformed ones skipped, an alias is not followed but what it names is."""
    alias = scripted_server("alias.example")
    async with stage(database_url, SEED, ALPHA, alias) as on:
        names = [
            "Alpha.Example",
            "alpha.example.",
            "alpha.example",
            "alpha.example:443",
            "https://alpha.example/",
        ]
        names += ["127.0.0.1", "user@alpha.example", "a b.example", "x" * 300, "alias.example"]
        alias.domain_shown = ALPHA
        on[SEED].known_servers = [*({"domain": name} for name in names), 7, None, {"domain": 3}]
        for _ in range(2):
            await on.crawl()
        assert await _states(on) == {SEED: "following", ALPHA: "following"}
        assert on.counts.discoveries == ["ok", "ok"]


async def test_a_list_that_can_not_be_had_leaves_the_known_servers_at_work(database_url: str) -> None:
    """Discovery fails, following goes on."""
    async with stage(database_url) as on:
        await on.crawl()
        on[ALPHA].receive(T0, *_posts(1))
        on[SEED].faults.always(faults.html(), on=Endpoint.KNOWN_SERVERS)
        await on.crawl()
        assert on.counts.discoveries == ["ok", "error"]
        assert await _post_count(on) == 1


async def test_names_are_cheap_to_make_up(database_url: str) -> None:
    """At most a hundred new servers a run below one parent domain, and a bound in all."""
    async with stage(database_url, SEED, max_servers=150) as on:
        names = [f"s{n}.spam.example" for n in range(500)] + [f"t{n}.other{n}.example" for n in range(100)]
        on[SEED].known_servers = [{"domain": name} for name in names]
        await on.discovery.run()
        rows = await on.mirror.rows("select domain from mirror.servers")
        domains = [row["domain"] for row in rows]
        assert len(domains) == 150
        assert sum("spam" in domain for domain in domains) == 100


async def test_rows_that_are_alike_do_not_pass_for_rows_read_before(database_url: str) -> None:
    """A `null` after new rows is no proof that these were read: log order holds, and all are counted."""
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, b"null")
        await on.crawl()
        on[ALPHA].receive(
            "2025-03-01T00:00:01Z",
            profile(ALICE, username="first", created_at="2025-03-01T00:00:20Z"),
            profile(ALICE, username="second", created_at="2025-03-01T00:00:10Z"),
            b"null",
        )
        await on.follow(ALPHA)
        assert (await on.mirror.value(profile_key(ALICE)))["username"] == "second"
        assert (await on.report(ALPHA)).commits == 4


async def test_rows_that_are_alike_do_not_join_the_ends_of_an_instant(database_url: str) -> None:
    """260 rows at one time, alike where the two readings end: nobody pretends that they met."""
    rows = _posts(260)
    rows[99] = rows[160] = b"null"
    async with stage(database_url) as on:
        on[ALPHA].receive(T0, *rows)
        on[ALPHA].receive("2025-03-01T00:00:01Z", *_posts(1, first=1000))
        await on.crawl()
        assert on.counts.not_whole == 1


async def test_a_wait_shorter_than_the_interval_does_not_beat_it(database_url: str) -> None:
    """`Retry-After: 0` is no invitation to ask again at once."""
    async with stage(database_url) as on:
        on[ALPHA].faults.always(faults.slow_down(0), on=Endpoint.REPLICATION)
        await on.crawl()
        assert (await on.report(ALPHA)).next_poll_at >= on.clock.now + timedelta(seconds=13)


async def test_a_fault_of_ours_in_one_run_leaves_the_others_at_work(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows with the server, which backs off."""
    async with stage(database_url) as on:
        write = on.mirror.writer.write

        async def failing(rows: object, advance: CursorAdvance, **more: Any) -> object:
            if advance.domain == ALPHA:
                raise KeyError("ours")
            return await write(rows, advance, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(on.mirror.writer, "write", failing)
        for domain in (ALPHA, BETA):
            on[domain].receive(T0, *_posts(2))
        await on.crawl()
        assert (await on.report(ALPHA)).state == "backing_off"
        assert (await on.report(BETA)).commits == 2
