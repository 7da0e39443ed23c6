"""How well the engines rank: judged queries over a fixed corpus, run on every engine.

The figure is the mean reciprocal rank: 1 when a query's first hit answers it, ½ when the second does, 0 when
none of the first ten. What was missed is printed (``pytest -s``, and whenever the figure is too low).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from indexer.api.kinds import SEARCH_KINDS
from indexer.engines.base import SearchRequest
from tests.engines.conftest import engine  # noqa: F401 - the fixture of every engine
from tests.engines.samples import put
from tests.relevance.corpus import Corpus, Judgement, read_corpus

if TYPE_CHECKING:
    from indexer.engines.base import Engine

pytestmark = pytest.mark.anyio

LEAST_RANK = 0.90
DEPTH = 10
_SORTS = {kind.index: kind.default_sort for kind in SEARCH_KINDS}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a query: the place of its first good hit from 1, None when there is none in sight."""

    judgement: Judgement
    place: int | None
    first: str

    @property
    def reciprocal(self) -> float:
        return 1 / self.place if self.place else 0.0


async def judge(engine: Engine, judgement: Judgement) -> Outcome:  # noqa: F811 - the fixture's value
    """Ask a query in the order that the API asks in."""
    request = SearchRequest(judgement.index, judgement.query, sort=_SORTS[judgement.index], limit=DEPTH)
    hits = (await engine.search(request)).hits
    places = (place for place, hit in enumerate(hits, start=1) if hit["id"] in judgement.relevant)
    return Outcome(judgement, next(places, None), _shown(hits[0]) if hits else "nothing")


def _shown(hit: dict[str, object]) -> str:
    said = (
        hit.get("body")
        or f"{hit.get('username') or hit.get('name') or hit.get('fqdn')}: {hit.get('description')}"
    )
    return str(said)[:50]


def report(outcomes: list[Outcome]) -> str:
    """What was missed, and the figure."""
    missed = [
        f"  {outcome.judgement.index:20} {outcome.judgement.query:30} place {outcome.place or '-'}; "
        f"first: {outcome.first!r}"
        for outcome in outcomes
        if outcome.place != 1
    ]
    return "\n".join([*missed, f"  mean reciprocal rank {mean(outcomes):.3f} of {len(outcomes)} queries"])


def mean(outcomes: list[Outcome]) -> float:
    return sum(outcome.reciprocal for outcome in outcomes) / len(outcomes)


def test_the_corpus_is_what_it_says() -> None:
    """Some 2,000 documents, 150 judged queries or more, in several scripts, the same every time."""
    corpus = read_corpus()
    assert 1_900 <= len(corpus.documents) <= 2_200
    assert len({document["id"] for document in corpus.documents}) == len(corpus.documents)
    assert len(corpus.judgements) >= 150
    assert read_corpus() == corpus
    assert isinstance(corpus, Corpus)


async def test_good_answers_come_first(engine: Engine) -> None:  # noqa: F811 - the fixture
    """The mean reciprocal rank is at least 0.90."""
    corpus = read_corpus()
    await put(engine, *corpus.documents)
    outcomes = [await judge(engine, judgement) for judgement in corpus.judgements]
    told = report(outcomes)
    print(f"\n{engine.name}:\n{told}")  # noqa: T201 - what was missed is the use of this suite
    assert mean(outcomes) >= LEAST_RANK, told
