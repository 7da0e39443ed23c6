"""Fixtures for the tests of the command line."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import indexer
from indexer.cli import main


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """What it printed, for programs."""
        return json.loads(self.out)


Command = Callable[..., Ended]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in an empty folder without any variables of ours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", {"COLUMNS": "100", "TERM": "dumb"})

    def command(*arguments: str) -> Ended:
        code = main.run(arguments)
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return command


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for `indexer.app`, to be given the functions that a test needs."""
    from indexer import app as real  # noqa: PLC0415 - heavy, and only what it exports is taken

    module = ModuleType("indexer.app")
    vars(module).update({name: value for name, value in vars(real).items() if not name.startswith("__")})
    demo = ModuleType("indexer.demo")

    def run_demo(*given: object, **named: object) -> object:
        """Call what the test gives, which comes after this."""
        return module.run_demo(*given, **named)

    demo.run_demo = run_demo  # type: ignore[attr-defined]
    for name, stand_in in (("app", module), ("demo", demo)):
        monkeypatch.setitem(sys.modules, f"indexer.{name}", stand_in)
        monkeypatch.setattr(indexer, name, stand_in, raising=False)
    return module
