"""Pages of a commit log against the protocol's own words."""

import json
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from indexer.simulation.log import CommitLog, LoggedCommit, LogPage, PageRequest, Precision

rows = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=40)
bounds = st.none() | st.integers(-1, 13)


class Row(NamedTuple):
    receipt_ns: int
    number: int
    hidden: bool


def naive_page(log: list[Row], request: PageRequest) -> LogPage:
    """The definition, word by word: sort, bound, turn, cut; cursors before access filtering."""
    inside = [
        row
        for row in sorted(log)
        if (request.since_ns is None or row.receipt_ns >= request.since_ns)
        and (request.until_ns is None or row.receipt_ns <= request.until_ns)
    ]
    if request.descending:
        inside.reverse()
    page, past = inside[: request.limit], inside[request.limit :]
    return LogPage(
        tuple(b"%d" % row.number for row in page if not row.hidden),
        page[0].receipt_ns if page else None,
        past[0].receipt_ns if past else None,
    )


@given(rows, bounds, bounds, st.integers(1, 8), st.booleans())
def test_pages_are_what_the_protocol_says(
    times: list[tuple[int, bool]], since: int | None, until: int | None, limit: int, descending: bool
) -> None:
    """A page equals the naive definition, for rows added in any order, with any bounds."""
    log = CommitLog()
    for number, (receipt_ns, hidden) in enumerate(times):
        log.add(receipt_ns, b"%d" % number, hidden=hidden)
    request = PageRequest(since, until, limit, descending)
    naive = [Row(receipt_ns, number, hidden) for number, (receipt_ns, hidden) in enumerate(times)]
    assert log.page(request) == naive_page(naive, request)


@given(rows, st.integers(1, 5))
def test_following_next_sees_every_row(times: list[tuple[int, bool]], limit: int) -> None:
    """Reading on from `next` gives each row of each instant at least once, unless an instant fills a page."""
    log = CommitLog(LoggedCommit(at, b"%d" % number) for number, (at, _) in enumerate(times))
    seen: set[bytes] = set()
    since: int | None = None
    while True:
        page = log.page(PageRequest(since_ns=since, limit=limit))
        seen |= set(page.items)
        if page.next_ns is None:
            assert seen == {row.signed for row in log}
            return
        if page.next_ns == since:
            return  # a stalled instant: the feed cannot advance by `asc` alone
        since = page.next_ns


def test_page_is_json_with_cursors_as_written() -> None:
    """Cursors are RFC 3339 with as many digits as the time needs; an empty page has none."""
    log = CommitLog([LoggedCommit(1_000_000_000, b'{"a":1}'), LoggedCommit(1_000_000_400, b"null")])
    assert json.loads(log.page(PageRequest(limit=1)).encode()) == {
        "items": [{"a": 1}],
        "prev": "1970-01-01T00:00:01Z",
        "next": "1970-01-01T00:00:01.0000004Z",
    }
    assert CommitLog().page(PageRequest()).encode() == b'{"items":[],"prev":null,"next":null}'


def test_microsecond_precision_cuts_rows_and_bounds() -> None:
    """With PostgreSQL's precision a step by one nanosecond does not move."""
    log = CommitLog([LoggedCommit(5_999, b"1"), LoggedCommit(7_000, b"2")], precision=Precision.MICROSECONDS)
    assert log.page(PageRequest(since_ns=5_001)).items == (b"1", b"2")
    assert log.page(PageRequest(since_ns=6_000)).items == (b"2",)


def test_rows_can_surface_late_vanish_and_go() -> None:
    """A late row sorts by its time; a cut and a wipe take rows away and are noticed by the generation."""
    log = CommitLog([LoggedCommit(10, b"1"), LoggedCommit(30, b"3")])
    before = log.generation
    assert log.add(20, b"2") == 1
    assert log.generation > before
    log.hide(0)
    assert log.page(PageRequest()) == LogPage((b"2", b"3"), 10, None)
    log.cut_back(20)
    assert [row.signed for row in log] == [b"1", b"2"]
    log.wipe()
    assert len(log) == 0
    assert log.last_receipt_ns is None
