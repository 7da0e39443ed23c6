"""`up` and `migrate`: the indexer itself, and its database schema."""

from typing import TYPE_CHECKING, Annotated

import typer

from indexer.cli.options import AsJSON, ConfigFile, load_settings
from indexer.cli.output import print_json

if TYPE_CHECKING:
    from indexer.app import Role


_Role = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="follow, project, activity or api; may stand more than once. Without it, or with all: all.",
        show_default=False,
    ),
]


def up(file: ConfigFile = None, *, role: _Role = None) -> None:
    """Run the indexer: follow the network, index it, serve the search API.

    Goes on where it stopped. Ctrl-C or SIGTERM ends it cleanly: the page in hand is finished, and other
    processes on the same database take over. Several may share a database, each with its roles.
    """
    settings = load_settings(file)
    from indexer import app  # noqa: PLC0415 - `--help` does without it
    from indexer.cli.running import run_until_stopped  # noqa: PLC0415

    run_until_stopped(app.run_up(settings, roles=_roles(role or ["all"])))


def _roles(names: list[str]) -> "frozenset[Role]":
    from indexer.app import ALL_ROLES, Role  # noqa: PLC0415

    if "all" in names:
        return ALL_ROLES
    known = [role.value for role in Role]
    if unknown := [name for name in names if name not in known]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(known)}, all", param_hint="--role")
    return frozenset(Role(name) for name in names)


def migrate(file: ConfigFile = None, *, as_json: AsJSON = False) -> None:
    """Bring the database schema up to date and exit.

    `up` does so by itself; this is for those who want to do it before.
    With --json: the names of what was applied.
    """
    settings = load_settings(file)
    from indexer import app  # noqa: PLC0415
    from indexer.cli.running import run  # noqa: PLC0415

    applied = run(app.run_migrate(settings))
    if as_json:
        print_json({"applied": applied})
        return
    for name in applied:
        typer.echo(f"applied {name}")
    if not applied:
        typer.echo("the schema is up to date")
