"""`RateLimit` header fields: every form that is met, and room left for others."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.concrnt.client import FailureClass, PeerClient, PeerError, user_agent
from indexer.concrnt.ratelimits import wait_seconds
from tests.concrnt.test_client import answer, serving

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
IN_A_MINUTE = int(NOW.timestamp()) + 60


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, 0),
        ({"ratelimit": '"default";r=50;t=30', "ratelimit-policy": '"default";q=100;w=60'}, 0),
        ({"ratelimit": '"default";r=25;t=30', "ratelimit-policy": '"default";q=100;w=60'}, 30),
        ({"ratelimit": '"default";r=0;t=30'}, 30),
        ({"ratelimit": '"default";r=2;t=30'}, 0),
        ({"ratelimit": '"default";r=1', "ratelimit-policy": '"default";q=4;w=60'}, 60),
        (
            {
                "ratelimit": '"burst";r=9;t=1, "daily";r=10;t=1800',
                "ratelimit-policy": '"burst";q=10;w=1, "daily";q=1000;w=86400',
            },
            1800,
        ),
        ({"ratelimit": "limit=100, remaining=50, reset=30"}, 0),
        ({"ratelimit": "limit=100, remaining=25, reset=30"}, 30),
        ({"ratelimit": "remaining=1, reset=7", "ratelimit-policy": "100;w=60"}, 7),
        ({"ratelimit-limit": "100, 100;w=60", "ratelimit-remaining": "20", "ratelimit-reset": "12"}, 12),
        ({"ratelimit-limit": "100", "ratelimit-remaining": "26", "ratelimit-reset": "12"}, 0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}, 12),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(IN_A_MINUTE)}, 60),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(IN_A_MINUTE * 1000)}, 60),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(IN_A_MINUTE - 3600)}, 0),
        ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": "5"}, 5),
        ({"x-ratelimit-remaining": "0"}, 0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "999999"}, 3600),
        ({"ratelimit-remaining": "none", "ratelimit-reset": "5"}, 0),
        ({"ratelimit-remaining": "٠", "ratelimit-reset": "5"}, 0),
        ({"ratelimit-remaining": "-1", "ratelimit-reset": "5"}, 0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "9" * 5000}, 0),
        ({"ratelimit": ";;;=,,;r=;=t"}, 0),
    ],
)
def test_a_quarter_is_left_for_others(headers: dict[str, str], wait: float) -> None:
    """Else we stay away until the limit is set back, an hour at most."""
    assert wait_seconds(headers, NOW) == wait


@given(st.dictionaries(st.sampled_from(["ratelimit", "ratelimit-policy", "x-ratelimit-reset"]), st.text()))
def test_nothing_that_a_stranger_sends_raises(headers: dict[str, str]) -> None:
    """What can not be read asks for nothing; what can, for an hour at most."""
    assert 0 <= wait_seconds(headers, NOW) <= 3600


@pytest.mark.anyio
async def test_a_server_whose_limit_is_nearly_used_up_is_not_asked_until_it_is_set_back() -> None:
    """It shows as asking for quiet, which is no failure; other servers are asked."""
    now = NOW
    asked = 0

    def ask(*_: object) -> None:
        nonlocal asked
        asked += 1

    script = answer("200 OK", b"{}", "RateLimit-Limit: 100", "RateLimit-Remaining: 3", "RateLimit-Reset: 40")
    async with serving({"/": script}, clock=lambda: now, on_request=ask) as (_, client):
        assert isinstance(client, PeerClient)
        await client.get("alpha.example", "/")
        with pytest.raises(PeerError) as raised:
            await client.get("alpha.example", "/")
        assert raised.value.failure is FailureClass.RATE_LIMITED
        assert raised.value.retry_after == 40
        assert asked == 1
        now += timedelta(seconds=41)
        await client.get("alpha.example", "/")
        assert asked == 2


def test_the_user_agent_says_where_to_complain() -> None:
    """Software, version, and the URL of the operator's service."""
    assert user_agent("1.2", "https://search.example") == "concrnt-indexer/1.2 (+https://search.example)"
