"""What commands print: JSON for programs, tables for people."""

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_WIDTH = 120


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
