"""Repeat: the rows with their weights multiplied by a column, which the result lacks. The operator keeps no state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.arrangements.join import product
from deltamark.dataflow.kernels.core.blocks import SizedOperator, Vector
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.status import DONE, FAILED
from deltamark.dataflow.operators.distribution import ANYWHERE, Columns, Distribution, OperatorDistribution
from deltamark.dataflow.operators.errors import WeightOverflow
from deltamark.dataflow.operators.linear import Linear
from deltamark.dataflow.operators.node import Emission, JoinReads, Node, Requirement
from deltamark.dataflow.plan.term_sql import identifier
from deltamark.dataflow.types import Schema


@dataclass(frozen=True, eq=False)
class Repeat(Linear):
    """The rows, each as often as one of its columns says. times: this column, a positive number."""

    times: str

    @classmethod
    def of(cls, rows: Node, times: str) -> Repeat:
        """Repeat rows by a column, which the result lacks."""
        fields = tuple(field for field in rows.schema.fields if field.name != times)
        return cls(rows, times, schema=Schema(fields, rows.schema.rows * max(rows.schema[times].high, 1)))

    def description(self, required: Collection[str]) -> str:
        return f"{identifier(self.times)} times"

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, [*columns, self.times])]

    def has_null(self, name: str) -> bool:
        return self.rows.has_null(name)

    @property
    def sum_columns(self) -> frozenset[str]:
        return self.rows.sum_columns - {self.times}

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        """Keep the rows where they are; the owner of rows by the column that is dropped is unknown."""
        return OperatorDistribution((None,), ANYWHERE if self.times in inputs[0].by else inputs[0])

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        (stream,) = streams
        program, diff = stream.program, stream.program.vector()
        program.add(REPEAT_ROWS, size=stream.size, diff=stream.diff, times=stream.column(self.times), result=diff)
        program.add_state(WeightOverflow())
        return Stream(program, stream.size, stream.time, diff, stream.column)


class RepeatBlock(SizedOperator):
    """Multiplies the weights of rows by a column."""

    diff: Vector
    times: Vector
    result: Vector
    overflow: int = 0
    """Set if a product of weights needs more than 64 bits."""


@kernel
def repeat_rows(op: RepeatBlock) -> int:
    """Multiply the weights of the rows of the slice."""
    diff, times, result = op.diff, op.times, op.result
    for at in range(op.size):
        result[at] = product(op, diff[at], times[at])
    return FAILED if op.overflow != 0 else DONE


REPEAT_ROWS = step(repeat_rows)
