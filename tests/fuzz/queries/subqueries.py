"""Random subqueries: scalar ones, and those of EXISTS, IN, ANY and ALL."""

from __future__ import annotations

from dataclasses import replace

from fuzz.queries import conditions, selects, values
from fuzz.queries.parts import NOTHING, Part, clause, listed
from fuzz.queries.writer import Named, Scope, Writer

KINDS = {"exists": 4, "in": 4, "scalar": 3, "quantified": 1, "rows": 1}


OF_ROWS = "scalar subquery of rows"
"""The construct of a subquery that may have several rows. It reads tables alone, so that it can be run by itself."""

FIRST = "scalar subquery with LIMIT 1"
"""The construct of a subquery that takes the first of its rows."""

OF_EACH = "scalar subquery of rows, correlated"
"""The construct of a subquery that may have several rows for a row of the query around."""


def scalar(w: Writer, sort: str, scope: Scope) -> Part:
    """Draw a scalar subquery: an aggregate, the first row by a total order, or rows."""
    if w.chance(5) and (rows := _of_rows(w, sort)) is not None:
        return rows
    outer = _visible(w, scope)
    if outer is not None and w.chance(6) and (rows := _of_each(w, sort, outer)) is not None:
        return rows
    if w.chance(20):
        query, _ = selects.ordered(w, [sort], outer, scope.nest - 1, most=1)
        return Part(sort, ("(", query, ")"), FIRST)
    source, rows = selects.source(w, scope.nest - 1)
    if outer is not None and w.chance(25) and (group := _of_a_group(w, sort, outer, (source, rows))) is not None:
        return group
    rows = replace(rows, outer=outer)
    where = selects.where(w, rows)
    grouped = Scope(rows=rows)
    one = _with_aggregate(w, sort, grouped)
    having = NOTHING
    if w.chance(8):
        having = Part("clause", (" HAVING ", conditions.condition(w, grouped, 1)), "HAVING in a scalar subquery")
    pieces = ("(", Part("query", ("SELECT ", one, " FROM ", source, where, having)), ")")
    return Part(sort, pieces, "scalar subquery" if outer is None else "scalar subquery, correlated")


def _of_rows(w: Writer, sort: str) -> Part | None:
    """Draw a column of a table, whose rows may be several."""
    columns = [(name, each, named) for name, named in w.tables for each in named if each.sort == sort]
    if not columns:
        return None
    name, column, named = w.pick(columns)
    scope = Scope(tuple(named))
    where = clause(" WHERE ", conditions.condition(w, scope, 1)) if w.chance(85) else NOTHING
    return Part(sort, ("(", Part("query", (f"SELECT {column.text} FROM {name}", where)), ")"), OF_ROWS)


def _of_each(w: Writer, sort: str, outer: Scope) -> Part | None:
    """Draw a column of the rows of a table that match a row of the query around, which may be several."""
    name, named = w.pick(w.tables)
    alias = w.fresh("z")
    columns = [Named(f"{alias}.{each.text}", each.sort) for each in named]
    pairs, of = selects.pairs_of(columns, outer.columns), [each.text for each in columns if each.sort == sort]
    if not pairs or not of:
        return None
    tests = [Part("truth", (f"{one.text} = {other.text}",)) for one, other in w.choices.picks(pairs, least=1, most=3)]
    query = Part("query", (f"SELECT {w.pick(of)} FROM {name} AS {alias} WHERE ", listed(tests, " AND ")))
    return Part(sort, ("(", query, ")"), OF_EACH)


def _of_a_group(w: Writer, sort: str, outer: Scope, given: tuple[Part, Scope]) -> Part | None:
    """Draw an aggregate of the group of a column of the query around: NULL if there is no such group."""
    source, rows = given
    pairs = selects.pairs_of(rows.columns, outer.columns)
    if not pairs:
        return None
    key, other = w.pick(pairs)
    tests = listed([*rows.links, Part("truth", (f"{key.text} = {other.text}",))], " AND ")
    one = _with_aggregate(w, sort, Scope(rows=rows.flat()))
    query = Part("query", ("SELECT ", one, " FROM ", source, " WHERE ", tests, f" GROUP BY {key.text}"))
    return Part(sort, ("(", query, ")"), "scalar subquery of a group")


def _with_aggregate(w: Writer, sort: str, grouped: Scope) -> Part:
    """Draw an aggregate, or an expression of two: a subquery without any would have several rows."""
    one = values.aggregate(w, sort, grouped.rows)
    if w.chance(75):
        return one
    return Part(sort, ("coalesce(", one, ", ", values.value(w, sort, grouped, 2), ")"), "coalesce")


def _visible(w: Writer, scope: Scope) -> Scope | None:
    """Return the scope that a subquery sees, or None for one that is not correlated."""
    columns = scope.columns
    if scope.outer is not None and w.chance(40):
        columns = (*columns, *scope.outer.columns)
    return Scope(columns) if columns and w.chance(70) else None


def condition(w: Writer, scope: Scope) -> Part:
    """Draw a condition with a subquery."""
    return {"exists": _exists, "in": _in, "scalar": _compared, "quantified": _quantified, "rows": _in_rows}[
        w.weighted(KINDS)
    ](w, scope)


def _exists(w: Writer, scope: Scope) -> Part:
    no = w.pick(["", "NOT "])
    outer = _visible(w, scope)
    query, _ = selects.select(w, None, outer, scope.nest - 1)
    if w.chance(60):
        source, rows = selects.source(w, scope.nest - 1)
        query = Part("query", ("SELECT 1 FROM ", source, selects.where(w, replace(rows, outer=outer))))
    return Part("truth", (f"({no}EXISTS (", query, "))"), f"{no}EXISTS{_of(outer)}")


def _of(outer: Scope | None) -> str:
    return "" if outer is None else ", correlated"


def _in(w: Writer, scope: Scope) -> Part:
    sort, (one,) = conditions.operands(w, replace(scope, nest=0), 1, 1)
    no, outer = w.pick(["", "NOT "]), _visible(w, scope)
    query, _ = selects.query(w, [sort], outer, scope.nest - 1)
    if outer is not None and _has_scalar_of_rows(query):
        outer, (query, _) = None, selects.query(w, [sort], None, scope.nest - 1)
    return Part("truth", ("(", one, f" {no}IN (", query, "))"), f"{no}IN query{_of(outer)}")


def _has_scalar_of_rows(query: Part) -> bool:
    """Return whether a query has a scalar subquery of rows, for which DuckDB answers a correlated IN wrongly."""
    return any(any(query.of_construct(each)) for each in (OF_ROWS, FIRST))


def _in_rows(w: Writer, scope: Scope) -> Part:
    """Draw an IN of two columns, not correlated: DuckDB refuses that."""
    sorts, ones = [], []
    for _ in range(2):
        sort, (one,) = conditions.operands(w, replace(scope, nest=0), 0, 1)
        sorts.append(sort)
        ones.append(one)
    no = w.pick(["", "NOT "])
    query, _ = selects.select(w, sorts, None, scope.nest - 1)
    return Part("truth", ("((", listed(ones), f") {no}IN (", query, "))"), f"{no}IN query of two columns")


def _compared(w: Writer, scope: Scope) -> Part:
    sort, (one,) = conditions.operands(w, replace(scope, nest=0), 1, 1)
    return Part("truth", ("(", one, f" {w.weighted(conditions.SIGNS)} ", scalar(w, sort, scope), ")"))


def _quantified(w: Writer, scope: Scope) -> Part:
    sort, (one,) = conditions.operands(w, replace(scope, nest=0), 1, 1)
    which, outer = w.pick(["ANY", "ALL"]), _visible(w, scope)
    query, _ = selects.select(w, [sort], outer, scope.nest - 1)
    if outer is not None and _has_scalar_of_rows(query):
        outer, (query, _) = None, selects.select(w, [sort], None, scope.nest - 1)
    pieces = ("(", one, f" {w.weighted(conditions.SIGNS)} {which} (", query, "))")
    return Part("truth", pieces, f"compared with {which}{_of(outer)}")
