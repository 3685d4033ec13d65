"""Runs of the kernels of filters, and cases of them at sizes around those of a vector, a chunk and a slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.engines.kernel_blocks import Blocks

from deltamark.dataflow.kernels import filters
from deltamark.dataflow.kernels.core.blocks import Block
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.filters import FilterRowsBlock, FilterTrueBlock, RowTest

SIZES = (0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 4095, 4096, 4097)
SHARES = (0.0, 0.005, 0.15, 0.5, 0.99, 1.0)
"""Shares of rows that pass a test. After one that fewer than a row in 64 passes, tests read the rows that are left."""

UNTOUCHED = -77
"""The content of the words behind an output."""


@dataclass(frozen=True)
class ColumnTest:
    """A test of a column: its values lie in a range, or are less (or not less) than those of another one."""

    values: Sequence[int]
    low: int = 0
    high: int = 0
    others: Sequence[int] | None = None
    inverted: int = 0
    width: int = 8

    @property
    def passed(self) -> np.ndarray:
        """Whether each row passes the test."""
        values = np.array(self.values, np.int64)
        if self.others is None:
            return (values >= self.low) & (values <= self.high)
        return (values < np.array(self.others, np.int64)) != (self.inverted != 0)


class FilterRun:
    """The memory of one run of a filter."""

    def __init__(self) -> None:
        self._blocks = Blocks()

    def kept_rows(self, tests: Sequence[ColumnTest], selected: Sequence[int] | None) -> list[int]:
        """Return the rows that pass tests, of a slice or of a selection of its rows."""
        blocks = [
            self._blocks.block(
                RowTest, values=self._vector(each.values, each.width), width=each.width, low=each.low, high=each.high,
                other=0 if each.others is None else self._vector(each.others, each.width), inverted=each.inverted,
            ).address
            for each in tests
        ]  # fmt: skip
        size = len(tests[0].values) if selected is None else len(selected)
        table = self._blocks.words(blocks)
        return self._kept(
            filters.filter_rows, FilterRowsBlock, size, selected=self._selection(selected), tests=table,
            count=len(blocks),
        )  # fmt: skip

    def true_rows(self, condition: Sequence[int], selected: Sequence[int] | None) -> list[int]:
        """Return the rows whose condition holds, of a slice or of a selection, with which the condition is aligned."""
        cells = {"selected": self._selection(selected), "condition": self._vector(condition, 8)}
        return self._kept(filters.filter_true, FilterTrueBlock, len(condition), **cells)

    def _vector(self, values: Sequence[int], width: int) -> int:
        """Return the cell of values of some bytes."""
        content = np.array(values, f"i{width}").tobytes()
        whole = content.ljust(-(-len(content) // 8) * 8, b"\0")
        return self._blocks.cell(self._blocks.words(np.frombuffer(whole, np.int64)))

    def _selection(self, selected: Sequence[int] | None) -> int:
        return 0 if selected is None else self._vector(selected, 8)

    def _kept(self, kernel: Any, kind: type[Block], rows: int, **fields: int) -> list[int]:
        """Return the rows in the output of a filter, which must not write behind the rows of its input."""
        output = self._blocks.words([UNTOUCHED] * (rows + 64))
        size, out, out_size = self._blocks.cell(rows), self._blocks.cell(output), self._blocks.cell(-1)
        kernel(self._blocks.block(kind, size=size, out=out, out_size=out_size, **fields))
        assert (view(output, rows + 64)[rows:] == UNTOUCHED).all()
        return view(output, int(view(out_size, 1)[0])).tolist()


def wrong_cases() -> list[str]:
    """List the cases in which the kernels keep other rows than numpy, with whatever kernels this process has."""
    return [name for name, kept, expected in _cases() if kept != expected]


def _cases() -> Iterator[tuple[str, list[int], list[int]]]:
    """Yield the name of each case, the rows that a kernel keeps and the expected ones."""
    rng = np.random.default_rng(1)
    for size in SIZES:
        for share in SHARES:
            case, width = f"{size} rows, of which {share} pass", int(rng.choice([1, 2, 4, 8]))
            bits = 8 * min(width, 4)
            values, others = rng.integers(-(1 << bits - 1), 1 << bits - 1, (2, size))
            bound = int(-(1 << bits - 1) + share * (1 << bits)) - 1
            of_range = ColumnTest(values, -(2**40), bound, width=width)
            of_others = ColumnTest(values, others=others, inverted=-int(rng.integers(2)), width=width)
            other_range = ColumnTest(others, -(1 << bits - 2), 1 << bits - 2, width=max(width, 4))
            some = np.flatnonzero(rng.random(size) < 0.7)
            for tests in ([of_range], [of_others], [of_range, of_others], [of_others, of_range, other_range]):
                passed = np.logical_and.reduce([each.passed for each in tests])
                yield f"{case}: {tests}", FilterRun().kept_rows(tests, None), np.flatnonzero(passed).tolist()
                yield f"{case}, of some: {tests}", FilterRun().kept_rows(tests, some), some[passed[some]].tolist()
            condition = of_range.passed.astype(int)
            yield f"{case}: a condition", FilterRun().true_rows(condition, None), np.flatnonzero(condition).tolist()
            rows = 3 * np.arange(size)
            yield f"{case}, of some: a condition", FilterRun().true_rows(condition, rows), rows[condition == 1].tolist()
