"""Composing searches over one table. Pure: statements and their arguments out, nothing is run here.

Matches are ranked by *steps*, best first, and every step is a condition: more words before fewer, then exact
before beginnings before typos, then earlier fields before later ones, then words that stand close together. A
document belongs to the first step that it meets; its rank is the number of that step. Steps form a tree of
:class:`Span` (all words, some words; of these the exact ones, ...), so that a rank is found with few tests,
and so that a page of very many matches is looked for in the best part alone.

Every condition becomes one tsquery over the ``search`` column (words and filters alike), plus exact rechecks
on columns. Three ways lead to the ordered page, and which is taken depends on how much a span matches:

* *ranked*: fetch all that matches, up to a bound, through the GIN index; count it; rank it; sort it. Right
  while few match.
* *peeked*: test the next rows in the asked order. Enough for a page, where a step matches one row in fifty.
* *walked*: walk the B-tree of the sort column and test each row until the page is full. Right when much
  matches (``の``), since then a page fills after a few rows. The tests are written so that no index can serve
  them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from indexer.engines.postgres.lexemes import all_of, filter_lexeme
from indexer.engines.postgres.schema import LIST_FIELDS, Table, filter_column, quoted, sort_column
from indexer.engines.postgres.steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from indexer.engines.base import SearchRequest
    from indexer.engines.postgres.cursors import Position
    from indexer.engines.postgres.lexemes import Correction
    from indexer.engines.postgres.steps import Span, Test
    from indexer.engines.text import Query


PEEKED: Final = 1_000
"""How many rows in order are looked at before parts are counted."""


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL and the values of its parameters."""

    sql: str
    arguments: Sequence[Any]


@dataclass(slots=True)
class _Arguments:
    values: list[Any] = field(default_factory=list)

    def add(self, value: Any) -> str:
        for number, known in enumerate(self.values, start=1):
            if known is value or (isinstance(value, str) and known == value):
                return f"${number}"
        self.values.append(value)
        return f"${len(self.values)}"


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A request over one table, ready to be written as statements.

    ``root`` spans everything that matches. ``filters`` is the tsquery of the filters, empty without any.
    """

    table: Table
    request: SearchRequest
    root: Span
    filters: str
    shown: str = "document"
    """The column that hits are answered with: the document or the id."""

    @property
    def is_unconditional(self) -> bool:
        """Whether everything matches."""
        return not (self.root.test.words or self.filters)

    def identity(self, span: Span) -> Hashable:
        """What tells a span of this plan from others, whatever page is asked for."""
        return self.table.name, span.test, span.better, tuple(sorted(self.request.filters.items()))

    def ranked(self, span: Span, after: Position | None, offset: int, limit: int, bound: int) -> Statement:
        """Count up to ``bound`` matches of a span; when there are fewer, also return the page of them.

        Rows are (total, rank, value, key, shown); all but the total are null where the page is empty.
        """
        arguments = _Arguments()
        where = self._where(arguments, span, indexed=True)
        bound_at = arguments.add(bound)
        beyond = self._after(arguments, after, ranked=True)
        page = f"limit {arguments.add(limit)} offset {arguments.add(offset)}"
        order = f"rank, value {self._direction} nulls last, key" if self._sort_column else "rank, key"
        rank = self._rank(arguments, span)
        # Only what fits the bound is ranked: patterns over thousands of texts take longer than all the rest.
        told_from = "search, texts" if span.parts else "null as search"
        sql = f"""
            with matched as materialized (
                select id, key, {self._sort_column or "null"} as value, {told_from}
                from {self.table.qualified} where {where} limit {bound_at}
            ), counted as (
                select count(*) as total from matched
            ), ranked as (
                select id, key, value, {rank} as rank from matched
                where (select total from counted) < {bound_at}
            ), page as (
                select id, key, value, rank from ranked where {beyond} order by {order} {page}
            )
            select counted.total, page.rank, page.value, page.key, stored.{self.shown} as shown
            from counted
            left join page on true
            left join {self.table.qualified} as stored on stored.id = page.id
            order by {order.replace("key", "page.key")}"""  # noqa: S608 - names of ours, values are parameters
        return Statement(sql, arguments.values)

    def among(self, ids: Sequence[str]) -> Statement:
        """Return the ids of those documents that match, in order."""
        arguments = _Arguments()
        given = f"{arguments.add(ids)}::text[]"
        where = self._where(arguments, self.root, indexed=False)
        value = f"{self._sort_column} {self._direction} nulls last, " if self._sort_column else ""
        sql = (
            f"select id from {self.table.qualified} "  # noqa: S608 - names of ours, values are parameters
            f"where id = any({given}) and {where} order by ({self._rank(arguments, self.root)}), {value}key"
        )
        return Statement(sql, arguments.values)

    def walked(
        self, span: Span, after: Position | None, *, missing: bool, offset: int, limit: int
    ) -> Statement:
        """Return matches of one step in order: those that have the sort field, or those that lack it.

        Rows are (rank, value, key, shown).
        """
        arguments = _Arguments()
        where = self._where(arguments, span, indexed=False)
        beyond = self._after(arguments, after, ranked=False)
        # Without nulls, "nulls last" would only keep the planner from walking the index backwards.
        order = "key" if missing or not self._sort_column else f"{self._sort_column} {self._direction}, key"
        page = f"limit {arguments.add(limit)} offset {arguments.add(offset)}"
        sql = (
            f"select {span.first} as rank, {self._sort_column or 'null'} as value, key, "  # noqa: S608
            f"{self.shown} as shown from {self.table.qualified} "
            f"where {where} and {self._presence(missing=missing)} and {beyond} order by {order} {page}"
        )
        return Statement(sql, arguments.values)

    def peeked(self, span: Span, after: Position | None, limit: int) -> Statement:
        """Return matches of one step among the next :data:`PEEKED` rows in order that have the sort field.

        Rows are those of :meth:`walked`. Fewer than ``limit`` tell nothing of what comes behind.
        """
        arguments = _Arguments()
        where = self._where(arguments, span, indexed=False)
        beyond = self._after(arguments, after, ranked=False)
        order = f"{self._sort_column} {self._direction}, key"
        sql = (
            f"select {span.first} as rank, {self._sort_column} as value, key, {self.shown} as shown "  # noqa: S608
            f"from (select * from {self.table.qualified} where {self._presence(missing=False)} and {beyond} "
            f"order by {order} limit {PEEKED}) as ahead where {where} "
            f"order by {order} limit {arguments.add(limit)}"
        )
        return Statement(sql, arguments.values)

    def counted(self, span: Span, *, bound: int, present_only: bool = False) -> Statement:
        """Count the matches of a span, up to ``bound``."""
        arguments = _Arguments()
        where = self._where(arguments, span, indexed=True)
        presence = self._presence(missing=False) if present_only else "true"
        sql = (
            f"select count(*) from (select 1 from {self.table.qualified} "  # noqa: S608 - as above
            f"where {where} and {presence} limit {arguments.add(bound)}) as bounded"
        )
        return Statement(sql, arguments.values)

    @property
    def _sort_column(self) -> str | None:
        sort = self.request.sort
        return quoted(sort_column(sort.field)) if sort is not None else None

    @property
    def _direction(self) -> str:
        sort = self.request.sort
        return "desc" if sort is not None and sort.descending else "asc"

    def _presence(self, *, missing: bool) -> str:
        if self._sort_column is None:
            return "true"
        return f"{self._sort_column} is {'null' if missing else 'not null'}"

    def _after(self, arguments: _Arguments, after: Position | None, *, ranked: bool) -> str:
        """Write "comes behind this position", for rows of (rank, value, key) or for rows of the table."""
        if after is None:
            return "true"
        column = "value" if ranked else self._sort_column
        behind = f"key > {arguments.add(after.key)}"
        if self._sort_column and after.value is None:
            behind = f"({column} is null and {behind})"
        elif self._sort_column:
            at = arguments.add(after.value)
            sign = "<" if self._direction == "desc" else ">"
            # The first part is implied by the rest; it is what an index can begin at.
            bounded = f"{column} {sign}= {at} and ({column} {sign} {at} or {behind})"
            behind = f"({column} is null or ({bounded}))" if ranked else f"({bounded})"
        if not ranked:
            return behind
        return f"(rank > {after.rank} or (rank = {after.rank} and {behind}))"

    def _rank(self, arguments: _Arguments, span: Span) -> str:
        """Write the rank of a row that a span matches."""
        if not span.parts:
            return str(span.first)
        *better, last = span.parts
        tests = " ".join(
            f"when {' and '.join(self._conditions(arguments, part.test))} then {self._rank(arguments, part)}"
            for part in better
        )
        return (
            f"case {tests} else {self._rank(arguments, last)} end" if tests else self._rank(arguments, last)
        )

    def _where(self, arguments: _Arguments, span: Span, *, indexed: bool) -> str:
        conditions = ["true"]
        query = all_of(span.test.words, self.filters)
        if query:
            test = f"search @@ {arguments.add(query)}::text::tsquery"
            conditions.append(test if indexed else f"({test}) is true")
        conditions += self._rechecks(arguments, span.test)
        conditions += [f"not ({' and '.join(self._conditions(arguments, test))})" for test in span.better]
        for name, value in self.request.filters.items():
            column, at = quoted(filter_column(name)), arguments.add(value)
            conditions.append(f"{column} @> array[{at}]" if name in LIST_FIELDS else f"{column} = {at}")
        return " and ".join(conditions)

    def _conditions(self, arguments: _Arguments, test: Test) -> Iterator[str]:
        yield f"search @@ {arguments.add(test.words)}::text::tsquery"
        yield from self._rechecks(arguments, test)

    def _rechecks(self, arguments: _Arguments, test: Test) -> Iterator[str]:
        if test.substrings:
            patterns = [f"%{substring}%" for substring in test.substrings]
            yield f"texts like all({arguments.add(patterns)}::text[])"
        for pattern in test.patterns:
            yield f"texts ~ {arguments.add(pattern)}"


def plan_search(
    table: Table,
    request: SearchRequest,
    query: Query,
    corrections: Mapping[str, Sequence[Correction]] | None = None,
    *,
    shown: str = "document",
) -> TablePlan:
    """Plan a request whose query has been cut. Fields must be filterable and sortable ones of the table.

    ``corrections`` tells what mistyped words may mean, by word; ``shown`` is the column of the answer.
    """
    definition = table.definition
    filters = all_of(
        *(
            f"'{filter_lexeme(definition.filterable.index(name), value)}'"
            for name, value in request.filters.items()
        )
    )
    return TablePlan(table, request, steps_of(definition, query, corrections or {}), filters, shown)
