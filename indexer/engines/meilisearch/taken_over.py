"""Searching an index that the Go crawler has filled, until ours takes its place. Pure.

Its documents have the fields of ours, at the top. So such an index is asked in Meilisearch's own way: its cut
of text, its comparison of filters, its order. What it can not do (cursors, viewers, suggestions) finds
nothing there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.engines.base import Document, SearchRequest


def foreign_body(request: SearchRequest, max_total_hits: int) -> dict[str, Any]:
    """Return the body of a search in such an index."""
    offset = min(max(request.offset, 0), max_total_hits)
    body: dict[str, Any] = {
        "q": request.query,
        "offset": offset,
        "limit": min(max(request.limit, 0), max_total_hits - offset),
        "filter": [f"{name} = {_quoted(value)}" for name, value in request.filters.items()],
    }
    if request.sort is not None:
        body["sort"] = [f"{request.sort.field}:{'desc' if request.sort.descending else 'asc'}"]
    return body


def foreign_hits(answer: Mapping[str, Any]) -> list[Document]:
    """Return the documents of an answer."""
    return [{name: value for name, value in hit.items() if name[:1] != "_"} for hit in answer["hits"]]


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
