"""Activity from feeds to answers, in the real house (cases C20, C38, C50)."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from indexer.app import fetch_activity
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BETA,
    BOB,
    SEED,
    ack,
    community,
    community_key,
    delete,
    post,
    post_key,
    profile,
    profile_key,
    reference,
    scripted_network,
)
from tests.integration.eventually import eventually
from tests.integration.house import running_house, settings_of

if TYPE_CHECKING:
    from tests.integration.house import Running

pytestmark = pytest.mark.anyio

RECEIVED = "2025-03-01T00:00:00Z"


def _in(**span: float) -> str:
    return (datetime.now(UTC) + timedelta(**span)).isoformat().replace("+00:00", "Z")


async def _only(running: Running, kind: str, **parameters: str) -> dict[str, Any]:
    hits = await running.search(kind, **parameters)
    return hits[0] if len(hits) == 1 else {}


@pytest.mark.parametrize("half_life", ["1h", "168h"])
async def test_posts_from_the_future_count_as_one_each(database_url: str, half_life: str) -> None:
    """C20: those that servers let pass count as exactly 1, today; 2099 and 9999 harm only themselves."""
    async with scripted_network(SEED, ALPHA, BETA) as network:
        ahead = [_in(minutes=3), _in(hours=23)]
        refused = ["2099-01-01T00:00:00Z", "9999-12-31T00:00:00Z", "0001-01-02T00:00:00Z"]
        network[ALPHA].receive(
            RECEIVED,
            profile(ALICE, username="ありす"),
            profile(BOB),
            *[post(ALICE, str(number), "a", created_at=at) for number, at in enumerate([*ahead, *refused])],
            post(BOB, "1", "a", created_at=_in(hours=-1)),
            delete(post_key(BOB, "*"), author=BOB, created_at="2099-01-01T00:00:00Z"),
            post(BOB, "2", "a", created_at=_in(hours=-40 * 24)),
            ack(BOB, ALICE, created_at="2099-01-01T00:00:00Z"),
            ack(ALICE, BOB, created_at=_in(hours=-2)),
            ack(ALICE, BOB, kind="unack", created_at=_in(hours=-1)),
        )
        crawl = {"activityInterval": "200ms", "activityHalfLife": half_life}
        settings = settings_of(SEED, network.host_overrides, database_url, crawl=crawl)
        async with running_house(settings) as running:
            await running.drained(ALPHA)
            alice = await eventually(
                lambda: _only(running, "users", owner=ALICE), until=lambda hit: hit.get("postCount30d") == 2
            )
            assert alice["activityScore"] == 2.0
            assert "activityBasis" not in alice
            assert len(alice["activityHistory"]) == 30
            assert alice["activityHistory"][-1]["posts"] == 2
            assert datetime.fromisoformat(alice["lastPostAt"]) == datetime.fromisoformat(ahead[1])
            bob = await eventually(
                lambda: _only(running, "users", owner=BOB), until=lambda hit: "activityScore" in hit
            )
            hour = 2.0 ** (-1 / (1 if half_life == "1h" else 168))
            assert bob["activityScore"] == pytest.approx(hour, rel=0.01)
            for order in ("activityScore", "lastPostAt", "postCount7d", "postCount30d"):
                for direction, owners in (("desc", [ALICE, BOB]), ("asc", [BOB, ALICE])):
                    hits = await running.search("users", sort=f"{order}:{direction}")
                    assert [hit["owner"] for hit in hits] == owners
            assert len(await running.search("posts")) == 4
            # The follow of 2099 is refused, so it bars nothing; neither does the delete of 2099.
            for viewer in (ALICE, BOB):
                assert await running.search("users", viewer=viewer) == []
            network[ALPHA].receive(_in(), ack(BOB, ALICE, created_at=_in()))
            await eventually(
                lambda: running.search("users", viewer=BOB),
                until=lambda hits: [h["owner"] for h in hits] == [ALICE],
            )
            samples = await running.metrics()
            ticked = frozenset({("subject", "user"), ("result", "ok")})
            assert samples["crawler_activity_refreshes_total", ticked] > 0


async def test_from_a_post_to_a_viewers_answer(database_url: str) -> None:
    """Follows, entries and their deletes reach numbers and rankings over HTTP, and the explanation agrees."""
    cats = community_key(ALPHA, "cats")
    async with scripted_network(SEED, ALPHA, BETA) as network:
        network[ALPHA].receive(
            RECEIVED,
            profile(ALICE, username="猫"),
            community(ALPHA, "cats", author=ALICE, name="猫の広場"),
            post(ALICE, "1", "a", created_at=_in(days=-7)),
            reference(cats, post_key(ALICE, "1"), author=ALICE, created_at=_in(days=-7)),
        )
        network[BETA].receive(RECEIVED, ack(BOB, ALICE))
        settings = settings_of(
            SEED, network.host_overrides, database_url, crawl={"activityInterval": "200ms"}
        )
        async with running_house(settings) as running:
            await running.drained(ALPHA, BETA)
            hit = await eventually(
                lambda: _only(running, "communities", cckv=cats),
                until=lambda found: found.get("postCount30d") == 1,
            )
            assert hit["activityScore"] == pytest.approx(0.5, rel=1e-3)
            assert hit["activityHistory"][-8] == {**hit["activityHistory"][-8], "posts": 1, "authors": 1}

            for kind, key in (("users", profile_key(ALICE)), ("communities", cats)):
                for query in ("", "猫"):
                    (ranked,) = await eventually(
                        lambda kind=kind, query=query: running.search(kind, query, viewer=BOB),  # type: ignore[misc]
                        until=lambda hits: len(hits) == 1 and "followeeScore" in hits[0],
                    )
                    assert (ranked["cckv"], ranked["followeePostCount30d"]) == (key, 1)
                    assert ranked["followeeScore"] == pytest.approx(0.5, rel=1e-3)
            assert ranked["topAuthors"] == [ALICE]
            assert (
                await running.api.get(f"/api/v1/search/users?viewer={BOB}&sort=createdAt")
            ).status_code == 400
            assert (await running.api.get("/api/v1/search/users?viewer=x")).status_code == 400

            for subject in (ALICE, cats):
                told = await fetch_activity(settings, subject)
                (entry,) = told["entries"]
                assert entry["weight"] == pytest.approx(0.5, rel=1e-3)
                assert told["stored"]["activityScore"] == pytest.approx(
                    math.fsum(each["weight"] for each in told["entries"]), rel=1e-6
                )
                assert told["stored"]["inSearchEngine"] is True

            network[ALPHA].receive(_in(), delete(post_key(ALICE, "1"), author=ALICE, created_at=_in()))
            await eventually(
                lambda: _only(running, "communities", cckv=cats),
                until=lambda found: found.get("activityScore") == 0,
            )
            gone = await eventually(
                lambda: _only(running, "users"), until=lambda one: one.get("activityScore") == 0
            )
            assert "lastPostAt" not in gone
            assert await running.search("users", viewer=BOB) == []
            assert await running.search("communities", viewer=BOB) == []
            assert running.is_alive


async def test_every_activity_order_in_both_directions(database_url: str) -> None:
    """What has no entries is the least active of all; without a last entry it comes last both ways."""
    names = ("cats", "dogs", "idle")
    keys = {name: community_key(ALPHA, name) for name in names}
    people = ["con" + str(number) * 39 for number in range(1, 4)]
    async with scripted_network(SEED, ALPHA, BETA) as network:
        entries = [
            reference(keys["cats"], post_key(who, "1"), author=who, name=who, created_at=_in(days=-2))
            for who in people
        ]
        entries += [
            reference(
                keys["dogs"],
                post_key(people[0], "2"),
                author=people[0],
                name=f"d{n}",
                created_at=_in(days=-3),
            )
            for n in range(2)
        ]
        posts = [
            post(who, str(n), "a", created_at=_in(days=-2 - number, hours=-n))
            for number, who in enumerate(people[:2])
            for n in range(3 - number)
        ]
        network[ALPHA].receive(
            RECEIVED,
            *[community(ALPHA, name, author=ALICE, name=name) for name in names],
            *[profile(who) for who in people],
            *entries,
            *posts,
        )
        settings = settings_of(
            SEED, network.host_overrides, database_url, crawl={"activityInterval": "200ms"}
        )
        async with running_house(settings) as running:
            await running.drained(ALPHA)
            for kind, most, field in (
                ("communities", list(keys.values()), "cckv"),
                ("users", people, "owner"),
            ):
                await eventually(
                    lambda kind=kind: running.search(kind),  # type: ignore[misc]
                    until=lambda hits: (
                        len(hits) == 3 and sorted(hit.get("postCount30d", -1) for hit in hits) == [0, 2, 3]
                    ),
                )
                orders = ["activityScore", "postCount7d", "postCount30d"]
                orders += ["activeAuthors7d"] if kind == "communities" else []
                for order in orders:
                    for direction, expected in (("desc", most), ("asc", most[::-1])):
                        hits = await running.search(kind, sort=f"{order}:{direction}")
                        assert [hit[field] for hit in hits] == expected, (order, direction)
                for direction, expected in (("desc", most), ("asc", [most[1], most[0], most[2]])):
                    hits = await running.search(kind, sort=f"lastPostAt:{direction}")
                    assert [hit[field] for hit in hits] == expected
                    assert "lastPostAt" not in hits[2]
                assert (await running.search(kind, sort="activityScore"))[2]["activityScore"] == 0
