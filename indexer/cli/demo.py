"""`demo` and `simulate`: a network to try things on."""

import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indexer.cli.errors import PROGRAM
from indexer.cli.options import ConfigFile, load_settings
from indexer.cli.output import console
from indexer.errors import ExpectedError

if TYPE_CHECKING:
    from rich.status import Status

    from indexer.simulation.live import Progress, Simulation

_SERVERS = 3
_COMMITS = 20_000
_SEED = "concrnt"
_RATE = 2.0
_BASE_PORT = 9001
_HIGHEST_PORT = 65535

Servers = Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="How many servers the network has.")]
Commits = Annotated[
    int,
    typer.Option(metavar="N", min=1, max=10_000_000, help="How many commits their logs hold at the start."),
]
Seed = Annotated[str, typer.Option(metavar="WORD", help="The same word makes the same network.")]
Rate = Annotated[
    float,
    typer.Option(
        metavar="N", min=0, max=10_000, help="How many commits are added a second, all servers together."
    ),
]


def demo(
    file: ConfigFile = None,
    *,
    servers: Servers = _SERVERS,
    commits: Commits = _COMMITS,
    seed: Seed = _SEED,
    rate: Rate = _RATE,
) -> None:
    """Try it: a simulated network, an embedded PostgreSQL, the indexer and its API, all at once.

    Shows progress until everything is searchable and goes on growing. Ctrl-C ends it; a second start goes on
    where the first stood.
    """
    settings = load_settings(file)
    from indexer.cli.progress import ProgressDisplay  # noqa: PLC0415
    from indexer.cli.running import run_until_stopped  # noqa: PLC0415
    from indexer.demo import run_demo  # noqa: PLC0415 - `--help` does without it

    with ProgressDisplay(console()) as display:
        run_until_stopped(
            run_demo(settings, servers=servers, commits=commits, seed=seed, rate=rate, show=display.show)
        )


def simulate(
    file: ConfigFile = None,
    *,
    servers: Servers = _SERVERS,
    commits: Commits = _COMMITS,
    seed: Seed = _SEED,
    rate: Rate = _RATE,
    base_port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            min=1,
            max=_HIGHEST_PORT,
            help="The first server listens here, the others on the ports after it.",
        ),
    ] = _BASE_PORT,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the network keeps its logs. Without it: simulation/ below backends.dataDir.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run a simulated Concrnt network on this machine, to follow, test and measure against.

    Prints how an indexer finds it. Ctrl-C ends it; a second start goes on where the first stood.
    """
    settings = load_settings(file)
    if base_port + servers - 1 > _HIGHEST_PORT:
        raise typer.BadParameter(
            f"there are no {servers} ports from {base_port} on", param_hint="--base-port"
        )
    from indexer.cli.running import run_until_stopped  # noqa: PLC0415 - `--help` does without it
    from indexer.simulation.journal import OtherNetworkError  # noqa: PLC0415
    from indexer.simulation.live import simulate as run_network  # noqa: PLC0415
    from indexer.simulation.world import ForeignLogError  # noqa: PLC0415

    with console().status("starting the network") as status:
        try:
            run_until_stopped(
                run_network(
                    seed=seed,
                    servers=servers,
                    commits=commits,
                    rate=rate,
                    ports=range(base_port, base_port + servers),
                    state_dir=state_dir or settings.backends.data_dir / "simulation",
                    on_progress=lambda progress: status.update(_progress_text(progress)),
                    on_ready=lambda simulation: _print_ready(simulation, status),
                )
            )
        except (OtherNetworkError, ForeignLogError) as error:
            raise ExpectedError(str(error), code="other_network") from error


def _progress_text(progress: "Progress") -> str:
    if progress.done == progress.total:
        return f"{progress.stage}: {progress.total:,} commits"
    return f"{progress.stage}: {progress.done:,} of {progress.total:,} commits"


def _print_ready(simulation: "Simulation", status: "Status") -> None:
    for line in how_to_follow(simulation.network.seed_domain, simulation.running.host_overrides):
        status.console.print(line, soft_wrap=True)


def _program() -> str:
    """The command as this shell finds it."""
    called = Path(sys.argv[0])
    return shlex.quote(str(called)) if called.name == PROGRAM and not shutil.which(PROGRAM) else PROGRAM


def how_to_follow(seed: str, overrides: Mapping[str, str]) -> list[str]:
    """Return where the servers answer, and the command that follows them."""
    return [
        *(f"{domain}  {url}" for domain, url in overrides.items()),
        "",
        "Follow it with:",
        "",
        f"  INDEXER_CRAWL__SEED={seed} INDEXER_CRAWL__HOST_OVERRIDES={shlex.quote(json.dumps(overrides))} \\",
        f"    {_program()} up",
        "",
    ]
