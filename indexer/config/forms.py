"""How each kind of setting is written: the reader of its text and the words that say what is accepted.

A `Form` stands in the annotation of a settings field and is that field's validation. It takes the text of a
YAML scalar or an environment variable, or a value of the final type (tests and the composition root build
settings in code). What it refuses becomes a `refused` error with a reason and what is accepted.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from indexer.concrnt.identifiers import MalformedName, canonical_fqdn
from indexer.config.dsn import masked_dsn, parse_dsn
from indexer.config.errors import MASK, Refused, shown
from indexer.config.quantities import (
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

JSONValue = str | int | float | bool | list["JSONValue"] | dict[str, "JSONValue"]

_WORDS_FOR_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "y"), True),
    **dict.fromkeys(("false", "no", "off", "n"), False),
}
_WHOLE_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,17})")
_PORT = re.compile(r"0|[1-9][0-9]{0,4}")
_LISTEN = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9._-]*)):(?P<port>[0-9]+)", re.ASCII)
_HIGHEST_PORT = 65535
_ALL_INTERFACES = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound


class Shape(enum.Enum):
    """What a setting's value looks like in YAML; lists and maps are JSON in the environment."""

    TEXT = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()


@dataclass(frozen=True, slots=True)
class Form:
    """One way of writing a setting.

    `show` writes a value as a configuration file would, passwords masked. Where `empty` is false, an empty
    text is no value of its own and leaves the setting as if it was not named.
    """

    accepted: str
    read: Callable[[Any], Any]
    show: Callable[[Any], JSONValue] = str
    shape: Shape = Shape.TEXT
    empty: bool = False
    secret: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic validate the annotated field by `read` alone."""
        return core_schema.no_info_plain_validator_function(self._validate)

    def _validate(self, value: object) -> object:
        try:
            return self.read(value)
        except (Refused, MalformedName) as error:
            context = {"reason": str(error) or "is not accepted", "accepted": self.accepted}
            raise PydanticCustomError("refused", "{reason}; accepted: {accepted}", context) from error


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where a listener binds. An empty host means all interfaces; port 0 lets the system choose."""

    host: str
    port: int

    def clashes_with(self, other: ListenAddress) -> bool:
        """Tell whether the system would refuse to bind both; port 0 is a new port each time."""
        hosts = {self.host, other.host}
        return self.port == other.port != 0 and (len(hosts) == 1 or bool(hosts & _ALL_INTERFACES))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _text(value: object) -> str:
    if isinstance(value, list | dict):
        raise Refused("is a list" if isinstance(value, list) else "is a mapping")
    if not isinstance(value, str):
        raise Refused("is no text")
    if "\0" in value:
        raise Refused("holds a NUL character")
    return value


def word(accepted: str, *, empty: bool = False, secret: bool = False) -> Form:
    """Any text, taken as it was written and without the spaces around it."""

    def read(value: object) -> str:
        text = _text(value).strip()
        if not text and not empty:
            raise Refused("is empty")
        return text

    return Form(accepted, read, show=_masked if secret else str, empty=empty, secret=secret)


def _masked(secret: str) -> str:
    return MASK if secret else ""


def choice(*words: str, kind: Callable[[str], str] = str) -> Form:
    """One word of a closed list, in upper or lower case letters; `kind` makes an enum's member of it."""

    def read(value: object) -> str:
        chosen = _text(value).lower()
        if chosen not in words:
            raise Refused("is none of the words that mean something here")
        return kind(chosen)

    return Form(f"one of {', '.join(words)}", read)


def switch() -> Form:
    """A yes or no, in any of YAML's words for it."""

    def read(value: object) -> bool:
        if isinstance(value, bool):
            return value
        try:
            return _WORDS_FOR_BOOLEANS[_text(value).lower()]
        except KeyError as error:
            raise Refused("is neither yes nor no") from error

    return Form("true or false (also yes, no, on, off)", read, show=bool)


def whole_number(at_least: int, at_most: int) -> Form:
    """A decimal number without any ornament."""

    def read(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif _WHOLE_NUMBER.fullmatch(text := _text(value)):
            number = int(text)
        else:
            raise Refused(_why_no_number(text))
        _refuse_outside(number, at_least, at_most, f"{at_least:,}", f"{at_most:,}")
        return number

    return Form(f"a whole number from {at_least:,} to {at_most:,}", read, show=int)


def _why_no_number(text: str) -> str:
    if re.fullmatch(r"0[0-9]+", text):
        return "begins with a zero: decimal to some, octal to others"
    if re.fullmatch(r"[0-9]+(_[0-9]+)+", text):
        return "has an underscore among its digits"
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return "is out of range"
    return "is no whole number"


def duration(at_least: str, at_most: str) -> Form:
    """A duration; the bounds are written as durations too."""
    lowest, highest = parse_duration(at_least), parse_duration(at_most)

    def read(value: object) -> timedelta:
        length = value if isinstance(value, timedelta) else parse_duration(_text(value))
        _refuse_outside(length, lowest, highest, at_least, at_most)
        return length

    accepted = f'a duration such as "90s", "1h30m" or a number of seconds, from {at_least} to {at_most}'
    return Form(accepted, read, show=format_duration)


def size(at_least: str, at_most: str) -> Form:
    """A number of bytes; the bounds are written as sizes too."""
    lowest, highest = parse_size(at_least), parse_size(at_most)

    def read(value: object) -> int:
        count = value if isinstance(value, int) else parse_size(_text(value))
        _refuse_outside(count, lowest, highest, at_least, at_most)
        return count

    accepted = f"a size such as 32MiB, 10MB or a number of bytes, from {at_least} to {at_most}"
    return Form(accepted, read, show=format_size)


def _refuse_outside(value: Any, lowest: Any, highest: Any, at_least: str, at_most: str) -> None:
    if value < lowest:
        raise Refused(f"is below {at_least}")
    if value > highest:
        raise Refused(f"is above {at_most}")


def listen_address() -> Form:
    """`host:port`, `[v6]:port`, or `:port` for all interfaces."""

    def read(value: object) -> ListenAddress:
        if isinstance(value, ListenAddress):
            return value
        text = _text(value)
        if _PORT.fullmatch(text):
            raise Refused(
                f"is a bare port: write :{text} for all interfaces or 127.0.0.1:{text} for this machine"
            )
        match = _LISTEN.fullmatch(text)
        if match is None:
            raise Refused("is no host and port")
        if not _PORT.fullmatch(match["port"]) or int(match["port"]) > _HIGHEST_PORT:
            raise Refused(f"has a port outside 0 to {_HIGHEST_PORT}")
        return ListenAddress(match["six"] or match["host"] or "", int(match["port"]))

    return Form("an address to listen at: :8080, 127.0.0.1:8080 or [::1]:8080", read)


def hostname() -> Form:
    """The name of a server, made canonical."""
    return Form("a host name such as ariake.concrnt.net, without scheme, port or path", _read_hostname)


def _read_hostname(value: object) -> str:
    return canonical_fqdn(_text(value).strip())


def http_url(*, empty: bool = True, origin: bool = False, bare_host: bool = False) -> Form:
    """An http(s) URL without credentials, query or final slash.

    `origin` allows no path either; with `bare_host`, `host:port` is read as `http://host:port`.
    """

    def read(value: object) -> str:
        text = _text(value).strip()
        if not text and empty:
            return text
        if bare_host and "://" not in text:
            text = f"http://{text}"
        return _checked_url(text, origin=origin)

    accepted = (
        "an origin such as http://127.0.0.1:9001" if origin else "a URL such as https://search.example.net"
    )
    if bare_host:
        accepted = "a URL such as http://collector:4318, or host:port"
    return Form(f'{accepted}, or ""' if empty else accepted, read, empty=empty)


def _checked_url(text: str, *, origin: bool) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise Refused("has a host or port that can not be read") from error
    if parts.scheme not in {"http", "https"}:
        raise Refused("does not begin with http:// or https://")
    if not parts.hostname or re.search(r"[\s\\]", text) or port == 0:
        raise Refused("names no host" if not parts.hostname else "is no URL")
    if "@" in parts.netloc:
        raise Refused("holds a user name or password")
    if parts.query or parts.fragment or text[-1] in "?#":
        raise Refused("has a query or fragment")
    if origin and parts.path not in {"", "/"}:
        raise Refused("has a path")
    return text.rstrip("/")


def schema_urls() -> Form:
    """A list of schema URLs, each once, in the order given; compared by the letter, so kept by the letter."""

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise Refused("is no list")
        for url in value:
            if not isinstance(url, str) or not url.strip():
                raise Refused("has an entry that is empty or no text")
            if urlsplit(url).scheme not in {"http", "https"} or re.search(r"\s", url):
                raise Refused(f"has the entry {shown(url)}, which is no http(s) URL")
        return tuple(dict.fromkeys(value))

    accepted = "a list of schema URLs such as [https://schema.concrnt.world/p/main.json]"
    return Form(accepted, read, show=list, shape=Shape.LIST)


def origin_map() -> Form:
    """A map from host names (made canonical) to the origins that stand in for them."""
    read_origin = http_url(empty=False, origin=True).read

    def read(value: object) -> Mapping[str, str]:
        if not isinstance(value, Mapping):
            raise Refused("is no map")
        overrides: dict[str, str] = {}
        for name, origin in value.items():
            try:
                host = _read_hostname(name)
                overrides_to = read_origin(origin)
            except (Refused, MalformedName) as error:
                raise Refused(f"has the entry {shown(name)}, which can not be used: {error}") from error
            if host in overrides:
                raise Refused(f"names the host {host} twice")
            overrides[host] = overrides_to
        return overrides

    accepted = 'a map from host names to origins such as {"a.example": "http://127.0.0.1:9001"}'
    return Form(accepted, read, show=dict, shape=Shape.MAP)


def folder() -> Form:
    """A path; `~` at its start is the home folder, a relative one starts at the working directory."""

    def read(value: object) -> Path:
        if isinstance(value, Path):
            return value
        text = _text(value)
        if not text:
            raise Refused("is empty")
        try:
            return Path(text).expanduser()
        except RuntimeError as error:
            raise Refused("names a home folder that is not known") from error

    return Form("a path to a folder", read)


def connection_string() -> Form:
    """A connection string, as URL or as libpq's keywords; kept as URL."""

    def read(value: object) -> str:
        text = _text(value).strip()
        return parse_dsn(text) if text else text

    accepted = 'a connection string such as postgres://user:password@host:5432/database, or ""'
    return Form(accepted, read, show=masked_dsn, empty=True, secret=True)
