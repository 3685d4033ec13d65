"""The intersection of two sorted lists of 4-byte numbers.

Lists of similar lengths are merged eight numbers at a time: each of the eight of one list is compared with each of the
other's, and then the eight with the smaller last number is done. Numbers are written without a branch on whether they
are in both lists: a number that is not is overwritten by the next one.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Array32
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.simd import LANES, matches
from deltamark.dataflow.kernels.ordered.sorted_lists import seek

MAX_MERGE_RATIO = 16
"""If a list is more than MAX_MERGE_RATIO times longer than the other, it is searched, not merged: measured, a search
takes 12 ns a number of the short list, and merging 4 to 6 ns."""


@kernel
def intersect(a: Array32, a_size: int, b: Array32, b_size: int, low: int, out: Array) -> int:
    """Write each number of both lists, plus `low`; return their count. `out` needs room for LANES numbers more."""
    if a_size > MAX_MERGE_RATIO * b_size:
        return _intersect_by_search(b, b_size, a, a_size, low, out)
    if b_size > MAX_MERGE_RATIO * a_size:
        return _intersect_by_search(a, a_size, b, b_size, low, out)
    at = place = kept = 0
    while at + LANES <= a_size and place + LANES <= b_size:
        bits, x, y = matches(a[at:], b[place:]), a[at + LANES - 1], b[place + LANES - 1]
        if bits != 0:
            for lane in range(LANES):
                out[kept] = a[at + lane] + low
                kept += (bits >> lane) & 1
        at += LANES * (x <= y)
        place += LANES * (y <= x)
    while at < a_size and place < b_size:
        x, y = a[at], b[place]
        out[kept] = x + low
        kept += x == y
        at += x <= y
        place += y <= x
    return kept


@kernel
def _intersect_by_search(short: Array32, size: int, long: Array32, long_size: int, low: int, out: Array) -> int:
    place = kept = 0
    for at in range(size):
        number = short[at]
        place = seek(Array(long), 4, place, long_size, number)
        if place == long_size:
            break
        out[kept] = number + low
        kept += long[place] == number
    return kept
