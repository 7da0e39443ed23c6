"""Options that several commands share, and what they mean."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from indexer.config import Configuration, Settings

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration file. Without it: $CONCRNT_INDEXER_CONFIG, $CONCRNT_CRAWLER_CONFIG, the first of "
        "config.local.yaml, config.yaml and /etc/concrnt-indexer/config.yaml, or the defaults.",
        show_default=False,
    ),
]

AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON, errors included.")]


def load_configuration(file: Path | None) -> "Configuration":
    """Return the configuration in force. Raises `ConfigurationError`."""
    from indexer import config  # noqa: PLC0415 - `--help` does without it

    return config.load_configuration(file, os.environ)


def load_settings(file: Path | None) -> "Settings":
    """Return the settings in force; what is worth a warning goes to standard error from here on.

    Raises `ConfigurationError`.
    """
    settings = load_configuration(file).settings
    from indexer.observability.logging import setup_logging  # noqa: PLC0415 - `--help` does without it

    setup_logging(settings.observability.log_format, "warning")
    return settings
