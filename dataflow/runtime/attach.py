"""Bring operators that were compiled into a running program to where it is: compacted history first.

Their sources are inputs, of which the rows that are live are needed, and joins, whose pairs are read from the
arrangements of both sides once these are complete. One source after another hands out its rows, slice by slice, to
the operators behind it; joins themselves do not run. All of it is one logical time, the last that was fed. Where
nothing is subtracted each slice may end that time, so that what looks at its end always has few rows to hand out;
otherwise each such operator is a source as well, which hands out its rows when all before it have. So is a loop in
any case: what enters waits, and it runs when that is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from deltamark.dataflow.batch import Batch, Column
from deltamark.dataflow.codegen.compiled import Arranged, Kept
from deltamark.dataflow.codegen.program import SLICE_ROWS, Loop, Op, Program, nobody
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.arrangements import join_cursor as kernel
from deltamark.dataflow.kernels.arrangements.join import Join
from deltamark.dataflow.kernels.arrangements.join_cursor import CursorSide
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.hash_map import id_limit
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.loops.iterate import Iterate
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.plan.nodes import Node

ENDING = (vm.AGGREGATE, vm.THRESHOLD, vm.WATCH, vm.CONSOLIDATE)
"""Operators that look at the end of a time."""

MANY_ROWS = 1 << 14
"""Rows of an arrangement that are copied at once."""


class History:
    """What a program's new operators are to see of the past."""

    def __init__(self, program: Program, ops: Sequence[Op], *, subtracts: bool) -> None:
        ending = ENDING if subtracts else ()
        self._program = program
        self._loops = {each: _loop(ops, at) for at, each in enumerate(ops) if _code(each) == vm.ITERATE}
        looping = {each for loop in self._loops.values() for each in loop}
        self._sources = [each for each in ops if _code(each) in (vm.JOIN, vm.ITERATE, *ending)]
        self._others = [each for each in ops if _code(each) != vm.JOIN and each not in looping]
        self._subtracts = subtracts

    def steps(self, inputs: Iterable[Iterator[None]], time: int) -> Iterator[None]:
        """Run the operators slice by slice. inputs: each aims an input's cells at one slice after another."""
        everything = self._program.loop([], self._others)
        frontier = time if self._subtracts else time + 1
        for each in self._sources:
            if _code(each) == vm.JOIN:
                _empty(each)
        for _ in chain.from_iterable(inputs):
            self._run(everything, frontier)
            yield
        self._run(everything, frontier)  # what is there without any rows
        for each in self._sources:
            if _code(each) == vm.JOIN:
                for _ in self._pairs(each, time):
                    self._run(everything, frontier)
                    yield
                _empty(each)
            elif each in self._loops:
                self._iterate(each, time)
                self._run(everything, frontier)
                Iterate(each.block).reduce.answer_size = 0
                yield
            else:
                self._run(everything, time)  # which leaves nothing between operators
                self._end(each, time)
                yield
        self._run(everything, time + 1)
        self._program.memory.release(everything.block)

    def _end(self, op: Op, time: int) -> None:
        """Let an operator end the time, and the others see what it hands out."""
        loops = self._program.loop([], [op]), self._program.loop([], [each for each in self._others if each is not op])
        for loop, frontier in zip(loops, (time + 1, time), strict=True):
            self._run(loop, frontier)
            self._program.memory.release(loop.block)

    def _iterate(self, op: Op, time: int) -> None:
        """Let a loop run over what waits there, in arrangements that have nothing new."""
        iterate = Iterate(op.block)
        joins, iterate.join_count = iterate.join_count, 0
        loop = self._program.loop([], self._loops[op])
        self._run(loop, time + 1)
        self._program.memory.release(loop.block)
        iterate.join_count = joins

    def _pairs(self, op: Op, time: int) -> Iterator[None]:
        """Have a join hand out the pairs of what both sides hold."""
        join = Join(op.block)
        sides = sorted((join.left, join.right), key=lambda side: id_limit(side.rows.keys))
        with kernel.cursor_over(self._program.memory, time, *map(kernel.position, sides)) as cursor:
            done = False
            while not done:
                done = kernel.pairs(join, cursor, SLICE_ROWS)
                if join.overflow:
                    raise self._program.states[op.block].problem()
                yield

    def _run(self, loop: Loop, frontier: int) -> None:
        view(self._program.frontier, 1)[0] = frontier
        self._program.run(loop, 0, nobody)


def _code(op: Op) -> int:
    return int(view(op.block, 1)[0])


def _empty(join: Op) -> None:
    Join(join.block).size = 0


def _loop(ops: Sequence[Op], at: int) -> list[Op]:
    """Return the operators of the loop that begins at a place."""
    return list(ops[at : at + 1 + Iterate(ops[at].block).length])


def arranged(kept: Iterable[Kept], of: Node, names: Sequence[str]) -> Kept | None:
    """Return an arrangement of a node's rows that has these columns, if there is one."""
    return next(
        (each for each in kept if each.what[0] is of and set(names) <= _columns(each.arrangement) | _single(each.what)),
        None,
    )


def _columns(arrangement: Arrangement) -> set[str]:
    """Name the columns that are stored as they come."""
    return {term.value for term in arrangement.stored if term.op == "column"}


def _single(what: Arranged) -> set[str]:
    """Name the only column of a key, which the key itself is."""
    return set(what[2]) if len(what[2]) == 1 and not what[3][0].nullable else set()


def rows_of(memory: Memory, kept: Kept, names: Sequence[str], time: int) -> Iterator[Batch]:
    """Read columns of an arrangement's rows as of a time."""
    arrangement, single = kept.arrangement, _single(kept.what)
    columns = {term.value: cell for term, cell in arrangement.stored.items() if term.op == "column"}
    position = CursorSide.words(rows=arrangement.block)
    with memory.borrowed(3 * MANY_ROWS) as place, kernel.cursor_over(memory, time, position) as cursor:
        slots, keys, weights = np.split(view(place, 3 * MANY_ROWS), 3)
        places = [Array(place + 8 * part * MANY_ROWS) for part in range(3)]
        while found := kernel.rows(cursor, MANY_ROWS, *places):
            rows: dict[str, Column] = {}
            for name in names:
                if name in single:
                    rows[name] = keys[:found].copy()
                else:
                    rows[name] = view(int(view(columns[name], 1)[0]), arrangement.slots())[slots[:found]]
            yield Batch(np.full(found, time), weights[:found].copy(), rows)
