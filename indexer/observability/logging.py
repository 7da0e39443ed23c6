"""Logging: one line an event, human on a terminal and JSON everywhere else.

``setup_logging`` is called once, by the command that starts. Our own code logs through
``structlog.get_logger``; loggers of the standard library (uvicorn, httpx, asyncpg) end in the same handler.
Before it is called structlog prints with its defaults, which is what tests see.

Much of what is logged was written by strangers: names of servers, keys, error pages. Every value is therefore
cut (``MAX_VALUE_CHARACTERS``), nesting is bounded, lone surrogates are replaced, and on a terminal control
characters are shown as escapes, so that no document can move the cursor or forge a line.
"""

import json
import logging
import sys
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from itertools import islice
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

__all__ = ["MAX_VALUE_CHARACTERS", "LogFormat", "setup_logging"]

LogFormat = Literal["auto", "human", "json"]

MAX_VALUE_CHARACTERS = 500
"""Longer strings are cut, with the number of characters left out."""

_MAX_TRACEBACK_CHARACTERS = 10_000
_MAX_ITEMS = 50
_MAX_DEPTH = 3
_LARGEST = 1e300
# Made by structlog and the standard library for the processors that come later, not for the reader.
_RESERVED = frozenset({"exc_info", "stack_info", "_record", "_from_structlog", "positional_args"})
# They tell every request and start at INFO; requests are metrics here, and starts are told by ourselves.
_CHATTY = ("httpx", "httpx2", "httpcore", "uvicorn.access", "uvicorn.error")


def setup_logging(log_format: LogFormat = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Send every logger of the process to ``stream`` (standard error unless given).

    ``level`` is one of debug, info, warning, error, critical, in any case; raises ValueError for another.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level {level!r} is none of debug, info, warning, error, critical")
    output = stream if stream is not None else sys.stderr
    human = log_format == "human" or (log_format == "auto" and output.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%SZ" if human else "iso", utc=True),
        cut_values,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_human_renderer(colors=output.isatty()) if human else _json_renderer()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


def cut_values(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Bound every value of the event: strings in length, containers in items and depth."""
    return {key: value if key in _RESERVED else _tame(value, _MAX_DEPTH) for key, value in event.items()}


def _tame(value: object, depth: int) -> object:
    if isinstance(value, int | float):
        # NaN, infinities and integers of thousands of digits have no place in JSON.
        return value if -_LARGEST <= value <= _LARGEST else "a number out of range"
    if isinstance(value, bytes):
        value = repr(value[: MAX_VALUE_CHARACTERS + 1])
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _tame_container(value, depth) if depth > 0 else "…"
    return value if value is None else _cut(str(value), MAX_VALUE_CHARACTERS)


def _tame_container(value: Mapping[Any, Any] | Iterable[object], depth: int) -> object:
    if isinstance(value, Mapping):
        return {
            _cut(str(key), MAX_VALUE_CHARACTERS): _tame(item, depth - 1)
            for key, item in islice(value.items(), _MAX_ITEMS)
        }
    return [_tame(item, depth - 1) for item in islice(value, _MAX_ITEMS)]


def _cut(text: str, limit: int) -> str:
    """At most ``limit`` characters of the text, made writable in UTF-8."""
    kept = text[:limit].encode("utf-8", "replace").decode()
    return kept if len(text) <= limit else f"{kept}… ({len(text) - limit} more)"


def _cut_traceback(
    _logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Keep the end of an overlong traceback: the exception stands there, and may quote a stranger."""
    text = event.get("exception")
    if isinstance(text, str) and len(text) > _MAX_TRACEBACK_CHARACTERS:
        event["exception"] = "…" + text[-_MAX_TRACEBACK_CHARACTERS:]
    return event


def _show_controls(
    _logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Write control and other unprintable characters as escapes."""
    for key, value in event.items():
        if isinstance(value, str) and key != "exception" and not value.isprintable():
            event[key] = "".join(
                char if char.isprintable() else char.encode("unicode_escape").decode() for char in value
            )
    return event


def _json_renderer() -> Sequence[Processor]:
    return (
        structlog.processors.format_exc_info,
        _cut_traceback,
        structlog.processors.JSONRenderer(serializer=_dumps),
    )


def _dumps(event: object, **options: Any) -> str:
    # Japanese stays readable; surrogates are gone by now, except perhaps within a traceback.
    return json.dumps(event, ensure_ascii=False, **options).encode("utf-8", "backslashreplace").decode()


def _human_renderer(*, colors: bool) -> Sequence[Processor]:
    return (
        structlog.processors.format_exc_info,
        _cut_traceback,
        _show_controls,
        structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback),
    )
