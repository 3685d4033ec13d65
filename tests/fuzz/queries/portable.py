"""The constructs of random queries that have one meaning in the SQL of all engines.

Division and remainders, rounding, casts, `greatest` of NULL, most functions of texts, and intervals differ between
dialects. No text for engines of others has them, because a difference from DuckDB would be no fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuzz.queries.parts import Part, placed, without
from fuzz.queries.values import OF_OUTER

SIGNS = ("=", "<", ">", "<=", ">=", "<>")

PORTABLE = frozenset({
    "column", "literal", "NULL", "SELECT", "DISTINCT", "FILTER", "HAVING", "ORDER BY LIMIT",
    "GROUP BY", "GROUP BY of an expression", "aggregates of all rows", "count(*)", "count(x)", "count(DISTINCT x)",
    "sum", "sum(DISTINCT", "min", "max", "avg(x)", "avg(DISTINCT x)", "avg(x) of decimals",
    "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "comma join", "condition in ON", "joined in WHERE",
    *(f"joined by {sign}" for sign in SIGNS), "derived table", "CTE", "CTE used twice",
    "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL",
    *SIGNS, "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "BETWEEN", "NOT BETWEEN", "two bounds", "IN list",
    "NOT IN list", "NULL in a list", "LIKE", "NOT LIKE", "IS NULL", "IS NOT NULL", "literal condition", "AND", "OR",
    "NOT", "int compared with decimal",
    *(f"{no}{kind}{of}" for no in ("", "NOT ") for kind in ("EXISTS", "IN query") for of in ("", ", correlated")),
    "scalar subquery", "scalar subquery, correlated", OF_OUTER,
    *(f"correlated by {sign}" for sign in SIGNS),
    "+", "-", "*", "negation", "abs", "CASE", "CASE x WHEN", "coalesce", "nullif", "upper", "lower",
    *(f"{name} OVER" for name in ("row_number()", "rank()", "dense_rank()", "sum", "count", "min", "max")),
    "lag OVER", "lead OVER", "ROWS", "whole partition",
})  # fmt: skip

NEVER = frozenset({
    "SEMI JOIN", "ANTI JOIN", "LATERAL", "VALUES", "range", "many joins", "WITH RECURSIVE", "QUALIFY", "ROLLUP", "CUBE",
    "GROUPING SETS", "DISTINCT ON", "USING", "AS MATERIALIZED", "AS NOT MATERIALIZED", "SELECT *", "unsupported",
    "nested set operation", "parentheses of a set operation", "float", "wide", "moment", "zoned",
})  # fmt: skip
"""Choices of the generator that no text for engines of others has, some of which are sorts of values."""

LETTERS = "abpdsx"
"""The beginnings of the names of columns that the protocol has types for."""

WHOLE = ("CTE used twice", "SELECT", "column", "literal")
"""Constructs that are no features: they are in most texts, or follow from others."""


def portable(query: Part, avoided: frozenset[str]) -> Part | None:
    """Return a query with portable parts in the places of others, and of avoided ones; None if it has none."""

    def is_bad(part: Part, clause: str) -> bool:
        names = _names(part, clause)
        is_known = not part.construct or part.construct in PORTABLE
        return part.sort in NEVER or not is_known or not avoided.isdisjoint(names)

    found = without(query, is_bad)
    return None if found is None else _with_nulls_last(found)


def _with_nulls_last(part: Part) -> Part:
    """Write the place of NULL in an order, which differs between engines."""
    pieces = tuple(each if isinstance(each, str) else _with_nulls_last(each) for each in part.pieces)
    if part.sort == "order" and "NULLS" not in str(part):
        pieces = (*pieces, " NULLS LAST")
    return replace(part, pieces=pieces)


def first_rows(query: Part) -> Iterator[Part]:
    """Yield the parts of a query that are the first rows of another."""
    return (part for part, _ in placed(query) if part.construct == "ORDER BY LIMIT")


def is_total(ordered: Part) -> bool:
    """Return whether the order of the first rows has all columns: otherwise any of equal rows may be among them.

    It has when the query is drawn. Columns of the order may have been left out since then, to make the text smaller.
    """
    given, _, order = ordered.pieces[:3]
    assert isinstance(given, Part)
    assert isinstance(order, Part)
    return {each.pieces[0] for _, each in order.parts()} == {str(at) for at in range(1, _width(given) + 1)}


def _width(query: Part) -> int:
    """Count the columns of a query, which are its first list; 0 if it has none."""
    if query.sort == "list":
        return len(list(query.parts()))
    return next((width for _, each in query.parts() if (width := _width(each))), 0)


def features(query: Part) -> Iterator[str]:
    """Yield the features of a query: its constructs, and those of conditions with the clause that they stand in."""
    for part, clause in placed(query):
        yield from _names(part, clause)


def _names(part: Part, clause: str) -> list[str]:
    if not part.construct or part.construct in WHOLE:
        return []
    return [part.construct, f"{part.construct} in {clause}"] if part.sort == "truth" else [part.construct]
