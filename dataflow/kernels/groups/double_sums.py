"""Exact sums of doubles: numbers of fixed point that are wide enough for any double, and any number of rows.

Addition is exact, so a sum does not depend on the order of the rows, and a retracted row leaves nothing behind. It is
rounded once, when it is read. Infinities and NaN are counted.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import add_shifted_product, leading_zeros
from deltamark.dataflow.types import INFINITY, NAN, NULL

DIGITS = 34
"""The words of a sum in units of 2**-1074, low word first, in the complement of two: 2098 bits of doubles, 63 bits of
weights, and a sign."""

NANS, INFINITIES, NEGATIVE_INFINITIES = DIGITS, DIGITS + 1, DIGITS + 2
"""The words behind them: the numbers of rows whose values are no finite numbers."""

SUM_WORDS = DIGITS + 3

COUNTED_WORDS = SUM_WORDS + 1
"""The words of a sum with the number of its values in the last one, of which 0 makes it NULL."""

FRACTION = 52
"""The bits of a double behind the first one, which is not stored."""


@kernel
def add_double(total: Array, stored: int, weight: int) -> None:
    """Add the double that an integer stores to a sum, with a weight."""
    size = stored if stored >= 0 else ~stored
    if size >= INFINITY:
        place = NANS if stored == NAN else (INFINITIES if stored > 0 else NEGATIVE_INFINITIES)
        total[place] = total[place] + weight
        return
    add_digits(total, DIGITS, mantissa_of(stored), weight, shift_of(stored))


@inline
def shift_of(stored: int) -> int:
    """Return the power of two in units of which a finite double has a whole mantissa, counted from 2**-1074."""
    return max(((stored if stored >= 0 else ~stored) >> FRACTION) - 1, 0)


@inline
def mantissa_of(stored: int) -> int:
    """Return the mantissa of a finite double, a whole number with its sign."""
    size = stored if stored >= 0 else ~stored
    mantissa = size & ((1 << FRACTION) - 1)
    if size >> FRACTION > 0:
        mantissa |= 1 << FRACTION
    return mantissa if stored >= 0 else -mantissa


@kernel
def add_digits(total: Array, digits: int, mantissa: int, weight: int, shift: int) -> None:
    """Add mantissa * weight * 2**shift to a number of some words, low word first."""
    word = shift >> 6
    carry = add_shifted_product(total[word:].address, mantissa, weight, shift & 63)
    word += 3
    while carry != 0 and word < digits:
        before = total[word]
        total[word] = before + carry
        carry = carry if before == (-1 if carry > 0 else 0) else 0
        word += 1


@kernel
def add_counted(total: Array, other: Array) -> None:
    """Add a sum with the number of its values to another."""
    carry = 0
    for word in range(DIGITS):
        a, b = total[word], other[word]
        both = a + b + carry
        total[word] = both
        carry = (((a & b) | ((a | b) & ~both)) >> 63) & 1
    for word in range(DIGITS, COUNTED_WORDS):
        total[word] = total[word] + other[word]


@kernel
def rounded_counted(total: Array) -> int:
    """Return the integer that stores the double nearest to a sum with the number of its values, or NULL for none."""
    return NULL if total[SUM_WORDS] == 0 else rounded_sum(total)


@kernel
def rounded_sum(total: Array) -> int:
    """Return the integer that stores the double nearest to a sum; of two, the even one."""
    if total[NANS] != 0 or (total[INFINITIES] != 0 and total[NEGATIVE_INFINITIES] != 0):
        return NAN
    if total[INFINITIES] != 0 or total[NEGATIVE_INFINITIES] != 0:
        return INFINITY if total[INFINITIES] != 0 else ~INFINITY
    lowest = 0
    while lowest < DIGITS and total[lowest] == 0:
        lowest += 1
    if lowest == DIGITS:
        return 0
    is_negative, top = total[DIGITS - 1] < 0, DIGITS - 1
    while _digit(total, top, lowest, is_negative) == 0:
        top -= 1
    size = _rounded(total, top, lowest, is_negative)
    return ~size if is_negative else size


@inline
def _digit(total: Array, at: int, lowest: int, is_negative: bool) -> int:
    """Return a word of the absolute value. lowest: the first word that is not zero."""
    word = total[at]
    if is_negative:
        word = ~word if at > lowest else -word
    return word


@kernel
def _rounded(total: Array, top: int, lowest: int, is_negative: bool) -> int:
    """Return the bits of the double nearest to an absolute value. top: its last word that is not zero."""
    high = _digit(total, top, lowest, is_negative)
    zeros = leading_zeros(high)
    place = 64 * top + 63 - zeros
    if place <= FRACTION:
        return high
    below = _digit(total, top - 1, lowest, is_negative) if top > 0 else 0
    head, rest = high << zeros, below << zeros
    if zeros > 0:
        head |= (below >> (64 - zeros)) & ((1 << zeros) - 1)
    tail, mantissa = head & 0x7FF, (head >> 11) & ((1 << FRACTION + 1) - 1)
    exponent = place - FRACTION + 1
    if exponent >= 0x7FF:
        return INFINITY
    bits = (exponent << FRACTION) + mantissa - (1 << FRACTION)
    if tail > 0x400 or (tail == 0x400 and (rest != 0 or lowest < top - 1 or mantissa & 1 == 1)):
        bits += 1
    return bits
