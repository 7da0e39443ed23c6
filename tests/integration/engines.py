"""The whole indexer over an engine: settings that lead to it, a real Meilisearch if there is one."""

from __future__ import annotations

import functools
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from indexer import app
from indexer.engines.indexes import INDEXES
from indexer.engines.meilisearch import MeilisearchEngine
from tests.engines.conftest import MEILI_KEY, MEILI_URL
from tests.engines.meili_double import serve_double

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    import pytest

    from indexer.config import Settings


def over(settings: Settings, url: str, key: str) -> Settings:
    """Settings with a Meilisearch."""
    backends = settings.backends.model_copy(update={"meili_host": url, "meili_api_key": key})
    return settings.model_copy(update={"backends": backends})


@asynccontextmanager
async def _postgres(settings: Settings, _monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Settings]:
    yield settings


@asynccontextmanager
async def _double(settings: Settings, _monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Settings]:
    async with serve_double() as double:
        yield over(settings, double.url, double.key)


@asynccontextmanager
async def _real(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Settings]:
    """A real server, with indexes of the test's own that are removed in the end."""
    prefix = f"test_{uuid.uuid4().hex[:12]}_"
    monkeypatch.setattr(app, "MeilisearchEngine", functools.partial(MeilisearchEngine, prefix=prefix))
    yield over(settings, MEILI_URL, MEILI_KEY)
    headers = {"authorization": f"Bearer {MEILI_KEY}"}
    async with httpx.AsyncClient(base_url=MEILI_URL, headers=headers) as client:
        for definition in INDEXES:
            await client.delete(f"/indexes/{prefix}{definition.uid}")


MEILISEARCHES: dict[str, Callable[[Settings, pytest.MonkeyPatch], AbstractAsyncContextManager[Settings]]] = {
    "meilisearch double": _double,
    **({"meilisearch": _real} if MEILI_URL else {}),
}

ENGINES = {"postgres": _postgres, **MEILISEARCHES}
