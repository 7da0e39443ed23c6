"""Documentation names every setting, and no setting that does not exist."""

import re
from pathlib import Path

import pytest

from indexer.config import Settings, load_configuration
from indexer.config.catalogue import keys, keys_by_variable, sections

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config.example.yaml"
PAGES = sorted([EXAMPLE, *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_the_example_holds_every_key_and_the_defaults() -> None:
    """Whoever copies it has the indexer as it comes."""
    configuration = load_configuration(EXAMPLE, {})
    assert set(configuration.found) == set(keys())
    assert configuration.settings == Settings()


def test_the_example_explains_every_key() -> None:
    """Every paragraph of keys begins with a comment."""
    paragraphs = EXAMPLE.read_text(encoding="utf-8").split("\n\n")
    for paragraph in paragraphs:
        lines = [line.strip() for line in paragraph.splitlines()]
        named = [line for line in lines if re.match(r"\w+:", line) and line.rstrip(":") not in sections()]
        text = [line for line in lines if line.rstrip(":") not in sections()]
        assert not named or text[0].startswith("#"), paragraph


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documentation_names_no_variable_that_is_not_read(page: Path) -> None:
    """A variable in a text that the code does not know would be an error at start."""
    named = set(re.findall(r"\bINDEXER_[A-Z]+__[A-Z_]+\b", page.read_text(encoding="utf-8")))
    assert named <= set(keys_by_variable())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documentation_names_no_key_that_does_not_exist(page: Path) -> None:
    """Neither in camelCase nor in another spelling."""
    named = set(
        re.findall(
            rf"(?<![\w./-])(?:{'|'.join(sections())})\.[a-z]\w*[A-Z]\w*", page.read_text(encoding="utf-8")
        )
    )
    assert named <= set(keys())
