"""Concrnt's addresses, read in the plainest way that is right.

The simulation does not use the indexer's own parser: what the one gets wrong the other should not.
A path is a tuple of decoded steps; two spellings of a key are one path.
"""

from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

Path = tuple[str, ...]

RECORD = "cckv"
DOCUMENT = "ccfs"
_SPELLINGS = {ord(letter): quote(letter, safe="") for letter in "/%?#"}


@dataclass(frozen=True, slots=True)
class Address:
    """A `cckv` or `ccfs` URI: `hint` is the routing hint, no part of the identity."""

    scheme: str
    owner: str
    path: Path
    hint: str = ""

    @property
    def key(self) -> str:
        """The one spelling: hint dropped, only `/ % ? #` inside a step encoded."""
        return "/".join((f"{self.scheme}://{self.owner}", *(spell_step(step) for step in self.path)))

    @property
    def cdid(self) -> str | None:
        """The document that a `ccfs` address means, nested or flat; None for files and keys."""
        if self.scheme == DOCUMENT and len(self.path) == 2 and self.path[0] == "concrnt":
            return self.path[1]
        if self.scheme == DOCUMENT and len(self.path) == 1:
            return self.path[0]
        return None


def spell_step(step: str) -> str:
    """Encode what would change the meaning of a path."""
    return step.translate(_SPELLINGS)


def read_address(text: object) -> Address | None:
    """Read a `cckv` or `ccfs` URI; None for anything else."""
    if not isinstance(text, str):
        return None
    scheme, mark, rest = text.partition("://")
    authority, *steps = rest.split("/")
    if not mark or scheme not in (RECORD, DOCUMENT) or not authority:
        return None
    owner, _, hint = authority.partition("@") if not authority.startswith("@") else (authority, "", "")
    path = tuple(map(unquote, steps)) if "%" in rest else tuple(steps)
    return Address(scheme, owner, () if path == ("",) else path, hint)


@dataclass(frozen=True, slots=True)
class Target:
    """What a delete removes: one key, all below it, both, or one document."""

    reach: Literal["key", "below", "tree", "document"]
    owner: str
    path: Path
    cdid: str = ""

    def covers(self, owner: str, path: Path) -> bool:
        """Tell whether a key is removed; documents are matched by their CDID instead."""
        if owner != self.owner:
            return False
        inside = len(path) > len(self.path) and path[: len(self.path)] == self.path
        if self.reach == "key":
            return path == self.path
        if self.reach == "below":
            return inside
        return self.reach == "tree" and (inside or path == self.path)


def read_target(text: object) -> Target | None:
    """Read the `value` of a delete; None when it is malformed. The `*` is read before percent-decoding."""
    if not isinstance(text, str):
        return None
    reach: Literal["key", "below", "tree"] = "key"
    if text.endswith("/*"):
        reach, text = "below", text[:-2]
    elif text.endswith("*"):
        reach, text = "tree", text[:-1]
    address = read_address(text)
    if address is None or "*" in text or not address.path:
        return None
    if address.scheme == RECORD:
        return Target(reach, address.owner, address.path)
    if address.cdid is None or reach != "key":
        return None
    return Target("document", address.owner, address.path, address.cdid)
