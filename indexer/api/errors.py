"""The one shape of every error: ``{"message": str, "code": str}`` (behaviour.md section 7).

``message`` is for people and may change; ``code`` is for programs and does not. Nothing that happened inside
(SQL, addresses, tracebacks) is ever part of an answer: it goes to the log.
"""

from collections.abc import Mapping

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from indexer.api.answers import JsonAnswer

log = structlog.get_logger(__name__)

RETRY_AFTER_SECONDS = 5
"""What a client is told to wait when the engine or the database is away."""
DATABASE_AWAY = "the database is away for the moment; try again soon"

_CODES = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    500: "internal",
    501: "not_implemented",
    502: "bad_gateway",
    503: "unavailable",
}


class ApiError(Exception):
    """An answer other than success, with the sentence that the client is to read."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class BadRequestError(ApiError):
    """400: the request cannot mean anything; the message says what is accepted."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


class TooLargeError(ApiError):
    """413: the URL or the body is longer than we read."""

    def __init__(self, message: str) -> None:
        super().__init__(413, message)


class UnavailableError(ApiError):
    """503: the engine or the database is away; with ``Retry-After``."""

    def __init__(self, message: str = "search is away for the moment; try again soon") -> None:
        super().__init__(503, message, {"Retry-After": str(RETRY_AFTER_SECONDS)})


def error_answer(error: ApiError) -> Response:
    """The response for an error."""
    return JsonAnswer(
        {"message": error.message, "code": _CODES.get(error.status, "error")},
        status_code=error.status,
        headers=dict(error.headers or {}),
    )


def install_error_handlers(
    app: FastAPI, unavailable: tuple[type[Exception], ...], database_away: tuple[type[Exception], ...] = ()
) -> None:
    """Turn what handlers raise into the error shape.

    ``unavailable`` are the kinds that mean 503; ``database_away`` those of them that mean the database.
    """

    async def api_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return error_answer(error)

    async def routing_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return error_answer(_from_routing(request, error))

    async def invalid(_request: Request, _error: Exception) -> Response:
        return error_answer(BadRequestError("the request has not the documented form"))

    async def away(request: Request, error: Exception) -> Response:
        log.warning("a dependency is away", path=request.url.path, error=repr(error))
        of_database = isinstance(error, database_away)
        return error_answer(UnavailableError(DATABASE_AWAY) if of_database else UnavailableError())

    app.add_exception_handler(ApiError, api_error)
    app.add_exception_handler(HTTPException, routing_error)
    app.add_exception_handler(RequestValidationError, invalid)
    for kind in (*unavailable, *database_away):
        app.add_exception_handler(kind, away)


def _from_routing(request: Request, error: HTTPException) -> ApiError:
    if error.status_code == 404:
        return ApiError(404, "there is nothing at this path; the paths are listed at /docs")
    if error.status_code == 405:
        methods = {method.strip() for method in (error.headers or {}).get("Allow", "").split(",")} - {""}
        if "GET" in methods:
            methods.add("HEAD")
        allowed = ", ".join(sorted(methods | {"OPTIONS"}))
        return ApiError(405, f"{request.method} is not allowed here, {allowed} are", {"Allow": allowed})
    return ApiError(error.status_code, str(error.detail), error.headers)
