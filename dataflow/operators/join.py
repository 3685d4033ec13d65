"""Join of two arrangements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.codegen.program import Program
from deltamark.dataflow.kernels import interpreter as vm
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
    passes = [word for each, condition in zip(arranged, conditions, strict=True) for word in each.bitmap(condition)]
    size, time, diff, lefts, rights = program.cell(), *(program.vector() for _ in range(4))
    hits = program.memory.reserve(1 << 31), program.memory.reserve(1 << 31)
    program.op(vm.JOIN, left.block, right.block, size, time, diff, lefts, rights, *hits, 0, *passes)
    program.keep(Weights())

    def make(name: str) -> int:
        is_left, theirs = sides[name]
        source, rows = (left, lefts) if is_left else (right, rights)
        return stream.take(source.stored[theirs], rows)

    stream = Stream(program, size, time, diff, make)
    return stream
