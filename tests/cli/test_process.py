"""The real command in a process of its own: streams, exit codes, and how quickly it starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("concrnt-indexer")


def _run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=60, **options
    )


def test_a_configuration_with_three_errors_exits_2_and_names_all(tmp_path: Path) -> None:
    """Nothing on standard output, no traceback."""
    (tmp_path / "config.yaml").write_text("crawl: {overlap: 1:30, layer: 2}\ntrust: {mode: nobody}\n")
    environ = {"INDEXER_CRAWL__SEDE": "x", "NO_PROXY": "::1,[::1],fd00::/8"}
    ended = _run("config", "show", cwd=tmp_path, env=environ)
    assert (ended.returncode, ended.stdout) == (2, "")
    for named in ("crawl.overlap", "1:30", "trust.mode", "nobody", "INDEXER_CRAWL__SEDE", "3 problems"):
        assert named in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_good_configuration_exits_0(tmp_path: Path) -> None:
    """Whatever stands in variables of other programs."""
    environ = {"NO_PROXY": "::1,[::1],fd00::/8", "indexer_crawl__seed": "a.example"}
    ended = _run("config", "show", "--json", cwd=tmp_path, env=environ)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "a.example" in ended.stdout


@pytest.mark.parametrize("arguments", [["config", "show"], ["config", "show", "--json"], ["--help"]])
def test_a_reader_that_leaves_early_is_no_error_to_speak_of(arguments: list[str], tmp_path: Path) -> None:
    """`... | head -1` leaves no traceback behind."""
    with subprocess.Popen(
        [COMMAND, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


def test_help_imports_nothing_heavy() -> None:
    """It has to answer at once: settings, database and HTTP are imported by the commands that need them."""
    script = "import sys, indexer.cli.main as m; m.run(['--help']); print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert "Usage" in ended.stdout
    heavy = {"pydantic", "yaml", "asyncpg", "fastapi", "httpx", "uvicorn", "asyncio", "prometheus_client"}
    assert heavy.isdisjoint(ended.stdout.split())


def test_doctor_exits_1_when_something_is_not_in_order(tmp_path: Path) -> None:
    """And prints every check all the same."""
    environ = {
        "INDEXER_BACKENDS__POSTGRES_DSN": "postgresql://nobody@127.0.0.1:9/none",
        "INDEXER_CRAWL__SEED": "seed.example",
        "INDEXER_CRAWL__HOST_OVERRIDES": '{"seed.example": "http://127.0.0.1:9"}',
    }
    ended = _run("doctor", "--json", cwd=tmp_path, env={**os.environ, **environ})
    assert (ended.returncode, ended.stderr) == (1, "")
    printed = json.loads(ended.stdout)
    assert printed["ok"] is False
    assert {check["name"] for check in printed["checks"] if not check["ok"]} == {"database", "seed"}


@pytest.mark.parametrize("arguments", [["servers"], ["stats"], ["inspect", "cckv://alpha.example/a"]])
def test_a_report_makes_no_database(arguments: list[str], tmp_path: Path) -> None:
    """Where there is none it says so, and leaves nothing."""
    environ = {**os.environ, "INDEXER_BACKENDS__DATA_DIR": str(tmp_path / "nothing")}
    ended = _run(*arguments, "--json", cwd=tmp_path, env=environ)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert json.loads(ended.stderr)["code"] == "no_database"
    assert not list(tmp_path.iterdir())
