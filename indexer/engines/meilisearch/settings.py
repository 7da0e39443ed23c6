"""The settings of an index as data, and what differs between two of them. Pure.

Every setting that bears on what is found is named, also where it is the engine's default: what somebody
changes by hand is then seen, and put right. Nothing is sent when nothing differs: any change of settings,
even to the same value, may make the engine index everything again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from indexer.engines.meilisearch.documents import SHOWN
from indexer.engines.typos import ONE_FROM, TWO_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.engines.base import IndexDefinition

Settings = dict[str, Any]

_UNORDERED: Final = frozenset(
    {
        "displayedAttributes",
        "filterableAttributes",
        "sortableAttributes",
        "disableOnAttributes",
        "disableOnWords",
    }
)
"""Settings, and parts of them, that Meilisearch gives back in an order of its own."""
KEY_ORDER: Final = ("order_key", "order_rest")
"""What ends every order."""

REACHED_HITS: Final = 1_000_000
"""How far into a search the server itself may be asked, for cursors; offsets of ours end sooner."""

CUTOFF_MILLISECONDS: Final = 9_000
"""The server would rather answer in a wrong order than take longer; its default is 1.5 s."""


def settings_of(definition: IndexDefinition, max_total_hits: int) -> Settings:
    """Return the settings that an index must have."""
    orders = [*(f"order_{field}" for field in definition.sortable), *KEY_ORDER]
    return {
        # Of orders that are not displayed, the server does not tell where a hit stands.
        "displayedAttributes": ["id", *SHOWN, *orders],
        "searchableAttributes": [f"search_{field}" for field in definition.searchable],
        # Orders are filtered by where a cursor goes on.
        "filterableAttributes": [
            *("exact_id", *(f"exact_{field}" for field in definition.filterable), *orders),
            *(["begins"] if definition.names else []),
        ],
        "sortableAttributes": orders,
        # Better matches first: fewer typos, whole words before beginnings, earlier fields before later ones,
        # words that stand together before others. The key, which ends every order, comes with each search.
        "rankingRules": ["words", "typo", "exactness", "attributeRank", "proximity", "sort"],
        "pagination": {"maxTotalHits": max(max_total_hits, REACHED_HITS)},
        "searchCutoffMs": CUTOFF_MILLISECONDS,
        # What is searched holds no Japanese letters (see letters.py), yet nothing is left to a guess.
        "localizedAttributes": [{"attributePatterns": ["search_*"], "locales": ["jpn", "eng"]}],
        "typoTolerance": {
            "enabled": True,
            # A word is written with one letter more.
            "minWordSizeForTypos": {"oneTypo": ONE_FROM + 1, "twoTypos": TWO_FROM + 1},
            "disableOnWords": [],
            "disableOnAttributes": [
                f"search_{field}" for field in definition.searchable if field not in definition.written
            ],
            "disableOnNumbers": False,
        },
        "proximityPrecision": "byWord",  # phrases must be exact
        "prefixSearch": "indexingTime",
        "facetSearch": False,
        "distinctAttribute": None,
        "stopWords": [],
        "synonyms": {},
        "separatorTokens": [],
        "nonSeparatorTokens": [],
        "dictionary": [],
    }


def is_foreign(current: Mapping[str, Any]) -> bool:
    """Tell whether another program has set an index up so: with filters, not for documents as we store them.

    One that a write made by itself has no filters.
    """
    displayed = current.get("displayedAttributes")
    is_ours = isinstance(displayed, list) and set(SHOWN) <= set(displayed)
    return not is_ours and bool(current.get("filterableAttributes"))


def changes(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> Settings:
    """Return the settings that have to be sent; empty when nothing differs."""
    return {name: value for name, value in wanted.items() if not _equal(name, current.get(name), value)}


def _equal(name: str, current: Any, wanted: Any) -> bool:
    if name in _UNORDERED and isinstance(current, list):
        return all(isinstance(entry, str) for entry in current) and sorted(current) == sorted(wanted)
    if isinstance(wanted, dict) and isinstance(current, dict):
        return all(_equal(key, current.get(key), value) for key, value in wanted.items()) and (
            bool(wanted) or not current
        )
    if isinstance(wanted, list) and isinstance(current, list) and len(wanted) == len(current):
        return all(_equal("", *pair) for pair in zip(current, wanted, strict=True))
    return bool(current == wanted)
