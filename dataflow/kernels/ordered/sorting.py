"""A stable sort of row numbers by the values of the rows, which are not negative.

Because it is stable, sorting by one column and then by another sorts by the second and, among equals, by the first.

Shell sort of records, which are short and often nearly in order.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel


@inline
def sort_records(records: Array, count: int, words: int) -> None:
    """Sort records by their first words. The record behind them is scratch."""
    scratch, gap = records[words * count :], 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for start in range(gap, count):
            for word in range(words):
                scratch[word] = records[words * start + word]
            first, at = scratch[0], start
            while at >= gap and records[words * (at - gap)] > first:
                for word in range(words):
                    records[words * at + word] = records[words * (at - gap) + word]
                at -= gap
            for word in range(words):
                records[words * at + word] = scratch[word]
        gap //= 3


DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS

MAX_INSERTION_ROWS = 32
"""Up to this number rows are sorted by insertion, which needs no counts. Not measured."""


@kernel
def sort_rows(values: Array, rows: Array, spare: Array, size: int, counts: Array) -> Array:
    """Sort row numbers by the values at them; return the array that holds the result, `rows` or `spare`.

    counts: scratch of DIGITS words.
    """
    if size <= MAX_INSERTION_ROWS:
        _sort_by_insertion(values, rows, size)
        return rows
    bits, shift = 0, 0
    for at in range(size):
        bits |= values[at]
    while bits >> shift != 0:
        _sort_by_digit(values, rows, spare, size, counts, shift)
        rows, spare = spare, rows
        shift += DIGIT_BITS
    return rows


@kernel
def sort_order(values: Array, rows: Array, spare: Array, size: int, counts: Array) -> None:
    """Sort row numbers by the values at them, in `rows`; the other arguments are those of `sort_rows`."""
    found = sort_rows(values, rows, spare, size, counts)
    if found.address != rows.address:
        for at in range(size):
            rows[at] = found[at]


@kernel
def _sort_by_insertion(values: Array, rows: Array, size: int) -> None:
    for at in range(1, size):
        row, place = rows[at], at
        while place > 0 and values[rows[place - 1]] > values[row]:
            rows[place] = rows[place - 1]
            place -= 1
        rows[place] = row


@kernel
def _sort_by_digit(values: Array, rows: Array, target: Array, size: int, counts: Array, shift: int) -> None:
    """Write the rows to `target` in order of one digit of their values: one pass of radix sort."""
    for digit in range(DIGITS):
        counts[digit] = 0
    for at in range(size):
        counts[(values[at] >> shift) & (DIGITS - 1)] += 1
    start = 0
    for digit in range(DIGITS):
        count = counts[digit]
        counts[digit] = start
        start += count
    for at in range(size):
        row = rows[at]
        digit = (values[row] >> shift) & (DIGITS - 1)
        place = counts[digit]
        counts[digit] = place + 1
        target[place] = row
