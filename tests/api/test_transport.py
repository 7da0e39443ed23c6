"""What surrounds an answer: CORS, compression, HEAD, OPTIONS, and what is counted."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from indexer.engines.indexes import POSTS
from tests.api.fakes import EXAMPLES, Served

pytestmark = pytest.mark.anyio

PATHS = ["/api/v1/search/posts", "/api/v1/stats", "/health", "/docs", "/openapi.json"]


@pytest.mark.parametrize("path", PATHS)
async def test_any_origin_may_read(api: Served, path: str) -> None:
    """Also when the request names no origin."""
    for headers in ({}, {"Origin": "https://client.example"}):
        answer = await api.client.get(path, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", [*PATHS, "/"])
async def test_head_is_get_without_a_body(api: Served, path: str) -> None:
    """The same status and headers, length included."""
    get = await api.client.get(path)
    head = await api.client.head(path)
    assert head.content == b""
    assert head.status_code == get.status_code
    for name in ("content-type", "content-length", "content-encoding", "location"):
        assert head.headers.get(name) == get.headers.get(name)


async def test_preflight(api: Served) -> None:
    """A browser that asks first may go on, also to a path where a 404 waits for it."""
    asks = {"Origin": "https://client.example", "Access-Control-Request-Method": "GET"}
    for path in (*PATHS, "/nope"):
        answer = await api.client.options(path, headers=asks)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "GET" in answer.headers["access-control-allow-methods"]


async def test_options_names_the_methods(api: Served) -> None:
    """Those of the path; there are none where nothing is."""
    answer = await api.client.options("/api/v1/stats")
    assert (answer.status_code, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    assert (await api.client.options("/nope")).status_code == 404


async def test_long_answers_are_compressed(api: Served) -> None:
    """Only when asked for, and only where it pays; twice in a row, and without afterwards."""
    api.engine.documents[POSTS] = [EXAMPLES[POSTS]] * 20
    for path in ("/api/v1/search/posts", "/docs", "/openapi.json"):
        for _ in range(2):
            packed = await api.client.get(path)
            assert packed.headers["content-encoding"] == "gzip"
        plain = await api.client.get(path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == packed.content
    assert "content-encoding" not in (await api.get("/health")).headers


async def test_keep_alive_and_pipelining(api: Served) -> None:
    """Requests on one connection are answered in order."""
    one = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /nope HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await api.raw(one + one + last)
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"404"]


def series(api: Served) -> list[tuple[dict[str, str], float]]:
    families = text_string_to_metric_families(api.metrics.render().decode())
    return [
        (sample.labels, sample.value)
        for family in families
        for sample in family.samples
        if sample.name == "indexer_http_requests_total"
    ]


async def test_requests_are_counted_by_route(api: Served) -> None:
    """The template of the route is the label; 404s and 405s count too."""
    before = series(api)
    await api.get("/api/v1/search/users", q="猫")
    await api.client.head("/health")
    await api.client.post("/api/v1/stats")
    await api.client.options("/api/v1/stats")
    new = [
        (labels["method"], labels["route"], labels["code"])
        for labels, value in series(api)
        if (labels, value) not in before
    ]
    assert set(new) == {
        ("GET", "/api/v1/search/users", "200"),
        ("HEAD", "/health", "200"),
        ("POST", "/api/v1/stats", "405"),
        ("OPTIONS", "/api/v1/stats", "204"),
    }


async def test_strangers_make_no_series(api: Served) -> None:
    """C56: random paths and methods, however many, share one value each."""
    await api.get("/nope")
    before = len(api.metrics.render().splitlines())
    for number in range(300):
        await api.get(f"/{number}/wp-login.php")
    for number in range(20):
        await api.raw(b"INVENT%d / HTTP/1.1\r\nHost: x\r\n\r\n" % number)
    assert len(api.metrics.render().splitlines()) == before
    routes = {labels["route"] for labels, _ in series(api)}
    assert routes <= {*PATHS, "/", "other", "/api/v1/search/users"}


async def test_nothing_is_told_of_the_server_software(api: Served) -> None:
    """No Server header, and no body says what it is written in."""
    answer = await api.get("/nope")
    assert "server" not in answer.headers
