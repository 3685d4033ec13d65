"""From the engine's columns to values: numbers at full scale, dates, words. Pairs `name.num`, `name.den` are divided
here, and nowhere else: the double nearest the exact quotient.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from deltamark.dataflow.plan.binder import EPOCH
from deltamark.dataflow.types import NULL, Schema, Type, unpack_short

Value = int | Decimal | dt.date | str | float | None


@dataclass(frozen=True)
class Shown:
    """A column as it is read: its name, the stored columns that it is made of, and how."""

    name: str
    stored: tuple[str, ...]
    read: Callable[..., Value]


def shown(schema: Schema) -> list[Shown]:
    """Return the columns of an answer as they are read."""
    columns = []
    for field in schema.fields:
        name, dot, part = field.name.rpartition(".")
        if dot and part == "num":
            den = schema[f"{name}.den"]
            columns.append(Shown(name, (field.name, f"{name}.den"), partial(_quotient, field.type, den)))
        elif not (dot and part == "den"):
            columns.append(Shown(field.name, (field.name,), reader(field.type)))
    return columns


def reader(type_: Type) -> Callable[[Any], Value]:
    """Return what makes a value of a stored one."""
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
    return (num * 10**den_type.scale) / (den * 10**num_type.scale)  # of integers: correctly rounded


def decoded(schema: Schema, rows: Sequence[dict[str, Any]]) -> list[tuple[Value, ...]]:
    """Make stored rows, column by name, into rows of values."""
    columns = shown(schema)
    return [tuple(each.read(*(row[name] for name in each.stored)) for each in columns) for row in rows]


def in_order(schema: Schema, order: Sequence[str], rows: list[tuple[Value, ...]]) -> list[tuple[Value, ...]]:
    """Sort rows of values as SQL's ORDER BY does, ties by the remaining columns ascending."""
    names = [each.name for each in shown(schema)]
    given = [each.removeprefix("-") for each in order]
    for name in reversed([*order, *(name for name in names if name not in given)]):
        at = names.index(name.removeprefix("-"))
        rows = sorted(rows, key=partial(_sort_key, at), reverse=name.startswith("-"))
    return rows


def _sort_key(at: int, row: tuple[Value, ...]) -> tuple[bool, Any]:
    value = row[at]
    return value is None, 0 if value is None else value.encode() if isinstance(value, str) else value
