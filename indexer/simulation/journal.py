"""Where a simulated network's logs live between two starts.

One file per server, one line per commit: receipt time in nanoseconds, `v` or `h` (visible, hidden), the
signed document. Lines are appended as commits are made and read back in that order; a line cut off by a
crash is dropped. `network.json` says what made the logs; it is written last, so a folder without it
holds nothing worth keeping.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from indexer.simulation.log import CommitLog, LoggedCommit, Precision

_ABOUT = "network.json"
_VERSION = 1


class OtherNetworkError(ValueError):
    """The folder holds the logs of another network than the one asked for, or of another version."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a network was generated from, and the ids of its people as far as they are known."""

    seed: str
    domains: tuple[str, ...]
    commits: int
    people: tuple[str, ...] = ()

    def is_same_as(self, other: "Origin") -> bool:
        """Tell whether both make the same network."""
        mine, others = (self.seed, self.domains, self.commits), (other.seed, other.domains, other.commits)
        return mine == others

    def write(self, folder: Path) -> None:
        """Mark a folder as complete."""
        text = json.dumps({"version": _VERSION, **asdict(self)}, ensure_ascii=False, indent=2)
        unfinished = folder / f"{_ABOUT}.new"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(folder / _ABOUT)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what made a folder. Raises FileNotFoundError, OtherNetworkError."""
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        if about.get("version") != _VERSION:
            raise OtherNetworkError(f"{folder} was written by another version of the simulation")
        return cls(about["seed"], tuple(about["domains"]), about["commits"], tuple(about["people"]))


def is_network_folder(folder: Path) -> bool:
    """Tell whether a folder holds a whole network."""
    return (folder / _ABOUT).is_file()


class Journal:
    """The open log files of a network."""

    def __init__(self, folder: Path, domains: Iterable[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._files = {domain: _log_file(folder, domain).open("ab", buffering=0) for domain in domains}

    def append(self, domain: str, row: LoggedCommit) -> None:
        """Add one row; it is with the operating system when this returns."""
        self._files[domain].write(_line(row))

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def write_log(folder: Path, domain: str, log: CommitLog) -> None:
    """Write a server's whole log."""
    with _log_file(folder, domain).open("wb") as file:
        file.writelines(_line(row) for row in log)


def read_log(folder: Path, domain: str) -> CommitLog:
    """Read a server's log, and cut off what a crash left of a line."""
    path = _log_file(folder, domain)
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("rb+") as file:
            file.truncate(whole)
    return CommitLog(map(_row, content[:whole].splitlines()), precision=Precision.MICROSECONDS)


def _log_file(folder: Path, domain: str) -> Path:
    return folder / f"{domain}.log"


def _line(row: LoggedCommit) -> bytes:
    return b"%d %b %b\n" % (row.receipt_ns, b"h" if row.hidden else b"v", row.signed)


def _row(line: bytes) -> LoggedCommit:
    receipt, visibility, signed = line.split(b" ", 2)
    return LoggedCommit(int(receipt), signed, visibility == b"h")
