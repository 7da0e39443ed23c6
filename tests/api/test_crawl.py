"""`POST /api/v1/crawl/ccfs`: bodies of every kind, refusals, and how much one client may ask (C48)."""

from __future__ import annotations

import json

import pytest

from indexer.api import examples
from indexer.api.errors import ApiError
from tests.api.fakes import Served, served_public

pytestmark = pytest.mark.anyio
PATH = "/api/v1/crawl/ccfs"
URI = examples.DOCUMENT
FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (json.dumps({"ccfs": URI}).encode(), JSON),
        (json.dumps({"ccfs": URI, "more": 1}).encode(), {"content-type": "application/json; charset=utf-8"}),
        (b"ccfs=" + URI.encode(), FORM),
        (b"other=1&ccfs=" + URI.replace(":", "%3A").replace("/", "%2F").encode(), FORM),
        (URI.encode(), {"content-type": "text/plain"}),
        (f"  {URI}\n".encode(), {"content-type": "text/plain;charset=UTF-8"}),
        (URI.encode(), {}),
        (
            b'--b\r\nContent-Disposition: form-data; name="ccfs"\r\n\r\n' + URI.encode() + b"\r\n--b--\r\n",
            {"content-type": "multipart/form-data; boundary=b"},
        ),
    ],
)
async def test_a_uri_is_read_from_json_forms_and_text(
    api: Served, body: bytes, headers: dict[str, str]
) -> None:
    """Whatever a client author has at hand."""
    answer = await api.client.post(PATH, content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert api.crawler.asked[-1:] == [URI]
    assert answer.json() == examples.CRAWLED
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 400),
        (b"", JSON, 400),
        (b"", FORM, 400),
        (b"NaN", JSON, 400),
        (b'{"ccfs": NaN}', JSON, 400),
        (b'{"ccfs": Infinity}', JSON, 400),
        (b"[1]", JSON, 400),
        (b'["' + URI.encode() + b'"]', JSON, 400),
        (b'"' + URI.encode() + b'"', JSON, 400),
        (b'{"ccfs": null}', JSON, 400),
        (b'{"ccfs": ["a"]}', JSON, 400),
        (b'{"ccfs": ""}', JSON, 400),
        (b'{"ccfs": "ccfs://\\ud800/concrnt/06ae2wq8y1c5h4n9m3k7r0t2yz"}', JSON, 400),
        (b'{"ccfs": "ccfs://a\\u0000/concrnt/06ae2wq8y1c5h4n9m3k7r0t2yz"}', JSON, 400),
        (b"cckv://alpha.example/a", {}, 400),
        (b"ccfs://alpha.example/blob/" + b"0" * 64, {}, 400),
        (b"ccfs:///concrnt/06ae2wq8y1c5h4n9m3k7r0t2yz", {}, 400),
        (b"https://alpha.example/", {}, 400),
        (b"\xff\xfe", JSON, 400),
        (b"[" * 100_000, JSON, 400),
        (b"nothing=1", FORM, 400),
        (b"&" * 5000, FORM, 400),
        (b"no form", {"content-type": "multipart/form-data"}, 400),
        (b"--b\r\nnonsense", {"content-type": "multipart/form-data; boundary=b"}, 400),
        (b"x" * 5000, {"content-type": "text/plain"}, 400),
        (b"<ccfs/>", {"content-type": "application/xml"}, 415),
        (b"x", {"content-type": "nonsense"}, 415),
        (b" " * 2_000_000, JSON, 413),
        (b" " * 2_000_000, {"content-type": "text/plain"}, 413),
    ],
)
async def test_what_holds_no_uri_is_refused(
    api: Served, body: bytes, headers: dict[str, str], status: int
) -> None:
    """C48: in the shape of every error, open to browsers, and nobody is asked."""
    asked = len(api.crawler.asked)
    answer = await api.client.post(PATH, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"message", "code"}
    assert answer.headers["access-control-allow-origin"] == "*"
    assert len(api.crawler.asked) == asked


@pytest.mark.parametrize("status", [400, 404, 502])
async def test_what_the_crawl_raises_is_answered(api: Served, status: int) -> None:
    """With its sentence."""
    api.crawler.trouble.failure = ApiError(status, "a sentence")
    answer = await api.client.post(PATH, content=URI)
    api.crawler.trouble.failure = None
    assert (answer.status_code, answer.json()["message"]) == (status, "a sentence")


async def test_get_is_not_allowed(api: Served) -> None:
    """The answer says what is."""
    answer = await api.get(PATH)
    assert (answer.status_code, answer.headers["allow"]) == (405, "OPTIONS, POST")


async def test_a_client_may_ask_for_so_many_documents_a_minute() -> None:
    """429 and Retry-After beyond; other clients and other paths are none the worse."""
    async with served_public(crawls_per_minute=5) as served:
        for _ in range(5):
            assert (await served.client.post(PATH, content=URI)).status_code == 200
        refused = await served.client.post(PATH, content=URI)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert 1 <= int(refused.headers["retry-after"]) <= 12
        assert len(served.crawler.asked) == 5
        other = await served.client.post(PATH, content=URI, headers={"x-forwarded-for": "203.0.113.7"})
        assert other.status_code == 200
        assert (await served.get("/health")).status_code == 200
