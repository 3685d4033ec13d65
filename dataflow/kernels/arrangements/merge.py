"""Merge: the rows of several streams in one stream, in order of time."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Block, Cell, Operator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.steps import step, words_of
from deltamark.dataflow.types import FOREVER


class MergedStream(Block):
    """One of the streams."""

    size: Cell
    time: Vector
    columns: Vectors
    """All columns, of which the first two are the times and the diffs."""
    position: int = 0
    """The number of its rows that are in the output."""


class MergeBlock(Operator):
    """The streams, and their merged stream."""

    streams: int
    """The number of streams."""
    inputs: Array
    """The address of the `MergedStream` of each."""
    columns: int
    out_size: Cell
    out: Vectors


@kernel
def merge(op: MergeBlock) -> int:
    """Merge the rows of the slice."""
    streams, inputs, columns, size = op.streams, op.inputs, op.columns, 0
    for index in range(streams):
        MergedStream(inputs[index]).position = 0
    while True:
        first, least = -1, FOREVER
        for index in range(streams):
            stream = MergedStream(inputs[index])
            at = stream.position
            if at < stream.size and stream.time[at] < least:
                first, least = index, stream.time[at]
        if first < 0:
            break
        stream = MergedStream(inputs[first])
        start = stream.position
        stop, rows, times = start + 1, stream.size, stream.time
        while stop < rows and times[stop] == least:
            stop += 1
        for column in range(columns):
            source, target = stream.columns[column][start:], op.out[column][size:]
            for at in range(stop - start):
                target[at] = source[at]
        size += stop - start
        stream.position = stop
    op.out_size = size
    return 0


def _idle(op: MergeBlock) -> tuple[int, ...]:
    sizes = [word for at in range(op.streams) for word in words_of(MergedStream(op.inputs[at]), "size")]
    return (*sizes, *words_of(op, "out_size"))


MERGE = step(merge, idle=_idle)
