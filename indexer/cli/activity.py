"""`activity show`: what a score is made of."""

from typing import Annotated

import typer

from indexer.cli.options import AsJSON, ConfigFile, load_settings
from indexer.cli.output import console, print_json

activity = typer.Typer(help="Activity numbers of communities and people.", no_args_is_help=True)


@activity.command()
def show(
    subject: Annotated[
        str,
        typer.Argument(metavar="KEY|CCID", help="A community's key (cckv://…) or a person's CCID (con…)."),
    ],
    file: ConfigFile = None,
    *,
    as_json: AsJSON = False,
) -> None:
    """Explain a score: the entries that count, their ages and weights, and the numbers that are stored.

    The newest hundred entries are listed.
    """
    settings = load_settings(file)
    from indexer import app  # noqa: PLC0415 - `--help` does without it
    from indexer.cli.running import run  # noqa: PLC0415

    explained = run(app.fetch_activity(settings, subject))
    if as_json:
        print_json(explained)
        return
    from indexer.cli.tables import activity_tables  # noqa: PLC0415

    console().print(*activity_tables(explained), sep="\n")
