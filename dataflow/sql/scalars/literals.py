"""Constants of SQL as values."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

from deltamark.dataflow.language import binder
from deltamark.dataflow.plan.terms import Constant, number
from deltamark.dataflow.sql.algebra.operations import SqlType
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.scalars.conditions import TRUE
from deltamark.dataflow.sql.scalars.numbers import rounded
from deltamark.dataflow.sql.scalars.values import Cell, Truth, Value, some_value
from deltamark.dataflow.types import EPOCH, TEXT, Type, date_type, integer
from deltamark.errors import shortened

MICROSECONDS_PER_DAY = 24 * 60 * 60 * 10**6

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
DOUBLES = ("DOUBLE", "FLOAT")
EXACT_DIGITS, MAX_PLACES = 15, 18
"""The digits of a DOUBLE that stands for the decimal as which it is written, and the places before and after its point.
1 / 3, which DuckDB computes as it plans, has more.
"""
NUMBERS = (*INTEGERS, "DECIMAL", *DOUBLES)
CONDITIONS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True), **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}  # fmt: skip
"""The texts that DuckDB casts to a BOOLEAN, in any case."""


def constant(type_: SqlType, value: object) -> Cell:
    """Return a constant. Trailing zeros of a decimal are dropped, which changes no value."""
    match type_.name, value:
        case "BOOLEAN", None:
            return Truth(None, None, total=False)
        case "BOOLEAN", bool():
            return Truth.of(TRUE if value else None)
        case _, None:
            return Value(some_value(_type_of_null(type_)), TRUE)
        case "DECIMAL", int():
            scale = type_.scale
            while scale and value % 10 == 0:
                value, scale = value // 10, scale - 1
            return Value(number(value, scale))
        case "DATE", int():
            return Value(Constant(value, date_type(value, value)))
        case "TIMESTAMP", int() if value % MICROSECONDS_PER_DAY == 0:
            return constant(SqlType("DATE"), value // MICROSECONDS_PER_DAY)
        case "VARCHAR", str():
            return Value(binder.literal(value))
        case name, int() if name in INTEGERS:
            return Value(number(value))
        case "DOUBLE", int() | float() if math.isfinite(value):
            exact = Decimal(repr(value)).normalize()
            if len(exact.as_tuple().digits) > EXACT_DIGITS or not -MAX_PLACES <= exact.adjusted() <= MAX_PLACES:
                remedy = "write a decimal of fewer digits, or divide a column"
                raise unsupported(f"a DOUBLE that is no short decimal, {value!r}", remedy=remedy)
            return Value(binder.literal(int(exact) if exact == int(exact) else exact))
    raise unsupported(f"a constant of type {type_.name}")


def constant_of_text(type_: SqlType, text: str) -> Cell:
    """Return the constant that a text stands for."""
    try:
        if type_.name in ("DATE", "TIMESTAMP"):
            return Value(binder.literal(dt.date.fromisoformat(text.strip())))
        if type_.name == "BOOLEAN":
            return Truth.of(TRUE if CONDITIONS[text.lower()] else None)
        if type_.name in NUMBERS:
            return Value(rounded(binder.literal(Decimal(text.strip())), type_.scale))
    except (KeyError, ValueError, ArithmeticError):
        pass
    raise unsupported(f"a cast of the text {shortened(text)} to {type_.name}")


def _type_of_null(type_: SqlType) -> Type:
    match type_.name:
        case "VARCHAR":
            return TEXT
        case "DATE" | "TIMESTAMP":
            return date_type(EPOCH, EPOCH)
    return integer(0, 0, type_.scale)
