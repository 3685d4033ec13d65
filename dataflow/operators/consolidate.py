"""Consolidate: one update per row and time."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.codegen.memory_layout import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.arrangements.consolidate import ConsolidateBlock
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.operators.arrangement import Weights

SLOTS = 1 << 14
"""The slots of the table of rows before it grows."""


def consolidate(stream: Stream, names: Sequence[str]) -> Stream:
    """Append the operator over some columns of a stream."""
    program = stream.program
    inputs = program.table([stream.time, stream.diff, *map(stream.column, names)])
    out = [program.vector() for _ in range(len(names) + 2)]
    buffer = program.table([program.memory.reserve(UNBOUNDED_WORDS) for _ in out])
    mask = SLOTS - 1
    size, table = program.cell(), program.memory.reserve(mask + 1)
    program.add(
        Opcode.CONSOLIDATE, ConsolidateBlock, size=stream.size, columns=len(out), inputs=inputs,
        frontier=program.frontier,
        buffer=buffer, table=table, mask=mask, out_size=size, out=program.table(out),
    )  # fmt: skip
    program.keep(Weights())
    made = dict(zip(names, out[2:], strict=True))
    return Stream(program, size, out[0], out[1], made.__getitem__, made)
