"""A simulated server over real HTTP."""

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from indexer.simulation import schemas
from indexer.simulation.faults import Endpoint
from indexer.simulation.scripted import (
    ALICE,
    ALPHA,
    BOB,
    SEED,
    ScriptedNetwork,
    association,
    community,
    community_key,
    delete,
    document_address,
    entity,
    post,
    post_key,
    profile,
    profile_key,
    reference,
    scripted_network,
)
from indexer.simulation.server import SimulatedServer

pytestmark = pytest.mark.anyio

NOON = "2025-03-01T12:00:00Z"


@pytest.fixture
async def network() -> AsyncIterator[ScriptedNetwork]:
    async with scripted_network() as running:
        yield running


@pytest.fixture
def alpha(network: ScriptedNetwork) -> SimulatedServer:
    return network[ALPHA]


@pytest.fixture
async def http(network: ScriptedNetwork) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=network.host_overrides[ALPHA]) as client:
        yield client


async def feed(http: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    answer = await http.get("/api/v2/replication", params=query)
    assert answer.status_code == 200
    page: dict[str, Any] = answer.json()
    return page


async def resolve(http: httpx.AsyncClient, uri: str) -> httpx.Response:
    return await http.get("/api/v2/resolve", params={"uri": uri})


async def test_well_known_and_known_servers(network: ScriptedNetwork, http: httpx.AsyncClient) -> None:
    """A server says who it is; the seed knows the others."""
    own = (await http.get("/.well-known/concrnt")).json()
    assert (own["domain"], own["layer"]) == (ALPHA, "concrnt-mainnet")
    known = await http.get(f"{network.host_overrides[SEED]}/api/v2/known-servers")
    assert [entry["domain"] for entry in known.json()] == ["alpha.example", "beta.example", "gamma.example"]
    assert known.json()[0] == own


async def test_feed_parameters(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """Bounds, order and limit come from the query; what they are is remembered."""
    for second in range(5):
        alpha.receive(f"2025-03-01T00:00:0{second}Z", post(ALICE, str(second), "やあ"))
    page = await feed(http, since="2025-03-01T00:00:01Z", until="2025-03-01T00:00:03+00:00", limit="2")
    assert (page["prev"], page["next"]) == ("2025-03-01T00:00:01Z", "2025-03-01T00:00:03Z")
    backwards = await feed(http, order="desc", limit="0")
    assert (backwards["prev"], backwards["next"]) == ("2025-03-01T00:00:04Z", "2025-03-01T00:00:03Z")
    assert len((await feed(http, limit="many", owner=ALICE))["items"]) == 5
    assert (await feed(http, owner=BOB))["items"] == []
    assert (await http.get("/api/v2/replication?since=yesterday")).status_code == 400
    assert alpha.requests[0].query["until"] == "2025-03-01T00:00:03+00:00"
    assert len(alpha.requests_to(Endpoint.REPLICATION)) == 5


async def test_limit_is_clamped(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """No page holds more than a hundred rows, or than the server is set to."""
    alpha.receive(NOON, *(b"%d" % number for number in range(150)))
    page = await feed(http, limit="1000")
    assert (len(page["items"]), page["next"]) == (100, NOON)
    alpha.most_rows = 7
    assert len((await feed(http, limit="100"))["items"]) == 7


async def test_resolve(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """Records, documents in both forms, entities and the server itself resolve; hidden ones are absent."""
    hello = post(ALICE, "a/b".replace("/", "%2F"), "こんにちは")
    alpha.receive(NOON, entity(ALICE, ALPHA, alias="alice.example"), hello)
    alpha.receive(NOON, post(ALICE, "secret", "内緒"), hidden=True)
    address = document_address(hello, ALICE)
    for uri in (
        post_key(ALICE, "a%2Fb"),
        quote(post_key(ALICE, "a%2Fb"), safe=""),
        post_key("@alice.example", "a%2Fb"),
        post_key(f"{ALICE}@other.example", "a%2Fb"),
        address,
        address.replace("/concrnt/", "/"),
    ):
        assert (await resolve(http, uri)).json() == json.loads(hello), uri
    assert json.loads((await resolve(http, f"cckv://{ALICE}")).json()["document"])["kind"] == "entity"
    assert (await resolve(http, f"cckv://{ALPHA}")).json()["domain"] == ALPHA
    for absent in (post_key(ALICE, "secret"), post_key(ALICE, "a"), f"cckv://{BOB}"):
        assert (await resolve(http, absent)).status_code == 404
    assert (await resolve(http, "https://alpha.example/")).status_code == 400


async def test_references_redirect_and_go_with_their_post(
    alpha: SimulatedServer, http: httpx.AsyncClient
) -> None:
    """A reference resolves to a redirect; deleting the post drops it without a word in the log."""
    timeline = community_key(ALPHA, "cats")
    alpha.receive(
        NOON,
        community(ALPHA, "cats", author=ALICE, name="ねこ"),
        post(ALICE, "1", "ねこ", distributes=[timeline]),
        reference(timeline, post_key(ALICE, "1"), author=ALICE, name="r"),
    )
    answer = await resolve(http, f"{timeline}/r")
    assert answer.status_code == 302
    followed = await http.get(answer.headers["location"])
    assert "ねこ" in followed.json()["document"]

    alpha.receive(NOON, delete(post_key(ALICE, "1") + "*", author=ALICE))
    assert (await resolve(http, f"{timeline}/r")).status_code == 404
    assert len((await feed(http))["items"]) == 4


async def test_query_gives_current_records(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """The query endpoint pages live records by createdAt, narrowed by what is asked."""
    for number in range(4):
        alpha.receive(NOON, post(ALICE, str(number), f"{number}", created_at=f"2025-03-01T00:00:0{number}Z"))
    alpha.receive(NOON, profile(ALICE, username="ありす"), profile(BOB, username="ぼぶ"))
    alpha.receive(NOON, delete(post_key(ALICE, "2"), author=ALICE))

    async def asked(**query: str) -> dict[str, Any]:
        page: dict[str, Any] = (await http.get("/api/v2/query", params=query)).json()
        return page

    posts = await asked(parent=profile_key(ALICE) + "/posts", limit="2")
    assert ["/posts/0" in posts["items"][0]["document"], posts["next"]] == [True, "2025-03-01T00:00:03Z"]
    assert len((await asked(prefix=profile_key(ALICE)))["items"]) == 4
    assert len((await asked(schema=schemas.PROFILE))["items"]) == 2
    assert len((await asked(author=BOB))["items"]) == 1
    newest = await asked(schema=schemas.MARKDOWN, order="desc", limit="1")
    assert "/posts/3" in newest["items"][0]["document"]


async def test_associations(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """Associations are found by their target, and go by their own document."""
    like = association(BOB, post_key(ALICE, "1"))
    alpha.receive(NOON, post(ALICE, "1", "やあ"), like)
    query = {"uri": post_key(ALICE, "1"), "schema": schemas.LIKE}
    assert len((await http.get("/api/v2/associations", params=query)).json()["items"]) == 1
    alpha.receive(NOON, delete(document_address(like, ALICE), author=BOB))
    assert (await http.get("/api/v2/associations", params=query)).json()["items"] == []


async def test_deleted_and_overwritten_documents(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """Overwritten documents resolve by their CDID; deleted ones do not, unless the server keeps them."""
    old, new = profile(ALICE, username="旧"), profile(ALICE, username="新")
    alpha.receive(NOON, old, new, delete(profile_key(ALICE), author=ALICE))
    assert (await resolve(http, document_address(old, ALICE))).status_code == 200
    assert (await resolve(http, document_address(new, ALICE))).status_code == 404
    alpha.state.keeps_deleted_documents = True
    alpha.log.generation += 1
    assert (await resolve(http, document_address(new, ALICE))).status_code == 200


async def test_anything_may_stand_in_a_log(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """Rows that are no commits are passed on as they are and disturb no other question."""
    odd = [b"null", b"[]", b'{"document":{}}', b'{"document":"[]"}', b'{"cckv":"cckv://a.example/b"}']
    alpha.receive(NOON, *odd, post(ALICE, "1", "良"))
    assert len((await feed(http))["items"]) == 6
    assert (await resolve(http, post_key(ALICE, "1"))).status_code == 200


async def test_gzip_when_accepted(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """Large answers are compressed for readers that accept it."""
    alpha.receive(NOON, post(ALICE, "1", "や" * 1_000))
    packed = await http.get("/api/v2/replication")
    plain = await http.get("/api/v2/replication", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()


async def test_templates_rule(alpha: SimulatedServer, http: httpx.AsyncClient) -> None:
    """A server serves the paths of its own templates only."""
    alpha.endpoints["net.concrnt.core.replication"] = "/feed/of/commits{?since,limit}"
    del alpha.endpoints["net.concrnt.core.query"]
    assert (await http.get("/feed/of/commits?limit=1")).status_code == 200
    assert (await http.get("/api/v2/replication")).status_code == 404
    assert (await http.get("/api/v2/query")).status_code == 404


async def test_relays_answer_for_others(network: ScriptedNetwork) -> None:
    """A server that relays finds what another server holds."""
    network[ALPHA].receive(NOON, entity(ALICE, ALPHA))
    network[SEED].relays = [network[ALPHA]]
    async with httpx.AsyncClient(base_url=network.host_overrides[SEED]) as seed:
        assert (await resolve(seed, f"cckv://{ALICE}")).status_code == 200
        assert (await resolve(seed, f"cckv://{BOB}")).status_code == 404
