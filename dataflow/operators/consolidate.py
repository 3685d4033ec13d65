"""Consolidate: leaves one update for each row and time, and none of weight zero."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.arrangements.consolidate import ConsolidateBlock
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.operators.errors import WeightOverflow

TABLE_ENTRIES = 1 << 14
"""Entries of a new table of rows. Not measured."""


def consolidate(stream: Stream, names: Sequence[str]) -> Stream:
    """Append the consolidation of some columns of a stream."""
    program = stream.program
    inputs = [stream.time, stream.diff, *map(stream.column, names)]
    size, out = program.cell(), [program.vector() for _ in inputs]
    buffers = [program.memory.reserve(UNBOUNDED_WORDS) for _ in inputs]
    program.add(
        Opcode.CONSOLIDATE, ConsolidateBlock, size=stream.size, columns=len(inputs), inputs=program.table(inputs),
        frontier=program.frontier, buffer=program.table(buffers), table=program.memory.reserve(TABLE_ENTRIES),
        mask=TABLE_ENTRIES - 1, out_size=size, out=program.table(out),
    )  # fmt: skip
    program.add_state(WeightOverflow())
    columns = dict(zip(names, out[2:], strict=True))
    return Stream(program, size, out[0], out[1], columns.__getitem__, columns)
