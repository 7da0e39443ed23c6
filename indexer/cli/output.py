"""What commands print: JSON for programs, tables for people."""

import json
import sys
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_WIDTH = 120

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the asynchronous part of a command on the event loop that `up` uses."""
    import asyncio  # noqa: PLC0415 - `--help` does without both

    import uvloop  # noqa: PLC0415

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def print_json(value: object) -> None:
    """Print a value for programs; times are RFC 3339 in UTC."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2, default=_json_time)
    sys.stdout.write("\n")


def _json_time(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    message = f"{type(value).__name__} has no place in JSON output"
    raise TypeError(message)


def console() -> "Console":
    """Return the console for people; text of strangers is never read as markup."""
    from rich.console import Console  # noqa: PLC0415 - `--json` does without it

    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return Console(markup=False, highlight=False, emoji=False, width=width)
