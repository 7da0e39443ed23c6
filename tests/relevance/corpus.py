"""The corpus of the relevance suite: hand-written documents that are looked for, among many that are not.

The others are written by the simulated network's writer, always the same, and by taking pieces of the names
that are looked for; they are newer, so that an engine that sorts where it should rank is found out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from indexer.engines.indexes import COMMUNITIES, POSTS, SERVERS, USERS
from indexer.simulation.texts import Writer
from tests.engines.samples import community, post, server, user

if TYPE_CHECKING:
    from collections.abc import Iterator

    from indexer.engines.base import Document

OTHERS = {USERS: 500, COMMUNITIES: 300, POSTS: 1_080, SERVERS: 30}

_JUDGED = Path(__file__).with_name("judged.txt")
_INDEXES = {"u": USERS, "c": COMMUNITIES, "p": POSTS, "s": SERVERS}
_OLD = datetime(2024, 1, 1, tzinfo=UTC)
_NEW = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A query, and the ids of the documents that answer it."""

    index: str
    query: str
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents and judgements."""

    documents: list[Document]
    judgements: list[Judgement]


def read_corpus() -> Corpus:
    """Make the corpus, the same every time."""
    documents: list[Document] = []
    relevant: dict[tuple[str, str], set[str]] = {}
    for number, line in enumerate(_lines()):
        kind, key, name, text, queries = (part.strip() for part in line.split("|"))
        document = _document(_INDEXES[kind], key, name, text, _OLD + timedelta(hours=number))
        documents.append(document)
        for query in queries.split(" ; "):
            relevant.setdefault((_INDEXES[kind], query.strip()), set()).add(document["id"])
    documents += _others()
    return Corpus(
        documents,
        [Judgement(index, query, frozenset(ids)) for (index, query), ids in relevant.items()],
    )


def _lines() -> Iterator[str]:
    for line in _JUDGED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


def _document(index: str, key: str, name: str, text: str, moment: datetime) -> Document:
    created = moment.isoformat().replace("+00:00", "Z")
    if index == USERS:
        return user(profile=key, username=name, description=text, createdAt=created)
    if index == COMMUNITIES:
        long, _, short = name.partition(" / ")
        return {**community(key, shortname=short, description=text, createdAt=created), "name": long}
    if index == POSTS:
        return post(key, text, createdAt=created)
    return server(key, lastSeenAt=created)


def _others() -> Iterator[Document]:
    chance = Random(41)
    writer = Writer(chance)
    for index, count in OTHERS.items():
        for number in range(count):
            language = writer.language()
            name, text = "", ""
            if index == USERS:
                name, text = writer.person_name(language), writer.self_description(language)
            elif index == COMMUNITIES:
                name, text = f"{writer.community_name()} / c{number}", writer.community_description()
            elif index == POSTS:
                text = writer.markdown(language) if number % 9 == 0 else writer.body(language)
            key = f"s{number:03}.invalid" if index == SERVERS else f"x{number:05}"
            yield _document(index, key, name, text, _NEW + timedelta(minutes=number))
    yield from _decoys()


def _decoys() -> Iterator[Document]:
    """Newer documents that hold the letters of what is looked for, and not the words."""
    for number, line in enumerate(_lines()):
        kind, _key, name, text, _queries = (part.strip() for part in line.split("|"))
        index = _INDEXES[kind]
        if index == SERVERS:
            continue
        called = f"部屋{number}" if index == USERS else f"部屋 / d{number}"
        broken = "、".join(_broken(f"{name} {text}".split()))
        yield _document(index, f"d{number:03}", called, broken, _NEW + timedelta(days=number))


def _broken(words: list[str]) -> Iterator[str]:
    for word in words:
        if word.isascii():
            yield word[:-2]
        else:
            yield from word[::2]
