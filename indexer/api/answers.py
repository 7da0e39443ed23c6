"""How answers are written: JSON as fast as it gets, always ``application/json`` in UTF-8.

An answer that may be asked for again carries an ``ETag``; a client that shows it in ``If-None-Match`` is told
304 when it would get the same again. The tag is weak: what an answer says of its own making (how long it
took, how it was compressed) does not count.
"""

import hashlib
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_TIMING = b'"processingTimeMs":'


class JsonAnswer(JSONResponse):
    """A response whose content is encoded by msgspec; takes dicts, lists, dataclasses and datetimes."""

    def render(self, content: Any) -> bytes:
        """Encode ``content``."""
        return msgspec.json.encode(content)


def reusable(request: Request, answer: Response) -> Response:
    """The answer with its tag, or 304 when the client has it already."""
    content = bytes(answer.body)
    if isinstance(answer, JsonAnswer):
        # processingTimeMs is the last field wherever there is one, so that what stands before it decides.
        content = content.rpartition(_TIMING)[0] or content
    digest = hashlib.blake2b(content, digest_size=12).hexdigest()
    headers = {"ETag": f'W/"{digest}"', "Cache-Control": "no-cache"}
    if _is_known(request, headers["ETag"]):
        # What a cache keeps is chosen by the coding that was asked for: 304 has to say so as 200 does.
        return Response(status_code=304, headers={**headers, "Vary": "Accept-Encoding"})
    answer.headers.update(headers)
    return answer


def _is_known(request: Request, tag: str) -> bool:
    shown = request.headers.get("if-none-match", "")
    opaque = tag.removeprefix("W/")
    return any(known.strip().removeprefix("W/") in (opaque, "*") for known in shown.split(","))
