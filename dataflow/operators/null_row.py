"""Null row: the rows of a stream, or one row of NULLs while the stream has no rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from deltamark.dataflow.builder.keys import RowCount, key_ids, key_of
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.groups.grouped_rows import RowGroup, RowRecord
from deltamark.dataflow.kernels.groups.null_row import NULL_ROW, NullRowBlock
from deltamark.dataflow.operators.distribution import WHOLE, Columns, Distribution, OperatorDistribution, gather
from deltamark.dataflow.operators.grouped_rows import RowInput, grouped_rows, stored_columns
from deltamark.dataflow.operators.node import Emission, JoinReads, Node, Requirement, is_unique
from deltamark.dataflow.types import NULL


@dataclass(frozen=True, eq=False)
class NullRow(Node):
    """The rows, or one row of NULL while there are none."""

    rows: Node

    consolidated: ClassVar[bool] = True

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, self.schema.names)]

    def determines(self, names: frozenset[str]) -> bool:
        return is_unique(self.rows, names)

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return gather(inputs[0], (), ())

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        """Append the operator with its group marked as touched by time 0: the row of NULLs precedes any input."""
        (stream,) = streams
        program = stream.program
        key = key_of(stream, (), ())
        keys = key_ids(program, key, RowCount(1), stream.size)
        rows = RowInput(stream, key.cell, stored_columns(stream, self.schema.names, self.schema))
        result = grouped_rows(NULL_ROW, keys, [rows])
        block = NullRowBlock(program.ops[-1].block)
        nulls = RowRecord(block.rows.records.address).values
        for column in range(block.rows.columns):
            nulls[column] = NULL
        block.touched_count = 1
        RowGroup(block.groups.address).is_touched = 1
        touched_count = block.address + NullRowBlock.fields["touched_count"].offset
        everywhere = emission.distribution(self).distribution == WHOLE
        program.set_per_worker(touched_count, [1] + [int(everywhere)] * (program.workers - 1))
        return result
