"""Loads of empty indexes: a large batch of one time is indexed as a whole, before other operators run over its rows.

In an ordinary run each slice of such a batch is extended by the slices before it, so every rule of a motif finds
matches, most of them in the long lists of vertices with many edges. After a load, an index has no rows of earlier
times. Then only the rule of the first atom finds matches: every other rule reads an index as of the time before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ctypes import Structure
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.builder.idle import idle_table
from deltamark.dataflow.builder.program import Op, Schedule
from deltamark.dataflow.codegen.compiled import Compiled, NodePart, reachable
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.guard import lent
from deltamark.dataflow.kernels.core.memory import narrow_view, view, words
from deltamark.dataflow.kernels.loops.iterate import ITERATE
from deltamark.dataflow.kernels.motifs.index import INSERT_INDEX, SETTLE_INDEX, IndexBlock
from deltamark.dataflow.kernels.ordered.sorting import DIGITS, sort_order
from deltamark.dataflow.kernels.program import InputBlock, ProgramBlock
from deltamark.dataflow.operators.input import Input, InputReader

LOAD_ROWS = 1 << 14
"""Rows of a slice of a load. Not measured."""

MAX_SPAN = 1 << 62
"""Rows are not ordered by a column of a wider range."""

INDEX_STEPS = (INSERT_INDEX, SETTLE_INDEX)


@dataclass(frozen=True)
class LoadedIndex:
    """An index, and the names of the inputs whose rows enter it."""

    block: Structure
    """The words of its `IndexBlock`."""
    inputs: frozenset[str]

    @classmethod
    def of(cls, op: Op) -> LoadedIndex:
        """Return the index into which an operator inserts."""
        nodes = [part.node for part in reachable([op.part]) if isinstance(part, NodePart)]
        return cls(IndexBlock(op.block).as_words, frozenset(each.name for each in nodes if isinstance(each, Input)))


class Loads:
    """The loads of a program: the operators that fill its indexes run over a batch first, and then all others."""

    def __init__(self, compiled: Compiled, schedule: Schedule) -> None:
        self._program, self._ordinary = compiled.program, ProgramBlock(schedule.block).as_words
        self._readers = dict(compiled.inputs)
        self._blocks = {name: InputBlock(reader.block).as_words for name, reader in self._readers.items()}
        indexing = [op for op in schedule.ops if op.step in INDEX_STEPS]
        needed = reachable(op.part for op in indexing)
        self._loading = [op for op in schedule.ops if op.part in needed]
        self._others = [op for op in schedule.ops if op.step not in INDEX_STEPS]
        can_load = all(map(self._is_repeatable, self._loading)) and all(op.step is not ITERATE for op in schedule.ops)
        self._indexes = [LoadedIndex.of(op) for op in indexing if can_load and op.step is INSERT_INDEX]
        self._schedules: list[Schedule] = []

    def _is_repeatable(self, op: Op) -> bool:
        """Return whether an operator belongs to an index, or keeps nothing and may run twice over the same rows."""
        keeps_rows = op.block in self._program.states or op.step.ends_times or op.step.grow is not None
        return op.step in INDEX_STEPS or not (keeps_rows or op.block in self._program.meetings)

    @property
    def is_due(self) -> bool:
        """Whether the bound rows take several slices, have one time, and enter only empty indexes."""
        if not self._indexes or max(each.rows for each in self._blocks.values()) <= self._ordinary.max_slice_rows:
            return False
        bound = self._bound()
        times = {view(each.times, each.rows)[at] for each in bound.values() for at in (0, -1)}
        is_divided = self._ordinary.batches != 0 or any(each.is_local for each in bound.values())
        return len(times) == 1 and not is_divided and all(each.live == 0 for each in self._filled(bound))

    def run(self, execute: Callable[[Schedule], None]) -> None:
        """Load the indexes with the bound rows, and run the other operators over these."""
        filled = self._filled(self._bound())
        load, others = self._scheduled()
        with self._ordered():
            execute(load)
            for block in self._blocks.values():
                block.position = 0
            for index in filled:
                index.loaded = 1
            execute(others)
            for index in filled:
                index.loaded = 0

    def close(self) -> None:
        """Release the schedules."""
        self._program.memory.release(*(each.block for each in self._schedules))
        self._schedules = []

    def _bound(self) -> dict[str, Structure]:
        """Return the inputs that have rows."""
        return {name: block for name, block in self._blocks.items() if block.rows > 0}

    def _filled(self, bound: Mapping[str, Structure]) -> list[Structure]:
        """Return the indexes that the rows of inputs enter."""
        return [each.block for each in self._indexes if each.inputs & bound.keys()]

    def _scheduled(self) -> list[Schedule]:
        """Return the schedule of a load, and that of the other operators."""
        if not self._schedules:
            inputs = [reader.block for reader in self._readers.values()]
            self._schedules = [
                self._program.schedule(inputs, ops, idle_table) for ops in (self._loading, self._others)
            ]  # fmt: skip
            load = ProgramBlock(self._schedules[0].block).as_words
            load.slice_rows = load.max_slice_rows = LOAD_ROWS
        return self._schedules

    @contextmanager
    def _ordered(self) -> Iterator[None]:
        """Bind the rows of each input in the order of its first column, so that rows with equal lists are adjacent."""
        with ExitStack() as stack:
            for name, block in self._bound().items():
                reader = self._readers[name]
                if all(width > 0 for _, width in reader.arrays.values()):
                    stack.enter_context(_reordered(reader, block))
            yield


@contextmanager
def _reordered(reader: InputReader, block: Structure) -> Iterator[None]:
    """Bind the rows of an input, which have one time, in the order of its first column."""
    widths, rows = [width for _, width in reader.arrays.values()], block.rows
    bases = words(reader.bases, len(widths))
    columns = [narrow_view(bases[at], width, rows) for at, width in enumerate(widths)]
    order = order_of(columns[0]) if columns else None
    if order is None:
        yield
        return
    diffs = view(block.diffs, 1 if block.inserts else rows)  # of insertions those of any rows are equal
    with lent(diffs if block.inserts else diffs[order], *(each[order] for each in columns)) as (weights, *moved):
        block.diffs = weights
        for at, each in enumerate(moved):
            bases[at] = each
        yield


def order_of(values: np.ndarray) -> np.ndarray | None:
    """Return the numbers of rows in the order of their values, or None if these have too wide a range."""
    low, high = int(values.min()), int(values.max())
    if high - low >= MAX_SPAN:
        return None
    numbers, rows, spare = values - np.int64(low), np.arange(len(values)), np.empty(len(values), np.int64)
    with lent(numbers, rows, spare, np.empty(DIGITS, np.int64)) as places:
        keys, order, scratch, counts = map(Array, places)
        sort_order(keys, order, scratch, len(values), counts)
    return rows
