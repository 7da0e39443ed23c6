"""Whatever a server sends costs itself alone: counted, kept with its reason, and the rest is searchable."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import asyncpg
import msgspec
import pytest

from indexer.operate import change_server
from indexer.simulation import faults, schemas
from indexer.simulation.faults import Endpoint
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    SEED,
    community,
    delete,
    post,
    post_key,
    profile,
    record,
    scripted_network,
    signed,
)
from tests.integration.eventually import eventually
from tests.integration.house import Running, running_house, settings_of
from tests.integration.processes import run_until_drained

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from indexer.simulation.scripted import ScriptedNetwork

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _trial(dsn: str, **crawl: Any) -> AsyncIterator[tuple[Running, ScriptedNetwork]]:
    """A house that follows the seed, alpha and beta."""
    async with (
        scripted_network(SEED, ALPHA, BETA) as network,
        running_house(settings_of(SEED, network.host_overrides, dsn, crawl=crawl)) as running,
    ):
        yield running, network


async def _drained_again(running: Running, network: ScriptedNetwork, domain: str) -> None:
    """Wait until a feed was read to its end twice more: the overlap has brought its last rows again."""
    asked = len(network[domain].requests_to(Endpoint.REPLICATION))
    await network[domain].wait_for_requests(asked + 3)
    await running.drained(domain)


# --- rows ------------------------------------------------------------------------------------------

_KEY = post_key(ALICE, "bad")
_DOCUMENT = {
    "kind": "record",
    "author": ALICE,
    "key": _KEY,
    "schema": schemas.MARKDOWN,
    "value": {"body": "わるい"},
    "createdAt": "2025-03-01T00:00:00Z",
}
_COMMIT = ("commit",)
_POST = ("post",)


def _but(**changed: object) -> bytes:
    """The document with other fields; those that are None left out."""
    return signed({name: value for name, value in {**_DOCUMENT, **changed}.items() if value is not None})


def _row(value: object) -> bytes:
    return msgspec.json.encode(value)


_NESTED = (
    '{"kind":"record","author":"%s","key":"%s","schema":"%s","createdAt":"2025-03-01T00:00:00Z","value":%s}'
)
_BAD: dict[str, tuple[bytes, tuple[str, str]]] = {
    "a list": (b"[]", ("commit", "row_not_object")),
    "a number": (b"17", ("commit", "row_not_object")),
    "null": (b"null", ("commit", "row_not_object")),
    "no document": (b'{"proof":{"type":"none"}}', ("commit", "no_document")),
    "a document that is an object": (_row({"document": _DOCUMENT}), ("commit", "document_not_string")),
    "a document that is no JSON": (signed("no JSON"), ("commit", "document_not_json")),
    "a document that is a list": (signed("[]"), ("commit", "document_not_object")),
    "no kind": (_but(kind=None), ("commit", "no_kind")),
    "a kind that is a number": (_but(kind=1), ("commit", "malformed_kind")),
    "no key": (_but(key=None), ("post", "no_key")),
    "a key that is a list": (_but(key=["a"]), ("post", "malformed_key")),
    "a key that is no URI": (_but(key="a/b"), ("post", "malformed_key")),
    "a key without a path": (_but(key=f"cckv://{ALICE}"), ("post", "key_without_path")),
    "a key over 1,024 bytes": (_but(key=f"cckv://{ALICE}/" + "x" * 1_025), ("post", "key_too_long")),
    "a key over 1,024 bytes of Japanese": (
        _but(key=f"cckv://{ALICE}/" + "あ" * 342), ("post", "key_too_long"),
    ),
    "a key with a percent sign that encodes nothing": (_but(key=f"{_KEY}%x"), ("post", "malformed_key")),
    "a key with NUL": (_but(key=f"{_KEY}%00b"), ("post", "malformed_key")),
    "a key with a lone surrogate": (
        signed(json.dumps({**_DOCUMENT, "key": _KEY + "\ud800"})), ("post", "malformed_key"),
    ),
    "no author": (_but(author=None), ("post", "no_author")),
    "an author that is an object": (_but(author={}), ("post", "malformed_author")),
    "an author that is no name": (_but(author="x y"), ("post", "malformed_author")),
    "no schema": (_but(schema=None), ("commit", "no_schema")),
    "a schema that is a number": (_but(schema=3), ("commit", "malformed_schema")),
    "a value that is a text": (_but(value="text"), ("post", "value_not_object")),
    "a value that is a list": (_but(value=[1]), ("post", "value_not_object")),
    "no value": (_but(value=None), ("post", "value_not_object")),
    "a profile whose value is a number": (
        _but(schema=schemas.PROFILE, value=1), ("profile", "value_not_object"),
    ),
    "a community of a person": (
        _but(schema=schemas.COMMUNITY, value={}), ("community", "community_of_a_person"),
    ),
    "a value nested 10,000 deep": (
        signed(_NESTED % (ALICE, _KEY, schemas.MARKDOWN, '{"a":' * 10_000 + "1" + "}" * 10_000)),
        ("post", "document_too_deep"),
    ),
    "no createdAt": (_but(createdAt=None), ("post", "no_created_at")),
    "a createdAt that is a number": (_but(createdAt=1_700_000_000_000), ("post", "malformed_created_at")),
    "a delete of nothing": (delete(None, author=ALICE), ("delete", "no_target")),
    "a delete of a number": (delete(1, author=ALICE), ("delete", "malformed_target")),
    "a delete of a bare owner": (delete(f"cckv://{ALICE}", author=ALICE), ("delete", "malformed_target")),
    "a delete of all of an owner": (
        delete(f"cckv://{ALICE}/*", author=ALICE), ("delete", "malformed_target"),
    ),
    "a delete of an owner's tree": (delete(f"cckv://{ALICE}*", author=ALICE), ("delete", "malformed_target")),
    "a delete with a star in the middle": (
        delete(post_key(ALICE, "no*te"), author=ALICE), ("delete", "malformed_target"),
    ),
    "a delete with two stars": (
        delete(post_key(ALICE, "note**"), author=ALICE), ("delete", "malformed_target"),
    ),
}  # fmt: skip
_UNUSUAL: dict[str, tuple[bytes, str | None]] = {
    "only a key": (_row({"cckv": _KEY}), None),
    "a kind of the future": (_but(kind="rumour"), None),
    "a body of 5 MB": (_but(value={"body": "ながい" * 555_556}), _KEY),
    "a body that is a number": (_but(value={"body": 7}), _KEY),
    "a key with quotes and backslashes": (_but(key=_KEY + "\"'\\"), _KEY + "\"'\\"),
    "a key with percent signs": (_but(key=f"{_KEY}%25%25x"), f"{_KEY}%25%25x"),
    "a key with control characters": (_but(key=f"{_KEY}%01%0A%7F"), _KEY + "\x01\n\x7f"),
    "a key with a star": (_but(key=f"{_KEY}*x"), f"{_KEY}*x"),
    "a key of 1,024 bytes": (_but(key=f"cckv://{ALICE}/" + "x" * 1_024), f"cckv://{ALICE}/" + "x" * 1_024),
    "a value that is empty": (_but(value={}), _KEY),
    "fields that need not be there, of any type": (
        _but(distributes=3, policy=[], onUpdate={}, associate=7, associationVariant=[]), _KEY,
    ),
    "a lone surrogate in the text": (signed(json.dumps({**_DOCUMENT, "value": {"body": "a\ud800"}})), _KEY),
}  # fmt: skip


def _around(bad: Sequence[bytes]) -> list[bytes]:
    """Rows in one page, a good one before and after each."""
    page = [post(ALICE, "good0", "よいもの 0")]
    for number, row in enumerate(bad, start=1):
        page += [row, post(ALICE, f"good{number}", f"よいもの {number}")]
    return page


def _receive(network: ScriptedNetwork, domain: str, rows: Sequence[bytes]) -> None:
    for number, row in enumerate(rows):
        network[domain].receive(1_740_787_200_000_000_000 + number * 1_000_000, row)


async def test_every_kind_of_bad_row_is_counted_kept_once_and_costs_one_row(database_url: str) -> None:
    """With its kind and reason, however often it is read; the good rows around it are all found."""
    async with _trial(database_url) as (running, network):
        page = _around([row for row, _ in _BAD.values()])
        _receive(network, ALPHA, page)
        await eventually(lambda: running.bodies("よいもの"), until=lambda found: len(found) == len(_BAD) + 1)
        await _drained_again(running, network, ALPHA)
        expected = [told for _, told in _BAD.values()]
        assert dict(zip(_BAD, await running.dead_letters(), strict=True)) == dict(
            zip(_BAD, expected, strict=True)
        )
        assert await running.bodies("わるい") == set()
        server = await running.server(ALPHA)
        assert (server["commits"], server["malformed"]) == (len(page), len(_BAD))
        assert (server["state"], server["consecutiveFailures"]) == ("following", 0)
        samples = await running.metrics()
        for kind in {kind for kind, _ in expected}:
            labels = frozenset({("server", ALPHA), ("kind", kind)})
            count = sum(told[0] == kind for told in expected)
            assert samples["crawler_replication_malformed_total", labels] == count
        texts = await running.rows("select max(length(commit)) as longest from mirror.dead_letters")
        assert texts[0]["longest"] <= 16 * 1024
        assert running.is_alive


@pytest.mark.parametrize("name", _UNUSUAL)
async def test_what_is_unusual_is_no_error(database_url: str, name: str) -> None:
    """It is kept where it is a record, and the rows around it are found."""
    row, key = _UNUSUAL[name]
    async with _trial(database_url) as (running, network):
        _receive(network, ALPHA, _around([row]))
        await eventually(lambda: running.bodies("よいもの"), until=lambda found: len(found) == 2)
        assert await running.dead_letters() == []
        kept = await running.rows("select key from mirror.records where key !~ 'good'")
        assert [row["key"] for row in kept] == ([] if key is None else [key])
        assert len(await running.search("posts")) == 2 + len(kept)


async def test_a_key_twice_in_a_page_is_no_database_error(database_url: str) -> None:
    """Log order decides; createdAt is the earliest seen (C08)."""
    key = post_key(ALICE, "twice")
    async with _trial(database_url) as (running, network):
        days = ("2025-03-02", "2025-03-03", "2025-03-01")
        rows = [post(ALICE, "twice", f"v{n}", created_at=f"{day}T00:00:00Z") for n, day in enumerate(days)]
        rows += [post(ALICE, "back", "一"), delete(post_key(ALICE, "back"), author=ALICE)]
        rows += [
            post(ALICE, "back", "二", created_at="2025-03-05T00:00:00Z"),
            post(ALICE, "good", "よいもの"),
        ]
        _receive(network, ALPHA, rows)
        await eventually(lambda: running.bodies("よいもの"))
        assert await running.bodies() == {"v2", "二", "よいもの"}
        first = await running.rows(
            "select first_created_at::date::text from mirror.records where key = $1", key
        )
        assert first == [{"first_created_at": "2025-03-01"}]


# --- dates (C25) -----------------------------------------------------------------------------------

_DATES = {
    "2025-03-01T00:00:00": "malformed_created_at",
    "0001-01-01T00:00:00+14:00": "date_out_of_range",
    "0001-01-01T00:00:00Z": "date_out_of_range",
    "9999-12-31T23:59:59-12:00": "date_out_of_range",
    "9999-12-31T00:00:00Z": "future_date",
    "infinity": "malformed_created_at",
    "2016-12-31T23:59:60Z": "malformed_created_at",
    "1700000000000": "malformed_created_at",
    "": "no_created_at",
    "2025-02-29T10:00:00Z": "malformed_created_at",
    "٢٠٢٥-٠٣-٠١T٠٠:٠٠:٠٠Z": "malformed_created_at",
}
_GOOD_DATES = {
    "2025-03-01t10:00:00z": "2025-03-01T10:00:00Z",
    "2025-03-01T10:00:01.123456789Z": "2025-03-01T10:00:01.123456Z",
    "2025-03-01T10:00:02-00:00": "2025-03-01T10:00:02Z",
    "2025-03-01T10:00:03+09:00": "2025-03-01T01:00:03Z",
}


async def test_dates_are_read_alike_in_every_time_zone(database_url: str, tmp_path: Path) -> None:
    """A process in Tokyo on a database in New York: valid ones are the right instant, others cost one row."""
    connection = await asyncpg.connect(database_url)
    try:
        name = await connection.fetchval("select current_database()")
        await connection.execute(f"alter database \"{name}\" set timezone = 'America/New_York'")
        await connection.execute(f"alter database \"{name}\" set datestyle = 'SQL, DMY'")
    finally:
        await connection.close()
    async with scripted_network(SEED, ALPHA) as network:
        dates = [*_DATES, *_GOOD_DATES]
        rows = [post(ALICE, f"d{number}", date, created_at=date) for number, date in enumerate(dates)]
        _receive(network, ALPHA, rows)
        overrides = network.host_overrides
        assert await run_until_drained(tmp_path, SEED, overrides, database_url, TZ="Asia/Tokyo") == 0
        async with running_house(settings_of(SEED, overrides, database_url)) as running:
            shown = {hit["body"]: hit["createdAt"] for hit in await running.search("posts")}
            letters = await running.dead_letters()
    assert letters == [("post", reason) for reason in _DATES.values()]
    assert shown == _GOOD_DATES


# --- NUL (C04) -------------------------------------------------------------------------------------


async def test_nul_is_replaced_where_it_is_text_and_refused_where_it_names(database_url: str) -> None:
    """Indexed with U+FFFD and found; the mirror keeps what was signed; a key with it is malformed."""
    bad_outer = post(ALICE, "b", "外").replace(b'"document":"{', b'"document":"\\u0000{')
    rows = [
        post(ALICE, "a", "ねこ\0だいすき"),
        bad_outer,
        record(post_key(ALICE, "a%00b"), {"body": "鍵"}, author=ALICE, schema=schemas.MARKDOWN),
        post(ALICE, "d", "show \\u0000 as text"),
        profile(ALICE, username="\0\0\0"),
        post(ALICE, "f", "深い", deep={"a": [{"b\0": "c\0"}]}),
    ]
    async with _trial(database_url) as (running, network):
        _receive(network, ALPHA, _around(rows))
        await eventually(lambda: running.bodies("よいもの"), until=lambda found: len(found) == 7)
        assert await running.bodies("だいすき") == {"ねこ\ufffdだいすき"}
        assert await running.bodies("show") == {"show \\u0000 as text"}
        (deep,) = [hit for hit in await running.search("posts", "深い") if hit["body"] == "深い"]
        assert deep["value"]["deep"] == {"a": [{"b\ufffd": "c\ufffd"}]}
        assert [hit["username"] for hit in await running.search("users")] == ["\ufffd\ufffd\ufffd"]
        assert await running.dead_letters() == [("commit", "document_with_nul"), ("post", "malformed_key")]
        kept = await running.rows("select signed from mirror.records where key = $1", post_key(ALICE, "a"))
        document = json.loads(kept[0]["signed"])["document"]
        assert document == json.loads(rows[0])["document"]
        assert json.loads(document)["value"]["body"] == "ねこ\0だいすき"


# --- deletes (C05, C09) ----------------------------------------------------------------------------

_COMMUNITIES = f"cckv://{ALPHA}/concrnt.world/communities/"
_STEPS = ("a_b/1", "axb/1", "a%25/2", "ab/2", "a\\c/1", "note", "note/1", "notebook", "notebook/1")
_TAKEN: dict[str, set[str]] = {
    "a_b/*": {"a_b/1"},
    "a%25*": {"a%25/2"},
    "a\\c*": {"a\\c/1"},
    "note/*": {"note/1"},
    "no*te": set(),
    "note**": set(),
    "note%2A": set(),
    "note*": {"note"},
}


async def _shown(running: Running, body: str) -> None:
    """Wait until a post is found."""
    await eventually(running.bodies, until=lambda seen: body in seen)


async def test_a_range_delete_takes_only_its_own(database_url: str) -> None:
    """By path step and literally, seen through the API; what is malformed takes nothing (C05)."""
    async with _trial(database_url) as (running, network):
        _receive(network, ALPHA, [community(ALPHA, step, author=ALICE, name=step) for step in _STEPS])

        async def names() -> set[str]:
            return {hit["name"] for hit in await running.search("communities")}

        left = set(_STEPS)
        await eventually(names, until=lambda seen: seen == left)
        targets = {f"{_COMMUNITIES}{target}": taken for target, taken in _TAKEN.items()}
        targets |= {f"cckv://{ALPHA}*": set(), f"cckv://{ALPHA}/*": set()}
        for number, (target, taken) in enumerate(targets.items()):
            left = left - taken
            day = f"2025-03-{number + 2:02}T00:00:00Z"
            rows = [delete(target, author=ALICE, created_at=day), post(ALICE, f"{number}", day)]
            network[ALPHA].receive(day, *rows)
            await _shown(running, day)
            assert await eventually(names, until=lambda seen: len(seen) <= len(left)) == left  # noqa: B023
        assert left == {"axb/1", "ab/2", "notebook", "notebook/1"}
        assert await running.dead_letters() == [("delete", "malformed_target")] * 4


async def test_what_was_deleted_is_never_seen_again(database_url: str) -> None:
    """By overlap, by pages of one row, by another server's copy; a search that polls never shows it (C09)."""
    async with _trial(database_url, pageLimit=1, overlap="1h") as (running, network):
        p1, p2 = post_key(ALICE, "p/1"), post_key(ALICE, "p/2")
        seen: set[str] = set()

        async def look() -> set[str]:
            seen.update(await running.bodies())
            return seen

        rows = [
            post(ALICE, "p/1", "初", created_at="2025-03-01T00:00:01Z"),
            delete(p1.removesuffix("1") + "*", author=ALICE, created_at="2025-03-01T00:00:02Z"),
            post(ALICE, "p/1", "再", created_at="2025-03-01T00:00:03Z"),
            delete(p2, author=ALICE, created_at="2025-03-01T00:00:04Z"),
        ]
        _receive(network, ALPHA, rows)
        await eventually(look, until=lambda found: "再" in found)
        copy = post(ALICE, "p/2", "消えた", created_at="2025-03-01T00:00:00Z")
        _receive(network, BETA, [copy, post(ALICE, "after", "あと")])
        await eventually(look, until=lambda found: "あと" in found)
        for domain in (ALPHA, BETA, ALPHA):
            await _drained_again(running, network, domain)
            await look()
        assert "消えた" not in seen
        assert await running.bodies() == {"再", "あと"}
        hits = {hit["body"]: hit["createdAt"] for hit in await running.search("posts")}
        assert hits["再"] == "2025-03-01T00:00:03Z"


# --- pages (C21, C22) ------------------------------------------------------------------------------


async def test_a_row_from_the_future_is_shown_and_does_not_carry_the_cursor_away(database_url: str) -> None:
    """The rows of today that come in before it are found; `servers --json` says `clock_ahead` (C21)."""
    async with _trial(database_url, pageLimit=1) as (running, network):
        network[ALPHA].receive("2025-03-01T00:00:00Z", post(ALICE, "1", "きのう"))
        network[ALPHA].receive("2099-01-01T00:00:00Z", post(ALICE, "99", "みらい"))
        await eventually(lambda: running.bodies("きのう"))

        async def state() -> str:
            return str((await running.server(ALPHA))["state"])

        await eventually(state, until=lambda seen: seen == "clock_ahead")
        for number in range(10):
            network[ALPHA].receive(
                f"2025-03-02T00:00:0{number}Z", post(ALICE, f"t{number}", f"きょう {number}")
            )
        await eventually(lambda: running.bodies("きょう"), until=lambda found: len(found) == 10)
        assert (await running.server(ALPHA))["cursor"] < "2026"
        assert running.is_alive


_NO_PAGE = {
    "a redirect to another host": (faults.redirect("https://www.other.example/", code=301), "redirect"),
    "HTML": (faults.html(), "bad_payload"),
    "204": (faults.no_content(), "bad_payload"),
    "an empty object": (faults.body(b"{}"), "bad_payload"),
    "an empty list": (faults.body(b"[]"), "bad_payload"),
    "text that is no JSON": (faults.body(b"no JSON"), "bad_payload"),
    "items that are an object": (faults.body(b'{"items":{},"next":null}'), "bad_payload"),
    "a cursor that is no time": (faults.next_cursor("soon"), "bad_payload"),
    "a cut body": (faults.cut_short(), "bad_payload"),
    "a broken gzip trailer": (faults.broken_gzip_trailer(), "bad_payload"),
    "500": (faults.status(500), "http_5xx"),
    "404": (faults.status(404), "http_4xx"),
}


@pytest.mark.parametrize("name", _NO_PAGE)
async def test_what_is_no_page_is_shown_and_changes_nothing(database_url: str, name: str) -> None:
    """Not taken for an empty feed: the class is told, the cursor stays, the truth is read later (C22)."""
    fault, failure = _NO_PAGE[name]
    async with _trial(database_url) as (running, network):
        network[ALPHA].receive("2025-03-01T00:00:00Z", post(ALICE, "1", "まえ"))
        await eventually(lambda: running.bodies("まえ"))
        await running.drained(ALPHA)
        before = await running.server(ALPHA)
        network[ALPHA].faults.always(fault, on=Endpoint.REPLICATION)
        network[ALPHA].receive("2025-03-01T00:00:01Z", post(ALICE, "2", "あと"))

        async def failed() -> Any:
            return (await running.server(ALPHA))["failureClass"]

        assert await eventually(failed) == failure
        shown = await running.server(ALPHA)
        assert (shown["cursor"], shown["state"]) == (before["cursor"], "backing_off")
        assert shown["lastError"]
        assert await running.bodies() == {"まえ"}
        network[ALPHA].faults.clear()
        await change_server(running.house.settings, "run_now", ALPHA)  # it may have failed twice by now
        await eventually(lambda: running.bodies("あと"))
        assert (await running.server(ALPHA))["failureClass"] is None


async def test_empty_ends_and_detours_are_no_errors(database_url: str) -> None:
    """`items: null` is an empty end; an empty page with a `next`, or a redirect within the host, goes on."""
    async with _trial(database_url) as (running, network):
        _receive(network, ALPHA, [post(ALICE, "1", "みつかる")])
        alpha = network[ALPHA].faults
        alpha.next(faults.null_items(), on=Endpoint.REPLICATION)
        alpha.next(faults.empty_page("2025-03-01T00:00:00Z"), on=Endpoint.REPLICATION)
        elsewhere = f"/api/v2/replication?{quote('limit')}=100"
        alpha.next(faults.redirect(elsewhere, code=301), on=Endpoint.REPLICATION)
        await eventually(lambda: running.bodies("みつかる"))
        assert (await running.server(ALPHA))["consecutiveFailures"] == 0
        assert await running.dead_letters() == []
