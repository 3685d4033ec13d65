"""Conversion of the stored columns of an answer to values: decimals, dates, words. Only this module divides the pairs
of columns `name.num` and `name.den`: the value is the double nearest the exact quotient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from deltamark.dataflow.types import NULL, Schema, Type, value_of
from deltamark.harness.engines.base import Row, Value

Stored = int | str | None


@dataclass(frozen=True)
class AnswerColumn:
    """A column of the SELECT list: its name, its stored columns, and the function that converts their values."""

    name: str
    stored: tuple[str, ...]
    convert: Callable[..., Value]


def answer_columns(schema: Schema) -> list[AnswerColumn]:
    """Return the columns of the SELECT list of an answer."""
    columns = []
    for field in schema.fields:
        name, dot, part = field.name.rpartition(".")
        if dot and part == "num":
            den = schema[f"{name}.den"]
            columns.append(AnswerColumn(name, (field.name, f"{name}.den"), partial(_quotient, field.type, den)))
        elif not (dot and part == "den"):
            columns.append(AnswerColumn(field.name, (field.name,), partial(value_of, field.type)))
    return columns


def _quotient(num_type: Type, den_type: Type, num: int, den: int) -> float | None:
    if NULL in (num, den):
        return None
    if den == 0:  # as in DuckDB
        return math.copysign(math.inf, num) if num else math.nan
    return (num * 10**den_type.scale) / (den * 10**num_type.scale)  # division of integers is correctly rounded


def decoded(schema: Schema, rows: Sequence[Mapping[str, Stored]]) -> list[Row]:
    """Convert stored rows, given as columns by name, to rows of values."""
    columns = answer_columns(schema)
    return [tuple(column.convert(*(row[name] for name in column.stored)) for column in columns) for row in rows]


def in_order(schema: Schema, order: Sequence[str], rows: list[Row]) -> list[Row]:
    """Sort rows of values by an ORDER BY clause, and ties by the remaining columns in ascending order."""
    names = [column.name for column in answer_columns(schema)]
    ordered = [name.removeprefix("-") for name in order]
    for name in reversed([*order, *(name for name in names if name not in ordered)]):
        at = names.index(name.removeprefix("-"))
        rows = sorted(rows, key=partial(_sort_key, at), reverse=name.startswith("-"))
    return rows


def _sort_key(at: int, row: Row) -> tuple[bool, object]:
    value = row[at]
    return value is None, value.encode() if isinstance(value, str) else value
