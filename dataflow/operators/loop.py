"""Loop: the head, the entry of rows, the joins inside, and the reduction that ends the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from deltamark.dataflow.builder.keys import (
    MAX_PACKED_KEYS,
    Key,
    KeyIds,
    NamedValue,
    RowCount,
    key_columns,
    key_ids,
    key_of,
    key_values,
)
from deltamark.dataflow.builder.program import NO_VECTOR, BlockAddress, CellAddress, Program, VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, view
from deltamark.dataflow.kernels.hashing.hash_map import key_of as key_of_id
from deltamark.dataflow.kernels.loops import reduce_state as kernel
from deltamark.dataflow.kernels.loops.cycles import CycleDetector
from deltamark.dataflow.kernels.loops.iterate import ENTER, ITERATE, REPEAT, IterateBlock
from deltamark.dataflow.kernels.loops.join import LOOP_JOIN
from deltamark.dataflow.kernels.loops.reduce import BUFFER_UPDATES
from deltamark.dataflow.kernels.loops.reduce_state import LoopReduce, ReduceRow
from deltamark.dataflow.kernels.loops.trace import Trace, TraceRow
from deltamark.dataflow.kernels.loops.worklist import Worklist
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.errors import WeightOverflow, negative_multiplicity, wide_weight
from deltamark.dataflow.operators.grouped_rows import COMPLEMENTED, reverse_order
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Type, key_count
from deltamark.errors import DeltamarkError

MAX_ITERATIONS = 1 << 20
"""The iterations of a loop within one epoch; a loop that needs more is an error."""

TRACE_ENTRIES = 1024
"""Entries of a new trace's table. Not measured."""

MIN_SUMMED_ROWS = 64
"""Keys with more rows get running sums at their second evaluation in an epoch. Not measured."""

MIN_CYCLE_ITERATIONS = 64
"""Iterations of an epoch before its rows are compared with those of earlier iterations. Not measured."""

MAX_ROWS = 512
"""Rows that go through a loop's body together. Joins multiply them, and the result should stay in the cache. Not
measured."""

LARGEST_VALUE = kernel.NO_VALUE - 1


@dataclass(frozen=True)
class Closing:
    """The end of a body: rows are kept per key, either by multiplicity or by the best value of a column.

    below: the node whose rows are reduced; of: the column whose best value is kept; least: the least multiplicity.
    """

    below: Node
    keys: tuple[str, ...]
    of: str | None = None
    which: Literal["largest", "smallest"] = "smallest"
    least: int = 1


def enter(stream: Stream, names: Sequence[str], *, is_beginning: bool) -> tuple[BlockAddress, Stream]:
    """Append the buffering of a stream outside the loop; return its block, and the stream of the rows that enter."""
    program = stream.program
    inputs = [stream.time, stream.diff, *map(stream.column, names)]
    out, size = [program.vector() for _ in inputs], program.cell()
    buffers = [program.memory.reserve_unset(UNBOUNDED_WORDS) for _ in inputs]
    block = program.add(
        ENTER, size=stream.size, columns=len(inputs), inputs=program.table(inputs),
        buffers=program.table(buffers), out_size=size, out=program.table(out), is_beginning=is_beginning,
    )  # fmt: skip
    columns = dict(zip(names, out[2:], strict=True))
    return block, Stream(program, size, out[0], out[1], columns.__getitem__, columns)


def check_key(names: Sequence[str], types: Sequence[Type]) -> None:
    """Refuse keys that do not pack, since a loop does not intern."""
    if key_count(types) > MAX_PACKED_KEYS:
        actual = f"{', '.join(names)}: {key_count(types)} values"
        raise DeltamarkError("a key of a loop does not fit in 62 bits", actual, "declare narrower bounds")


def check_value(name: str, type_: Type) -> None:
    """Refuse values of which the reduction of a loop cannot keep the best."""
    if not -LARGEST_VALUE < type_.low <= type_.high < LARGEST_VALUE:
        actual = f"{name}: {type_.low}..{type_.high}"
        raise DeltamarkError("a value of a loop does not fit in 62 bits", actual, "declare narrower bounds")


def key_in_loop(stream: Stream, names: Sequence[str], types: Sequence[Type]) -> Key:
    """Append the numbering of rows by key columns."""
    assert key_count(types) <= MAX_PACKED_KEYS, "see check_key"
    return key_of(stream, names, types)


@dataclass(frozen=True)
class LoopSide:
    """A stream inside a loop with its key, and the names of the columns that are kept in its trace."""

    stream: Stream
    key: Key
    keys: KeyIds
    names: Sequence[str] = ()


def _trace(side: LoopSide, columns: Sequence[VectorAddress], *, key_width: int, record_words: int) -> BlockAddress:
    """Make the trace of a stream, which stores the values in the cells `columns`."""
    stream, program, memory = side.stream, side.stream.program, side.stream.program.memory
    reserve, unset = memory.reserve, memory.reserve_unset
    return program.block(
        Trace, size=stream.size, iteration=stream.time, diff=stream.diff, key=side.key.cell, keys=side.keys.block,
        columns=len(columns), inputs=program.table(columns), resolved=program.words(max(len(columns), 1)),
        ids=unset(UNBOUNDED_WORDS), hashes=unset(UNBOUNDED_WORDS), slots=unset(UNBOUNDED_WORDS),
        lists=side.keys.reserve(memory, -(-key_width // 2)), key_width=key_width, table=reserve(UNBOUNDED_WORDS),
        mask=TRACE_ENTRIES - 1, records=unset(UNBOUNDED_WORDS), record_words=record_words,
    )  # fmt: skip


class LoopJoinState(WeightOverflow):
    """The trace of a join inside a loop."""

    def __init__(self, trace: BlockAddress) -> None:
        self._trace = Trace(trace)

    def rows(self) -> int:
        return self._trace.used


def loop_join(
    side: LoopSide, outer: Arrangement, stored: Mapping[str, Term], now: CellAddress
) -> tuple[BlockAddress, Stream]:
    """Append a join with an arrangement, which stores other columns as terms; return its block and its output.

    now: the cell of the epoch.
    """
    program, columns = side.stream.program, [side.stream.column(name) for name in side.names]
    trace = _trace(side, columns, key_width=1, record_words=TraceRow.size_in_words + len(columns))
    size, iteration, diff, slot, *out = (program.cell(), *(program.vector() for _ in range(3 + len(columns))))
    block = program.add(
        LOOP_JOIN, trace=trace, outer=outer.block, now=now, size=size, iteration=iteration,
        diff=diff, slot=slot, columns=program.table(out), hits=program.memory.reserve_unset(UNBOUNDED_WORDS),
    )  # fmt: skip
    program.add_state(LoopJoinState(trace))
    computed = dict(zip(side.names, out, strict=True))

    def compute(name: str) -> VectorAddress:
        cell, width = outer.stored[stored[name]]
        return stream.take(cell, slot, width)

    stream = Stream(program, size, iteration, diff, compute, computed)
    return block, stream


class ChangeCells(NamedTuple):
    """The cells of changes that a reduction writes."""

    size: CellAddress
    time: VectorAddress
    diff: VectorAddress
    key: VectorAddress
    value: VectorAddress

    @classmethod
    def of(cls, program: Program) -> ChangeCells:
        return cls(program.cell(), *(program.vector() for _ in range(4)))


@dataclass(frozen=True)
class LoopReduction:
    """The reduction that ends a loop's body: its block, and its outputs."""

    program: Program
    block: BlockAddress
    closing: Closing
    feedback: ChangeCells
    """The changes that the next iteration begins with."""
    answer: ChangeCells
    """The changes of the loop's result."""

    @classmethod
    def of(cls, program: Program, closing: Closing, now: CellAddress) -> LoopReduction:
        """Make the block of a reduction, whose input follows; see `append`. now: the cell of the epoch."""
        reserve, feedback, answer = program.memory.reserve, ChangeCells.of(program), ChangeCells.of(program)
        worklist = program.block(
            Worklist, lists=reserve(MAX_ITERATIONS), nodes=reserve(UNBOUNDED_WORDS), heap=reserve(MAX_ITERATIONS + 2)
        )
        cycles = program.block(CycleDetector, digests=reserve(MAX_ITERATIONS + 2), min_iterations=MIN_CYCLE_ITERATIONS)
        block = program.block(
            LoopReduce, worklist=worklist, cycles=cycles, min_weight=closing.least, max_iterations=MAX_ITERATIONS,
            min_summed_rows=MIN_SUMMED_ROWS, now=now, changed_keys=reserve(UNBOUNDED_WORDS),
            evaluated_keys=reserve(UNBOUNDED_WORDS), sorted_rows=reserve(UNBOUNDED_WORDS),
            sums=reserve(UNBOUNDED_WORDS), size=feedback.size, iteration=feedback.time, diff=feedback.diff,
            key=feedback.key, value=feedback.value, answer_size=answer.size, answer_time=answer.time,
            answer_diff=answer.diff, answer_key=answer.key, answer_value=answer.value,
        )  # fmt: skip
        return cls(program, block, closing, feedback, answer)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(self.closing.below.schema[name] for name in self.closing.keys)

    @property
    def key(self) -> Key:
        """The form of the keys in the outputs."""
        return Key(NO_VECTOR, 0, 0, "single" if len(self.types) == 1 and not self.types[0].nullable else "packed")

    @property
    def complement(self) -> int | None:
        """The number from which values are subtracted so that the greatest becomes the least, if they are."""
        return None if self.closing.which == "smallest" else COMPLEMENTED

    def append(self, stream: Stream, rows: int) -> None:
        """Append the reduction of the body's rows. rows: their expected number."""
        key = key_in_loop(stream, self.closing.keys, self.types)
        side = LoopSide(stream, key, key_ids(self.program, key, RowCount(rows), stream.size))
        record_words = ReduceRow.size_in_words
        trace = _trace(side, [self._value(stream)], key_width=kernel.STATE_WIDTH, record_words=record_words)
        LoopReduce(self.block).as_words.trace = trace
        self.program.add(BUFFER_UPDATES, reduce=self.block)
        self.program.add_state(self)

    def _value(self, stream: Stream) -> VectorAddress:
        """Return the cell of the values of which the least is kept."""
        of = self.closing.of
        if of is None:
            return self.program.zeros
        return reverse_order(stream, stream.column(of), self.complement)

    def stream(self, cells: ChangeCells) -> Stream:
        """Return an output as a stream."""
        stream = Stream(self.program, cells.size, cells.time, cells.diff, lambda name: columns[name]())
        columns = dict(key_columns(stream, cells.key, self.key, self.closing.keys, self.types) if self.types else {})
        if self.closing.of is not None:
            columns[self.closing.of] = lambda: reverse_order(stream, cells.value, self.complement)
        return stream

    def rows(self) -> int:
        return LoopReduce(self.block).trace.used

    def problem(self) -> DeltamarkError:
        reduce = LoopReduce(self.block)
        remedy = "keep a value that converges, such as a smallest or a largest one"
        match reduce.error:
            case kernel.ENDLESS:
                message = f"a loop has not converged after {MAX_ITERATIONS} iterations"
                return DeltamarkError(message, f"time {reduce.now}", remedy, time=reduce.now)
            case kernel.CYCLE:
                actual = f"the same rows again after {reduce.error_value} iterations, time {reduce.now}"
                return DeltamarkError("a loop does not converge", actual, remedy, time=reduce.now)
            case kernel.NEGATIVE_WEIGHT:
                return negative_multiplicity(self.program, self._row(reduce), reduce.now)
        return wide_weight()

    def _row(self, reduce: LoopReduce) -> list[NamedValue]:
        """Return the row of negative weight."""
        number = int(key_of_id(reduce.trace.keys, reduce.error_key))
        row = key_values(self.key, number, self.closing.keys, self.types)
        if self.closing.of is not None:
            value = reduce.error_value
            type_ = self.closing.below.schema[self.closing.of]
            row.append(
                NamedValue(self.closing.of, type_, value if self.complement is None else self.complement - value)
            )
        return row


@dataclass(frozen=True)
class LoopHead:
    """The head of a loop: its block, and its position among the operators."""

    program: Program
    block: BlockAddress
    position: int

    @classmethod
    def of(
        cls, program: Program, sources: Sequence[BlockAddress], joins: int, reduction: LoopReduction, now: CellAddress
    ) -> LoopHead:
        """Append the head of a loop. joins: the number of joins inside; now: the cell of the epoch."""
        position = len(program.ops)
        block = program.add(
            ITERATE, frontier=program.frontier, now=now, max_rows=MAX_ROWS,
            source_count=len(sources), sources=program.table(sources), join_count=joins,
            joins=program.words(max(joins, 1)), reduce=reduction.block,
        )  # fmt: skip
        program.add_state(reduction)
        return cls(program, block, position)

    def repeat(self, joins: Sequence[BlockAddress]) -> None:
        """Append the end of the loop. joins: the blocks of the joins inside, the last one first."""
        head, length = IterateBlock(self.block), len(self.program.ops) - self.position
        head.length = length
        view(head.joins.address, max(len(joins), 1))[: len(joins)] = joins
        self.program.add(REPEAT, length=length)
