"""Extend: rows by the values that indexes have for them, proposed by the one that has fewest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.motifs import extend as kernel
from deltamark.dataflow.operators.arrangement import wide_weight
from deltamark.dataflow.operators.motifs.index import Index, key_of
from deltamark.dataflow.plan.nodes import Extend, Measure, Seek
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class ExtendCounts:
    """The errors of an extension, and the numbers of values that it proposed and accepted. It keeps no rows."""

    block: int

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        return wide_weight()

    def proposals(self) -> int:
        return int(view(self.block, kernel.PROPOSALS + 1)[kernel.PROPOSALS])

    def made(self) -> int:
        return int(view(self.block, kernel.MADE + 1)[kernel.MADE])


def is_counted(node: Extend | Seek | Measure, names: Iterable[str]) -> bool:
    """Return whether only the number of values is required. names: the required columns."""
    return node.column not in names and node.column not in node.rows.schema


def _listed(node: Extend | Seek | Measure, names: Iterable[str]) -> int:
    """Return what is done with the values of a row."""
    if isinstance(node, Measure):
        return kernel.MEASURED
    return kernel.SUMMED if is_counted(node, names) else kernel.LISTED


def extend(stream: Stream, node: Extend | Seek | Measure, indexes: Sequence[Index], names: Iterable[str]) -> Stream:
    """Append the operator. indexes: those that the node reads; names: the required columns."""
    program, new = stream.program, node.column
    table: list[int] = []
    for read, each in zip(node.indexes, indexes, strict=True):
        fields = [each.block, key_of(stream, read.row_keys, each.of.types).cell, int(read.version == "old")]
        table += [*fields, *[0] * (kernel.PART - len(fields))]
    bound = stream.column(new) if new in node.rows.schema else 0
    size, time, diff, rows, values = program.cell(), *(program.vector() for _ in range(4))
    proposer = node.proposer if isinstance(node, Extend) else None
    first = kernel.ANYBODY if proposer is None else proposer
    block = program.op(
        vm.EXTEND, stream.size, stream.time, stream.diff, len(indexes), program.table(table), bound, first, size, time,
        0, diff, rows, values, 0, program.crowd, _listed(node, names), 0,
    )  # fmt: skip
    program.keep(ExtendCounts(block))

    def make(name: str) -> int:
        return values if name == new else made.take(stream.column(name), rows)

    made = Stream(program, size, time, diff, make)
    return made
