"""Composing searches over one table. Pure: statements and their arguments out, nothing is run here.

Every condition of a request becomes one tsquery over the ``search`` column (words and filters alike), plus
exact rechecks on columns. Two ways lead to the ordered page, and which is taken depends on how much matches:

*ranked* Fetch all that matches, up to a bound, through the GIN index; count it; sort it. Right while few
match. *walked* Walk the B-tree of the sort column and test each row until the page is full. Right when much
matches (``の``), since then a page fills after a few rows. The tests are written so that no index can serve
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from indexer.engines.postgres.lexemes import all_of, filter_lexeme, words_query
from indexer.engines.postgres.schema import LIST_FIELDS, Table, filter_column, quoted, sort_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.engines.base import SearchRequest
    from indexer.engines.text import Query


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL and the values of its parameters."""

    sql: str
    arguments: Sequence[Any]


@dataclass(slots=True)
class _Arguments:
    values: list[Any] = field(default_factory=list)

    def add(self, value: Any) -> str:
        self.values.append(value)
        return f"${len(self.values)}"


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A request over one table, ready to be written as statements.

    ``tiers`` are tsqueries from the best match to the loosest; each contains the one before. A document
    belongs to the first that it matches, and documents of better tiers come first. Empty text matches
    everything.
    """

    table: Table
    request: SearchRequest
    tiers: tuple[str, ...]
    substrings: tuple[str, ...]
    shown: str = "document"
    """The column that hits are answered with."""

    @property
    def is_unconditional(self) -> bool:
        """Whether everything matches."""
        return not self.tiers[-1]

    def ranked(self, tier: int | None, offset: int, limit: int, bound: int) -> Statement:
        """Count up to ``bound`` matches; when there are fewer, also return the page.

        ``tier`` restricts to one tier; None takes all, best first. Rows are (total, document); document is
        null where the page is empty.
        """
        arguments = _Arguments()
        where = self._where(arguments, tier, indexed=True)
        better = "0"
        if tier is None and len(self.tiers) > 1:
            tests = " ".join(
                f"when search @@ {arguments.add(query)}::text::tsquery then {number}"
                for number, query in enumerate(self.tiers[:-1])
            )
            better = f"case {tests} else {len(self.tiers) - 1} end"
        bound_at = arguments.add(bound)
        page = f"limit {arguments.add(limit)} offset {arguments.add(offset)}"
        order = f"tier, value {self._direction} nulls last, key" if self._sort_column else "tier, key"
        sql = f"""
            with matched as materialized (
                select id, key, {self._sort_column or "null"} as value, {better} as tier
                from {self.table.qualified} where {where} limit {bound_at}
            ), counted as (
                select count(*) as total from matched
            ), page as (
                select id, row_number() over (order by {order}) as place from matched
                where (select total from counted) < {bound_at} order by {order} {page}
            )
            select counted.total, stored.{self.shown} as document
            from counted
            left join page on true
            left join {self.table.qualified} as stored on stored.id = page.id
            order by page.place"""  # noqa: S608 - names of ours, values are parameters
        return Statement(sql, arguments.values)

    def among(self, ids: Sequence[str]) -> Statement:
        """Return the ids of those documents that match, in order."""
        arguments = _Arguments()
        given = f"{arguments.add(ids)}::text[]"
        where = self._where(arguments, None, indexed=False)
        better = " ".join(
            f"when search @@ {arguments.add(query)}::text::tsquery then {number}"
            for number, query in enumerate(self.tiers[:-1])
            if query
        )
        tier = f"case {better} else {len(self.tiers)} end, " if better else ""
        value = f"{self._sort_column} {self._direction} nulls last, " if self._sort_column else ""
        sql = (
            f"select id from {self.table.qualified} "  # noqa: S608 - names of ours, values are parameters
            f"where id = any({given}) and {where} order by {tier}{value}key"
        )
        return Statement(sql, arguments.values)

    def walked(self, tier: int, *, missing: bool, offset: int, limit: int) -> Statement:
        """Return documents of one tier in order: those that have the sort field, or those that lack it."""
        arguments = _Arguments()
        where = self._where(arguments, tier, indexed=False)
        # Without nulls, "nulls last" would only keep the planner from walking the index backwards.
        order = "key" if missing or not self._sort_column else f"{self._sort_column} {self._direction}, key"
        page = f"limit {arguments.add(limit)} offset {arguments.add(offset)}"
        sql = (
            f"select {self.shown} as document from {self.table.qualified} "  # noqa: S608 - names of ours
            f"where {where} and {self._presence(missing=missing)} order by {order} {page}"
        )
        return Statement(sql, arguments.values)

    def counted(self, tier: int, *, bound: int, present_only: bool = False) -> Statement:
        """Count the documents of one tier, up to ``bound``."""
        arguments = _Arguments()
        where = self._where(arguments, tier, indexed=True)
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

    def _where(self, arguments: _Arguments, tier: int | None, *, indexed: bool) -> str:
        conditions = ["true"]
        loosest = self.tiers[-1 if tier is None else tier]
        if loosest:
            test = f"search @@ {arguments.add(loosest)}::text::tsquery"
            conditions.append(test if indexed else f"({test}) is true")
        if tier:
            conditions.append(f"not (search @@ {arguments.add(self.tiers[tier - 1])}::text::tsquery)")
        for name, value in self.request.filters.items():
            column, at = quoted(filter_column(name)), arguments.add(value)
            conditions.append(f"{column} @> array[{at}]" if name in LIST_FIELDS else f"{column} = {at}")
        if self.substrings:
            patterns = [f"%{substring}%" for substring in self.substrings]
            conditions.append(f"runs like all({arguments.add(patterns)}::text[])")
        return " and ".join(conditions)


def plan_search(table: Table, request: SearchRequest, query: Query, *, shown: str = "document") -> TablePlan:
    """Plan a request whose query has been cut. Fields must be filterable and sortable ones of the table."""
    definition = table.definition
    filters = all_of(
        *(
            filter_lexeme_query(definition.filterable.index(name), value)
            for name, value in request.filters.items()
        )
    )
    fields = len(definition.searchable)
    exact = all_of(words_query(query, fields, with_prefix=False), filters)
    loosest = all_of(words_query(query, fields, with_prefix=True), filters)
    return TablePlan(
        table=table,
        request=request,
        tiers=(exact,) if exact == loosest else (exact, loosest),
        substrings=tuple(term.substring for term in query.terms if term.substring is not None),
        shown=shown,
    )


def filter_lexeme_query(position: int, value: str) -> str:
    """Write a filter as a tsquery."""
    return f"'{filter_lexeme(position, value)}'"
