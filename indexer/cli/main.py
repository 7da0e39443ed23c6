"""The command `concrnt-indexer`. What is heavy to import is imported by the commands that need it."""

import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from indexer.cli import activity, config, crawl, demo, indexes, looking, operate, report, up
from indexer.cli.errors import FAILED, FINE, INTERRUPTED, PROGRAM, expected, print_error

app = typer.Typer(
    add_completion=False,
    help="Search for the Concrnt network: follows every server's commit log, mirrors the public state in "
    "PostgreSQL and serves ranked search.",
    epilog="Exit codes: 0 fine, 1 failed, 2 usage or configuration. Every setting is explained in "
    "config.example.yaml.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command()(up.up)
app.command()(demo.demo)
app.command()(demo.simulate)
app.command()(report.stats)
app.add_typer(operate.servers, name="servers")
app.add_typer(operate.dead_letters, name="dead-letters")
app.command()(indexes.reindex)
app.command()(indexes.rebuild)
app.command()(crawl.crawl)
app.command()(indexes.verify)
app.command()(looking.inspect)
app.command()(looking.doctor)
app.command()(up.migrate)
app.add_typer(activity.activity, name="activity")
app.add_typer(config.config, name="config")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - it reads files

        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the command as a whole."""


_TYPER_INTERRUPTED = 130
_UNTIL_STOPPED = frozenset({"up", "demo", "simulate"})


def main() -> None:
    """Run the command line and exit with its code."""
    # Until the command has handlers of its own, SIGTERM ends it as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run(sys.argv[1:])
    if "indexer.cli.running" in sys.modules:  # else nothing ran that could leave threads behind
        from indexer.cli.running import leave_soon  # noqa: PLC0415 - heavy

        leave_soon(code)
    sys.exit(code)


def _ended(code: int) -> int:
    """Say that a command was interrupted, where that is no way to end it."""
    if code != FINE:
        typer.echo(f"{PROGRAM}: interrupted", err=True)
    return code


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; expected errors are printed, others are raised.

    A pipe that nobody reads any more ends the process quietly with code 1 (typer and rich see to that).
    """
    interrupted = FINE if arguments and arguments[0] in _UNTIL_STOPPED else INTERRUPTED
    try:
        code = typer.main.get_command(app).main(arguments, prog_name=PROGRAM, standalone_mode=False)
    except KeyboardInterrupt:
        # What runs until it is stopped has ended as it should, however early the stop came.
        return _ended(interrupted)
    except typer.Abort:
        return FAILED
    except Exception as error:
        known = expected(error)
        if known is None:
            raise
        print_error(known, as_json="--json" in arguments)
        return known.exit_code
    if code == _TYPER_INTERRUPTED:
        return _ended(interrupted)
    return code if isinstance(code, int) else FINE
