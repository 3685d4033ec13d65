"""Consolidate: leaves one update for each row and time, and none of weight zero.

Rows wait in a buffer until their time has ended. The rows of a time are found by a hash of their values, in a table
that is cleared by visiting the same rows again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.blocks import Array, Arrays, Cell, Operator, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.intrinsics import wraps
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, Memory
from deltamark.dataflow.kernels.core.steps import doubled, move_table, step
from deltamark.dataflow.kernels.hashing.mixing import mix
from deltamark.dataflow.kernels.status import DONE, FAILED, NEEDS_ROOM
from deltamark.dataflow.operators.by_key import Merging
from deltamark.dataflow.operators.errors import WeightOverflow
from deltamark.dataflow.operators.node import Emission, JoinReads, Requirement, is_unique

TABLE_ENTRIES = 1 << 14
"""Entries of a new table of rows. Not measured."""


@dataclass(frozen=True, eq=False)
class Consolidate(Merging):
    """The rows with one update per row and time."""

    consolidated: ClassVar[bool] = True

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, columns)]

    def determines(self, names: frozenset[str]) -> bool:
        return is_unique(self.rows, names)

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        return consolidated(streams[0], emission.columns(self))


def consolidated(stream: Stream, names: Sequence[str]) -> Stream:
    """Append the consolidation of some columns of a stream."""
    program = stream.program
    inputs = [stream.time, stream.diff, *map(stream.column, names)]
    size, out = program.cell(), [program.vector() for _ in inputs]
    buffers = [program.memory.reserve_unset(UNBOUNDED_WORDS) for _ in inputs]
    program.add(
        CONSOLIDATE, size=stream.size, columns=len(inputs), inputs=program.table(inputs),
        frontier=program.frontier, buffer=program.table(buffers), table=program.memory.reserve(TABLE_ENTRIES),
        mask=TABLE_ENTRIES - 1, out_size=size, out=program.table(out),
    )  # fmt: skip
    program.add_state(WeightOverflow())
    columns = dict(zip(names, out[2:], strict=True))
    return Stream(program, size, out[0], out[1], columns.__getitem__, columns)


class ConsolidateBlock(Operator):
    """The rows of the times that have not ended."""

    size: Cell
    columns: int
    """The number of columns, of which the first two are the times and the diffs."""
    inputs: Vectors
    frontier: Cell
    held: int = 0
    """The number of rows in the buffer."""
    buffer: Arrays
    table: Array
    """Entries of row + 1, empty between the times."""
    mask: int
    """The number of entries, less one."""
    out_size: Cell
    out: Vectors


@kernel
def consolidate(op: ConsolidateBlock) -> int:
    """Add the rows of the slice to the buffer, and write those of the times that have ended to the output.

    Return FAILED if a weight needs more than 64 bits.
    """
    held, size, columns, buffer = op.held, op.size, op.columns, op.buffer
    if 2 * (held + size) > op.mask + 1:
        return NEEDS_ROOM
    for column in range(columns):
        source, target = op.inputs[column], buffer[column][held:]
        for at in range(size):
            target[at] = source[at]
    held += size
    times, frontier = buffer[0], op.frontier
    op.out_size = 0
    start, wrapped = 0, 0
    while start < held and times[start] < frontier:
        stop = start + 1
        while stop < held and times[stop] == times[start]:
            stop += 1
        wrapped |= _end_time(op, start, stop)
        start = stop
    for column in range(columns):
        rows, left = buffer[column], buffer[column][start:]
        for at in range(held - start):
            rows[at] = left[at]
    op.held = held - start
    return FAILED if wrapped < 0 else DONE


@kernel
def _end_time(op: ConsolidateBlock, start: int, stop: int) -> int:
    """Write the rows of a time that have weight; return a negative number if a weight needs more than 64 bits."""
    diffs, wrapped = op.buffer[1], 0
    if stop - start > 1:
        for row in range(start, stop):
            first = _first_equal(op, row)
            if first != row:
                wrapped |= wraps(diffs[first], diffs[row])
                diffs[first] += diffs[row]
                diffs[row] = 0
        for row in range(start, stop):
            _clear(op, row)
    out_size = op.out_size
    for row in range(start, stop):
        if diffs[row] != 0:
            for column in range(op.columns):
                op.out[column][out_size] = op.buffer[column][row]
            out_size += 1
    op.out_size = out_size
    return wrapped


@kernel
def _home(op: ConsolidateBlock, row: int) -> int:
    """Return the slot of the table at which the search for a row begins."""
    mixed = 0
    for column in range(2, op.columns):
        mixed = mix(mixed, op.buffer[column][row])
    return mixed & op.mask


@kernel
def _first_equal(op: ConsolidateBlock, row: int) -> int:
    """Return the first row that is equal to this one; if it is this one, add it to the table."""
    table, slot = op.table, _home(op, row)
    while table[slot] != 0:
        other, equal = table[slot] - 1, True
        for column in range(2, op.columns):
            values = op.buffer[column]
            equal &= values[other] == values[row]
        if equal:
            return other
        slot = (slot + 1) & op.mask
    table[slot] = row + 1
    return row


@kernel
def _clear(op: ConsolidateBlock, row: int) -> None:
    """Clear the slots that the search for a row may have passed."""
    table, slot = op.table, _home(op, row)
    while table[slot] != 0:
        table[slot] = 0
        slot = (slot + 1) & op.mask


def _grow(memory: Memory, op: ConsolidateBlock) -> None:
    slots = doubled(op.mask + 1, op.held + op.size)

    def use(table: Array) -> None:  # the old table is empty
        op.table, op.mask = table, slots - 1

    move_table(memory, op.table, slots, use)


CONSOLIDATE = step(consolidate, idle=("size", "held", "out_size"), grow=_grow, ends_times=True)
