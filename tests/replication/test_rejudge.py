"""What is stored, judged again after a change of mode."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from indexer.replication.judge import Judge
from indexer.replication.rejudge import JudgingProgress, Rejudged, Stage, judge_stored
from indexer.replication.trust import TrustMode
from indexer.simulation.scripted import (
    ALPHA,
    BETA,
    GAMMA,
    SEED,
    ack,
    community,
    community_key,
    delete,
    entity,
    key_pair,
    post,
    post_key,
    profile,
    profile_key,
)
from tests.replication.network import stage
from tests.replication.stage import NOW, SCHEMAS, open_mirror

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.replication.stage import Mirror

pytestmark = pytest.mark.anyio
ALICE, BOB, EVE = key_pair("alice"), key_pair("bob"), key_pair("eve")
LATE = "2025-05-01T00:00:00Z"


@pytest.mark.parametrize("mode", [TrustMode.AUTHORITY, TrustMode.STRICT])
async def test_a_stricter_mode_removes_what_it_would_not_have_accepted(
    database_url: str, mode: TrustMode
) -> None:
    """Forged records go and are marked; true copies and, in `authority`, what has no proof at home stay."""
    truth = [
        entity(ALICE, ALPHA),
        profile(ALICE.ccid, username="古い"),
        post(ALICE, "1", "本物"),
        community(ALPHA, "cats", author=ALICE, name="ねこ"),
    ]
    hostile = [
        entity(ALICE.ccid, BETA, created_at="2025-01-01T00:00:00Z"),
        post(ALICE.ccid, "2", "偽物", created_at=LATE),
        post(ALICE, "3", "写し"),
        community(ALPHA, "dogs", author=EVE, name="偽物"),
        profile(EVE.ccid, username="誰"),
    ]
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, truth)
        await mirror.write(BETA, hostile)
        assert len(await mirror.keys()) == 7
        await mirror.database.execute("truncate mirror.projection_queue")
        judge = Judge(mode, follows=SCHEMAS.acks)
        for _ in range(2):
            await judge_stored(mirror.database, judge, SCHEMAS, now=NOW)
        kept = {post_key(ALICE, "1"), post_key(ALICE, "3"), community_key(ALPHA, "cats")}
        if mode is TrustMode.AUTHORITY:
            kept |= {profile_key(ALICE), profile_key(EVE)}
        assert await mirror.keys() == kept
        marks = await mirror.rows("select key from mirror.projection_queue where key like 'cckv:%'")
        assert post_key(ALICE, "2") in {row["key"] for row in marks}
        provisional = await mirror.rows("select key from mirror.records where provisional")
        asked = await mirror.rows("select owner from mirror.unresolved")
        if mode is TrustMode.AUTHORITY:
            assert provisional == [{"key": profile_key(EVE)}]
            assert asked == [{"owner": EVE.ccid}]
        homes = await mirror.rows("select ccid, domain, standing from mirror.entities")
        assert homes == [{"ccid": ALICE.ccid, "domain": ALPHA, "standing": 2}]


# --- follows and deletes, and the way there and back --------------------------------------------------


async def rejudge(mirror: Mirror, mode: TrustMode) -> Rejudged:
    """Judge what is stored in a mode, twice: the second time changes nothing."""
    judge = None if mode is TrustMode.OFF else Judge(mode, follows=SCHEMAS.acks)
    done = await judge_stored(mirror.database, judge, SCHEMAS, now=NOW)
    state = await everything(mirror)
    again = await judge_stored(mirror.database, judge, SCHEMAS, now=NOW)
    assert (again.removed, again.accepted) == (Counter(), 0)
    assert await everything(mirror) == state
    return done


async def everything(mirror: Mirror) -> dict[str, Any]:
    """All that judging may touch."""
    return {
        "records": await mirror.rows(
            "select key, cdid, source, provisional from mirror.records order by key"
        ),
        "follows": await mirror.rows(
            "select acker, ackee, valid, source, provisional from mirror.acks order by 1, 2, 3"
        ),
        "said": await mirror.rows(
            "select acker, ackee, source from mirror.provisional_acks order by 1, 2, 3"
        ),
        "deletes": await mirror.rows(
            "select target, source, provisional, only_author from mirror.tombstones order by 1, 2"
        ),
        "letters": await mirror.rows("select domain, reason, digest from mirror.dead_letters order by 1, 3"),
    }


HOME = [
    entity(ALICE, ALPHA),
    post(ALICE, "1", "本物"),
    post(ALICE.ccid, "2", "証明のない本物"),
    ack(ALICE, BOB),
    ack(ALICE.ccid, EVE, kind="unack"),
    delete(post_key(ALICE, "9"), author=ALICE.ccid),
]
HOSTILE = [
    post(ALICE.ccid, "2", "偽物 é 🦊", created_at=LATE),
    delete(post_key(ALICE, "1"), author=ALICE.ccid, created_at=LATE),
    ack(ALICE.ccid, BOB, kind="unack", created_at=LATE),
    ack(ALICE.ccid, EVE, created_at=LATE),
    delete(post_key(ALICE, "8"), author=EVE, created_at=LATE),
]


async def test_follows_and_deletes_are_judged_again_too(database_url: str) -> None:
    """From `off` to `authority`: forged ones go to the dead letters of the server that said them."""
    async with open_mirror(database_url) as mirror:
        await mirror.write(ALPHA, HOME)
        await mirror.write(BETA, HOSTILE)
        assert await mirror.value(post_key(ALICE, "1")) is None
        done = await rejudge(mirror, TrustMode.AUTHORITY)
        # One of two deletes is Eve's own to make: it is limited to what she wrote.
        assert done.removed == {"not_authoritative": 4}
        assert done.judged == {"entities": 1, "deletes": 3, "records": 1, "follows": 2, "rejected": 4}
        deletes = (await everything(mirror))["deletes"]
        assert [(row["target"], row["only_author"]) for row in deletes] == [
            (post_key(ALICE, "8"), True),
            (post_key(ALICE, "9"), False),
        ]
        assert (await everything(mirror))["follows"] == []
        letters = await mirror.rows("select domain, kind, reason from mirror.dead_letters order by kind")
        assert [(row["domain"], row["kind"]) for row in letters] == [
            (BETA, "ack"),
            (BETA, "ack"),
            (BETA, "delete"),
            (BETA, "post"),
        ]
        (counted,) = await mirror.rows("select sum(number)::int as number from mirror.rejected_later")
        assert counted == {"number": 4}


async def test_what_forged_commits_had_replaced_comes_back_from_its_own_server(database_url: str) -> None:
    """Its log is read again for those people, over HTTP, in the background; nothing else is asked."""
    async with (
        stage(database_url, SEED, ALPHA, BETA, trust=TrustMode.AUTHORITY) as at,
        open_mirror(database_url) as believing,
    ):
        await at.discovery.run()
        await at.follow(ALPHA)
        at[ALPHA].receive("2025-04-01T00:00:00Z", *HOME)
        await believing.write(ALPHA, HOME)
        await believing.write(BETA, HOSTILE)
        assert await at.mirror.keys() == {post_key(ALICE, "2")}
        at.clock.now = NOW
        done = await rejudge(at.mirror, TrustMode.AUTHORITY)
        assert done.logs_to_read == 3  # Alice's, and the follows of Bob and Eve
        asked = len(at.asked(ALPHA))
        while await at.residents.run_once():
            pass
        assert await at.mirror.keys() == {post_key(ALICE, "1"), post_key(ALICE, "2")}
        assert await at.mirror.value(post_key(ALICE, "2")) == {"body": "証明のない本物"}
        follows = (await everything(at.mirror))["follows"]
        assert [(row["ackee"], row["valid"]) for row in follows] == sorted(
            [(BOB.ccid, True), (EVE.ccid, False)]
        )
        assert {query["owner"] for query in at.asked(ALPHA)[asked:]} == {ALICE.ccid, BOB.ccid, EVE.ccid}


async def test_from_off_to_authority_to_strict_and_back(database_url: str) -> None:
    """What `strict` had refused comes back by itself, from the dead letters; what was forged does not."""
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, HOME)
        await mirror.write(BETA, HOSTILE)
        expected = await everything(mirror)
        await mirror.clear()
    async with open_mirror(database_url) as mirror:
        # The hostile server comes first: what Alice's own server says later is newer or not touched by it.
        hostile = [HOSTILE[0], HOSTILE[3], HOSTILE[4]]
        await mirror.write(BETA, [post(ALICE.ccid, "5", "偽物"), *hostile[1:]])
        await mirror.write(ALPHA, HOME)
        await rejudge(mirror, TrustMode.AUTHORITY)
        authority = await everything(mirror)
        done = await rejudge(mirror, TrustMode.STRICT)
        assert done.removed == {"no_proof": 2}  # a post and a delete without proof; the unack was overwritten
        strict = await everything(mirror)
        assert {row["key"] for row in strict["records"]} == {post_key(ALICE, "1")}
        done = await rejudge(mirror, TrustMode.AUTHORITY)
        assert done.accepted == 2
        back = await everything(mirror)
        assert back == authority
        assert back["records"] == expected["records"]


async def test_off_believes_again_what_was_rejected(database_url: str) -> None:
    """Provisional things stand as if they had always, and dead letters of trust are applied."""
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, HOME)
        await mirror.write(
            BETA,
            [
                *HOSTILE,
                profile(EVE.ccid, username="誰"),
                ack(EVE.ccid, BOB),
                post(EVE.ccid, "1", "x"),
                delete(post_key(EVE, "1"), author=EVE.ccid, created_at=LATE),
            ],
        )
        done = await rejudge(mirror, TrustMode.OFF)
        assert done.accepted == 5
        assert done.logs_to_read == 0
        state = await everything(mirror)
        assert state["said"] == state["letters"] == []
        assert {row["provisional"] for row in state["records"] + state["follows"] + state["deletes"]} == {
            False
        }
        assert await mirror.keys() == {post_key(ALICE, "2"), profile_key(EVE)}
        assert await mirror.value(post_key(ALICE, "2")) == {"body": "偽物 é 🦊"}


async def test_progress_tells_of_every_stage_and_ends_at_its_total(database_url: str) -> None:
    """In order, never backwards, batches of many and of none alike."""
    seen: list[JudgingProgress] = []
    async with open_mirror(database_url) as mirror:
        for start in range(0, 1200, 400):
            commits = [post(ALICE, str(number), "x") for number in range(start, start + 400)]
            await mirror.write(ALPHA, commits)
        await mirror.write(BETA, [ack(ALICE.ccid, BOB)])
        judge = Judge(TrustMode.STRICT, follows=SCHEMAS.acks)
        await judge_stored(mirror.database, judge, SCHEMAS, now=NOW, on_progress=seen.append)
    assert [stage.stage for stage in seen] == sorted((one.stage for one in seen), key=list(Stage).index)
    assert {one.stage for one in seen} == set(Stage)
    records = [one.done for one in seen if one.stage is Stage.RECORDS]
    assert records == [500, 1000, 1200]
    last = {one.stage: one for one in seen}
    assert all(one.done == one.total for stage, one in last.items() if stage is not Stage.REJECTED)


async def test_a_crash_between_batches_leaves_nothing_but_work_to_do(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun again after each batch, it ends as if it had never been ended."""
    monkeypatch.setattr("indexer.replication.rejudge.BATCH", 1)

    class _EndedError(Exception):
        pass

    states = []
    for crash_after in (None, 1, 2, 3, 4, 5, 6, 8):
        async with open_mirror(database_url) as mirror:
            await mirror.clear()
            await mirror.write(ALPHA, HOME)
            await mirror.write(BETA, HOSTILE)
            judge = Judge(TrustMode.AUTHORITY, follows=SCHEMAS.acks)
            steps = iter(range(crash_after or 1000))

            def step(_progress: JudgingProgress, steps: Iterator[int] = steps) -> None:
                if next(steps, None) is None:
                    raise _EndedError

            with suppress(_EndedError):
                await judge_stored(mirror.database, judge, SCHEMAS, now=NOW, on_progress=step)
            await judge_stored(mirror.database, judge, SCHEMAS, now=NOW)
            states.append(await everything(mirror))
    assert all(state == states[0] for state in states)


async def test_a_batch_that_postgresql_has_run_again_counts_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is counted: what was removed, and what was accepted."""

    async def counts(mirror: Mirror) -> list[Rejudged]:
        await mirror.clear()
        await mirror.write(ALPHA, [entity(ALICE, ALPHA), post(ALICE, "1", "本物")])
        forged = [entity(EVE.ccid, GAMMA), post(ALICE.ccid, "2", "偽物"), ack(ALICE.ccid, BOB.ccid)]
        await mirror.write(BETA, [*forged, delete(post_key(ALICE, "1"), author=ALICE.ccid)])
        judge = Judge(TrustMode.AUTHORITY, follows=SCHEMAS.acks)
        return [await judge_stored(mirror.database, mode, SCHEMAS, now=NOW) for mode in (judge, None, judge)]

    async with open_mirror(database_url) as mirror:
        expected = await counts(mirror)
        assert expected[0].removed.total() > 2
        assert expected[1].accepted > 0
        real = mirror.database.transaction

        async def twice(name: str, work: Any, **options: Any) -> Any:
            runs = 0

            async def again(connection: Any) -> Any:
                nonlocal runs
                runs += 1
                done = await work(connection)
                if runs == 1 and name.startswith("judge_"):
                    raise asyncpg.DeadlockDetectedError("once more")
                return done

            return await real(name, again, **options)

        monkeypatch.setattr(mirror.database, "transaction", twice)
        assert await counts(mirror) == expected


async def test_what_was_set_aside_of_a_server_that_moved_is_due_under_its_new_name(database_url: str) -> None:
    """Of its residents and of itself, also where the old name is what is stored."""
    async with open_mirror(database_url, TrustMode.AUTHORITY) as mirror:
        await mirror.write(ALPHA, [entity(ALICE, ALPHA)])
        await mirror.database.execute("insert into mirror.moves values ('old.example', $1, $2)", ALPHA, NOW)
        await mirror.database.execute("update mirror.entities set domain = 'old.example'")
        await mirror.database.execute(
            "insert into mirror.set_aside (owner, domain, seen_at)"
            " select owner, $2, $3 from unnest($1::text[]) as t (owner)",
            [ALICE.ccid, "old.example", EVE.ccid],
            ALPHA,
            NOW,
        )
        await judge_stored(mirror.database, mirror.judge, SCHEMAS, now=NOW)
        due = await mirror.rows("select owner from mirror.set_aside where due_at is not null order by 1")
        assert [row["owner"] for row in due] == sorted([ALICE.ccid, "old.example"])
