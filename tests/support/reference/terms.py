"""The meaning of terms: their values over the named values of a row."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from support.reference.errors import LongSubstringError, OutOfRangeError, WideNumberError

from deltamark.dataflow.kernels.moments import DIGIT_BITS
from deltamark.dataflow.kernels.numbers import NEGATIVE_ZERO
from deltamark.dataflow.plan.terms import (
    OF_SAMPLES,
    ROOTS,
    Add,
    And,
    Checked,
    Coalesce,
    Column,
    Constant,
    DoubleArithmetic,
    DoubleFunction,
    Equal,
    FromDouble,
    IsNull,
    Less,
    Lookup,
    Match,
    Member,
    Moment,
    Multiply,
    Not,
    Or,
    Quotient,
    Substring,
    Subtract,
    Table,
    Term,
    Text,
    TextCall,
    ToDouble,
    When,
)
from deltamark.dataflow.scalars.texts import MEANINGS
from deltamark.dataflow.types import DOUBLE, EPOCH, LARGEST, NULL, pack_short, stored_double, unpack_short, value_of


def ordered(value: Any) -> Any:
    """Return a key of order: text by its bytes, missing values first."""
    return value != NULL, value.encode() if isinstance(value, str) else value


def evaluate(term: Term, row: Mapping[str, Any]) -> Any:
    """Return the value of a term over named values."""
    if isinstance(term, Column):
        return row[term.name]
    if isinstance(term, DoubleArithmetic | DoubleFunction):
        return _function(term, row, zero=0)
    return TERMS[type(term)](term, *(evaluate(arg, row) for arg in term.args))


def _function(term: DoubleArithmetic | DoubleFunction, row: Any, *, zero: int) -> int:
    """Apply a function of doubles. zero: what stores -0.0; the operands of a function keep its sign."""
    args = (
        _function(arg, row, zero=NEGATIVE_ZERO)
        if isinstance(arg, DoubleArithmetic | DoubleFunction)
        else evaluate(arg, row)
        for arg in term.args
    )
    return int(TERMS[type(term)](term, *args, zero=zero))


def _stored(value: float, zero: int) -> int:
    return zero if value == 0 and math.copysign(1, value) < 0 else stored_double(value)


def match(term: Match, text: Any) -> bool:
    return text != NULL and re.fullmatch(".*".join(map(re.escape, term.pieces)), text, re.DOTALL) is not None


def substring(term: Substring, text: Any) -> int:
    if text == NULL:
        return NULL
    packed = pack_short(text[term.start - 1 : term.start - 1 + term.length])
    if packed is None:
        raise LongSubstringError(text)
    return packed


def text(term: Text, stored: Any) -> Any:
    if stored == NULL:
        return NULL
    return unpack_short(stored) if term.code.type.kind == "short" else term.code.type.words[stored]


def text_call(term: TextCall, *values: Any) -> Any:
    """Return a function of texts, one of which may be missing."""
    if term.function == "concat_ws":
        return NULL if values[0] == NULL else values[0].join(each for each in values[1:] if each != NULL)
    if NULL in values:
        return NULL if term.type.kind == "text" else 0
    return OTHER_CALLS.get(term.function, MEANINGS.get(term.function))(*values)


def decimal_text(number: int, scale: int, whole: int) -> str:
    digits = str(abs(number)).rjust(scale + whole, "0") if number or whole else "0" * scale
    return "-" * (number < 0) + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def part(text: str, separator: str, number: int) -> str | int:
    parts = text.split(separator) if separator else list(text) or [""]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if number and 0 <= place < len(parts) else NULL


OTHER_CALLS: dict[str, Callable[..., Any]] = {
    "number": decimal_text,
    "date": lambda day: str(EPOCH + dt.timedelta(days=day)),
    "split_part": part,
}


def in_three_parts(number: int) -> float:
    """Return a number of 128 bits as a double, rounded after each part, as the kernel does."""
    size = abs(number)
    value = (float(size >> 64) * 2.0**32 + float(size >> 32 & 0xFFFFFFFF)) * 2.0**32 + float(size & 0xFFFFFFFF)
    return -value if number < 0 else value


def moment(term: Moment, rows: int, *sums: int) -> int:
    """Return a variance, a covariance or a correlation of at least one row; without rows, some number."""
    if rows <= (term.function in OF_SAMPLES):
        return 0
    comoments = [
        in_three_parts(rows * (low + high * 2**DIGIT_BITS) - x * y)
        for x, y, low, high in zip(sums[::4], sums[1::4], sums[2::4], sums[3::4], strict=True)
    ]
    if len(comoments) > 1:
        shared, one, other = comoments
        return stored_double(shared / root(one * other) if one and other else math.nan)
    found = comoments[0] / (float(rows) * (rows - (term.function in OF_SAMPLES)) * 10**term.scale)
    return stored_double(root(found) if term.function in ROOTS else found)


def root(number: float) -> float:
    """Return a square root; of the negative variance of rows that were deleted before they came, no number."""
    return math.sqrt(number) if number >= 0 else math.nan


def double_of(stored: int) -> float:
    return float("nan") if stored == NULL else value_of(DOUBLE, stored)


def to_double(term: ToDouble, number: int) -> int:
    """Divide a number by a power of ten; one of more than 53 bits before and behind the decimal point."""
    power, size = 10**term.number.type.scale, abs(number)
    if size <= 2**53 or power == 1:
        return stored_double(number / power if size <= 2**53 else float(number))
    value = float(size // power) + float(size % power) / float(power)
    return stored_double(-value if number < 0 else value)


LIBRARY = ("exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan")


def double_arithmetic(term: DoubleArithmetic, left: int, right: int, *, zero: int = 0) -> int:
    x, y = np.float64(double_of(left)), np.float64(double_of(right))
    if term.sign == "**":
        return _stored(_power(float(x), float(y)), zero)
    functions = {
        "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod,
        "atan2": lambda x, y: math.atan2(float(x), float(y)),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        return _stored(float(functions[term.sign](x, y)), zero)


def _power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:  # zero with a negative exponent, or a negative number with a broken one
        return math.nan if x else math.copysign(math.inf, x if y % 2 == 1 else 1)


def _of_library(name: str, x: float) -> float:
    """Compute a function of the C library, which Python refuses where it is infinite or NaN."""
    try:
        return float(getattr(math, {"ln": "log"}.get(name, name))(x))
    except OverflowError:
        return math.inf
    except ValueError:
        return -math.inf if x == 0 else math.nan


def half_away(value: float) -> float:
    if not math.isfinite(value):
        return value
    whole = float(np.floor(abs(value)))
    return math.copysign(whole + (abs(value) - whole >= 0.5), value)


def double_function(term: DoubleFunction, stored: int, *, zero: int = 0) -> int:
    value = np.float64(double_of(stored))
    with np.errstate(all="ignore"):
        if term.function == "round":
            power = 10.0 ** abs(term.places)
            found = half_away(value / power) * power if term.places < 0 else half_away(value * power) / power
            value = found if math.isfinite(found) else value
        elif term.function == "float":
            value = np.float64(np.float32(value))
        elif term.function in LIBRARY:
            value = np.float64(_of_library(term.function, float(value)))
        else:
            value = {"abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "sqrt": np.sqrt}[
                term.function
            ](value)
    return _stored(float(value), zero)


def from_double(term: FromDouble, stored: int) -> int:
    value = double_of(stored) * 10.0**term.type.scale
    rounded = (round(value) if term.to_even else half_away(value)) if math.isfinite(value) else value
    if not term.type.low <= rounded <= term.type.high:
        raise OutOfRangeError((value,))
    return int(rounded)


def checked(term: Checked, left: int, right: int) -> int:
    found = {"+": left + right, "-": left - right, "*": left * right}[term.sign]
    if abs(found) > LARGEST:
        raise WideNumberError((left, term.sign, right))
    return found


TERMS: dict[type[Term], Callable[..., Any]] = {
    Constant: lambda term: term.value,
    Add: lambda _, left, right: left + right,
    Subtract: lambda _, left, right: left - right,
    Multiply: lambda _, left, right: left * right,
    Quotient: lambda _, left, right: left // right,
    Equal: lambda _, left, right: left == right,
    Less: lambda _, left, right: ordered(left) < ordered(right),
    And: lambda _, left, right: left and right,
    Or: lambda _, left, right: left or right,
    Not: lambda _, test: not test,
    Lookup: lambda term, code: term.results[code],
    Member: lambda term, value: value in term.members,
    Match: match,
    Substring: substring,
    Text: text,
    TextCall: text_call,
    Table: lambda term, value: term.results[value - term.low],
    When: lambda _, test, value, otherwise: value if test else otherwise,
    IsNull: lambda _, value: value == NULL,
    Moment: moment,
    Coalesce: lambda _, value, otherwise: otherwise if value == NULL else value,
    ToDouble: to_double,
    FromDouble: from_double,
    DoubleArithmetic: double_arithmetic,
    DoubleFunction: double_function,
    Checked: checked,
}
