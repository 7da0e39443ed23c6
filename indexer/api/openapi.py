"""The OpenAPI document's parts that FastAPI cannot know: parameters are read by our own rules, not by its.

FastAPI would answer 422 where behaviour.md asks for a default or a clamp, so the handlers read the query
string themselves and the operations are described here, with an example for every parameter and answer.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from indexer.api import examples
from indexer.api.crawl import DOCUMENT_URI, MAX_URI_CHARACTERS
from indexer.api.errors import RETRY_AFTER_SECONDS
from indexer.api.kinds import SearchKind
from indexer.api.models import ApiErrorBody
from indexer.api.parameters import (
    CURSOR,
    DEFAULT_EVERYWHERE_LIMIT,
    DEFAULT_LIMIT,
    DEFAULT_SUGGESTIONS,
    MAX_LIMIT,
    MAX_QUERY_CHARACTERS,
    MAX_SUGGESTIONS,
)

DESCRIPTION: Final = """\
Search over the public content of the Concrnt network: people, communities, posts and servers.

Everything is JSON and open to any origin (CORS). Every error is `{"message", "code"}`.
"""

_ERRORS: Final = {
    400: ("The request cannot mean anything.", "bad_request", "sort is one of createdAt, indexedAt, …"),
    404: (
        "What is asked for is not there, or the cursor leads nowhere in this search.",
        "not_found",
        "the cursor belongs to another query, filter or order; ask again without it",
    ),
    413: ("The URL or the body is too long.", "too_large", "the URL is longer than 262144 bytes"),
    415: (
        "The body is of a type that is not read here.",
        "unsupported_media_type",
        "the body is application/json, application/x-www-form-urlencoded, multipart/form-data or text/plain",
    ),
    429: (
        "This address asks too much; see `Retry-After`.",
        "too_many_requests",
        "too many requests; the next is answered in 2 s",
    ),
    502: (
        "Another server did not answer, or not as it should.",
        "bad_gateway",
        "its owner's server did not answer, or not as it should",
    ),
    503: (
        "The search engine or the database is away; see `Retry-After`.",
        "unavailable",
        "search is away for the moment; try again soon",
    ),
}


# A number is meant; that anything else is taken for the default is part of the contract, so it is said.
_LENIENT_INTEGER: Final = ["integer", "string"]


def describe_success(model: type[BaseModel], description: str, example: Mapping[str, Any]) -> dict[str, Any]:
    """The 200 of an operation."""
    return {
        "model": model,
        "description": description,
        "content": {"application/json": {"example": example}},
    }


def describe_errors(statuses: Iterable[int]) -> dict[int | str, dict[str, Any]]:
    """The errors that an operation may answer."""
    described: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        description, code, message = _ERRORS[status]
        described[status] = {
            "model": ApiErrorBody,
            "description": description,
            "content": {"application/json": {"example": {"message": message, "code": code}}},
        }
        if status in (429, 503):
            described[status]["headers"] = {
                "Retry-After": {
                    "description": "Seconds to wait before asking again.",
                    "schema": {"type": "integer"},
                    "example": RETRY_AFTER_SECONDS,
                }
            }
    return described


_URI_SCHEMA: Final = {
    "type": "string",
    "description": "The document: `ccfs://OWNER/concrnt/CDID`, or the older `ccfs://OWNER/CDID`. The owner "
    "is a CCID, a CSID or a server's name.",
    "pattern": f"^{DOCUMENT_URI.pattern}$",
    "maxLength": MAX_URI_CHARACTERS,
}
_URI_FIELD: Final = {"type": "object", "properties": {"ccfs": _URI_SCHEMA}, "required": ["ccfs"]}
CRAWL_BODY: Final = {
    "required": True,
    "content": {
        "application/json": {"schema": _URI_FIELD, "example": {"ccfs": examples.DOCUMENT}},
        "application/x-www-form-urlencoded": {"schema": _URI_FIELD, "example": {"ccfs": examples.DOCUMENT}},
        "multipart/form-data": {"schema": _URI_FIELD, "example": {"ccfs": examples.DOCUMENT}},
        "text/plain": {"schema": _URI_SCHEMA, "example": examples.DOCUMENT},
    },
}


def search_responses(kind: SearchKind) -> dict[int | str, dict[str, Any]]:
    """Every answer of a search."""
    example = examples.search_answer(kind.example_hit)
    success = describe_success(kind.answer, "One page of what was found.", example)
    return {200: success, **describe_errors((400, 404, 413, 429, 503))}


def search_parameters(kind: SearchKind) -> list[dict[str, Any]]:
    """Every parameter of a search."""
    return [
        _query_parameter(
            "What to look for; empty finds everything. Documents with all words come first, then those "
            "that lack the last, and so on. The last word also counts as a beginning, and words of five "
            "letters may have a typo.",
            examples.QUERY,
        ),
        _limit_parameter("How many hits to answer", DEFAULT_LIMIT, MAX_LIMIT),
        _parameter(
            "offset",
            "How many hits to pass over. Negative or no number means 0; past the deepest page is nothing.",
            {"type": _LENIENT_INTEGER, "default": 0},
            0,
        ),
        _parameter(
            "cursor",
            "`nextCursor` of the page before, for the same search: the page behind it, however deep, "
            "whatever came and went meanwhile. `offset` does not count then. Of another search it is a 404.",
            {"type": "string", "pattern": f"^({CURSOR.pattern})?$"},
            examples.CURSOR,
        ),
        _highlight_parameter(),
        *(
            _parameter(filtered.name, f"{filtered.description} Exact.", {"type": "string"}, filtered.example)
            for filtered in kind.filters
        ),
        _sort_parameter(kind),
        *([_VIEWER] if kind.viewer else []),
    ]


_VIEWER: Final[dict[str, Any]] = {
    "name": "viewer",
    "in": "query",
    "required": False,
    "description": "For whom to rank: a CCID. Not together with `sort`.",
    "schema": {"type": "string", "pattern": "^(con[0-9A-Za-z]{39})?$"},
    "example": examples.PERSON,
}


def everywhere_parameters() -> list[dict[str, Any]]:
    """Every parameter of the search of all kinds."""
    return [
        _query_parameter("What to look for, as in the single searches.", examples.QUERY),
        _limit_parameter("How many hits of each kind to answer", DEFAULT_EVERYWHERE_LIMIT, MAX_LIMIT),
        _highlight_parameter(),
    ]


def suggest_parameters() -> list[dict[str, Any]]:
    """Every parameter of suggestions."""
    return [
        _query_parameter("What was typed so far; empty suggests nothing.", examples.TYPED),
        _limit_parameter("How many names of each kind to suggest", DEFAULT_SUGGESTIONS, MAX_SUGGESTIONS),
    ]


def _query_parameter(description: str, example: str) -> dict[str, Any]:
    return _parameter(
        "q",
        f"{description} At most {MAX_QUERY_CHARACTERS:,} characters.",
        {"type": "string", "maxLength": MAX_QUERY_CHARACTERS, "default": ""},
        example,
    )


def _limit_parameter(description: str, default: int, most: int) -> dict[str, Any]:
    return _parameter(
        "limit",
        f"{description}, brought into 1–{most}. What is no number means {default}.",
        {"type": _LENIENT_INTEGER, "default": default},
        default,
    )


def _highlight_parameter() -> dict[str, Any]:
    return _parameter(
        "highlight",
        "`true` adds `_formatted` to every hit: its texts as HTML, with `<em>` around what matched.",
        {"type": ["boolean", "string"]},
        "true",
    )


def _sort_parameter(kind: SearchKind) -> dict[str, Any]:
    default = kind.default_sort
    order = f"{default.field}:{'desc' if default.descending else 'asc'}"
    accepted = [form for field in kind.sortable for form in (field, f"{field}:asc", f"{field}:desc")]
    return _parameter(
        "sort",
        "The order among equally good matches: `field`, `field:asc` or `field:desc`; the direction left out "
        "is `desc`. What lacks the field comes last.",
        {"type": "string", "enum": [*accepted, ""], "default": order},
        order,
    )


def _parameter(name: str, description: str, schema: dict[str, Any], example: object) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": schema,
        "example": example,
    }
