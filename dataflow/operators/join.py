"""Join of two arrangements."""

from __future__ import annotations

from collections.abc import Mapping

from dataflow.kernels import run as vm
from dataflow.operators.arrangement import Arrangement, Weights
from dataflow.program import Program
from dataflow.stream import Stream
from dataflow.term import Term


def join(program: Program, left: Arrangement, right: Arrangement, sides: Mapping[str, tuple[bool, Term]]) -> Stream:
    """Pair the rows of equal keys. sides: for each column of the output, is it a left one, and what it is there."""
    size, time, diff, lefts, rights = program.cell(), *(program.vector() for _ in range(4))
    hits = program.memory.reserve(1 << 31), program.memory.reserve(1 << 31)
    program.op(vm.JOIN, left.block, right.block, size, time, diff, lefts, rights, *hits, 0)
    program.keep(Weights())

    def make(name: str) -> int:
        is_left, theirs = sides[name]
        source, rows = (left, lefts) if is_left else (right, rights)
        return stream.take(source.stored[theirs], rows)

    stream = Stream(program, size, time, diff, make)
    return stream
