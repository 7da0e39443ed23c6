"""A YAML file as the words that stand in it.

YAML 1.1 reads `1:30` as 90, `off` as false and `010` as 8. Here nothing is read but structure: every scalar
stays the text that was written, and the setting that it belongs to decides what it means. Only an empty
value, `~` and `null` are special: nothing is set. Anchors, aliases and merges (`<<`) work; of two equal keys
in one mapping neither can be meant, so they are an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from indexer.config.errors import ConfigurationError, Problem

if TYPE_CHECKING:
    from pathlib import Path

_TAG_PREFIX = "tag:yaml.org,2002:"
_KNOWN_TAGS = frozenset(
    _TAG_PREFIX + name
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge", "seq", "map")
)
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_TAB_INDENTED = re.compile(r" *\t")
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and the line on which its key stands (from 1)."""

    value: Value
    line: int


Value = str | list["Value"] | dict[str, Entry] | None


def read_document(path: Path) -> dict[str, Entry]:
    """Read a YAML file whose root is a mapping; an empty file is an empty mapping.

    Raises `ConfigurationError` with one problem that names the file and, where there is one, the line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = f"can not be read: {error.strerror or error}"
        raise _refused(path, reason) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _refused(path, "is not UTF-8 text", line) from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        entries = _Reader(path).value(root) if root is not None else None
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(path, text, error) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _refused(path, "holds a character that YAML does not allow", line) from error
    except RecursionError as error:
        raise _refused(path, "is nested too deeply") from error
    if entries is None:
        return {}
    if not isinstance(entries, dict):
        raise _refused(path, "holds no settings: sections such as `crawl:` are expected at its left edge", 1)
    return entries


class _Reader:
    """Turns composed nodes into values. Aliases share what they name, so a small file stays small."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done: dict[int, Value] = {}

    def value(self, node: yaml.Node, depth: int = 0) -> Value:
        if depth > _DEEPEST:  # also where an alias names what it stands in
            raise _refused(self._path, "is nested too deeply", _line(node))
        if node.tag not in _KNOWN_TAGS:
            raise _refused(self._path, f"holds the tag {node.tag}, which has no meaning here", _line(node))
        if id(node) not in self._done:
            self._done[id(node)] = self._read(node, depth)
        return self._done[id(node)]

    def _read(self, node: yaml.Node, depth: int) -> Value:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        if isinstance(node, yaml.ScalarNode) and node.style is None and node.value in _NOTHING:
            return None
        return str(node.value)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Entry]:
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG_PREFIX + "merge":
                merged = self._merge(value_node, depth) | merged
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise _refused(self._path, "has a list or a mapping where a key belongs", _line(key_node))
            key, line = str(key_node.value), _line(key_node)
            if key in own:
                reason = f"sets `{key}` twice, first on line {own[key].line}"
                raise _refused(self._path, reason, line)
            own[key] = Entry(self.value(value_node, depth + 1), line)
        return merged | own

    def _merge(self, node: yaml.Node, depth: int) -> dict[str, Entry]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Entry] = {}
        for source in sources:
            value = self.value(source, depth + 1)
            if not isinstance(value, dict):
                raise _refused(self._path, "merges (`<<`) something that is no mapping", _line(node))
            merged = value | merged
        return merged


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax_error(path: Path, text: str, error: yaml.MarkedYAMLError) -> ConfigurationError:
    """Say what YAML minded and where, without showing the line: it may hold a password."""
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    lines = dict(enumerate(text.splitlines(), start=1))
    if _TAB_INDENTED.match(lines.get(line or 0, "")) or "'\\t'" in (error.problem or ""):
        return _refused(path, "has a tab where YAML wants spaces", line)
    said = ", ".join(part for part in (error.context, error.problem) if part)
    return _refused(path, f"is no valid YAML: {said}", line)


def _refused(path: Path, reason: str, line: int | None = None) -> ConfigurationError:
    source = f"line {line}" if line is not None else ""
    return ConfigurationError([Problem(key=str(path), value="", accepted="", source=source, reason=reason)])
