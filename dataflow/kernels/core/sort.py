"""Sort rows by a column of numbers from 0 up. It is stable: sorting by one column after another sorts by both."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import kernel, load, store

BITS = 11
DIGITS = 1 << BITS

FEW = 32
"""Rows that are sorted by insertion, which needs no counts."""


@kernel
def by(values: int, rows: int, spare: int, size: int, counts: int) -> int:
    """Sort row numbers by the values that lie at them; return where they are then, `rows` or `spare`.

    counts: DIGITS words of scratch.
    """
    if size <= FEW:
        _insert(values, rows, size)
        return rows
    bits, shift = 0, 0
    for at in range(size):
        bits |= load(values, at)
    while bits >> shift != 0:
        _pass(values, rows, spare, size, counts, shift)
        rows, spare = spare, rows
        shift += BITS
    return rows


@kernel
def _insert(values: int, rows: int, size: int) -> None:
    for at in range(1, size):
        row, place = load(rows, at), at
        while place > 0 and load(values, load(rows, place - 1)) > load(values, row):
            store(rows, place, load(rows, place - 1))
            place -= 1
        store(rows, place, row)


@kernel
def _pass(values: int, rows: int, into: int, size: int, counts: int, shift: int) -> None:
    """Deal the rows out by one digit."""
    for digit in range(DIGITS):
        store(counts, digit, 0)
    for at in range(size):
        digit = (load(values, at) >> shift) & (DIGITS - 1)
        store(counts, digit, load(counts, digit) + 1)
    start = 0
    for digit in range(DIGITS):
        count = load(counts, digit)
        store(counts, digit, start)
        start += count
    for at in range(size):
        row = load(rows, at)
        digit = (load(values, row) >> shift) & (DIGITS - 1)
        place = load(counts, digit)
        store(counts, digit, place + 1)
        store(into, place, row)
