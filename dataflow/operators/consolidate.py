"""Consolidate: leaves one update for each row and time, and none of weight zero."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.arrangements.consolidate import CONSOLIDATE
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.operators.distribution import Columns, Distribution, OperatorDistribution, gather
from deltamark.dataflow.operators.errors import WeightOverflow
from deltamark.dataflow.operators.node import Emission, JoinReads, Node, Placing, Requirement, is_unique

TABLE_ENTRIES = 1 << 14
"""Entries of a new table of rows. Not measured."""


@dataclass(frozen=True, eq=False)
class Consolidate(Node):
    """The rows with one update per row and time."""

    rows: Node

    consolidated: ClassVar[bool] = True

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, columns)]

    def determines(self, names: frozenset[str]) -> bool:
        return is_unique(self.rows, names)

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        names = tuple(columns[self.rows])
        return gather(inputs[0], names, [self.schema[name] for name in names])

    def wishes(self, placing: Placing) -> list[Distribution]:
        return [placing.owned(self.rows)]

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        return consolidate(streams[0], emission.columns(self))


def consolidate(stream: Stream, names: Sequence[str]) -> Stream:
    """Append the consolidation of some columns of a stream."""
    program = stream.program
    inputs = [stream.time, stream.diff, *map(stream.column, names)]
    size, out = program.cell(), [program.vector() for _ in inputs]
    buffers = [program.memory.reserve(UNBOUNDED_WORDS) for _ in inputs]
    program.add(
        CONSOLIDATE, size=stream.size, columns=len(inputs), inputs=program.table(inputs),
        frontier=program.frontier, buffer=program.table(buffers), table=program.memory.reserve(TABLE_ENTRIES),
        mask=TABLE_ENTRIES - 1, out_size=size, out=program.table(out),
    )  # fmt: skip
    program.add_state(WeightOverflow())
    columns = dict(zip(names, out[2:], strict=True))
    return Stream(program, size, out[0], out[1], columns.__getitem__, columns)
