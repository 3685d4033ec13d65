"""Join of two arrangements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.codegen.memory_layout import UNBOUNDED_WORDS
from deltamark.dataflow.codegen.program import Program
from deltamark.dataflow.kernels.arrangements import join as kernel
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.operators.arrangement import Arrangement, Weights
from deltamark.dataflow.plan.terms import Term


def join(
    program: Program, arranged: Sequence[Arrangement], conditions: Sequence[Term | None],
    sides: Mapping[str, tuple[bool, Term]],
) -> Stream:  # fmt: skip
    """Pair the rows of equal keys that meet the conditions of their sides.

    sides: for each column of the output, is it a left one, and what it is there.
    """
    left, right = arranged
    size, time, diff, lefts, rights = program.cell(), *(program.vector() for _ in range(4))
    blocks = [
        _side(program, each, slots, condition)
        for each, slots, condition in zip(arranged, (lefts, rights), conditions, strict=True)
    ]
    program.add(Opcode.JOIN, kernel.JoinBlock, left=blocks[0], right=blocks[1], size=size, time=time, diff=diff)
    program.keep(Weights())

    def make(name: str) -> int:
        is_left, theirs = sides[name]
        source, rows = (left, lefts) if is_left else (right, rights)
        return stream.take(source.stored[theirs], rows)

    stream = Stream(program, size, time, diff, make)
    return stream


def _side(program: Program, arrangement: Arrangement, slots: int, condition: Term | None) -> int:
    """Make the block of a side of a join."""
    passes, bit = arrangement.bitmap(condition)
    hits = program.memory.reserve(UNBOUNDED_WORDS)
    return program.block(kernel.JoinSide, rows=arrangement.block, slots=slots, hits=hits, filter=passes, filter_bit=bit)
