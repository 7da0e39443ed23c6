"""Logs: readable, bounded, and no place for strangers to write."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from indexer.observability.logging import MAX_VALUE_CHARACTERS, setup_logging


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Give the loggers of the test process back as they were."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class Terminal(io.StringIO):
    """A stream that says that people read it."""

    def isatty(self) -> bool:
        return True


def test_json_where_no_terminal_is() -> None:
    """auto writes one JSON object a line, with time, level, logger and values."""
    stream = io.StringIO()
    setup_logging("auto", "info", stream)
    structlog.get_logger("indexer.test").info("page applied", server="alpha.example", commits=3)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "page applied",
        "level": "info",
        "logger": "indexer.test",
        "server": "alpha.example",
        "commits": 3,
    }


def test_human_on_a_terminal() -> None:
    """auto writes for people when the stream is a terminal."""
    stream = Terminal()
    setup_logging("auto", "info", stream)
    structlog.get_logger("indexer.test").info("page applied", server="alpha.example")
    assert "page applied" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_loggers_of_libraries_come_out_the_same_way() -> None:
    """A message of asyncpg or uvicorn has the same form, with its arguments filled in."""
    stream = io.StringIO()
    setup_logging("json", "info", stream)
    logging.getLogger("asyncpg.pool").warning("connection %s lost", 7)
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["logger"]) == ("connection 7 lost", "warning", "asyncpg.pool")


def test_every_request_is_not_a_line() -> None:
    """What httpx and uvicorn tell of each request stays out of the log."""
    stream = io.StringIO()
    setup_logging("json", "info", stream)
    for client in ("httpx", "httpx2"):
        logging.getLogger(client).info("HTTP Request: GET https://alpha.example/")
    logging.getLogger("uvicorn.access").info("GET /")
    assert lines(stream) == []


def test_levels_are_obeyed() -> None:
    """Below the level nothing is written; an unknown level is an error."""
    stream = io.StringIO()
    setup_logging("json", "WARNING", stream)
    log = structlog.get_logger("indexer.test")
    log.info("quiet")
    log.warning("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]
    with pytest.raises(ValueError, match="loudly"):
        setup_logging("json", "loudly", stream)


def test_values_of_strangers_are_cut() -> None:
    """However long, deep or broken a value is, its line is short and valid."""
    stream = io.StringIO()
    setup_logging("json", "info", stream)
    deep: Any = "x"
    for _ in range(1000):
        deep = {"a": deep}
    structlog.get_logger("indexer.test").info(
        "odd",
        long="あ" * 100_000,
        raw=b"\xff" * 100_000,
        many=list(range(100_000)),
        deep=deep,
        surrogate="a\ud800b",
        thing=ValueError("y" * 100_000),
        huge=10**10_000,
        nan=float("nan"),
    )
    (line,) = lines(stream)
    assert line["long"].startswith("あ" * MAX_VALUE_CHARACTERS + "…")
    assert line["surrogate"] == "a?b"
    assert len(stream.getvalue().encode()) < 10_000


def test_exceptions_are_told_with_their_traceback_but_bounded() -> None:
    """A traceback is kept; an exception that quotes a stranger at length is cut at the front."""
    stream = io.StringIO()
    setup_logging("json", "info", stream)
    error = ValueError("z" * 100_000)
    structlog.get_logger("indexer.test").error("failed", exc_info=error)
    (line,) = lines(stream)
    assert line["exception"].endswith("z")
    assert len(line["exception"]) < 11_000


def test_control_characters_do_not_reach_a_terminal() -> None:
    """A name with escape sequences and line breaks is shown, not obeyed."""
    stream = io.StringIO()
    setup_logging("human", "info", stream)
    structlog.get_logger("indexer.test").info("seen", name="a\x1b[2Jb\nFORGED")
    assert "\x1b[2J" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 1
