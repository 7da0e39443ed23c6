"""What is wrong with a configuration: every problem at once, each naming key, value and what is accepted."""

from __future__ import annotations

import re
import reprlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.errors import ExpectedError

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN_CHARACTERS = 80
_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 2

MASK = "***"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that a person has to change.

    `key` is dotted (`crawl.overlap`) or names the file or the environment variable when no key is known.
    `value` is what was found, as shown to people: shortened, secrets masked, empty when there is none.
    `source` says where it stands: a file and line, or an environment variable.
    """

    key: str
    value: str
    accepted: str
    source: str
    reason: str

    def __str__(self) -> str:
        shown = f"{self.key} = {self.value}" if self.value else self.key
        where = f" ({self.source})" if self.source else ""
        wanted = f"; accepted: {self.accepted}" if self.accepted else ""
        return f"{shown}{where}: {self.reason}{wanted}"


class Refused(ValueError):  # noqa: N818 - says what happened to the value
    """A value that a setting does not take; its message is the reason, as the end of a sentence.

    It never quotes a value that may be secret: that is for whoever knows whether it is.
    """


class ConfigurationError(ExpectedError):
    """The configuration can not be used. `problems` holds all that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(map(str, problems)), code="configuration", exit_code=2)


def shown(value: object, *, secret: bool = False) -> str:
    """Return a value as an error may show it: quoted when it is text, short, without passwords."""
    if secret:
        return MASK
    text = f'"{value}"' if isinstance(value, str) else _SHORT.repr(value)
    if not text.isprintable():
        text = text.encode("unicode_escape").decode("ascii")
    text = _USERINFO.sub(f"{MASK}@", text)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
