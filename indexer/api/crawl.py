"""`POST /api/v1/crawl/ccfs`: a document is indexed because somebody asks for it (behaviour.md, section 7).

The body is JSON `{"ccfs": uri}`, a form with a field `ccfs`, or the URI as plain text. Here a request is
read and what came of it is said; fetching and applying is behind `Crawler`. The path has a limit for each
client of its own, always: every request makes us ask another server.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol
from urllib.parse import parse_qs

from starlette.formparsers import MultiPartException

from indexer.api.answers import JsonAnswer
from indexer.api.errors import ApiError, BadRequestError
from indexer.api.limits import client_of
from indexer.engines.ids import document_id

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from indexer.api.limits import Limiter

CRAWLS_PER_MINUTE = 60
"""How many documents one client may ask for."""
MAX_URI_CHARACTERS = 1024
DOCUMENT_URI = re.compile(r"ccfs://[!-.0-~]+/(concrnt/)?[0-9a-hjkmnp-wyz]{26}")

_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_TEXT = "text/plain"


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document that was fetched and applied. `key` is its canonical key, `cckv` as it spells it."""

    kind: str
    schema: str
    key: str
    cckv: str
    ccfs: str
    source_server: str


class Crawler(Protocol):
    """Whoever fetches one document and applies it."""

    async def crawl(self, ccfs: str) -> IndexedDocument:
        """Index the document of a `ccfs` URI. Raises `ApiError`."""
        ...


async def answer_crawl(request: Request, crawler: Crawler, limiter: Limiter) -> Response:
    """Read a request, have its document indexed, and say so. Raises `ApiError`."""
    if wait := limiter.seconds_to_wait(client_of(request.scope)):
        sentence = f"too many documents asked for; the next is fetched in {wait} s"
        raise ApiError(429, sentence, {"Retry-After": str(wait)})
    uri = await read_uri(request)
    return JsonAnswer(crawl_answer(await crawler.crawl(uri)))


def crawl_answer(indexed: IndexedDocument) -> dict[str, Any]:
    """What is said of a document that was indexed."""
    return {
        "status": "indexed",
        "result": {
            "kind": indexed.kind,
            "schema": indexed.schema,
            "id": document_id(indexed.key),
            "cckv": indexed.cckv,
            "ccfs": indexed.ccfs,
            "sourceServer": indexed.source_server,
        },
    }


async def read_uri(request: Request) -> str:
    """The URI that a body holds; its owner is not looked at yet. Raises `ApiError` (400, 413, 415)."""
    kind = request.headers.get("content-type", _TEXT).partition(";")[0].strip().lower()
    if kind == _MULTIPART:
        uri = await _from_multipart(request)
    else:
        readers = {_JSON: _from_json, _FORM: _from_form, _TEXT: _from_text}
        if kind not in readers:
            raise ApiError(415, f"the body is {_JSON}, {_FORM}, {_MULTIPART} or {_TEXT}")
        uri = readers[kind](await request.body())
    uri = uri.strip()
    if len(uri) > MAX_URI_CHARACTERS or DOCUMENT_URI.fullmatch(uri) is None:
        raise BadRequestError("ccfs is no document's URI: ccfs://OWNER/concrnt/CDID")
    return uri


def _from_json(body: bytes) -> str:
    try:
        decoded = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequestError("the body is no JSON") from error
    return _text(decoded.get("ccfs") if isinstance(decoded, dict) else None)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _from_form(body: bytes) -> str:
    fields = parse_qs(body.decode("utf-8", "replace"), errors="replace", max_num_fields=None)
    return _text(next(iter(fields.get("ccfs", [])), None))


def _from_text(body: bytes) -> str:
    return _text(body.decode("utf-8", "replace"))


async def _from_multipart(request: Request) -> str:
    try:
        async with request.form(max_files=0, max_fields=16) as form:
            return _text(form.get("ccfs"))
    except (MultiPartException, KeyError) as error:
        raise BadRequestError("the body is no form") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadRequestError('the body is {"ccfs": URI}, a form with a field ccfs, or the URI as text')
    return value
