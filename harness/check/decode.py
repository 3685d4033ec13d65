"""Conversion of the stored columns of an answer to values: decimals, dates, words. Only this module divides the pairs
of columns `name.num` and `name.den`: the value is the double nearest the exact quotient.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from deltamark.dataflow.types import EPOCH, NULL, Schema, Type, unpack_short

Value = int | Decimal | dt.date | str | float | None


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
            columns.append(AnswerColumn(field.name, (field.name,), reader(field.type)))
    return columns


def reader(type_: Type) -> Callable[[Any], Value]:
    """Return the function that converts a stored value of a type."""
    read = _reader(type_)
    return lambda stored: None if stored is None or stored == NULL else read(stored)


def _reader(type_: Type) -> Callable[[Any], Value]:
    match type_.kind:
        case "date":
            return lambda stored: EPOCH + dt.timedelta(days=stored)
        case "code":
            return type_.words.__getitem__
        case "short":
            return unpack_short
        case "int" if type_.scale:
            return lambda stored: Decimal(stored).scaleb(-type_.scale)
    return lambda stored: stored


def _quotient(num_type: Type, den_type: Type, num: int, den: int) -> float | None:
    if NULL in (num, den) or den == 0:
        return None
    return (num * 10**den_type.scale) / (den * 10**num_type.scale)  # division of integers is correctly rounded


def decoded(schema: Schema, rows: Sequence[dict[str, Any]]) -> list[tuple[Value, ...]]:
    """Convert stored rows, given as columns by name, to rows of values."""
    columns = answer_columns(schema)
    return [tuple(each.convert(*(row[name] for name in each.stored)) for each in columns) for row in rows]


def in_order(schema: Schema, order: Sequence[str], rows: list[tuple[Value, ...]]) -> list[tuple[Value, ...]]:
    """Sort rows of values by an ORDER BY clause, and ties by the remaining columns in ascending order."""
    names = [each.name for each in answer_columns(schema)]
    ordered = [each.removeprefix("-") for each in order]
    for name in reversed([*order, *(name for name in names if name not in ordered)]):
        at = names.index(name.removeprefix("-"))
        rows = sorted(rows, key=partial(_sort_key, at), reverse=name.startswith("-"))
    return rows


def _sort_key(at: int, row: tuple[Value, ...]) -> tuple[bool, Any]:
    value = row[at]
    return value is None, 0 if value is None else value.encode() if isinstance(value, str) else value
