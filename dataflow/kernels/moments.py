"""Moments: variances, covariances and correlations, as doubles, from sums of rows, of values and of products.

With n rows, n² times the population covariance of x and y is n Σxy - Σx Σy. This is computed exactly, in 128 bits, and
then rounded. So a moment does not depend on the order of changes, and a retracted row leaves nothing behind.
"""

from __future__ import annotations

import numpy as np

from deltamark.dataflow.kernels.core.blocks import Array, Arrays, SizedOperator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.intrinsics import add_product
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.numbers import stored

DIGIT_BITS = 31
"""The bits of the low digit of a product. A sum of low digits fits in 64 bits for all numbers of rows up to 2**32."""

SUMS = 4
"""The sums of a comoment: Σx, Σy, and the two digits of Σxy, the low one first."""

TWO_32 = 4294967296.0


class MomentBlock(SizedOperator):
    """Computes a variance, a covariance, their root, or a correlation."""

    numbers: Vectors
    """The numbers of rows, then the sums of each comoment."""
    slice_numbers: Arrays
    """Scratch: the arrays of `numbers` during a slice."""
    comoments: int
    """1, or for a correlation 3: that of x and y, that of x, and that of y."""
    less: int
    """The number that is subtracted from that of the rows where it divides: 1 for samples, or 0."""
    power: int
    """The power of ten of the decimal places of a product."""
    is_root: int
    wide: Array
    """Scratch: a number of 128 bits."""
    result: Vector


@kernel
def moments(op: MomentBlock) -> None:
    """Compute the moments of each row, whose columns are the sums of a group."""
    numbers, columns, result, wide = op.numbers, op.slice_numbers, op.result, op.wide
    for column in range(1 + SUMS * op.comoments):
        columns[column] = numbers[column]
    for at in range(op.size):
        rows, value = columns[0][at], _comoment(columns, 1, at, wide)
        if op.comoments > 1:
            one, other = _comoment(columns, 1 + SUMS, at, wide), _comoment(columns, 1 + 2 * SUMS, at, wide)
            value = value / np.sqrt(one * other)
        else:
            value = value / (float(rows) * float(rows - op.less) * float(op.power))
            if op.is_root != 0:
                value = np.sqrt(value)
        result[at] = stored(value)


@kernel
def _comoment(columns: Arrays, first: int, at: int, wide: Array) -> float:
    """Return n Σxy - Σx Σy for a row, given the first of the columns of its sums."""
    rows = columns[0][at]
    wide[0] = 0
    wide[1] = 0
    add_product(wide.address, -columns[first][at], columns[first + 1][at])
    add_product(wide.address, rows, columns[first + 2][at])
    add_product(wide.address, rows << DIGIT_BITS, columns[first + 3][at])
    low, high, is_negative = wide[0], wide[1], wide[1] < 0
    if is_negative:
        low = -low
        high = ~high + (low == 0)
    value = (float(high) * TWO_32 + float((low >> 32) & 0xFFFFFFFF)) * TWO_32 + float(low & 0xFFFFFFFF)
    return -value if is_negative else value


MOMENTS = step(moments)
