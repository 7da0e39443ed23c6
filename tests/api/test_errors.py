"""Every error has one shape and is open to browsers, whoever makes it."""

import json
from collections.abc import AsyncIterator

import pytest
from fastapi import Request
from starlette.responses import Response, StreamingResponse

from indexer.engines.base import EngineUnavailable
from tests.api.fakes import DatabaseAwayError, Served, Trouble, assert_error

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "path", ["/nope", "/api/v1/stats/", "/api/v1/search/", "/%00", "/猫", "/..%2f..%2fetc"]
)
async def test_unknown_paths(api: Served, path: str) -> None:
    """404 in the shape of errors, and no redirect to another spelling."""
    assert_error(await api.client.get(path), 404, "not_found")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE"])
@pytest.mark.parametrize(
    "path", ["/api/v1/search/posts", "/api/v1/stats", "/health", "/docs", "/openapi.json"]
)
async def test_methods_that_a_path_has_not(api: Served, method: str, path: str) -> None:
    """405 says which methods there are."""
    answer = await api.client.request(method, path)
    assert_error(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


async def test_a_url_that_is_too_long(api: Served) -> None:
    """413 from the application, and from the protocol before there is a request at all."""
    assert_error(await api.get_long(f"/api/v1/search/posts?q={'a' * 263_000}"), 413, "too_large")
    for head in (b"GET /?q=" + b"a" * 1_000_000, b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 100_000):
        answer = await api.raw(head)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"Access-Control-Allow-Origin: *" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "too_large"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GRUMBLE / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_what_is_no_request(api: Served, request_bytes: bytes) -> None:
    """Even what is no HTTP is answered in the shape of errors."""
    answer = await api.raw(request_bytes)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Access-Control-Allow-Origin: *" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "bad_request"


async def test_a_body_that_is_too_long(api: Served) -> None:
    """413, announced or in chunks; a short one is read."""

    async def echo(request: Request) -> Response:
        return Response(str(len(await request.body())))

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(32):
            yield b"x" * 65_536

    api.app.add_api_route("/test/echo", echo, methods=["POST"])
    assert_error(await api.client.post("/test/echo", content=b"x" * 2_000_000), 413, "too_large")
    assert_error(await api.client.post("/test/echo", content=chunks()), 413, "too_large")
    assert (await api.client.post("/test/echo", content=b"x" * 1000)).text == "1000"


async def test_what_nobody_expected(api: Served) -> None:
    """500 tells nothing of what happened inside, and a browser may read it."""
    api.engine.trouble = Trouble(failure=RuntimeError('syntax error at or near "SELECT" in /srv/secret.py'))
    answer = await api.get("/api/v1/search/posts", q="猫")
    message = assert_error(answer, 500, "internal")
    assert "SELECT" not in message
    assert "secret" not in message


async def test_a_failure_in_the_middle_of_an_answer_breaks_it_off(api: Served) -> None:
    """Half an answer is never passed off as a whole one."""

    async def torn() -> AsyncIterator[bytes]:
        yield b"half"
        raise RuntimeError("torn")

    async def handler(_request: Request) -> Response:
        return StreamingResponse(torn())

    api.app.add_api_route("/test/torn", handler)
    answer = await api.raw(b"GET /test/torn HTTP/1.1\r\nHost: x\r\n\r\n")
    assert not answer.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    "failure",
    [
        EngineUnavailable("meilisearch at 10.0.0.7 is away"),
        TimeoutError(),
        ConnectionRefusedError("10.0.0.7:5432"),
        DatabaseAwayError("10.0.0.7:5432"),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/search/users", "/api/v1/stats"])
async def test_a_dependency_that_is_away(api: Served, failure: Exception, path: str) -> None:
    """503 with Retry-After, and no word of where the dependency is."""
    api.engine.trouble = Trouble(failure=failure)
    answer = await api.get(path)
    message = assert_error(answer, 503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert "10.0.0.7" not in message


@pytest.mark.parametrize("path", ["/api/v1/search/users", "/api/v1/stats"])
async def test_a_dependency_that_hangs(api: Served, path: str) -> None:
    """C40: the wait is bounded, then 503."""
    api.engine.trouble = Trouble(hangs=True)
    answer = await api.get(path)
    assert_error(answer, 503, "unavailable")
    assert answer.elapsed.total_seconds() < 3


async def test_statistics_without_the_database(api: Served) -> None:
    """503 when the mirror is away; searches go on."""
    api.mirror.trouble = Trouble(failure=DatabaseAwayError())
    assert_error(await api.get("/api/v1/stats"), 503, "unavailable")
    assert (await api.get("/api/v1/search/users")).status_code == 200


async def test_health_looks_at_nothing(api: Served) -> None:
    """C57: the process lives, whatever is away."""
    api.engine.trouble = api.mirror.trouble = Trouble(hangs=True)
    answer = await api.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
