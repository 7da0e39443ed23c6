"""The OpenAPI document and the page made from it: complete, true, and in need of nothing from elsewhere."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from pydantic import TypeAdapter

from indexer.api import models
from indexer.api.documentation import prose, render_documentation
from indexer.api.kinds import SEARCH_KINDS, SearchKind
from tests.api.fakes import VERSION, Served

pytestmark = pytest.mark.anyio


class Page(HTMLParser):
    """What a page refers to, and what its style and script hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.inside: str | None = None
        self.parts: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.references += [value or "" for name, value in attributes if name in ("src", "href", "action")]

    def handle_endtag(self, _tag: str) -> None:
        self.inside = None

    def handle_data(self, data: str) -> None:
        if self.inside in ("style", "script"):
            self.parts[self.inside] = self.parts.get(self.inside, "") + data


@pytest.fixture
async def openapi(api: Served) -> Any:
    return (await api.get("/openapi.json")).json()


async def test_every_operation_is_described(openapi: Any) -> None:
    """All paths that are due, and nothing that is not built."""
    assert set(openapi["paths"]) == {
        *(kind.path for kind in SEARCH_KINDS),
        *("/api/v1/search", "/api/v1/suggest", "/api/v1/crawl/ccfs", "/api/v1/stats", "/health"),
    }
    assert openapi["info"]["version"] == VERSION
    assert openapi["servers"] == [{"url": "https://search.example"}]


async def test_every_parameter_and_answer_has_an_example(openapi: Any) -> None:
    """A client author sees what each looks like."""
    for methods in openapi["paths"].values():
        for operation in methods.values():
            assert all("example" in parameter for parameter in operation.get("parameters", []))
            assert all(
                "example" in body for body in operation.get("requestBody", {}).get("content", {}).values()
            )
            for status, answer in operation["responses"].items():
                assert "example" in answer["content"]["application/json"], status
            assert "422" not in operation["responses"]


@pytest.mark.parametrize("kind", SEARCH_KINDS, ids=lambda kind: kind.name)
async def test_the_parameters_are_those_of_the_specification(openapi: Any, kind: SearchKind) -> None:
    """behaviour.md section 7."""
    expected = {
        "users": ["sourceServer", "owner", "sort", "viewer"],
        "communities": ["sourceServer", "owner", "cckv", "sort", "viewer"],
        "posts": ["author", "sourceServer", "schema", "sort"],
        "servers": ["status", "sort"],
    }
    common = ["q", "limit", "offset", "cursor", "highlight"]
    described = openapi["paths"][kind.path]["get"]["parameters"]
    assert [parameter["name"] for parameter in described] == common + expected[kind.name]


async def test_examples_have_the_documented_form(openapi: Any) -> None:
    """Each example of an answer passes the schema beside it."""
    for kind in SEARCH_KINDS:
        answers = openapi["paths"][kind.path]["get"]["responses"]
        example = answers["200"]["content"]["application/json"]["example"]
        TypeAdapter(kind.answer).validate_python(example)
        error = answers["400"]["content"]["application/json"]["example"]
        models.ApiErrorBody.model_validate(error)


async def test_examples_of_the_other_searches_have_the_documented_form(openapi: Any) -> None:
    """Each passes the schema beside it, too."""
    for path, model in (
        ("/api/v1/search", models.EverywhereAnswer),
        ("/api/v1/suggest", models.SuggestAnswer),
    ):
        answers = openapi["paths"][path]["get"]["responses"]
        TypeAdapter(model).validate_python(answers["200"]["content"]["application/json"]["example"])


async def test_the_page_needs_nothing_from_elsewhere(api: Served) -> None:
    """It works without the internet: no reference leaves it, and its policy forbids any that would."""
    answer = await api.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = Page(answer.text)
    assert {reference for reference in page.references if not reference.startswith(("#", "data:"))} == {
        "openapi.json"
    }
    assert not re.search(r"@import|url\(", page.parts["style"])
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    for part in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.parts[part].encode()).digest()).decode()
        assert f"{part}-src 'sha256-{digest}'" in policy


async def test_the_page_lists_every_operation_with_a_form(api: Served, openapi: Any) -> None:
    """Paths, parameters and examples are all there."""
    text = (await api.get("/docs")).text
    for path, methods in openapi["paths"].items():
        assert f'data-path="{path}"' in text
        for parameter in methods.get("get", {}).get("parameters", []):
            assert f'name="{parameter["name"]}"' in text
    assert 'data-method="POST"' in text
    assert 'name="ccfs"' in text
    assert 'data-public-url="https://search.example"' in text


def test_the_page_shows_text_as_text() -> None:
    """C54: markup in what it is made from, the operator's URL included, is shown and never obeyed."""
    evil = '"><img src=x onerror=1>'
    page = render_documentation(
        {
            "info": {"title": evil, "version": evil, "description": f"{evil} `{evil}` **{evil}**"},
            "servers": [{"url": evil}],
            "paths": {
                f"/{evil}": {
                    "get": {
                        "operationId": evil,
                        "tags": [evil],
                        "summary": evil,
                        "description": evil,
                        "parameters": [
                            {
                                "name": evil,
                                "description": evil,
                                "schema": {"type": "string", "default": evil},
                                "example": evil,
                            }
                        ],
                        "responses": {
                            "200": {
                                "description": evil,
                                "content": {"application/json": {"example": {"body": evil}}},
                            }
                        },
                    }
                }
            },
        }
    )
    assert "<img" not in page.html


def test_prose() -> None:
    """Code and strong marks are the only markup."""
    assert prose("a `b<c` **d** & e") == "a <code>b&lt;c</code> <strong>d</strong> &amp; e"


async def test_the_root_leads_to_the_page(api: Served) -> None:
    """A relative redirect: it survives a proxy that serves us below a path."""
    answer = await api.get("/")
    assert answer.is_redirect
    assert answer.headers["location"] == "docs"
