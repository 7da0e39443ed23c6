"""`demo` and `simulate`: a network to try things on."""

from pathlib import Path
from typing import Annotated

import typer

from indexer.cli.options import ConfigFile, load_settings
from indexer.cli.output import console, run

_SERVERS = 3
_COMMITS = 20_000
_SEED = 1
_RATE = 2.0
_BASE_PORT = 9001

Servers = Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="How many servers the network has.")]
Commits = Annotated[
    int,
    typer.Option(metavar="N", min=1, max=10_000_000, help="How many commits their logs hold at the start."),
]
Seed = Annotated[int, typer.Option(metavar="N", help="The same seed makes the same network.")]
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
    from indexer import app  # noqa: PLC0415 - `--help` does without it
    from indexer.cli.progress import ProgressDisplay  # noqa: PLC0415

    with ProgressDisplay(console()) as display:
        run(app.run_demo(settings, servers=servers, commits=commits, seed=seed, rate=rate, show=display.show))


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
            min=1, max=65535, help="The first server listens here, the others on the ports after it."
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

    Prints the crawl.hostOverrides with which an indexer finds it.
    """
    settings = load_settings(file)
    from indexer.simulation.run import simulate as run_network  # noqa: PLC0415 - `--help` does without it

    run(
        run_network(
            servers=servers,
            commits=commits,
            seed=seed,
            rate=rate,
            base_port=base_port,
            state_dir=state_dir or settings.backends.data_dir / "simulation",
        )
    )
