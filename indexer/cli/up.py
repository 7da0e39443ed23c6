"""`up` and `migrate`: the indexer itself, and its database schema."""

import typer

from indexer.cli.options import ConfigFile, load_settings


def up(file: ConfigFile = None) -> None:
    """Run the indexer: follow the network, index it, serve the search API.

    Goes on where it stopped. Ctrl-C or SIGTERM ends it cleanly.
    """
    settings = load_settings(file)
    from indexer import app  # noqa: PLC0415 - `--help` does without it
    from indexer.cli.running import run_until_stopped  # noqa: PLC0415

    run_until_stopped(app.run_up(settings))


def migrate(file: ConfigFile = None) -> None:
    """Bring the database schema up to date and exit.

    `up` does so by itself; this is for those who want to do it before.
    """
    settings = load_settings(file)
    from indexer import app  # noqa: PLC0415
    from indexer.cli.running import run  # noqa: PLC0415

    applied = run(app.run_migrate(settings))
    for name in applied:
        typer.echo(f"applied {name}")
    if not applied:
        typer.echo("the schema is up to date")
