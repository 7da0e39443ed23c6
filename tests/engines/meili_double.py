"""A double of Meilisearch's HTTP routes, as far as the engine uses them; served over real HTTP.

It is honest about what makes Meilisearch hard to use: writes are tasks that run later, one at a time, and may
fail as a whole; an index that is written to comes into being by itself; text in filters compares without
case; requests are limited in size; a restart from an empty volume forgets indexes and tasks. What it finds
follows the settings: words with typos, beginnings of the last word, exact phrases, ranking rules. It is only
as good as its agreement with a real server, over which the same suite runs when ``INDEXER_TEST_MEILI_URL``
is set.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from indexer.api.serving import serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from starlette.requests import Request

DEFAULTS: dict[str, Any] = {
    "displayedAttributes": ["*"],
    "searchableAttributes": ["*"],
    "filterableAttributes": [],
    "sortableAttributes": [],
    "rankingRules": ["words", "typo", "proximity", "attributeRank", "sort", "wordPosition", "exactness"],
    "stopWords": [],
    "nonSeparatorTokens": [],
    "separatorTokens": [],
    "dictionary": [],
    "synonyms": {},
    "distinctAttribute": None,
    "proximityPrecision": "byWord",
    "typoTolerance": {
        "enabled": True,
        "minWordSizeForTypos": {"oneTypo": 5, "twoTypos": 9},
        "disableOnWords": [],
        "disableOnAttributes": [],
        "disableOnNumbers": False,
    },
    "faceting": {"maxValuesPerFacet": 100, "sortFacetValuesBy": {"*": "alpha"}},
    "pagination": {"maxTotalHits": 1000},
    "embedders": {},
    "searchCutoffMs": None,
    "localizedAttributes": None,
    "facetSearch": True,
    "prefixSearch": "indexingTime",
}
_ID = re.compile(r"[A-Za-z0-9_-]{1,511}")
_FILTER = re.compile(
    r'(\w+) (IS NULL|NOT EXISTS|(?:[=<>]|STARTS WITH) (?="|IN)|IN )(?:"([^"\\]*)"|\[([^\]]*)\])?'
)
_TERM = re.compile(r'"([^"]*)"|([^\s"]+)')
_stamps = itertools.count()


class Failed(Exception):  # noqa: N818 - the name that tasks use
    """A task, or a request, fails with this code."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(code)
        self.code = code
        self.status = status

    def body(self) -> dict[str, str]:
        """As the server words it."""
        kind = "internal" if self.code in ("internal", "no_space_left_on_device") else "invalid_request"
        return {"message": f"the double says {self.code}", "code": self.code, "type": kind, "link": ""}


def _now() -> str:
    return f"{datetime.now(UTC).isoformat()[:26]}{next(_stamps):03}Z"


@dataclass
class Index:
    """One index."""

    primary_key: str | None
    created_at: str = field(default_factory=_now)
    settings: dict[str, Any] = field(default_factory=lambda: json.loads(json.dumps(DEFAULTS)))
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    words: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    _vocabulary: set[str] | None = None

    def vocabulary(self) -> set[str]:
        """All words that stand in a searchable field."""
        if self._vocabulary is None:
            self._vocabulary = {
                word for words in self.words.values() for texts in words.values() for word in texts
            }
        return self._vocabulary

    def put(self, document: dict[str, Any]) -> None:
        """Store a document and cut what is searched."""
        self._vocabulary = None
        identifier = document["id"]
        self.documents[identifier] = document
        self.words[identifier] = {
            name: document[name].split()
            for name in self.settings["searchableAttributes"]
            if isinstance(document.get(name), str)
        }

    def remove(self, identifier: str) -> None:
        """Forget a document."""
        self.documents.pop(identifier, None)
        self.words.pop(identifier, None)


@dataclass
class Task:
    """A task, and what it will do."""

    uid: int
    kind: str
    work: Callable[[], None]
    ids: frozenset[str] = frozenset()
    status: str = "enqueued"
    error: dict[str, str] | None = None


@dataclass
class MeiliDouble:
    """The server's state, and what tests make of it.

    ``fails(task)`` returns the code with which a task fails; ``answers(method, path)`` a status with which a
    request is turned away. ``hold`` keeps all tasks waiting while it is cleared.
    """

    key: str = "a key"
    payload_limit: int = 100 * 1024 * 1024
    fails: Callable[[Task], str | None] = lambda _: None
    answers: Callable[[str, str], tuple[int, str] | None] = lambda *_: None
    indexes: dict[str, Index] = field(default_factory=dict)
    tasks: dict[int, Task] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""
    _queue: asyncio.Queue[Task] = field(default_factory=asyncio.Queue)

    def wipe(self) -> None:
        """Start again from an empty volume."""
        self.indexes.clear()
        self.lose_tasks()

    def lose_tasks(self) -> None:
        """Forget what was accepted, as a server that is killed before it was on disk."""
        self.tasks.clear()
        self._queue = asyncio.Queue()

    def kinds(self) -> list[str]:
        """The kinds of the tasks so far."""
        return [task.kind for task in self.tasks.values()]

    async def work(self) -> None:
        """Run tasks, one at a time, for ever."""
        while True:
            task = await self._next()
            task.status = "processing"
            await asyncio.sleep(0)
            try:
                self._run(task)
            except Failed as error:
                task.status, task.error = "failed", error.body()
            else:
                task.status = "succeeded"

    def _run(self, task: Task) -> None:
        if code := self.fails(task):
            raise Failed(code)
        task.work()

    async def _next(self) -> Task:
        while True:
            await self.hold.wait()
            try:
                task = self._queue.get_nowait()
            except asyncio.QueueEmpty:
                await asyncio.sleep(0.002)
                continue
            if task.status == "enqueued":
                return task

    # --- routes ------------------------------------------------------------------------------------------

    async def answer(self, request: Request) -> Response:
        """Answer any request."""
        method, path = request.method, request.url.path
        self.requests.append((method, path))
        try:
            body = await request.body()
            self._turn_away(method, path, request.headers.get("authorization"), len(body))
            return self._route(method, path.strip("/").split("/"), dict(request.query_params), body)
        except Failed as error:
            return JSONResponse(error.body(), error.status)

    def _turn_away(self, method: str, path: str, authorization: str | None, size: int) -> None:
        if turned := self.answers(method, path):
            raise Failed(turned[1], turned[0])
        if authorization != f"Bearer {self.key}":
            raise Failed("invalid_api_key", 403)
        if size > self.payload_limit:
            raise Failed("payload_too_large", 413)

    def _route(  # noqa: PLR0911 - one arm a route
        self, method: str, path: list[str], query: dict[str, str], body: bytes
    ) -> Response:
        match (method, *path):
            case ("GET", "stats"):
                return JSONResponse({"databaseSize": 1, "indexes": dict(self._sizes())})
            case ("GET", "tasks"):
                return self._tasks(query)
            case ("POST", "tasks", "cancel"):
                return self._cancel(query)
            case ("GET", "indexes"):
                results = [{"uid": uid, **self._information(uid)} for uid in self.indexes]
                return JSONResponse({"results": results, "total": len(results)})
            case ("POST", "indexes"):
                asked = json.loads(body)
                return self._enqueue("indexCreation", lambda: self._create(asked["uid"], asked["primaryKey"]))
            case ("POST", "swap-indexes"):
                pairs = [pair["indexes"] for pair in json.loads(body)]
                return self._enqueue("indexSwap", lambda: self._swap(pairs))
            case (_, "indexes", uid, *rest):
                return self._index_route(method, uid, rest, query, body)
        raise Failed("not_found", 404)

    def _index_route(  # noqa: PLR0911 - one arm a route
        self, method: str, uid: str, rest: list[str], query: dict[str, str], body: bytes
    ) -> Response:
        match (method, *rest):
            case ("GET",):
                return JSONResponse({"uid": uid, **self._information(uid)})
            case ("DELETE",):
                return self._enqueue("indexDeletion", lambda: self._delete_index(uid))
            case ("GET", "stats"):
                return JSONResponse({"numberOfDocuments": len(self._index(uid).documents)})
            case ("GET", "settings"):
                return JSONResponse(self._index(uid).settings)
            case ("PATCH", "settings"):
                asked = json.loads(body)
                return self._enqueue("settingsUpdate", lambda: self._set(uid, asked))
            case ("POST", "documents", "delete-batch"):
                ids = json.loads(body)
                return self._enqueue("documentDeletion", lambda: self._delete(uid, ids), frozenset(ids))
            case ("POST" | "PUT", "documents"):
                documents = [json.loads(line) for line in body.splitlines() if line]
                return self._enqueue(
                    "documentAdditionOrUpdate",
                    lambda: self._add(
                        uid, documents, merge=method == "PUT", skip=query.get("skipCreation") == "true"
                    ),
                    frozenset(document["id"] for document in documents),
                )
            case ("POST", "documents", "fetch"):
                return JSONResponse({"results": _fetch(self._index(uid), json.loads(body))})
            case ("POST", "search"):
                return JSONResponse(_search(self._index(uid), json.loads(body)))
        raise Failed("not_found", 404)

    def _enqueue(self, kind: str, work: Callable[[], None], ids: frozenset[str] = frozenset()) -> Response:
        task = Task(len(self.tasks), kind, work, ids)
        self.tasks[task.uid] = task
        self._queue.put_nowait(task)
        return JSONResponse({"taskUid": task.uid, "status": "enqueued", "type": kind}, 202)

    def _tasks(self, query: dict[str, str]) -> Response:
        wanted = [int(uid) for uid in query["uids"].split(",")] if "uids" in query else list(self.tasks)
        found = [
            self.tasks[uid]
            for uid in wanted
            if uid in self.tasks
            and ("types" not in query or self.tasks[uid].kind in query["types"].split(","))
            and ("statuses" not in query or self.tasks[uid].status in query["statuses"].split(","))
        ]
        limit = int(query.get("limit", "20"))
        results = [
            {"uid": task.uid, "status": task.status, "type": task.kind, "error": task.error} for task in found
        ]
        return JSONResponse({"results": results[:limit], "total": len(found)})

    def _cancel(self, query: dict[str, str]) -> Response:
        for uid in query["uids"].split(","):
            if (task := self.tasks.get(int(uid))) and task.status == "enqueued":
                task.status = "canceled"
        return self._enqueue("taskCancelation", lambda: None)

    def _sizes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for uid, index in self.indexes.items():
            yield (
                uid,
                {"numberOfDocuments": len(index.documents), "isIndexing": False, "fieldDistribution": {}},
            )

    def _information(self, uid: str) -> dict[str, Any]:
        index = self._index(uid)
        return {"createdAt": index.created_at, "primaryKey": index.primary_key}

    def _index(self, uid: str) -> Index:
        if uid not in self.indexes:
            raise Failed("index_not_found", 404)
        return self.indexes[uid]

    # --- what tasks do -----------------------------------------------------------------------------------

    def _create(self, uid: str, primary_key: str | None) -> None:
        if uid in self.indexes:
            raise Failed("index_already_exists")
        self.indexes[uid] = Index(primary_key)

    def _swap(self, pairs: Sequence[Sequence[str]]) -> None:
        for one, other in pairs:
            self.indexes[one], self.indexes[other] = self._index(other), self._index(one)

    def _delete_index(self, uid: str) -> None:
        self._index(uid)
        del self.indexes[uid]

    def _set(self, uid: str, asked: dict[str, Any]) -> None:
        index = self.indexes.setdefault(uid, Index(None))
        for name, value in asked.items():
            index.settings[name] = DEFAULTS[name] if value is None else _as_kept(name, value)
        for document in list(index.documents.values()):
            index.put(document)

    def _delete(self, uid: str, ids: Sequence[str]) -> None:
        index = self._index(uid)
        for identifier in ids:
            index.remove(identifier)

    def _add(self, uid: str, documents: Sequence[dict[str, Any]], *, merge: bool, skip: bool) -> None:
        index = self.indexes.setdefault(uid, Index("id"))
        if not all(_ID.fullmatch(document["id"]) for document in documents):
            raise Failed("invalid_document_id")
        for document in documents:
            old = index.documents.get(document["id"])
            if old is None and skip:
                continue
            index.put({**old, **document} if merge and old else document)


@asynccontextmanager
async def serve_double(double: MeiliDouble | None = None) -> AsyncIterator[MeiliDouble]:
    """Serve a double on a free port."""
    double = double or MeiliDouble()
    double.hold.set()
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    app = Starlette(routes=[Route("/{path:path}", double.answer, methods=methods)])
    working = asyncio.create_task(double.work())
    try:
        async with serve(app, "127.0.0.1:0") as listening:
            double.url = listening.url
            yield double
    finally:
        working.cancel()


def _as_kept(name: str, value: Any) -> Any:
    """Settings that are sets come back sorted."""
    if name != "typoTolerance":
        return value
    sets = ("disableOnAttributes", "disableOnWords")
    return {key: sorted(entry) if key in sets else entry for key, entry in value.items()}


def _fetch(index: Index, asked: dict[str, Any]) -> list[dict[str, Any]]:
    ids = asked.get("ids")
    if ids is None:
        ids = list(index.documents)[asked["offset"] : asked["offset"] + asked["limit"]]
    found = [index.documents[identifier] for identifier in ids if identifier in index.documents]
    return [{name: one[name] for name in asked["fields"] if name in one} for one in found]


# --- searching ---------------------------------------------------------------------------------------------


def _search(index: Index, asked: dict[str, Any]) -> dict[str, Any]:
    settings = index.settings
    conditions = _conditions(asked, settings)
    matching = [
        identifier
        for identifier, document in index.documents.items()
        if all(any(_passes_all(document, tests) for tests in alternatives) for alternatives in conditions)
    ]
    terms = _terms(asked["q"])
    tests = [_test(term, index.vocabulary(), settings["typoTolerance"]) for term in terms]
    strict = set(settings["typoTolerance"]["disableOnAttributes"])
    ranked = []
    for identifier in matching:
        score = _score(tests, index.words[identifier], settings["searchableAttributes"], strict)
        if score is not None:
            ranked.append((score, identifier))
    orders = _orders(asked, settings)
    # Python's sort is stable: the last order first.
    for name, descending, _ in reversed(orders):
        present = [one for one in ranked if index.documents[one[1]].get(name) is not None]
        absent = [one for one in ranked if index.documents[one[1]].get(name) is None]
        present.sort(key=lambda one: index.documents[one[1]][name], reverse=descending)
        ranked = present + absent
    ranked.sort(key=lambda one: one[0])
    bound = settings["pagination"]["maxTotalHits"]
    offset = asked.get("offset", 0)
    page = ranked[: min(bound, offset + asked["limit"])][offset:]
    hits = []
    for score, identifier in page:
        hit = _shown(index.documents[identifier], asked, settings)
        if asked.get("showRankingScoreDetails"):
            hit["_rankingScoreDetails"] = {
                **(_details(score) if terms else {}),
                **{written: {"value": index.documents[identifier].get(name)} for name, _, written in orders},
            }
        hits.append(hit)
    return {"hits": hits, "estimatedTotalHits": len(ranked), "processingTimeMs": 0}


def _shown(document: dict[str, Any], asked: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    shown = settings["displayedAttributes"]
    return {
        name: value
        for name, value in document.items()
        if name in asked.get("attributesToRetrieve", document) and ("*" in shown or name in shown)
    }


_Score = tuple[int, int, int, int]


def _details(score: _Score) -> dict[str, dict[str, float]]:
    names = ("typo", "exactness", "attributeRank", "proximity")
    return {name: {"score": 1 / (1 + cost)} for name, cost in zip(names, score, strict=True)}


def _conditions(asked: dict[str, Any], settings: dict[str, Any]) -> list[list[list[re.Match[str]]]]:
    """All of the filter must hold, of each entry one alternative, of an alternative all its tests."""
    conditions = []
    for entry in asked.get("filter", []):
        alternatives = []
        for written in [entry] if isinstance(entry, str) else entry:
            tests = [_FILTER.fullmatch(test) for test in written.split(" AND ")]
            known = [test for test in tests if test and test[1] in settings["filterableAttributes"]]
            if len(known) < len(tests):
                raise Failed("invalid_search_filter")
            alternatives.append(known)
        conditions.append(alternatives)
    return conditions


def _passes_all(document: dict[str, Any], tests: Sequence[re.Match[str]]) -> bool:
    return all(_passes(document, test) for test in tests)


def _passes(document: dict[str, Any], match: re.Match[str]) -> bool:
    name, test, wanted, listed = match.groups()
    value = document.get(name)
    if test == "IS NULL":
        return name in document and value is None
    if test == "NOT EXISTS":
        return name not in document
    values = value if isinstance(value, list) else [value]
    if listed is not None:
        lowered = {one.lower() for one in listed.split(", ")}
        return any(isinstance(entry, str) and entry.lower() in lowered for entry in values)
    return any(_compares(test.split()[0], entry, wanted) for entry in values)


def _compares(sign: str, entry: Any, wanted: str) -> bool:
    if isinstance(entry, str):
        one, other = entry.lower(), wanted.lower()
        if sign == "STARTS":
            return one.startswith(other)
        return {"=": one == other, "<": one < other, ">": one > other}[sign]
    if isinstance(entry, int | float) and sign != "STARTS":
        number = float(wanted)
        return {"=": entry == number, "<": entry < number, ">": entry > number}[sign]
    return False


def _orders(asked: dict[str, Any], settings: dict[str, Any]) -> list[tuple[str, bool, str]]:
    orders = []
    for rule in settings["rankingRules"]:
        for order in asked.get("sort", []) if rule == "sort" else [rule] if ":" in rule else []:
            name, direction = order.split(":")
            if rule == "sort" and name not in settings["sortableAttributes"]:
                raise Failed("invalid_search_sort")
            orders.append((name, direction == "desc", order))
    return orders


@dataclass(frozen=True)
class _Term:
    words: tuple[str, ...]
    is_phrase: bool
    is_open: bool


def _terms(query: str) -> list[_Term]:
    found = list(_TERM.finditer(query))[:10]
    return [
        _Term(tuple(match[1].split()), True, False)
        if match[2] is None
        else _Term((match[2],), False, match.end() == len(query))
        for match in found
    ]


_Test = tuple[_Term, "dict[str, tuple[int, int]]"]


def _test(term: _Term, vocabulary: set[str], tolerance: dict[str, Any]) -> _Test:
    """The words that a term matches, each with its typos and whether it is only begun."""
    if term.is_phrase:
        return term, {}
    word = term.words[0]
    sizes = tolerance["minWordSizeForTypos"]
    allowed = (len(word) >= sizes["oneTypo"]) + (len(word) >= sizes["twoTypos"])
    allowed = allowed if tolerance["enabled"] else 0
    matches: dict[str, tuple[int, int]] = {}
    for other in vocabulary:
        if other == word:
            matches[other] = (0, 0)
        elif term.is_open and other.startswith(word):
            matches[other] = (0, 1)
        elif allowed and len(other) >= len(word) - allowed:
            if not term.is_open and len(other) > len(word) + allowed:
                continue
            typos = _distance(word, other, begun=term.is_open) + (other[0] != word[0])
            if typos <= allowed:
                matches[other] = (typos, 1)
    return term, matches


def _distance(one: str, other: str, *, begun: bool) -> int:
    """Edits between two words, swapped neighbours being one; or the fewest to what the other begins with."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, start=1):
        row = [i]
        for j, across in enumerate(other, start=1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != across))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == across:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return min(rows[-1]) if begun else rows[-1][-1]


def _score(
    tests: Sequence[_Test], words: dict[str, list[str]], attributes: Sequence[str], strict: set[str]
) -> _Score | None:
    """Fewer typos, exact before begun, earlier fields, closer together: smaller is better."""
    typos = begun = rank = 0
    places: list[dict[int, list[tuple[int, int]]]] = []
    for term, matches in tests:
        found: dict[int, list[tuple[int, int]]] = {}
        best: tuple[int, int, int] | None = None
        for number, name in enumerate(attributes):
            for at, length, costs in _hits(term, matches, words.get(name, [])):
                if costs[0] and name in strict:
                    continue
                found.setdefault(number, []).append((at, length))
                best = min(best or (*costs, number), (*costs, number))
        if best is None:
            return None
        places.append(found)
        typos, begun, rank = typos + best[0], begun + best[1], max(rank, best[2])
    terms = [term for term, _ in tests]
    exactness = _exactness(terms, words) if not typos else 2
    apart = sum(
        _apart(*pair, is_ordered=left.is_phrase or right.is_phrase)
        for pair, (left, right) in zip(itertools.pairwise(places), itertools.pairwise(terms), strict=True)
    )
    return typos, exactness * 16 + begun, rank, apart


def _exactness(terms: Sequence[_Term], words: dict[str, list[str]]) -> int:
    """0: a field is the query; 1: one begins with it; 2: neither."""
    asked = [word for term in terms for word in term.words]
    if any(field == asked for field in words.values()):
        return 0
    return 1 if any(field[: len(asked)] == asked for field in words.values()) else 2


def _apart(
    one: dict[int, list[tuple[int, int]]], other: dict[int, list[tuple[int, int]]], *, is_ordered: bool
) -> int:
    """How far neighbours of the query stand apart; phrases are near in the order of the query only."""
    distances = [
        right - (left + length - 1) if right > left else left - right + 1
        for number in one.keys() & other.keys()
        for left, length in one[number]
        for right, _ in other[number]
        if right > left or not is_ordered
    ]
    return min([8, *distances])


def _hits(
    term: _Term, matches: dict[str, tuple[int, int]], words: list[str]
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Yield where a term stands, how many words it spans, and what it costs."""
    if not term.is_phrase:
        for at, word in enumerate(words):
            if word in matches:
                yield at, 1, matches[word]
        return
    length = len(term.words)
    if not set(term.words) <= set(words):
        return
    for start in range(len(words) - length + 1):
        if tuple(words[start : start + length]) == term.words:
            yield start, length, (0, 0)
