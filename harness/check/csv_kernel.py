"""Kernels that write rows as lines of CSV, and hash these lines. The format is that of Python's csv module: fields are
quoted only if necessary, and NULL is an empty field.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit, uint64

from deltamark.dataflow import kernels  # it sets the directory of compiled code
from deltamark.dataflow.kernels.core.intrinsics import load, load8, store8
from deltamark.dataflow.types import NULL

__all__ = ["DATE", "NULL", "NUMBER", "SHORT", "TEXT", "digest", "kernels", "write"]

NUMBER, DATE, SHORT, TEXT = range(4)
"""The kinds of columns: integers times 10**-scale, days since 1970, packed short texts, numbers of texts."""

COMMA, QUOTE, NEWLINE, RETURN, POINT, MINUS, ZERO = map(ord, ',"\n\r.-0')

SEED_A, SEED_B = 0xCBF29CE484222325, 0x9AE16A3B2F90404F
TIMES_A, TIMES_B, TIMES_MIX = 0x100000001B3, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93

Array = np.ndarray

compiled = njit(cache=True, error_model="numpy", nogil=True)


@compiled
def _digits(value: int, least: int, out: int, at: int) -> int:
    """Write a number from 0 up with at least `least` digits."""
    rest, ten = uint64(value), uint64(10)
    width, limit = 1, ten
    while width < 19 and rest >= limit:
        width, limit = width + 1, limit * ten
    width = max(width, least)
    for place in range(at + width - 1, at - 1, -1):
        left = rest // ten
        store8(out, place, ZERO + int64(rest - left * ten))
        rest = left
    return at + width


@compiled
def _number(value: int, scale: int, out: int, at: int) -> int:
    if value < 0:
        store8(out, at, MINUS)
        value, at = -value, at + 1
    at = _digits(value, scale + 1, out, at)
    if scale > 0:
        for place in range(at, at - scale, -1):
            store8(out, place, load8(out, place - 1))
        store8(out, at - scale, POINT)
        at += 1
    return at


@compiled
def _date(days: int, out: int, at: int) -> int:
    """Write year, month and day. The calendar repeats every 146,097 days; in this computation, years begin in March."""
    shifted = days + 719468
    era = shifted // 146097
    day = shifted - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month, year = month + 3, year + era * 400
    if month > 12:
        month, year = month - 12, year + 1
    at = _digits(year, 4, out, at)
    store8(out, at, MINUS)
    at = _digits(month, 2, out, at + 1)
    store8(out, at, MINUS)
    return _digits(day + 1, 2, out, at + 1)


@compiled
def _quoted(first: int, at: int, out: int) -> int:
    """Quote the text that was written from `first` to `at`, if necessary."""
    quotes, special = 0, False
    for place in range(first, at):
        byte = load8(out, place)
        quotes += byte == QUOTE
        special |= byte in (COMMA, QUOTE, NEWLINE, RETURN)
    if not special:
        return at
    end = at + quotes + 2
    place = end - 1
    store8(out, place, QUOTE)
    for source in range(at - 1, first - 1, -1):
        place -= 1
        byte = load8(out, source)
        store8(out, place, byte)
        if byte == QUOTE:
            place -= 1
            store8(out, place, QUOTE)
    store8(out, first, QUOTE)
    return end


@compiled
def _text(number: int, offsets: int, data: int, out: int, at: int) -> int:
    first = at
    for source in range(load(offsets, number), load(offsets, number + 1)):
        store8(out, at, load8(data, source))
        at += 1
    return _quoted(first, at, out)


@compiled
def _short(packed: int, out: int, at: int) -> int:
    """Write a packed text of at most seven bytes (dataflow.types)."""
    first = at
    for byte in range(packed & 7):
        store8(out, at, (packed >> (3 + 8 * (6 - byte))) & 255)
        at += 1
    return _quoted(first, at, out)


@compiled
def _line(
    row: int, time: Array, diff: Array, values: Array, kinds: Array, scales: Array,
    offsets: int, data: int, out: int, at: int,
) -> int:  # fmt: skip
    """Write a row without its newline."""
    at = _number(time[row], 0, out, at)
    store8(out, at, COMMA)
    at = _number(diff[row], 0, out, at + 1)
    for column in range(len(kinds)):
        store8(out, at, COMMA)
        at += 1
        value, kind = values[column, row], kinds[column]
        if value == NULL:
            continue
        if kind == NUMBER:
            at = _number(value, scales[column], out, at)
        elif kind == DATE:
            at = _date(value, out, at)
        elif kind == SHORT:
            at = _short(value, out, at)
        else:
            at = _text(value, offsets, data, out, at)
    return at


@compiled
def write(
    time: Array, diff: Array, values: Array, kinds: Array, scales: Array, offsets: int, data: int, out: int
) -> int:
    """Write rows as lines to an address; return the number of bytes."""
    at = 0
    for row in range(len(time)):
        at = _line(row, time, diff, values, kinds, scales, offsets, data, out, at)
        store8(out, at, NEWLINE)
        at += 1
    return at


@compiled
def _mixed(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> uint64(32))) * uint64(TIMES_MIX)
    value = (value ^ (value >> uint64(32))) * uint64(TIMES_MIX)
    return value ^ (value >> uint64(32))


@compiled
def digest(
    time: Array, diff: Array, values: Array, kinds: Array, scales: Array, offsets: int, data: int, out: int
) -> Array:
    """Return the low and high 64 bits of the sum of the hashes of the lines."""
    low = high = uint64(0)
    for row in range(len(time)):
        a, b = uint64(SEED_A), uint64(SEED_B)
        for place in range(_line(row, time, diff, values, kinds, scales, offsets, data, out, 0)):
            byte = uint64(load8(out, place))
            a = (a ^ byte) * uint64(TIMES_A)
            b = (b ^ byte) * uint64(TIMES_B)
        before = low
        low += _mixed(b)
        high += _mixed(a) + (uint64(1) if low < before else uint64(0))
    return np.array([low, high], dtype=np.uint64)
