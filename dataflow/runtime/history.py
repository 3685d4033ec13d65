"""History: feed the rows that were live at a time to the operators of a newly attached plan.

The new operators have two kinds of sources: inputs, whose live rows are read from an arrangement or given by the user,
and joins, whose pairs are read from the complete arrangements of both sides. One source after another emits its rows,
slice by slice, to the operators behind it; joins themselves do not run. All rows have one logical time.

If nothing is subtracted, the time may end after every slice: operators that emit at the end of a time then emit a few
rows at a time. Otherwise each of them becomes a source too, which emits its rows after all sources before it. A loop
is always such a source: it collects the rows that enter it, and runs once they are complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from deltamark.dataflow.batch import Batch, Column
from deltamark.dataflow.builder.program import SLICE_ROWS, Op, Program, Schedule, wait_alone
from deltamark.dataflow.codegen.compiled import SharedArrangement
from deltamark.dataflow.kernels.arrangements import join_cursor as kernel
from deltamark.dataflow.kernels.arrangements.join import JOIN, JoinBlock
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import Scratch, view
from deltamark.dataflow.kernels.hashing.hash_map import id_limit
from deltamark.dataflow.kernels.loops.iterate import ITERATE, IterateBlock
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.passes.share import ArrangementKey

BATCH_ROWS = 1 << 14
"""The most rows of an arrangement that are read as one batch. Not measured."""


class HistoryLoad:
    """Loads history into the new operators of a program. scratch: has the memory that is needed meanwhile."""

    def __init__(self, program: Program, ops: Sequence[Op], scratch: Scratch, *, subtracts: bool) -> None:
        self._program, self._scratch = program, scratch
        self._loops = {each: _loop(ops, at) for at, each in enumerate(ops) if each.step is ITERATE}
        looping = {each for loop in self._loops.values() for each in loop}
        self._sources = [each for each in ops if each.step in (JOIN, ITERATE) or (subtracts and each.step.ends_times)]
        self._others = [each for each in ops if each.step is not JOIN and each not in looping]
        self._subtracts = subtracts

    def steps(self, inputs: Iterable[Iterator[None]], time: int) -> Iterator[None]:
        """Run the operators slice by slice. inputs: iterators that bind an input to one slice after another."""
        everything = self._schedule(self._others)
        frontier = time if self._subtracts else time + 1
        for each in self._sources:
            if each.step is JOIN:
                _empty(each)
        for _ in chain.from_iterable(inputs):
            self._run(everything, frontier)
            yield
        self._run(everything, frontier)  # an aggregate over no rows has a row
        for each in self._sources:
            if each.step is JOIN:
                for _ in self._pairs(each, time):
                    self._run(everything, frontier)
                    yield
                _empty(each)
            elif each in self._loops:
                self._iterate(each, time)
                self._run(everything, frontier)
                IterateBlock(each.block).reduce.answer_size = 0
                yield
            else:
                self._run(everything, time)  # leaves no rows between operators
                self._end(each, time)
                yield
        self._run(everything, time + 1)

    def _schedule(self, ops: Sequence[Op]) -> Schedule:
        schedule = self._program.schedule([], ops)
        self._scratch.own(schedule.block)
        return schedule

    def _end(self, op: Op, time: int) -> None:
        """Let one operator end the time, and the others read what it emits."""
        others = [each for each in self._others if each is not op]
        for ops, frontier in (([op], time + 1), (others, time)):
            self._run(self._schedule(ops), frontier)

    def _iterate(self, op: Op, time: int) -> None:
        """Run a loop over the rows that have entered it, with arrangements that have no new updates."""
        iterate = IterateBlock(op.block)
        joins, iterate.join_count = iterate.join_count, 0
        self._run(self._schedule(self._loops[op]), time + 1)
        iterate.join_count = joins

    def _pairs(self, op: Op, time: int) -> Iterator[None]:
        """Let a join emit the pairs of the rows that both sides store."""
        join = JoinBlock(op.block)
        sides = sorted((join.left, join.right), key=lambda side: id_limit(side.rows.keys))
        cursor = kernel.cursor_over(self._scratch.reserve, time, *map(kernel.read_by, sides))
        done = False
        while not done:
            done = kernel.pairs(join, cursor, SLICE_ROWS)
            if join.overflow:
                raise self._program.states[op.block].problem()
            yield

    def _run(self, loop: Schedule, frontier: int) -> None:
        view(self._program.frontier, 1)[0] = frontier
        self._program.run(loop, 0, wait_alone)


def _empty(join: Op) -> None:
    JoinBlock(join.block).size = 0


def _loop(ops: Sequence[Op], at: int) -> list[Op]:
    """Return the operators of the loop whose first operator is at an index."""
    return list(ops[at : at + 1 + IterateBlock(ops[at].block).length])


def arranged(kept: Iterable[SharedArrangement], of: Node, names: Sequence[str]) -> SharedArrangement | None:
    """Return an arrangement of a node's rows that stores these columns, or None."""
    return next(
        (each for each in kept if each.key.node is of and set(names) <= _columns(each.arrangement) | _single(each.key)),
        None,
    )


def _columns(arrangement: Arrangement) -> set[str]:
    """Return the names of the columns that are stored unchanged."""
    return {term.value for term in arrangement.stored if term.op == "column"}


def _single(key: ArrangementKey) -> set[str]:
    """Return the name of a key's only column, whose values are the key itself."""
    return set(key.names) if len(key.names) == 1 and not key.types[0].nullable else set()


def rows_of(scratch: Scratch, kept: SharedArrangement, names: Sequence[str], time: int) -> Iterator[Batch]:
    """Yield columns of an arrangement's rows as of a time, consolidated, in batches that may be empty.

    scratch: has the memory that is needed meanwhile.
    """
    arrangement, single = kept.arrangement, _single(kept.key)
    terms = {term.value: term for term in arrangement.stored if term.op == "column"}
    place, is_last = scratch.reserve(3 * BATCH_ROWS), False
    cursor = kernel.cursor_over(scratch.reserve, time, {"rows": arrangement.block})
    slots, keys, weights = np.split(view(place, 3 * BATCH_ROWS), 3)
    places = [Array(place + 8 * part * BATCH_ROWS) for part in range(3)]
    while not is_last:
        is_last = kernel.rows(cursor, BATCH_ROWS, *places)
        found, rows = cursor.size, dict[str, Column]()
        for name in names:
            if name in single:
                rows[name] = keys[:found].copy()
            else:
                rows[name] = arrangement.values(terms[name], slots[:found])
        yield Batch(np.full(found, time), weights[:found].copy(), rows)
