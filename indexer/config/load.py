"""Loading settings: file, then environment, then defaults below both; all problems at once.

The file is the one that `--config` names, else `CONCRNT_INDEXER_CONFIG`, else `CONCRNT_CRAWLER_CONFIG` (so
an operator of the Go crawler changes nothing), else the first of `SEARCHED` that exists, else none. A key
that the environment sets replaces the file's value of that key whole and leaves its neighbours alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from indexer.config.catalogue import Key, keys
from indexer.config.errors import ConfigurationError, Problem, shown
from indexer.config.model import Settings
from indexer.config.sources import Findings, Found, from_environment, from_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

    from indexer.config.sources import Origin

PATH_VARIABLES = ("CONCRNT_INDEXER_CONFIG", "CONCRNT_CRAWLER_CONFIG")
_CONSEQUENCES = frozenset({"default_factory_not_called"})  # a default that waits for a value that was refused

SEARCHED = (Path("config.local.yaml"), Path("config.yaml"), Path("/etc/concrnt-indexer/config.yaml"))


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings in force, and where each value that is no default came from."""

    settings: Settings
    path: Path | None
    found: Mapping[str, Found]

    def origin(self, key: Key) -> Origin:
        """Tell which source a key's value came from."""
        found = self.found.get(key.dotted)
        return found.origin if found else "default"

    def place(self, key: Key) -> str:
        """Tell where exactly a key's value stands."""
        found = self.found.get(key.dotted)
        return found.place if found else "default"


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Return the settings in force. Raises `ConfigurationError` with all problems."""
    return load_configuration(path, environ).settings


def load_configuration(path: Path | None, environ: Mapping[str, str]) -> Configuration:
    """Return the settings in force with their origins. Raises `ConfigurationError` with all problems."""
    path = path or find_file(environ)
    problems: list[Problem] = []
    file, environment = Findings(), from_environment(environ)
    try:
        if path is not None:
            file = from_file(path)
    except ConfigurationError as error:
        problems += error.problems
    found = file.values | environment.values
    problems += file.problems + environment.problems
    settings = _validated(found, problems)
    if problems or settings is None:
        raise ConfigurationError(problems)
    return Configuration(settings, path, found)


def find_file(environ: Mapping[str, str]) -> Path | None:
    """Return the configuration file to use when no option names one."""
    named = next((environ[variable] for variable in PATH_VARIABLES if environ.get(variable)), None)
    return Path(named) if named else next((path for path in SEARCHED if path.is_file()), None)


def _validated(found: Mapping[str, Found], problems: list[Problem]) -> Settings | None:
    tree: dict[str, dict[str, Any]] = {}
    for dotted, value in found.items():
        section, _, name = dotted.partition(".")
        tree.setdefault(section, {})[name] = value.value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        refused = [details for details in error.errors() if details["type"] not in _CONSEQUENCES]
        problems += [_problem(details, found) for details in refused]
    return None


def _problem(details: ErrorDetails, found: Mapping[str, Found]) -> Problem:
    section, name = map(str, details["loc"])
    # A default that is refused goes by its attribute's name.
    key = next(key for key in keys().values() if key.section == section and name in {key.name, key.attribute})
    place = found[key.dotted].place if key.dotted in found else "default"
    value = details["input"]
    value_shown = shown(value if isinstance(value, str | list | dict) else str(value), secret=key.form.secret)
    context = details["ctx"]
    return Problem(key.dotted, value_shown, context["accepted"], place, context["reason"])
