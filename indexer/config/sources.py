"""Where values come from: the file and the environment, as loose text, with all that is unknown in them.

Neither source judges values; the settings model does. A value that says nothing (an empty YAML value, an
empty text where that is no value of its own, an empty list) leaves its key to what stands below it, as the
Go crawler has it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from indexer.config.catalogue import (
    ENVIRONMENT_PREFIX,
    Key,
    keys,
    keys_by_variable,
    may_be_secret,
    nearest_key,
    sections,
)
from indexer.config.document import Entry, read_document
from indexer.config.errors import Problem, shown
from indexer.config.forms import Shape

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from indexer.config.document import Value

Origin = Literal["default", "file", "environment"]


@dataclass(frozen=True, slots=True)
class Found:
    """A value as it was written, and where."""

    value: Any
    origin: Origin
    place: str


@dataclass(slots=True)
class Findings:
    """What one source holds: values by dotted key, and what is wrong already."""

    values: dict[str, Found] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def from_file(path: Path) -> Findings:
    """Read a configuration file. Raises `ConfigurationError` when it can not be read at all."""
    findings = Findings()
    for section, entry in read_document(path).items():
        place = f"{path}, line {entry.line}"
        if section not in sections():
            findings.problems.append(_unknown(section, entry.value, place))
        elif isinstance(entry.value, dict):
            _collect_section(section, entry.value, path, findings)
        elif entry.value is not None:
            reason, accepted = "is a section: its settings stand below it, indented", f"{section}: {{...}}"
            findings.problems.append(Problem(section, _shown(section, entry.value), accepted, place, reason))
    return findings


def _collect_section(section: str, entries: Mapping[str, Entry], path: Path, findings: Findings) -> None:
    for name, entry in entries.items():
        dotted, place = f"{section}.{name}", f"{path}, line {entry.line}"
        key = keys().get(dotted)
        if key is None:
            findings.problems.append(_unknown(dotted, entry.value, place))
        elif not _says_nothing(key, entry.value):
            findings.values[dotted] = Found(_plain(entry.value), "file", place)


def from_environment(environ: Mapping[str, str]) -> Findings:
    """Read the variables `INDEXER_<SECTION>__<KEY>`, in any letter case; others are no settings."""
    findings = Findings()
    for variable in sorted(environ):
        spelled = variable.upper()
        if not spelled.startswith(ENVIRONMENT_PREFIX) or "__" not in spelled:
            continue
        key = keys_by_variable().get(spelled)
        if key is None:
            findings.problems.append(_unknown_variable(variable, environ[variable]))
            continue
        _collect_variable(key, variable, environ[variable], findings)
    return findings


def _collect_variable(key: Key, variable: str, text: str, findings: Findings) -> None:
    place = f"environment variable {variable}"
    try:
        value = _from_json(text) if text.strip() and key.form.shape is not Shape.TEXT else text
    except ValueError as error:
        reason = f"is no JSON: {error}"
        findings.problems.append(
            Problem(key.dotted, shown(text), f"as JSON, {key.form.accepted}", place, reason)
        )
        return
    if _says_nothing(key, value):
        return
    earlier = findings.values.get(key.dotted)
    if earlier is not None and earlier.value != value:
        reason = f"is set by {earlier.place} too, to something else"
        value_shown = shown(value, secret=key.form.secret)
        findings.problems.append(Problem(key.dotted, value_shown, "one of the two spellings", place, reason))
        return
    findings.values[key.dotted] = Found(value, "environment", place)


def _from_json(text: str) -> object:
    return json.loads(text, object_pairs_hook=_without_duplicates)


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a name stands in it twice")
    return mapping


def _says_nothing(key: Key, value: object) -> bool:
    if value is None or (isinstance(value, list) and not value):
        return True
    return value == "" and not key.form.empty


def _plain(value: Value) -> Any:
    """Return a value without the lines on which it stands; no setting has more than one level."""
    return {name: entry.value for name, entry in value.items()} if isinstance(value, dict) else value


def _unknown(dotted: str, value: Value, place: str) -> Problem:
    return Problem(dotted, _shown(dotted, value), _what_was_meant(dotted), place, "there is no such key")


def _unknown_variable(variable: str, text: str) -> Problem:
    section, _, name = variable[len(ENVIRONMENT_PREFIX) :].partition("__")
    dotted = f"{section}.{name}"
    meant = nearest_key(dotted)
    accepted = (
        f"{meant.variable} (did you mean that?)" if meant else "INDEXER_<SECTION>__<KEY> of an existing key"
    )
    secret = may_be_secret(dotted)
    return Problem(variable, shown(text, secret=secret), accepted, "environment", "names no setting")


def _what_was_meant(dotted: str) -> str:
    section, _, name = dotted.partition(".")
    if dotted in keys() or (section in sections() and not name):
        return f"`{name}` below `{section}:`"
    meant = nearest_key(dotted)
    if meant is not None:
        return f"{meant.dotted} (did you mean that?)"
    below = [key.name for key in keys().values() if key.section == section]
    return f"below {section}: {', '.join(below)}" if below else f"the sections {', '.join(sections())}"


def _shown(dotted: str, value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return "{...}"
    return shown(_plain(value), secret=may_be_secret(dotted))
