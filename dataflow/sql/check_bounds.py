"""The bounds of columns that CHECK constraints state. DuckDB parses the constraints and evaluates their constants."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from deltamark.dataflow.types import EPOCH, Type, microseconds, stored_double
from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    import duckdb

    from deltamark.dataflow.sql.fragments import Json

FLIPPED = {
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN", "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO", "COMPARE_EQUAL": "COMPARE_EQUAL",
}  # fmt: skip
"""The comparisons that are bounds, with the comparison of exchanged sides."""


PARSERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("int", "double"), Decimal), "date": dt.date.fromisoformat, "time": dt.time.fromisoformat,
    **dict.fromkeys(("timestamp", "timestamptz"), dt.datetime.fromisoformat),
}  # fmt: skip
"""Make values of constants that are written as texts, by the kinds of columns."""


class _NoBoundError(Exception):
    """An expression that is not a conjunction of bounds."""


@dataclass(frozen=True)
class _Comparison:
    """A column compared with a constant."""

    column: str
    operator: str
    constant: Json


def narrowed(
    connection: duckdb.DuckDBPyConnection, table: str, check: str, types: Mapping[str, Type]
) -> dict[str, Type]:
    """Return the types of the columns that a CHECK mentions, with the bounds that it states."""
    narrow: dict[str, Type] = {}
    try:
        parsed = json.loads(_only(connection, "SELECT json_serialize_sql(?)", f"SELECT {check}"))
        node = parsed["statements"][0]["node"]
        for each in _comparisons(node["select_list"][0]):
            name = next(name for name in types if name.lower() == each.column.lower())
            type_ = narrow.get(name, types[name])
            node["select_list"] = [each.constant]
            value = _only(connection, "SELECT * FROM json_execute_serialized_sql(?)", json.dumps(parsed))
            narrow[name] = _bounded(type_, each.operator, _stored(type_, value))
    except (_NoBoundError, ArithmeticError, ValueError, KeyError):
        remedy = "write a >= 1, a < 10 or a BETWEEN 1 AND 9 with constants; the engine can enforce no other CHECK"
        raise DeltamarkError("a CHECK that is not a bound", f"{table}: {check}", remedy) from None
    for name, type_ in narrow.items():
        if _has_no_value(type_):
            actual = f"{table}.{name}: {check}"
            raise DeltamarkError("a CHECK that no value passes", actual, "exchange the bounds")
    return narrow


def _has_no_value(type_: Type) -> bool:
    if type_.kind != "date":
        return type_.low > type_.high
    first, last = ((each - EPOCH).days for each in (dt.date.min, dt.date.max))
    return max(type_.low, first) > min(type_.high, last)


def _only(connection: duckdb.DuckDBPyConnection, query: str, value: object) -> Any:
    """Return the value of a query with one row and one column."""
    row = connection.execute(query, [value]).fetchone()
    assert row is not None
    return row[0]


def _comparisons(expression: Json) -> Iterator[_Comparison]:
    match expression["type"]:
        case "CONJUNCTION_AND":
            for child in expression["children"]:
                yield from _comparisons(child)
        case "COMPARE_BETWEEN":
            yield _comparison(expression["input"], "COMPARE_GREATERTHANOREQUALTO", expression["lower"])
            yield _comparison(expression["input"], "COMPARE_LESSTHANOREQUALTO", expression["upper"])
        case operator if operator in FLIPPED:
            left, right = expression["left"], expression["right"]
            if right["type"] == "COLUMN_REF":
                left, operator, right = right, FLIPPED[operator], left
            yield _comparison(left, operator, right)
        case _:
            raise _NoBoundError


def _comparison(column: Json, operator: str, constant: Json) -> _Comparison:
    inner = constant
    while inner["type"] == "OPERATOR_CAST":
        inner = inner["child"]
    if column["type"] != "COLUMN_REF" or inner["type"] != "VALUE_CONSTANT":
        raise _NoBoundError
    return _Comparison(column["column_names"][-1], operator, constant)


def _stored(type_: Type, value: object) -> Fraction:
    """Convert a constant to the numbers that a column stores; it may lie between two of them."""
    if isinstance(value, str):
        value = PARSERS[type_.kind](value)
    match type_.kind, value:
        case "int", int() | Decimal():
            return Fraction(value) * 10**type_.scale
        case "int", float() if math.isfinite(value):
            return Fraction(repr(value)) * 10**type_.scale
        case "double", int() | Decimal() | float():
            return Fraction(stored_double(float(value)))
        case (("timestamp" | "timestamptz"), dt.date()):
            moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
            return Fraction(microseconds(moment))
        case "time", dt.time():
            return Fraction(microseconds(dt.datetime.combine(EPOCH, value)))
        case "date", dt.datetime():
            return Fraction((value - dt.datetime.combine(EPOCH, dt.time())) / dt.timedelta(days=1))
        case "date", dt.date():
            return Fraction((value - EPOCH).days)
    raise _NoBoundError


def _bounded(type_: Type, operator: str, value: Fraction) -> Type:
    low, high = type_.low, type_.high
    match operator:
        case "COMPARE_LESSTHAN":
            high = min(high, math.ceil(value) - 1)
        case "COMPARE_LESSTHANOREQUALTO":
            high = min(high, math.floor(value))
        case "COMPARE_GREATERTHAN":
            low = max(low, math.floor(value) + 1)
        case "COMPARE_GREATERTHANOREQUALTO":
            low = max(low, math.ceil(value))
        case _:
            low, high = max(low, math.ceil(value)), min(high, math.floor(value))
    return replace(type_, low=low, high=high)
