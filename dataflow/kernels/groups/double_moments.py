"""Exact moments of doubles: variances, covariances and correlations, from sums of values and products of fixed point.

With n rows, n² times the population covariance of x and y is n Σxy - Σx Σy. The sums are exact for any doubles and any
number of rows (see `double_sums.py`), and so is this number. It is rounded when it is read, and then divided, so that a
moment does not depend on the order of the rows, and a retracted row leaves nothing behind.

The state of a moment: the number of rows in which no value is NULL, the number of those with an infinite value or NaN,
the sums of the values, and the sums of their products. For a correlation these are Σxy, Σxx and Σyy.
"""

from __future__ import annotations

import numpy as np

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import double_of_bits, leading_zeros
from deltamark.dataflow.kernels.groups.double_sums import DIGITS, add_digits, add_double, mantissa_of, shift_of
from deltamark.dataflow.kernels.numbers import stored
from deltamark.dataflow.types import INFINITY, NAN, NULL

OF_SAMPLE, ROOT, OF_TWO, CORRELATION = 1, 2, 4, 8
"""The bits of a function: a moment is divided by n - 1 instead of n, is a root, has two values, is a correlation."""

ROWS, ODD, SUMS = 0, 1, 2
"""The words of the numbers of rows, and the first one of the sums."""

PRODUCT_DIGITS = 67
"""The words of a sum of products in units of 2**-2148: 4196 bits of products, 63 bits of weights, and a sign."""

PART_BITS, WEIGHT_BITS = 27, 32
"""The bits of the lower parts of a mantissa and of a weight, whose products fit in 64 bits."""

LIMB_BITS = 28
"""The bits of a limb. The sum of 78 products of two limbs, as many as a sum of doubles has, fits in 64 bits."""
LIMB = (1 << LIMB_BITS) - 1
SUM_LIMBS = -(-64 * DIGITS // LIMB_BITS)
PRODUCT_LIMBS = -(-64 * PRODUCT_DIGITS // LIMB_BITS)
LIMBS = PRODUCT_LIMBS + 5
"""The limbs of a comoment: those of a sum of products, and of a number of rows."""
BEFORE = 4
"""The limbs of zero before the first limb of a comoment, and before that of a sum of products."""

SCRATCH_WORDS = 2 * SUM_LIMBS + 2 * (BEFORE + LIMBS)

KEPT_BITS = 62
"""The bits of a comoment of which a double is made; the last one tells whether the others are zero."""


def moment_words(function: int) -> int:
    """Return the size of the state of a moment."""
    sums, products = (2 if function & OF_TWO else 1), (3 if function & CORRELATION else 1)
    return SUMS + sums * DIGITS + products * PRODUCT_DIGITS


@inline
def _products_at(function: int) -> int:
    """Return the place of the first sum of products in a state."""
    return SUMS + (2 * DIGITS if function & OF_TWO != 0 else DIGITS)


@kernel
def add_values(state: Array, function: int, x: int, y: int, weight: int) -> None:
    """Add a row to the state of a moment, unless one of its stored values is NULL. y: x, if the function has one."""
    if NULL in (x, y):
        return
    state[ROWS] += weight
    if not (~INFINITY < x < INFINITY and ~INFINITY < y < INFINITY):
        state[ODD] += weight
        return
    at = _products_at(function)
    add_double(state[SUMS:], x, weight)
    _add_product_of_doubles(state[at:], x, y, weight)
    if function & OF_TWO != 0:
        add_double(state[SUMS + DIGITS :], y, weight)
    if function & CORRELATION != 0:
        _add_product_of_doubles(state[at + PRODUCT_DIGITS :], x, x, weight)
        _add_product_of_doubles(state[at + 2 * PRODUCT_DIGITS :], y, y, weight)


@kernel
def _add_product_of_doubles(total: Array, x: int, y: int, weight: int) -> None:
    """Add the product of two finite doubles to a sum of products, with a weight."""
    mantissa, factor, shift = mantissa_of(x), mantissa_of(y), shift_of(x) + shift_of(y)
    low, high = factor & ((1 << PART_BITS) - 1), factor >> PART_BITS
    few, many = weight & ((1 << WEIGHT_BITS) - 1), weight >> WEIGHT_BITS
    if many in (0, -1):
        few, many = weight, 0
    for part in range(2):
        copies, bits = (few, 0) if part == 0 else (many, WEIGHT_BITS)
        if copies != 0:
            add_digits(total, PRODUCT_DIGITS, mantissa, low * copies, shift + bits)
            add_digits(total, PRODUCT_DIGITS, mantissa, high * copies, shift + bits + PART_BITS)


@kernel
def moment(state: Array, function: int, scratch: Array) -> int:
    """Return the integer that stores a moment, or 0 for too few rows."""
    rows, less, at = state[ROWS], function & OF_SAMPLE, _products_at(function)
    if rows <= less:
        return 0
    if state[ODD] != 0:
        return NAN
    first = state[SUMS:]
    last = state[SUMS + DIGITS :] if function & OF_TWO != 0 else first
    value, exponent = _comoment(rows, first, last, state[at:], scratch)
    if function & CORRELATION != 0:
        one, of_one = _comoment(rows, first, first, state[at + PRODUCT_DIGITS :], scratch)
        other, of_other = _comoment(rows, last, last, state[at + 2 * PRODUCT_DIGITS :], scratch)
        if one == 0.0 or other == 0.0:
            return NAN
        if (of_one + of_other) & 1 != 0:
            one *= 2.0
            of_one -= 1
        return stored(_scaled(value / np.sqrt(one * other), exponent - ((of_one + of_other) >> 1)))
    value = value / (float(rows) * float(rows - less))
    if function & ROOT != 0:
        if exponent & 1 != 0:
            value *= 2.0
            exponent -= 1
        return stored(_scaled(np.sqrt(value), exponent >> 1))
    return stored(_scaled(value, exponent))


@kernel
def _comoment(rows: int, x: Array, y: Array, products: Array, scratch: Array) -> tuple[float, int]:
    """Return n Σxy - Σx Σy: a double of 53 bits, and the power of two by which it is multiplied.

    Limbs of products are multiplied in columns, as by hand.
    """
    of_x, of_y, of_xy = scratch, scratch[SUM_LIMBS:], scratch[2 * SUM_LIMBS + BEFORE :]
    result = scratch[2 * SUM_LIMBS + BEFORE + LIMBS + BEFORE :]
    x_sign, x_low, x_high = _split(x, DIGITS, of_x, SUM_LIMBS)
    y_sign, y_low, y_high = _split(y, DIGITS, of_y, SUM_LIMBS)
    sign, low, high = _split(products, PRODUCT_DIGITS, of_xy, PRODUCT_LIMBS)
    for at in range(BEFORE):
        scratch[2 * SUM_LIMBS + at] = 0
        result[at - BEFORE] = 0
    for at in range(PRODUCT_LIMBS, LIMBS):
        of_xy[at] = 0
    units, thousands, millions = rows & LIMB, (rows >> LIMB_BITS) & LIMB, rows >> 2 * LIMB_BITS
    start, stop, carry = min(low, x_low + y_low), max(high, x_high + y_high) + 4, 0
    start, stop, sign_of_sums = max(start, 0), min(max(stop, 0), LIMBS), x_sign * y_sign
    for at in range(start):
        result[at] = 0
    for at in range(start, stop):
        column = 0
        for index in range(max(x_low, at - y_high), min(x_high, at - y_low) + 1):
            column += of_x[index] * of_y[at - index]
        of_rows = units * of_xy[at] + thousands * of_xy[at - 1] + millions * of_xy[at - 2]
        total = carry + sign * of_rows - sign_of_sums * column
        result[at] = total & LIMB
        carry = total >> LIMB_BITS
    value, exponent = _first_bits(result, start, stop, carry < 0)
    return (-value if carry < 0 else value), exponent


@kernel
def _split(total: Array, words: int, limbs: Array, count: int) -> tuple[int, int, int]:
    """Split the absolute value of a number into limbs; return its sign, and the first and the last limb but zeros."""
    is_negative = total[words - 1] < 0
    fill = -1 if is_negative else 0
    carry, low, high = int(is_negative), LIMBS, -1
    for at in range(count):
        word, shift = LIMB_BITS * at >> 6, LIMB_BITS * at & 63
        limb = total[word] >> shift
        if shift > 64 - LIMB_BITS:
            behind = total[word + 1] if word + 1 < words else fill
            limb = (limb & ((1 << (64 - shift)) - 1)) | (behind << (64 - shift))
        limb &= LIMB
        if is_negative:
            limb = (limb ^ LIMB) + carry
            carry = limb >> LIMB_BITS
            limb &= LIMB
        limbs[at] = limb
        if limb != 0:
            low = min(low, at)
            high = at
    return (-1 if is_negative else 1), low, high


@kernel
def _first_bits(limbs: Array, start: int, stop: int, is_negative: bool) -> tuple[float, int]:
    """Return the absolute value of a number of limbs: a double of 53 bits, and the power of two of its unit."""
    if is_negative:
        carry = 1
        for at in range(start, stop):
            limb = (limbs[at] ^ LIMB) + carry
            limbs[at] = limb & LIMB
            carry = limb >> LIMB_BITS
    top = stop - 1
    while top >= start and limbs[top] == 0:
        top -= 1
    if top < start:
        return 0.0, 0
    bits = (limbs[top] << LIMB_BITS) | limbs[top - 1]
    room = leading_zeros(bits) - (64 - KEPT_BITS)
    below = (limbs[top - 2] << LIMB_BITS) | limbs[top - 3]
    bits = (bits << room) | (below >> (2 * LIMB_BITS - room))
    is_inexact = below & ((1 << (2 * LIMB_BITS - room)) - 1) != 0
    for at in range(start, top - 3):
        is_inexact |= limbs[at] != 0
    if is_inexact:
        bits |= 1
    return float(bits), LIMB_BITS * (top - 1) - room + UNIT


UNIT = -2148
"""The power of two of the unit of a product of doubles."""


@kernel
def _scaled(value: float, exponent: int) -> float:
    """Return a double from 2**-70 to 2**62, or 0, times a power of two, which is rounded at most once."""
    if exponent < -960:
        if exponent < -1900:
            return 0.0
        value *= _power_of_two(-900)
        exponent += 900
    while exponent > 900:
        value *= _power_of_two(900)
        exponent -= 900
    return value * _power_of_two(exponent)


@inline
def _power_of_two(exponent: int) -> float:
    return double_of_bits((exponent + 1023) << 52)
