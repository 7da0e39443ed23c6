"""`stats`, `servers` and `doctor`: what a running or stopped indexer knows, for people and for programs."""

from pathlib import Path

import typer

from indexer.cli.options import AsJSON, ConfigFile, load_settings
from indexer.cli.output import console, print_json


def stats(file: ConfigFile = None, *, as_json: AsJSON = False) -> None:
    """Print how much is indexed and how far behind it is.

    With --json: what /api/v1/stats answers.
    """
    settings = load_settings(file)
    from indexer import app  # noqa: PLC0415 - `--help` does without it
    from indexer.cli.running import run  # noqa: PLC0415

    statistics = run(app.fetch_statistics(settings))
    if as_json:
        print_json(statistics)
        return
    from indexer.cli.tables import statistics_tables  # noqa: PLC0415 - and with it rich

    console().print(*statistics_tables(statistics), sep="\n")


def list_servers(file: Path | None, *, as_json: bool) -> None:
    """Print the servers that are known, and how following each of them goes."""
    settings = load_settings(file)
    from indexer import app  # noqa: PLC0415
    from indexer.cli.running import run  # noqa: PLC0415

    rows = run(app.fetch_servers(settings))
    if as_json:
        print_json(list(rows))
        return
    from datetime import UTC, datetime  # noqa: PLC0415

    from indexer.cli.tables import servers_table  # noqa: PLC0415

    console().print(servers_table(rows, now=datetime.now(UTC)))


def doctor(file: ConfigFile = None, *, as_json: AsJSON = False) -> None:
    """Check what the indexer leans on, and say what to do; exit code 1 when something is not in order.

    With --json: ok, and checks with name, ok, detail, advice.
    """
    settings = load_settings(file)
    from indexer.cli.running import run  # noqa: PLC0415
    from indexer.doctor import diagnose  # noqa: PLC0415

    found = run(diagnose(settings))
    if as_json:
        print_json(found)
    else:
        for check in found["checks"]:
            advice = f"; {check['advice']}" if check["advice"] else ""
            typer.echo(f"{'fine' if check['ok'] else 'WRONG'}  {check['name']}: {check['detail']}{advice}")
    if not found["ok"]:
        raise typer.Exit(1)
