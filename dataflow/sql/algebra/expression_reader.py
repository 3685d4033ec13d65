"""Reading: the JSON of expressions, and of the conditions of scans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.operations import Expression, SqlType
from deltamark.dataflow.sql.problems import UNKNOWN_PLACE, unsupported

Json = Mapping[str, Any]

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


def expression(node: Json) -> Expression:
    """Read an expression."""
    place = place_of(node)
    match node["expression_class"]:
        case "BOUND_REF":
            return Expression("column", sql_type(node["return_type"]), value=node["index"], place=place)
        case "BOUND_CONSTANT":
            return _constant(node["value"], place)
        case "BOUND_CASE":
            checks = [expression(check[each]) for check in node["case_checks"] for each in ("when_expr", "then_expr")]
            args = (*checks, expression(node["else_expr"]))
            return Expression("case", sql_type(node["return_type"]), args, place=place)
        case "BOUND_FUNCTION" | "BOUND_OPERATOR" | "BOUND_CONJUNCTION" | "BOUND_COMPARISON":
            return _operation(node, place)
        case "BOUND_CAST":
            return Expression("cast", sql_type(node["return_type"]), (expression(node["child"]),), place=place)
        case "BOUND_WINDOW":
            raise unsupported("a window function", place)
    name = node["expression_class"].removeprefix("BOUND_").lower()
    raise unsupported(f"an expression of kind {name}", place)


def _operation(node: Json, place: int | None) -> Expression:
    name = node["qname"]["path"][-1] if node.get("qname") else node["type"].lower()
    op = OPERATORS.get(node["type"], name)
    if op == "cast" and (node.get("function_data") or {}).get("try_cast"):
        op = "TRY_CAST"
    type_ = sql_type(node["return_type"]) if "return_type" in node else BOOLEAN
    args = tuple(map(expression, node["children"]))
    if op == "__between":
        return _between(args, node["function_data"], place)
    return Expression(op, type_, args, place=place)


def _between(args: Sequence[Expression], ends: Json, place: int | None) -> Expression:
    """Return the two comparisons that DuckDB has merged, of which each may be strict."""
    value, low, high = args
    above = Expression(">=" if ends["lower_inclusive"] else ">", BOOLEAN, (value, low), place=place)
    below = Expression("<=" if ends["upper_inclusive"] else "<", BOOLEAN, (value, high), place=place)
    return Expression("and", BOOLEAN, (above, below), place=place)


def _constant(value: Json, place: int | None = None) -> Expression:
    type_ = sql_type(value["type"])
    return Expression("constant", type_, value=None if value["is_null"] else _value(value["value"]), place=place)


def table_filters(filters: Json) -> Iterator[Expression]:
    for each in filters.get("filters", []):
        yield from _table_filter(each["value"], [each["key"]])
    for each in filters.get("multi_column_filters", []):
        yield from _table_filter(each, each["column_indexes"])


def _table_filter(each: Json, at: Sequence[int]) -> Iterator[Expression]:
    """Read a condition of a scan on columns at some positions. Filters that only save reading are left out."""
    of = algebra.column(at[0])
    match each["filter_type"]:
        case "LEGACY_CONSTANT_COMPARISON":
            constant = _constant(each["constant"])
            yield Expression(COMPARISONS[each["comparison_type"]], BOOLEAN, (of, constant))
        case "LEGACY_IS_NULL":
            yield Expression("is null", BOOLEAN, (of,))
        case "LEGACY_IS_NOT_NULL":
            yield Expression("is not null", BOOLEAN, (of,))
        case "LEGACY_IN_FILTER":
            yield Expression("in", BOOLEAN, (of, *map(_constant, each["values"])))
        case "LEGACY_CONJUNCTION_AND":
            children = [part for child in _children(each) for part in _table_filter(child, at)]
            yield from _with_prefix(children)
        case "LEGACY_CONJUNCTION_OR":
            choices = [list(_table_filter(child, at)) for child in _children(each)]
            yield Expression("or", BOOLEAN, tuple(map(_all_of, choices)))
        case "EXPRESSION_FILTER":
            yield expression(each["expr"]).with_columns(lambda key: algebra.column(at[cast("int", key)]))
        case "LEGACY_OPTIONAL_FILTER" | "LEGACY_DYNAMIC_FILTER":
            return
        case other:
            raise unsupported(f"a filter of kind {other}")


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
    """Return a constant; an integer of 128 bits is given in two halves."""
    if isinstance(value, Mapping) and value.keys() == {"upper", "lower"}:
        return (value["upper"] << 64) + value["lower"]
    return value


def sql_type(type_: Json) -> SqlType:
    info = type_.get("type_info") or {}
    if info.get("collation"):
        raise unsupported("COLLATE", pattern=r"\bcollate\b")
    return SqlType(type_["id"], info.get("scale", 0))


def place_of(node: Json) -> int | None:
    place = node.get("query_location", UNKNOWN_PLACE)
    return None if place == UNKNOWN_PLACE else int(place)
