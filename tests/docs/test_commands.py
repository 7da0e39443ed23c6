"""Documentation names every command and every make target, and none that does not exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from indexer.cli.main import app

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def _commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield every command below a group with the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, child in below.items():
        yield from _commands(child, (*path, name))


COMMANDS = dict(_commands(typer.main.get_command(app)))


def test_the_commands_are_those_of_the_specification() -> None:
    """A command that is added or lost is noticed here."""
    assert {" ".join(path) for path in COMMANDS} == {
        "up",
        "demo",
        "simulate",
        "stats",
        "servers pause",
        "servers resume",
        "servers reset",
        "servers run-now",
        "servers move",
        "dead-letters list",
        "dead-letters show",
        "dead-letters retry",
        "dead-letters purge",
        "crawl",
        "doctor",
        "inspect",
        "migrate",
        "activity show",
        "config check",
        "config show",
    }


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_readme_names_every_command(path: tuple[str, ...]) -> None:
    """As it is typed."""
    assert f"concrnt-indexer {' '.join(path)}" in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_explains_itself(path: tuple[str, ...]) -> None:
    """In `--help`."""
    command = COMMANDS[path]
    assert getattr(command, "help", None)
    for parameter in getattr(command, "params", []):
        assert getattr(parameter, "help", None), parameter.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documentation_names_no_command_that_does_not_exist(page: Path) -> None:
    """A text about what is yet to come belongs elsewhere."""
    first_words = {path[0] for path in COMMANDS}
    named = re.findall(r"concrnt-indexer ([a-z][a-z-]*)", "\n".join(_code(page)))
    assert set(named) <= first_words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documentation_names_no_make_target_that_does_not_exist(page: Path) -> None:
    """`make` is the one door: what is written has to open."""
    named = re.findall(r"(?:^|\s)make ([a-z-]+)", "\n".join(_code(page)), re.MULTILINE)
    assert set(named) <= TARGETS


def _code(page: Path) -> Iterator[str]:
    """Yield what stands in code spans and code blocks of a page."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
    yield from blocks
    for block in blocks:
        text = text.replace(block, "")
    yield from re.findall(r"`([^`\n]+)`", text)
