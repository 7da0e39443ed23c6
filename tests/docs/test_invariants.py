"""Every invariant names where it is held and which tests prove it, and those exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "invariants.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
MODULE = re.compile(r"`(indexer/[\w/]+\.(?:py|sql))`")


def _invariants() -> dict[str, str]:
    """Return what the page says of each invariant, by its heading."""
    _, *sections = re.split(r"^#{1,3} ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    texts = dict(section.split("\n", 1) for section in sections)
    return {heading: text for heading, text in texts.items() if "* Held in" in text}


INVARIANTS = _invariants()


@cache
def _tests_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def test_there_are_invariants() -> None:
    """The page can be read as the tests below read it: every heading of the third level is one."""
    headings = re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings
    assert list(INVARIANTS) == headings


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_every_invariant_is_proved_by_tests_that_exist(invariant: str) -> None:
    """A test that was renamed or removed is noticed here."""
    named = TEST.findall(INVARIANTS[invariant])
    assert named
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not name.startswith("test_") or not (ROOT / file).is_file() or name not in _tests_in(ROOT / file)
    ]
    assert missing == []


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_every_invariant_is_held_in_files_that_exist(invariant: str) -> None:
    """Whoever wants to change one finds the place."""
    named = MODULE.findall(INVARIANTS[invariant])
    assert named
    assert [file for file in named if not (ROOT / file).is_file()] == []
