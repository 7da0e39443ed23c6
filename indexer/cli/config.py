"""`config check` and `config show`: what is wrong with a file, and what is in force."""

from pathlib import Path
from typing import Annotated

import typer

from indexer.cli.options import AsJSON, ConfigFile, load_configuration
from indexer.cli.output import console, print_json

config = typer.Typer(no_args_is_help=True, help="Check a configuration file, or show the settings in force.")


@config.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to check.", show_default=False)],
    *,
    as_json: AsJSON = False,
) -> None:
    """Say what is wrong with a configuration file, all of it at once.

    Looks at the file alone: the environment does not count. Exit code 2 when anything is wrong.
    """
    from indexer.config import load_configuration as load  # noqa: PLC0415 - `--help` does without it

    count = len(load(file, {}).found)
    if as_json:
        print_json({"file": str(file), "keys": count})
        return
    typer.echo(f"{file}: fine, {count} {'key' if count == 1 else 'keys'} set")


@config.command()
def show(file: ConfigFile = None, *, as_json: AsJSON = False) -> None:
    """Print every setting in force and where it comes from: default, file or environment.

    Passwords, tokens and keys are masked.
    """
    from indexer.config.catalogue import keys  # noqa: PLC0415

    configuration = load_configuration(file)
    rows = [
        {
            "key": key.dotted,
            "value": key.shown(configuration.settings),
            "source": configuration.origin(key),
            "place": configuration.place(key),
        }
        for key in keys().values()
    ]
    if as_json:
        path = str(configuration.path) if configuration.path else None
        print_json({"file": path, "settings": rows})
        return
    from indexer.cli.tables import settings_table  # noqa: PLC0415 - and with it rich

    console().print(settings_table(rows))
