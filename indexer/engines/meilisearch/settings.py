"""The settings of an index as data, and what differs between two of them. Pure.

Every setting that bears on what is found is named, also where it is the engine's default: what somebody
changes by hand is then seen, and put right. Nothing is sent when nothing differs: any change of settings,
even to the same value, may make the engine index everything again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from indexer.engines.meilisearch.documents import SHOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.engines.base import IndexDefinition

Settings = dict[str, Any]

_UNORDERED: Final = frozenset({"displayedAttributes", "filterableAttributes", "sortableAttributes"})
_KEY_ORDER: Final = ("order_key", "order_rest")


def settings_of(definition: IndexDefinition, max_total_hits: int) -> Settings:
    """Return the settings that an index must have."""
    return {
        "displayedAttributes": ["id", *SHOWN],
        "searchableAttributes": [f"search_{field}" for field in definition.searchable],
        "filterableAttributes": ["exact_id", *(f"exact_{field}" for field in definition.filterable)],
        "sortableAttributes": [f"order_{field}" for field in definition.sortable] + list(_KEY_ORDER),
        # Better matches first: fewer typos, whole words before beginnings, earlier fields before later ones.
        "rankingRules": [
            *("words", "typo", "exactness", "attributeRank", "sort"),
            *(f"{field}:asc" for field in _KEY_ORDER),
        ],
        "pagination": {"maxTotalHits": max_total_hits},
        # What is searched holds no Japanese letters (see letters.py), yet nothing is left to a guess.
        "localizedAttributes": [{"attributePatterns": ["search_*"], "locales": ["jpn", "eng"]}],
        "typoTolerance": {
            "enabled": True,
            "minWordSizeForTypos": {"oneTypo": 5, "twoTypos": 9},
            "disableOnWords": [],
            "disableOnAttributes": [],
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


def changes(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> Settings:
    """Return the settings that have to be sent; empty when nothing differs."""
    return {name: value for name, value in wanted.items() if not _equal(name, current.get(name), value)}


def _equal(name: str, current: Any, wanted: Any) -> bool:
    if name in _UNORDERED and isinstance(current, list):
        return all(isinstance(entry, str) for entry in current) and sorted(current) == sorted(wanted)
    if isinstance(wanted, dict) and isinstance(current, dict):
        return all(_equal("", current.get(key), value) for key, value in wanted.items()) and (
            bool(wanted) or not current
        )
    if isinstance(wanted, list) and isinstance(current, list) and len(wanted) == len(current):
        return all(_equal("", *pair) for pair in zip(current, wanted, strict=True))
    return bool(current == wanted)
