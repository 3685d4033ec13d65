"""Sample: a fraction of the rows, chosen by a hash of some columns.

The hash depends on values alone, so equal rows share their fate, whichever batch or worker they arrive in, and a
retraction meets its insertion. The operator keeps no state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from deltamark.dataflow.builder.stream import Selection, Stream
from deltamark.dataflow.kernels.core.blocks import Cell, SizedOperator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.hashing.hash_set import MAX_HASH
from deltamark.dataflow.kernels.hashing.mixing import mix
from deltamark.dataflow.operators.exchange import hashable
from deltamark.dataflow.operators.linear import Linear, selected_rows
from deltamark.dataflow.operators.node import Emission, JoinReads, Keys, Requirement, is_unique
from deltamark.dataflow.plan.term_sql import identifier

SALT = 0x53414D504C45
"""The hash before the first value: other hashes begin with 0, so the sampled rows spread evenly over the workers."""


@dataclass(frozen=True, eq=False)
class Sample(Linear):
    """The rows whose hash of some columns is among the lowest fraction of all hashes."""

    fraction: float
    by: Keys

    def description(self, required: Collection[str]) -> str:
        return f"{self.fraction:.4g} by {', '.join(map(identifier, self.by))}"

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, [*columns, *self.by])]

    def determines(self, names: frozenset[str]) -> bool:
        return is_unique(self.rows, names)

    def estimate(self, inputs: Sequence[float]) -> float:
        return self.fraction * inputs[0]

    @property
    def sum_columns(self) -> frozenset[str]:
        return self.rows.sum_columns

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        (stream,) = streams
        program, selected, size = stream.program, stream.program.vector(), stream.program.cell()
        columns = [hashable(stream, name, self.schema[name]) for name in self.by]
        program.add(
            SAMPLE, size=stream.size, columns=len(columns), inputs=program.table(columns),
            bound=round(self.fraction * (MAX_HASH + 1)), out=selected, out_size=size,
        )  # fmt: skip
        return selected_rows(Selection(stream, selected, size))


class SampleBlock(SizedOperator):
    """Selects the rows whose hash is less than a bound."""

    columns: int
    inputs: Vectors
    bound: int
    out: Vector
    out_size: Cell


@kernel
def sample(op: SampleBlock) -> None:
    """Select rows of the slice, without a branch for each."""
    columns, inputs, bound, out, kept = op.columns, op.inputs, op.bound, op.out, 0
    for at in range(op.size):
        mixed = SALT
        for column in range(columns):
            mixed = mix(mixed, inputs[column][at])
        out[kept] = at
        kept += mixed & MAX_HASH < bound
    op.out_size = kept


SAMPLE = step(sample, idle=("size", "out_size"))
