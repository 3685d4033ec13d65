"""Reading: the JSON of expressions, and of the conditions of scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.operations import UNKNOWN, AggregateCall, Expression, Interval, SqlType
from deltamark.dataflow.sql.fragments import Json
from deltamark.dataflow.sql.problems import SqlError, unsupported
from deltamark.dataflow.sql.written import SEVERAL_ROWS, Place, Written

COMPARISONS = {
    "COMPARE_EQUAL": "=", "COMPARE_NOTEQUAL": "<>", "COMPARE_LESSTHAN": "<", "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">", "COMPARE_GREATERTHANOREQUALTO": ">=", "COMPARE_DISTINCT_FROM": "distinct",
    "COMPARE_NOT_DISTINCT_FROM": "not distinct",
}  # fmt: skip
OPERATORS = {
    "OPERATOR_NOT": "not", "OPERATOR_IS_NULL": "is null", "OPERATOR_IS_NOT_NULL": "is not null",
    "OPERATOR_COALESCE": "coalesce", "COMPARE_IN": "in", "COMPARE_NOT_IN": "not in", "CONJUNCTION_AND": "and",
    "CONJUNCTION_OR": "or", "OPERATOR_CAST": "cast", **COMPARISONS,
}  # fmt: skip
BOOLEAN = SqlType("BOOLEAN")

MADE_AGGREGATES = {
    "combine_aggr": ("GROUPING SETS, ROLLUP or CUBE",),
    "first": (SEVERAL_ROWS, "DISTINCT ON"),
    "arg_max": ("the aggregate mode",),
    "arg_min_nulls_last": ("a window function", "a correlated LIMIT above 1"),
    "arg_max_nulls_last": ("a window function", "a correlated LIMIT above 1"),
}
"""Aggregates that DuckDB makes of other constructs."""


class ExpressionReader:
    """Reads the expressions of one plan. written: the text that it is the plan of."""

    def __init__(self, written: Written) -> None:
        self._written = written

    def expression(self, node: Json, around: Place | None = None) -> Expression:
        """Read an expression. One that is not supported becomes the operation `refused`, so that reading goes on.

        around: the place of the expression of which it is a part.
        """
        place = self._written.expression(node, around)
        try:
            return self._read(node, place)
        except SqlError as error:
            return Expression("refused", UNKNOWN, value=error, place=place)

    def join_condition(self, node: Json, wide: int) -> Expression:
        """Read a comparison of both sides of a join, or a condition on the columns of both. wide: the left columns."""
        if "comparison" not in node or node.get("right") is None:
            return self.expression(node.get("left") or node["expression"])
        left, right = self._all([node["left"], node["right"]])
        place = self._written.expression({"type": node["comparison"], "sides": [node["left"], node["right"]]})
        right = right.with_columns(lambda key: algebra.column(wide + cast("int", key)))
        return Expression(COMPARISONS[node["comparison"]], BOOLEAN, (left, right), place=place)

    def call(self, node: Json, tables: Callable[[], frozenset[str]]) -> AggregateCall:
        """Read a call of an aggregate. tables: returns those of the rows that it reads."""
        args = self._all(node["children"])
        condition = self.expression(node["filter"]) if node.get("filter") else None
        place = self._written.expression(node)
        name, type_ = node["qname"]["path"][-1], self.type_of(node["return_type"])

        def construct() -> tuple[str, Place]:
            if place.exact or name not in MADE_AGGREGATES:
                return f"the aggregate {place.exact.name if place.exact else name}", place
            return self._written.construct(MADE_AGGREGATES[name], tables)

        return AggregateCall(name, args, type_, node["aggregate_type"] == "DISTINCT", condition, place, construct)

    def _all(self, nodes: Sequence[Json], around: Place | None = None) -> tuple[Expression, ...]:
        return tuple(self.expression(each, around) for each in nodes)

    def _read(self, node: Json, place: Place) -> Expression:
        match node["expression_class"]:
            case "BOUND_REF":
                return Expression("column", self.type_of(node["return_type"]), value=node["index"])
            case "BOUND_CONSTANT":
                return self._constant(node["value"], place)
            case "BOUND_CASE":
                checks = [check[each] for check in node["case_checks"] for each in ("when_expr", "then_expr")]
                args = self._all([*checks, node["else_expr"]], place)
                return Expression("case", self.type_of(node["return_type"]), args, place=place)
            case "BOUND_FUNCTION" | "BOUND_OPERATOR" | "BOUND_CONJUNCTION" | "BOUND_COMPARISON":
                return self._operation(node, place)
            case "BOUND_CAST":
                args = self._all([node["child"]], place)
                return Expression("cast", self.type_of(node["return_type"]), args, place=place)
        name = node["expression_class"].removeprefix("BOUND_").lower()
        raise unsupported(f"an expression of kind {name}", place)

    def _operation(self, node: Json, place: Place) -> Expression:
        name = node["qname"]["path"][-1] if node.get("qname") else node["type"].lower()
        op = OPERATORS.get(node["type"], name)
        if op == "cast" and (node.get("function_data") or {}).get("try_cast"):
            op = "TRY_CAST"
        type_ = self.type_of(node["return_type"]) if "return_type" in node else BOOLEAN
        args = self._all(node["children"], place)
        if op == "__between":
            return _between(args, node["function_data"], place)
        return Expression(op, type_, args, place=place)

    def _constant(self, value: Json, place: Place | None = None) -> Expression:
        known = None if value["is_null"] else _value(value["value"])
        return Expression("constant", self.type_of(value["type"]), value=known, place=place)

    def type_of(self, type_: Json) -> SqlType:
        info = type_.get("type_info") or {}
        if info.get("collation"):
            raise unsupported(*self._written.construct(["COLLATE"]))
        return SqlType(type_["id"], info.get("scale", 0))

    def table_filters(self, filters: Json) -> Iterator[Expression]:
        """Read the conditions of a scan."""
        for each in filters.get("filters", []):
            yield from self._table_filter(each["value"], [each["key"]])
        for each in filters.get("multi_column_filters", []):
            yield from self._table_filter(each, each["column_indexes"])

    def _table_filter(self, each: Json, at: Sequence[int]) -> Iterator[Expression]:
        """Read a condition of a scan on columns at some positions. Filters that only save reading are left out."""
        of = algebra.column(at[0])
        match each["filter_type"]:
            case "LEGACY_CONSTANT_COMPARISON":
                constant = self._constant(each["constant"])
                yield Expression(COMPARISONS[each["comparison_type"]], BOOLEAN, (of, constant))
            case "LEGACY_IS_NULL":
                yield Expression("is null", BOOLEAN, (of,))
            case "LEGACY_IS_NOT_NULL":
                yield Expression("is not null", BOOLEAN, (of,))
            case "LEGACY_IN_FILTER":
                yield Expression("in", BOOLEAN, (of, *map(self._constant, each["values"])))
            case "LEGACY_CONJUNCTION_AND":
                children = [part for child in _children(each) for part in self._table_filter(child, at)]
                yield from _with_prefix(children)
            case "LEGACY_CONJUNCTION_OR":
                choices = [list(self._table_filter(child, at)) for child in _children(each)]
                yield Expression("or", BOOLEAN, tuple(map(_all_of, choices)))
            case "EXPRESSION_FILTER":
                yield self.expression(each["expr"]).with_columns(lambda key: algebra.column(at[cast("int", key)]))
            case "LEGACY_OPTIONAL_FILTER" | "LEGACY_DYNAMIC_FILTER":
                return
            case other:
                yield Expression("refused", BOOLEAN, value=unsupported(f"a filter of kind {other}"))


def _between(args: Sequence[Expression], ends: Json, place: Place) -> Expression:
    """Return the two comparisons that DuckDB has merged, of which each may be strict."""
    value, low, high = args
    above = Expression(">=" if ends["lower_inclusive"] else ">", BOOLEAN, (value, low), place=place)
    below = Expression("<=" if ends["upper_inclusive"] else "<", BOOLEAN, (value, high), place=place)
    return Expression("and", BOOLEAN, (above, below), place=place)


def _children(of: Json) -> Iterator[Json]:
    """Yield the filters that an AND or an OR connects. DuckDB nests one of n filters in n levels."""
    remaining = [of]
    while remaining:
        each = remaining.pop()
        if each["filter_type"] == of["filter_type"]:
            remaining += reversed(each["child_filters"])
        else:
            yield each


def _all_of(conditions: Sequence[Expression]) -> Expression:
    return conditions[0] if len(conditions) == 1 else Expression("and", BOOLEAN, tuple(conditions))


def _with_prefix(conditions: Sequence[Expression]) -> Iterator[Expression]:
    """Restore the condition that a text begins with a word, which DuckDB makes two comparisons."""
    low = {each.args[1].value: each for each in conditions if each.op == ">=" and each.args[1].type.name == "VARCHAR"}
    high = {each.args[1].value: each for each in conditions if each.op == "<" and each.args[1].type.name == "VARCHAR"}
    for word, each in low.items():
        if isinstance(word, str) and _is_prefix(word) and word[:-1] + chr(ord(word[-1]) + 1) in high:
            other = high[word[:-1] + chr(ord(word[-1]) + 1)]
            yield Expression("prefix", BOOLEAN, each.args)
            conditions = [rest for rest in conditions if rest not in (each, other)]
    yield from conditions


def _is_prefix(word: str) -> bool:
    return bool(word) and not {"%", "_"} & set(word)


def _value(value: Any) -> Any:
    """Return a constant, which can be hashed; an integer of 128 bits is given in two halves."""
    match value:
        case {"upper": upper, "lower": lower}:
            return (upper << 64) + lower
        case {"months": months, "days": days, "micros": micros}:
            return Interval(months, days, micros)
    return value
