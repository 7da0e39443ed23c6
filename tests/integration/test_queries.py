"""Filters, orders, queries, activity and viewers over HTTP, each against a naive reading of the same logs."""

from __future__ import annotations

import math
import unicodedata
from base64 import urlsafe_b64decode
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from indexer.simulation import schemas
from indexer.simulation.model import expected_of
from indexer.simulation.network import Network
from indexer.simulation.run import serve
from tests.integration.engines import ENGINES
from tests.integration.eventually import eventually
from tests.integration.house import running_house, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from indexer.simulation.model import ExpectedRecord, ExpectedState
    from tests.integration.house import Running

pytestmark = pytest.mark.anyio

_COMMITS = 2_500
_HALF_LIFE_SECONDS = 604_800.0
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = ("users", "communities", "posts")
_FILTERS = {
    "users": ("owner", "sourceServer"),
    "communities": ("owner", "sourceServer", "cckv"),
    "posts": ("author", "sourceServer", "schema"),
}
_TEXTS = {
    "users": ("username", "description"),
    "communities": ("name", "shortname", "description"),
    "posts": ("body",),
}


def _records(state: ExpectedState, kind: str) -> dict[str, ExpectedRecord]:
    keys: Iterable[str] = getattr(state, kind)
    return {key: state.records[key] for key in keys}


def _key_of(hit: Mapping[str, Any]) -> str:
    padded: str = hit["id"] + "=" * (-len(hit["id"]) % 4)
    return urlsafe_b64decode(padded).decode()


def _moment(record: ExpectedRecord, kind: str) -> int:
    return record.created_us if kind == "posts" else record.earliest_us


async def _keys(running: Running, kind: str, query: str = "", **parameters: str) -> list[str]:
    return [_key_of(hit) for hit in await running.search(kind, query, **parameters)]


@pytest.mark.parametrize("engine", ENGINES)
async def test_every_question_has_the_answer_of_a_naive_reading(
    database_url: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network of the last thirty days, in the default mode of trust; ticks follow each other at once."""
    network = Network.generate(seed="questions", servers=3, commits=_COMMITS, end=datetime.now(UTC))
    async with await serve(network) as served:
        plain = settings_of(
            network.seed_domain,
            served.host_overrides,
            database_url,
            crawl={"activityInterval": "300ms"},
            trust="authority",
        )
        async with ENGINES[engine](plain, monkeypatch) as settings, running_house(settings) as running:
            await running.drained(*network.servers)
            state = expected_of(network.servers, now=datetime.now(UTC))
            for kind in _KINDS:
                await _filters_agree(running, state, kind)
                await _orders_agree(running, state, kind)
                await _substrings_agree(running, state, kind)
            await _activity_agrees(running, state)
            await _viewers_agree(running, state)


async def _filters_agree(running: Running, state: ExpectedState, kind: str) -> None:
    records = _records(state, kind)
    values: dict[str, Callable[[ExpectedRecord], str]] = {
        "owner": lambda record: record.owner,
        "author": lambda record: record.author,
        "sourceServer": lambda record: record.source,
        "schema": lambda record: record.schema,
        "cckv": lambda record: record.key,
    }
    for name in _FILTERS[kind]:
        by_value: dict[str, set[str]] = defaultdict(set)
        for key, record in records.items():
            by_value[values[name](record)].add(key)
        assert len(by_value) > 1
        for value, keys in sorted(by_value.items())[:12]:
            assert set(await _keys(running, kind, **{name: value})) == keys, (kind, name, value)
        assert await _keys(running, kind, **{name: "NO" + next(iter(by_value))}) == []


async def _orders_agree(running: Running, state: ExpectedState, kind: str) -> None:
    records = _records(state, kind)
    ascending = sorted(records, key=lambda key: (_moment(records[key], kind), key.encode()))
    descending = sorted(records, key=lambda key: (-_moment(records[key], kind), key.encode()))
    assert await _keys(running, kind, sort="createdAt:asc") == ascending
    assert await _keys(running, kind) == descending
    pages: list[str] = []
    cursor = ""
    while True:
        asked = {"limit": "37", "sort": "createdAt:asc"} | ({"cursor": cursor} if cursor else {})
        answer = (await running.api.get(f"/api/v1/search/{kind}", params=asked)).json()
        pages += map(_key_of, answer["hits"])
        cursor = answer["nextCursor"]
        if not cursor:
            break
    assert pages == ascending


def _fold(text: object) -> str:
    return unicodedata.normalize("NFKC", text).casefold() if isinstance(text, str) else ""


def _is_kanji(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff"


async def _substrings_agree(running: Running, state: ExpectedState, kind: str) -> None:
    """One and two characters of Japanese find exactly the documents that hold them."""
    spelled = {_key_of(hit): hit["cckv"] for hit in await running.search(kind)}
    texts = {
        key: "\n".join([_fold(spelled[key]), *(_fold(record.value.get(field)) for field in _TEXTS[kind])])
        for key, record in _records(state, kind).items()
    }
    single = Counter(letter for text in texts.values() for letter in set(text) if _is_kanji(letter))
    pairs = Counter(
        pair
        for text in texts.values()
        for pair in {text[at : at + 2] for at in range(len(text) - 1)}
        if all(map(_is_kanji, pair)) and len(pair) == 2
    )
    assert len(single) > 20
    frequent, rare = dict(single.most_common(8)), dict(single.most_common()[-8:])
    for wanted in [*frequent, *rare, *dict(pairs.most_common(8))]:
        expected = {key for key, text in texts.items() if wanted in text}
        assert set(await _keys(running, kind, wanted)) == expected, (kind, wanted)


def _entries(state: ExpectedState) -> dict[str, list[ExpectedRecord]]:
    """Entries by subject: records directly under a community, posts by person."""
    entries: dict[str, list[ExpectedRecord]] = defaultdict(list)
    for record in state.records.values():
        entries[record.key.rpartition("/")[0]].append(record)
        if record.schema in schemas.POSTS:
            entries[record.author].append(record)
    return entries


def _time_of(record: ExpectedRecord) -> datetime:
    return _EPOCH + timedelta(microseconds=record.earliest_us)


def _score(entries: Iterable[ExpectedRecord], now: datetime) -> float:
    ages = (max((now - _time_of(entry)).total_seconds(), 0.0) for entry in entries)
    return math.fsum(2 ** (-age / _HALF_LIFE_SECONDS) for age in ages if age <= 30 * 86_400)


def _within(entries: Iterable[ExpectedRecord], now: datetime, days: int) -> list[ExpectedRecord]:
    return [entry for entry in entries if now - _time_of(entry) <= days * _DAY]


def _expected_activity(entries: list[ExpectedRecord], now: datetime, *, authors: bool) -> dict[str, Any]:
    counted = {"postCount30d": len(_within(entries, now, 30)), "postCount7d": len(_within(entries, now, 7))}
    if authors:
        counted["activeAuthors7d"] = len({entry.author for entry in _within(entries, now, 7)})
    first = now.date() - 29 * _DAY
    by_day: dict[str, list[str]] = {(first + number * _DAY).isoformat(): [] for number in range(30)}
    for entry in entries:
        day = min(_time_of(entry), now).date().isoformat()
        if day in by_day:
            by_day[day].append(entry.author)
    history = [
        {"date": day, "posts": len(by), **({"authors": len(set(by))} if authors else {})}
        for day, by in by_day.items()
    ]
    return {**counted, "activityHistory": history}


async def _activity_agrees(running: Running, state: ExpectedState) -> None:
    entries = _entries(state)

    async def differences() -> list[str]:
        found = []
        for kind in ("users", "communities"):
            for hit in await running.search(kind):
                now = datetime.now(UTC)
                subject = hit["owner"] if kind == "users" else _key_of(hit)
                wanted = _expected_activity(entries[subject], now, authors=kind == "communities")
                shown = {name: hit.get(name) for name in wanted}
                if shown != wanted:
                    found.append(f"{subject}: {wanted} is shown as {shown}")
                elif not math.isclose(hit["activityScore"], _score(entries[subject], now), rel_tol=1e-4):
                    found.append(f"{subject}: {_score(entries[subject], now)} is {hit['activityScore']}")
        return found

    await eventually(differences, until=lambda found: not found, seconds=30)
    for kind, names in (
        ("users", ("activityScore", "postCount7d", "lastPostAt")),
        ("communities", ("activityScore", "postCount30d", "activeAuthors7d")),
    ):
        for name in names:
            for direction, sign in (("asc", 1), ("desc", -1)):
                hits = await running.search(kind, sort=f"{name}:{direction}")
                shown = [hit.get(name) for hit in hits]
                present = [value for value in shown if value is not None]
                if name == "activityScore":  # a later page is of a later moment
                    falls = (sign * (one - other) / one for one, other in pairwise(present) if one)
                    assert max(falls, default=0.0) < 1e-6, (kind, direction)
                else:
                    assert present == sorted(present, reverse=sign < 0), (kind, name, direction)
                assert shown[len(present) :] == [None] * (len(shown) - len(present))


async def _viewers_agree(running: Running, state: ExpectedState) -> None:
    followees: dict[str, set[str]] = defaultdict(set)
    for (acker, ackee, _), follow in state.follows.items():
        if follow.valid:
            followees[acker].add(ackee)
    assert len(followees) > 10
    communities = _records(state, "communities")
    profiles = _records(state, "users")
    for viewer in sorted(followees, key=lambda one: -len(followees[one]))[:8]:
        now = datetime.now(UTC)
        people = {
            person: _score(entries, now)
            for person, entries in _entries(state).items()
            if person in followees[viewer] and _within(entries, now, 30)
        }
        shown = {
            person: min(
                (key for key, record in profiles.items() if record.owner == person),
                key=lambda key: (not key.endswith("/main"), key.encode()),
                default="",
            )
            for person in people
        }
        ranked = sorted((one for one in people if shown[one]), key=lambda one: (-people[one], shown[one]))
        hits = await running.search("users", viewer=viewer)
        assert [_key_of(hit) for hit in hits] == [shown[one] for one in ranked]
        for hit in hits:
            assert hit["followeeScore"] == pytest.approx(people[hit["owner"]], rel=1e-3)
        await _communities_agree(running, state, viewer, followees[viewer], communities)


async def _communities_agree(
    running: Running,
    state: ExpectedState,
    viewer: str,
    followees: set[str],
    communities: Mapping[str, ExpectedRecord],
) -> None:
    now = datetime.now(UTC)
    theirs = {
        key: [entry for entry in entries if entry.author in followees and _within([entry], now, 30)]
        for key, entries in _entries(state).items()
        if key in communities
    }
    theirs = {key: entries for key, entries in theirs.items() if entries}
    scores = {key: _score(entries, now) for key, entries in theirs.items()}
    hits = await running.search("communities", viewer=viewer)
    assert [_key_of(hit) for hit in hits] == sorted(scores, key=lambda key: (-scores[key], key))
    for hit in hits:
        entries = theirs[_key_of(hit)]
        by_author = Counter(entry.author for entry in entries)
        top = sorted(by_author, key=lambda author: (-by_author[author], author))[:5]
        assert hit["topAuthors"] == top
        assert hit["followeePostCount30d"] == len(entries)
        assert hit["followeeScore"] == pytest.approx(scores[_key_of(hit)], rel=1e-3)
