"""The edge between Meilisearch's HTTP API and the rest: what means "away", "lost", and "refused".

The SDK's client holds the connections and the key. Its models are left out where they would hide what is
compared (settings) or copy what is sent (documents): those are plain JSON here.

Nothing of a payload, and no key, ever stands in a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import httpx2
import msgspec
from meilisearch_python_sdk import AsyncClient

from indexer.engines.base import EngineUnavailable, IndexLost

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
REQUEST_SECONDS: Final = 30
PLAIN: Final = {"accept-encoding": "identity"}
"""What is compressed comes in pieces, and each but the first waits 40 ms for an acknowledgement."""

_AUTHENTICATION: Final = (401, 403)
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class PayloadTooLarge(Exception):  # noqa: N818 - says what the payload is
    """The server takes no request of this size."""


class Refused(Exception):  # noqa: N818 - says what became of the request
    """The server refuses a request for what it holds; ``code`` is the engine's word for it."""

    def __init__(self, code: str) -> None:
        super().__init__(f"Meilisearch refuses it: {code}")
        self.code = code


class Wire:
    """Requests to one Meilisearch server."""

    def __init__(self, url: str, api_key: str) -> None:
        self._client = AsyncClient(url, api_key or None, timeout=REQUEST_SECONDS)

    async def close(self) -> None:
        """Give up the connections."""
        await self._client.aclose()

    async def get(self, path: str, *, seconds: float = REQUEST_SECONDS) -> Any:
        """Ask. Raises as :meth:`send` does."""
        return await self._request("GET", path, None, JSON, seconds)

    async def send(
        self, method: str, path: str, body: Any = None, *, seconds: float = REQUEST_SECONDS
    ) -> Any:
        """Send JSON and return the answer.

        Raises:
            EngineUnavailable: the server is away, too slow, too busy, or does not know our key.
            IndexLost: the index is not there.
            Refused: it refuses what was asked.

        """
        return await self._request(method, path, None if body is None else _encode(body), JSON, seconds)

    async def send_lines(self, method: str, path: str, lines: bytes) -> Any:
        """Send documents as NDJSON. Raises as :meth:`send` does, and `PayloadTooLarge`."""
        return await self._request(method, path, lines, NDJSON, 4.0 * REQUEST_SECONDS)

    async def _request(self, method: str, path: str, body: bytes | None, kind: str, seconds: float) -> Any:
        headers = PLAIN if body is None else {**PLAIN, "content-type": kind}
        try:
            response = await self._client.http_client.request(
                method, path, content=body, headers=headers, timeout=seconds
            )
        except httpx2.TimeoutException as error:
            raise EngineUnavailable(f"Meilisearch: no answer within {seconds:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise EngineUnavailable(
                f"Meilisearch can not be reached (backends.meiliHost): {type(error).__name__}"
            ) from error
        if response.status_code >= 300:
            raise _failure(response.status_code, _json_or_none(response.content))
        answer = _json_or_none(response.content)
        if answer is None and response.content:
            raise EngineUnavailable("what answers at backends.meiliHost is no Meilisearch")
        return answer


def _json_or_none(content: bytes) -> Any:
    try:
        return _decode(content)
    except msgspec.MsgspecError:
        return None


def _failure(status: int, answer: Any) -> Exception:
    """Return the error for an answer that is no success."""
    code = answer.get("code") if isinstance(answer, dict) else None
    word = code if isinstance(code, str) else f"status {status}"
    if status in _AUTHENTICATION:
        return EngineUnavailable(f"Meilisearch does not accept the key (backends.meiliAPIKey): {word}")
    if status == 413:
        return PayloadTooLarge(word)
    if code == "index_not_found":
        return IndexLost("Meilisearch has lost an index")
    if isinstance(code, str) and 400 <= status < 500 and status not in (408, 429):
        return Refused(code)
    return EngineUnavailable(f"Meilisearch: {word}")


def task_failure(task: Mapping[str, Any]) -> Exception | None:
    """Return why a finished task did not succeed; None when it did."""
    if task["status"] == "succeeded":
        return None
    if task["status"] == "canceled":
        return EngineUnavailable("Meilisearch: somebody has cancelled a task")
    error = task.get("error") or {}
    code = str(error.get("code", "unknown"))
    if code in ("index_not_found", "index_not_accessible", "missing_primary_key"):
        return IndexLost("Meilisearch has lost an index")
    if code in _STORE_CODES:
        return EngineUnavailable(f"Meilisearch: {code}")
    return Refused(code)


_STORE_CODES: Final = frozenset(
    {
        "no_space_left_on_device",
        "database_size_limit_reached",
        "too_many_open_files",
        "too_many_indexes_opened",
        "io_error",
        "invalid_state",
        "invalid_store_file",
        "unretrievable_task",
        "task_cancelled",
    }
)
