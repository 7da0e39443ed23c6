"""`simulate`: a network on ports of its own, until somebody stops it."""

import json
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from indexer.cli.demo import how_to_follow
from tests.cli.conftest import Command

COMMAND = Path(sys.executable).with_name("concrnt-indexer")


def _free_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def _simulation(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Run a network of one server until it answers."""
    arguments = ["--servers=1", "--commits=50", "--rate=0", f"--base-port={port}", f"--state-dir={folder}"]
    with subprocess.Popen(
        [COMMAND, "simulate", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"hakoniwa.example  http://127.0.0.1:{port}\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_network_answers_until_it_is_stopped(tmp_path: Path, stop: signal.Signals) -> None:
    """A signal ends it in order: exit code 0, no word of complaint; the next start finds its logs."""
    port = _free_port()
    for _ in range(2):
        with _simulation(tmp_path / "network", port) as process:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/.well-known/concrnt", timeout=10) as answer:
                assert json.load(answer)["domain"] == "hakoniwa.example"
            process.send_signal(stop)
            _, complaints = process.communicate(timeout=30)
            assert (process.returncode, complaints) == (0, "")
    assert (tmp_path / "network" / "hakoniwa.example.log").exists()


def test_a_port_in_use_is_one_sentence(command: Command) -> None:
    """It names the port."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = command("simulate", "--servers=1", "--commits=10", f"--base-port={port}")
    assert ended.code == 1
    assert ended.err.startswith("concrnt-indexer: ")
    assert ended.err.count("\n") == 1
    assert str(port) in ended.err


def test_a_folder_with_another_network_is_left_alone(command: Command) -> None:
    """It may be somebody's work."""
    port = _free_port()
    with _simulation(Path("network").absolute(), port):
        pass
    ended = command("simulate", "--servers=2", "--state-dir=network")
    assert ended.code == 1
    assert "holds another network" in ended.err


def test_ports_that_do_not_exist_are_a_usage_error(command: Command) -> None:
    """Said before anything is made."""
    ended = command("simulate", "--servers=3", "--base-port=65534")
    assert ended.code == 2
    assert "--base-port" in ended.err


def test_the_command_to_follow_it_can_be_copied() -> None:
    """The shell gives the indexer the JSON as it was meant."""
    overrides = {"a.example": "http://127.0.0.1:9001", "b.example": "http://127.0.0.1:9002"}
    text = "\n".join(how_to_follow("a.example", overrides))
    command = shlex.split(text[text.index("INDEXER_") :])
    assert command[0] == "INDEXER_CRAWL__SEED=a.example"
    assert json.loads(command[1].removeprefix("INDEXER_CRAWL__HOST_OVERRIDES=")) == overrides
    assert command[-2:] == ["concrnt-indexer", "up"]
