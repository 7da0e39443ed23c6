"""`servers pause|resume|reset|run-now|move` and `dead-letters`: what an operator does by hand."""

from typing import Annotated

import typer

from indexer.cli.options import AsJSON, ConfigFile, load_settings
from indexer.cli.output import console, print_json
from indexer.cli.report import list_servers

servers = typer.Typer(invoke_without_command=True, no_args_is_help=False)
dead_letters = typer.Typer(
    no_args_is_help=True, help="Commits that could not be used: list, show, retry or purge them."
)

Domain = Annotated[str, typer.Argument(metavar="DOMAIN", help="The server.", show_default=False)]
OfServer = Annotated[str | None, typer.Option("--server", metavar="DOMAIN", help="Only those of one server.")]
Identity = Annotated[int, typer.Argument(metavar="ID", help="As the list shows it.", show_default=False)]


@servers.callback()
def list_all(context: typer.Context, file: ConfigFile = None, *, as_json: AsJSON = False) -> None:
    """List the servers that are known, and how following each of them goes; or change one of them.

    With --json: a list, one object a server.
    """
    if context.invoked_subcommand is None:
        list_servers(file, as_json=as_json)
    else:
        context.obj = file


def _change(
    context: typer.Context, file: ConfigFile, action: str, domain: str, said: str, *, as_json: bool
) -> None:
    settings = load_settings(file or context.obj)
    from indexer.cli.running import run  # noqa: PLC0415 - `--help` does without it
    from indexer.operate import change_server  # noqa: PLC0415

    name = run(change_server(settings, action, domain))
    if as_json:
        print_json({"domain": name, "done": action})
        return
    typer.echo(f"{name}: {said}")


@servers.command()
def pause(
    context: typer.Context, domain: Domain, file: ConfigFile = None, *, as_json: AsJSON = False
) -> None:
    """Follow a server no more, until it is resumed."""
    _change(context, file, "pause", domain, "paused", as_json=as_json)


@servers.command()
def resume(
    context: typer.Context, domain: Domain, file: ConfigFile = None, *, as_json: AsJSON = False
) -> None:
    """Follow a paused server again."""
    _change(context, file, "resume", domain, "resumed", as_json=as_json)


@servers.command()
def reset(
    context: typer.Context, domain: Domain, file: ConfigFile = None, *, as_json: AsJSON = False
) -> None:
    """Forget a server's failures and read its feed from the start again; what is known stays."""
    _change(context, file, "reset", domain, "will be read from its start", as_json=as_json)


@servers.command("run-now")
def run_now(
    context: typer.Context, domain: Domain, file: ConfigFile = None, *, as_json: AsJSON = False
) -> None:
    """Ask a server now, whatever it waits for."""
    _change(context, file, "run_now", domain, "is asked at once", as_json=as_json)


@servers.command()
def move(
    context: typer.Context,
    old: Annotated[str, typer.Argument(metavar="OLD", help="Its domain so far.", show_default=False)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its domain from now on.", show_default=False)],
    file: ConfigFile = None,
    *,
    any_key: Annotated[
        bool, typer.Option("--any-key", help="Also when the two are known by different keys (CSID).")
    ] = False,
    as_json: AsJSON = False,
) -> None:
    """A server has moved to another domain: carry over what is known of it, and follow it there."""
    settings = load_settings(file or context.obj)
    from indexer.cli.running import run  # noqa: PLC0415
    from indexer.operate import move_server  # noqa: PLC0415

    carried = run(move_server(settings, old, new, any_key=any_key))
    if as_json:
        print_json({"old": old, "new": new, "cursorCarried": carried})
        return
    typer.echo(f"{old} is {new} now; " + ("read on from its cursor" if carried else "read by its own cursor"))


@dead_letters.command("list")
def list_letters(
    file: ConfigFile = None,
    *,
    server: OfServer = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many, the newest first.")] = 50,
    as_json: AsJSON = False,
) -> None:
    """List commits that could not be used, and why."""
    settings = load_settings(file)
    from indexer.cli.running import run  # noqa: PLC0415
    from indexer.operate import list_dead_letters  # noqa: PLC0415

    rows = run(list_dead_letters(settings, server, limit))
    if as_json:
        print_json(rows)
        return
    from indexer.cli.tables import dead_letters_table  # noqa: PLC0415

    console().print(dead_letters_table(rows))


@dead_letters.command()
def show(identity: Identity, file: ConfigFile = None, *, as_json: AsJSON = False) -> None:
    """Show one of them whole."""
    settings = load_settings(file)
    from indexer.cli.running import run  # noqa: PLC0415
    from indexer.operate import show_dead_letter  # noqa: PLC0415

    row = run(show_dead_letter(settings, identity))
    if as_json:
        print_json(row)
        return
    for name, value in row.items():
        typer.echo(f"{name}: {value}")


@dead_letters.command()
def retry(
    identity: Annotated[int | None, typer.Argument(metavar="[ID]", help="One; without it, all.")] = None,
    file: ConfigFile = None,
    *,
    server: OfServer = None,
    as_json: AsJSON = False,
) -> None:
    """Apply them again under the rules of today; what is accepted now is no dead letter any more."""
    settings = load_settings(file)
    from indexer.cli.running import run  # noqa: PLC0415
    from indexer.operate import retry_dead_letters  # noqa: PLC0415

    counts = run(retry_dead_letters(settings, server, identity))
    if as_json:
        print_json(counts)
        return
    typer.echo(f"{counts['applied']} of {counts['retried']} applied")


@dead_letters.command()
def purge(file: ConfigFile = None, *, server: OfServer = None, as_json: AsJSON = False) -> None:
    """Forget them."""
    settings = load_settings(file)
    from indexer.cli.running import run  # noqa: PLC0415
    from indexer.operate import purge_dead_letters  # noqa: PLC0415

    purged = run(purge_dead_letters(settings, server))
    if as_json:
        print_json({"purged": purged})
        return
    typer.echo(f"{purged} forgotten")
