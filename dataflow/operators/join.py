"""Join of two arrangements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.arrangements.join import JoinBlock, JoinSide
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.errors import WeightOverflow
from deltamark.dataflow.plan.terms import Term


def join(
    program: Program, arrangements: Sequence[Arrangement], conditions: Sequence[Term | None],
    columns: Mapping[str, tuple[int, Term]],
) -> Stream:  # fmt: skip
    """Append the join of the left and the right arrangement. conditions: the residual filter of each side.

    columns: for each column of the output the side that stores it, and the stored term.
    """
    size, time, diff, *slots = (program.cell(), *(program.vector() for _ in range(4)))
    left, right = (_side(program, *side) for side in zip(arrangements, slots, conditions, strict=True))
    program.add(Opcode.JOIN, JoinBlock, left=left, right=right, size=size, time=time, diff=diff)
    program.add_state(WeightOverflow())

    def compute(name: str) -> int:
        side, term = columns[name]
        cell, width = arrangements[side].stored[term]
        return stream.take(cell, slots[side], width)

    stream = Stream(program, size, time, diff, compute)
    return stream


def _side(program: Program, arrangement: Arrangement, slots: int, condition: Term | None) -> int:
    """Make the block of a side of a join. slots: the cell of the slots of its rows in the output."""
    bitmap, bit = arrangement.bitmap(condition)
    hits = program.memory.reserve(UNBOUNDED_WORDS)
    return program.block(JoinSide, rows=arrangement.block, slots=slots, hits=hits, filter=bitmap, filter_bit=bit)
