"""All keys there are, derived from the settings model: the one list for files, environment and hints."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, cast

from indexer.config.forms import Form
from indexer.config.model import Section, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.config.forms import JSONValue

ENVIRONMENT_PREFIX = "INDEXER_"
_SECRET_WORDS = ("token", "key", "secret", "password", "dsn")


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: `crawl.pageLimit` in files, `settings.crawl.page_limit` inside."""

    section: str
    name: str
    attribute: str
    form: Form

    @property
    def dotted(self) -> str:
        """The key as messages and `config show` name it."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable of this key in its usual spelling."""
        return f"{ENVIRONMENT_PREFIX}{self.section}__{self.attribute}".upper()

    def value(self, settings: Settings) -> object:
        """Return this key's value."""
        return getattr(getattr(settings, self.section), self.attribute)

    def shown(self, settings: Settings) -> JSONValue:
        """Return this key's value as a file would write it, passwords masked."""
        return self.form.show(self.value(settings))


@cache
def keys() -> Mapping[str, Key]:
    """Return all keys by their dotted names, in the order of the model."""
    found = {}
    for section, section_field in Settings.model_fields.items():
        model = cast("type[Section]", section_field.annotation)
        for attribute, field in model.model_fields.items():
            form = next(item for item in field.metadata if isinstance(item, Form))
            key = Key(section, field.alias or attribute, attribute, form)
            found[key.dotted] = key
    return found


@cache
def keys_by_variable() -> Mapping[str, Key]:
    """Return all keys by their environment variables, in both spellings, in upper case."""
    with_underscores = {key.variable: key for key in keys().values()}
    without = {f"{ENVIRONMENT_PREFIX}{key.section}__{key.name}".upper(): key for key in keys().values()}
    return without | with_underscores


def sections() -> tuple[str, ...]:
    """Return the names of the sections."""
    return tuple(Settings.model_fields)


def nearest_key(dotted: str) -> Key | None:
    """Return the key that was probably meant: another spelling, another section, or a slip of the finger."""
    plain = {_plain(name): key for name, key in keys().items()}
    wanted = _plain(dotted)
    if wanted in plain:
        return plain[wanted]
    last = wanted.rpartition(".")[2]
    if not last:
        return None
    of_that_name = [key for key in keys().values() if _plain(key.name) == last]
    if len(of_that_name) == 1:
        return of_that_name[0]
    close = difflib.get_close_matches(wanted, plain, n=1, cutoff=0.75)
    return plain[close[0]] if close else None


def may_be_secret(dotted: str) -> bool:
    """Tell whether the value of a key that does not exist had better not be shown."""
    meant = nearest_key(dotted)
    name = _plain(dotted)
    return (meant is not None and meant.form.secret) or any(word in name for word in _SECRET_WORDS)


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
