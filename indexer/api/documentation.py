"""The page at ``/docs``: the OpenAPI document for people, with a form to try each operation.

The page is one file that asks for nothing from elsewhere, so it works without the internet and tells nobody
who reads it; a content security policy holds it to that. It is rendered once, from the same document that
programs read. What strangers wrote reaches it only as answers of the API, and those are shown as text.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")


@dataclass(frozen=True, slots=True)
class DocumentationPage:
    """The page and the headers that belong to it."""

    html: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    description: str
    type: str
    default: str
    choices: tuple[str, ...]
    placeholder: str


@dataclass(frozen=True, slots=True)
class _Answer:
    status: str
    description: str
    example: str


@dataclass(frozen=True, slots=True)
class _Operation:
    id: str
    tag: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[_Parameter, ...]
    answers: tuple[_Answer, ...]


def render_documentation(openapi: Mapping[str, Any]) -> DocumentationPage:
    """Render the page of an OpenAPI document."""
    environment = Environment(
        loader=PackageLoader("indexer.api"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = prose
    style = environment.get_template("docs.css").render()
    script = environment.get_template("docs.js").render()
    servers = openapi.get("servers") or [{"url": ""}]
    html = environment.get_template("docs.html").render(
        info=openapi["info"],
        public_url=servers[0]["url"],
        operations=tuple(_operations(openapi)),
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
    )
    policy = (
        f"default-src 'none'; style-src {_source_hash(style)}; script-src {_source_hash(script)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return DocumentationPage(html, {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"})


def prose(text: str) -> Markup:
    """Text with `code` and **strong** marks as HTML; everything else is escaped."""
    marked = str(escape(text))
    marked = _CODE.sub(r"<code>\1</code>", marked)
    return Markup(_STRONG.sub(r"<strong>\1</strong>", marked))  # noqa: S704 - escaped above


def _source_hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _operations(openapi: Mapping[str, Any]) -> Iterator[_Operation]:
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield _Operation(
                id=operation["operationId"],
                tag=operation["tags"][0],
                method=method.upper(),
                path=path,
                summary=operation["summary"],
                description=operation["description"],
                parameters=(
                    *(_parameter(given) for given in operation.get("parameters", [])),
                    *_fields(operation),
                ),
                answers=tuple(_answer(status, given) for status, given in operation["responses"].items()),
            )


def _fields(operation: Mapping[str, Any]) -> Iterator[_Parameter]:
    """The fields of an operation's body, where it takes a form."""
    form = operation.get("requestBody", {}).get("content", {}).get("application/x-www-form-urlencoded")
    if form is None:
        return
    for name, schema in form["schema"]["properties"].items():
        described = {"name": name, "description": schema["description"], "schema": schema}
        yield _parameter({**described, "example": form["example"][name]})


def _parameter(given: Mapping[str, Any]) -> _Parameter:
    schema = given["schema"]
    return _Parameter(
        name=given["name"],
        description=given["description"],
        type=schema["type"] if isinstance(schema["type"], str) else schema["type"][0],
        default=str(schema.get("default", "")),
        choices=tuple(schema.get("enum", ())),
        placeholder=str(given["example"]),
    )


def _answer(status: str, given: Mapping[str, Any]) -> _Answer:
    example = given["content"]["application/json"]["example"]
    return _Answer(status, given["description"], json.dumps(example, ensure_ascii=False, indent=2))
