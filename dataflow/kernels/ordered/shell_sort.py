"""Shell sort of records, which are short and often nearly in order."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline


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
