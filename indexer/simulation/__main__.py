"""A simulated network as a child process: `python -m indexer.simulation --state-dir DIR …`.

Writes one line of JSON when all servers answer (`seed`, `hostOverrides`, `commits`), or `error` with a
sentence, and runs until its standard input ends: with the parent, however that ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from indexer.simulation.journal import OtherNetworkError
from indexer.simulation.live import Simulation, simulate
from indexer.simulation.world import ForeignLogError


def main() -> None:
    """Run until the parent ends."""
    parser = argparse.ArgumentParser(prog="indexer.simulation")
    parser.add_argument("--state-dir", type=Path, default=None)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--seed", default="concrnt")
    parser.add_argument("--rate", type=float, default=0.0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent ends us
    asyncio.run(_run(parser.parse_args()))


async def _run(arguments: argparse.Namespace) -> None:
    try:
        running = asyncio.ensure_future(
            simulate(
                seed=arguments.seed,
                servers=arguments.servers,
                commits=arguments.commits,
                rate=arguments.rate,
                state_dir=arguments.state_dir,
                on_ready=_tell,
            )
        )
        parent = asyncio.ensure_future(_end_of_input())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.wait({running, parent}, return_when=asyncio.FIRST_COMPLETED)
        parent.cancel()
        running.cancel()
        await asyncio.gather(running, parent, return_exceptions=True)
        if not running.cancelled() and (error := running.exception()) is not None:
            raise error
    except (OtherNetworkError, ForeignLogError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)  # noqa: T201 (the protocol with the parent)


async def _end_of_input() -> None:
    """Return when the parent closes our standard input, or is gone."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while await reader.read(1024):
        pass


def _tell(simulation: Simulation) -> None:
    network = simulation.network
    ready = {
        "seed": network.seed_domain,
        "hostOverrides": simulation.running.host_overrides,
        "commits": network.commit_count,
    }
    print(json.dumps(ready), flush=True)  # noqa: T201 (the protocol with the parent)


if __name__ == "__main__":
    main()
