"""Documentation names every metric, and no metric that does not exist."""

import re
from pathlib import Path

from indexer.observability.metrics import Metrics

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
OURS = re.compile(r"\b(?:crawler|indexer|concrnt)_[a-z0-9_]+\b")


def _exposed() -> set[str]:
    """Return the names of all families that a scrape declares."""
    declared = re.findall(r"^# HELP (\S+)", Metrics("0").render().decode(), re.MULTILINE)
    return {name for name in declared if OURS.fullmatch(name)}


def test_every_metric_is_documented() -> None:
    """With its full name, as a scrape shows it."""
    assert _exposed() <= set(OURS.findall(PAGE.read_text(encoding="utf-8")))


def test_no_other_metric_is_documented() -> None:
    """A dashboard built on the page finds what it asks for; indexes are named there too."""
    indexes = {"concrnt_users", "concrnt_communities", "concrnt_posts", "concrnt_servers"}
    assert set(OURS.findall(PAGE.read_text(encoding="utf-8"))) - indexes <= _exposed()
