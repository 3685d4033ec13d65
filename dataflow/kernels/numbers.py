"""Arithmetic of doubles, conversions between doubles and numbers, and arithmetic that fails beyond 64 bits.

Doubles are stored as integers in their order (see `types.stored_double`), and computed as IEEE 754 demands.
"""

from __future__ import annotations

import numpy as np

from deltamark.dataflow.kernels.core.blocks import SizedOperator, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import bits_of_double, double_of_bits, too_wide, wraps
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.status import DONE, FAILED
from deltamark.dataflow.types import LARGEST, NAN, NULL

PLUS, MINUS, TIMES, DIVIDED, MODULO, ROUND, ROUND_TENS, FLOOR, CEIL, TRUNC, ABS, SQRT, SINGLE = range(13)
EXP, LN, LOG10, LOG2, POWER, SIN, COS, TAN, ASIN, ACOS, ATAN, ATAN2 = range(13, 25)
"""The functions of doubles. ROUND has the power of ten of the decimal places as its second argument, and ROUND_TENS the
power of ten in units of which it rounds. SINGLE rounds to 32 bits. Those from EXP on are those of the C library."""

NEGATIVE_ZERO = -1
"""The integer that stores -0.0 within an expression. A column stores it as 0, from which SQL does not tell it apart."""

EXACT = 2**53
"""The integers up to which each is a double."""


class DoublesBlock(SizedOperator):
    """Applies a function to one or two vectors of doubles; `b` is `a` if it takes one."""

    function: int
    zero: int
    """The integer that stores -0.0: 0, or NEGATIVE_ZERO for the operand of another function."""
    a: Vector
    b: Vector
    result: Vector


class ToDoubleBlock(SizedOperator):
    """Divides whole numbers by a power of ten, as doubles."""

    numbers: Vector
    power: int
    result: Vector


class FromDoubleBlock(SizedOperator):
    """Multiplies doubles by a power of ten, and rounds them to whole numbers within bounds: halves away from zero."""

    doubles: Vector
    power: int
    to_even: int
    """Whether halves go to the even number instead."""
    low: int
    high: int
    result: Vector
    error: int = 0
    """The double that is out of bounds, after a failure."""


class CheckedBlock(SizedOperator):
    """Applies PLUS, MINUS or TIMES to two vectors of whole numbers."""

    function: int
    a: Vector
    b: Vector
    result: Vector
    error_a: int = 0
    error_b: int = 0
    """The numbers whose result needs more than 64 bits, after a failure."""


@inline
def loaded(stored: int) -> float:
    """Return the double that an integer stores."""
    return double_of_bits(stored if stored >= 0 else ~stored | NULL)


@inline
def stored(value: float) -> int:
    """Return the integer that stores a double."""
    if np.isnan(value):
        return NAN
    bits = bits_of_double(value)
    return bits if bits >= 0 else (0 if value == 0.0 else ~(bits & LARGEST))


@kernel
def doubles(op: DoublesBlock) -> None:
    """Apply a function to doubles."""
    function, zero, a, b, result = op.function, op.zero, op.a, op.b, op.result
    for at in range(op.size):
        value = _computed(function, loaded(a[at]), loaded(b[at]))
        result[at] = zero if bits_of_double(value) == NULL else stored(value)


@inline
def _computed(function: int, x: float, y: float) -> float:
    value = x
    if function == PLUS:
        value = x + y
    elif function == MINUS:
        value = x - y
    elif function == TIMES:
        value = x * y
    elif function == DIVIDED:
        value = x / y
    elif function == MODULO:
        value = np.fmod(x, y)
    elif function == ROUND:
        rounded = _half_away(x * y) / y
        value = rounded if abs(rounded) < np.inf else x
    elif function == ROUND_TENS:
        rounded = _half_away(x / y) * y
        value = rounded if abs(rounded) < np.inf else x
    elif function == FLOOR:
        value = np.floor(x)
    elif function == CEIL:
        value = np.ceil(x)
    elif function == TRUNC:
        value = np.trunc(x)
    elif function == ABS:
        value = abs(x)
    elif function == SQRT:
        value = np.sqrt(x)
    elif function == SINGLE:
        value = np.float64(np.float32(x))
    elif function >= EXP:
        value = _transcendental(function, x, y)
    return value


@kernel
def _transcendental(function: int, x: float, y: float) -> float:
    """Compute a function that has no result for some numbers: it is NaN there."""
    value = np.exp(x)
    if function == LN:
        value = np.log(x)
    elif function == LOG10:
        value = np.log10(x)
    elif function == LOG2:
        value = np.log2(x)
    elif function == POWER:
        value = np.power(x, y)
    elif function == SIN:
        value = np.sin(x)
    elif function == COS:
        value = np.cos(x)
    elif function == TAN:
        value = np.tan(x)
    elif function == ASIN:
        value = np.arcsin(x)
    elif function == ACOS:
        value = np.arccos(x)
    elif function == ATAN:
        value = np.arctan(x)
    elif function == ATAN2:
        value = np.arctan2(x, y)
    return value


@inline
def _half_away(value: float) -> float:
    """Round to a whole number, and halves away from zero."""
    size = abs(value)
    whole = np.floor(size)
    if size - whole >= 0.5:
        whole += 1.0
    return np.copysign(whole, value)


@kernel
def to_double(op: ToDoubleBlock) -> None:
    """Convert numbers as DuckDB does: those beyond 53 bits in two parts, before and behind the decimal point."""
    numbers, power, result = op.numbers, op.power, op.result
    for at in range(op.size):
        number = numbers[at]
        size = abs(number)
        if size <= EXACT or power == 1:
            value = float(number) / float(power)
        else:
            whole = size // power
            value = float(whole) + float(size - whole * power) / float(power)
            value = -value if number < 0 else value
        result[at] = stored(value)


@kernel
def from_double(op: FromDoubleBlock) -> int:
    """Convert doubles to numbers; return FAILED if one is out of bounds, infinite or NaN."""
    doubles, power, low, high, result = op.doubles, float(op.power), float(op.low), float(op.high), op.result
    to_even = op.to_even != 0
    for at in range(op.size):
        value = loaded(doubles[at]) * power
        rounded = np.rint(value) if to_even else _half_away(value)
        if not (low <= rounded <= high and abs(rounded) < 9223372036854775808.0):
            op.error = doubles[at]
            return FAILED
        result[at] = int(rounded)
    return DONE


@kernel
def checked(op: CheckedBlock) -> int:
    """Compute whole numbers; return FAILED if one needs more than 64 bits, or is the stored value of NULL."""
    function, a, b, result = op.function, op.a, op.b, op.result
    for at in range(op.size):
        x, y = a[at], b[at]
        if function == TIMES:
            value, overflow = x * y, too_wide(x, y) != 0
        elif function == PLUS:
            value, overflow = x + y, wraps(x, y) < 0
        else:
            value = x - y
            overflow = (x ^ y) & (x ^ value) < 0
        if overflow or value == NULL:
            op.error_a = x
            op.error_b = y
            return FAILED
        result[at] = value
    return DONE


DOUBLES, TO_DOUBLE, FROM_DOUBLE, CHECKED_ARITHMETIC = (
    step(doubles), step(to_double), step(from_double), step(checked),
)  # fmt: skip
