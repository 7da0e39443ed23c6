"""Named SQL statements from `.sql` files.

A file holds statements, each opened by `-- name: verb_noun` and a line or more of description:

    -- name: count_records
    -- How many records are live.
    select count(*) from mirror.records

`load(package, file)` gives them by name. A name twice, or text before the first name that is no comment,
is a mistake of ours and raises `ValueError`.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load(package: str, file: str) -> Mapping[str, str]:
    """The statements of `file` in `package`, by name, without the name line."""
    text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    return parse(text, file)


def parse(text: str, file: str = "<text>") -> Mapping[str, str]:
    """The statements of a file's text, by name."""
    parts = _NAME.split(text)
    preamble = [line for line in parts[0].splitlines() if line.strip() and not line.startswith("--")]
    if preamble:
        raise ValueError(f"{file}: text before the first statement: {preamble[0]!r}")
    statements: dict[str, str] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        if name in statements:
            raise ValueError(f"{file}: statement {name} stands twice")
        statements[name] = body.strip()
    return statements
