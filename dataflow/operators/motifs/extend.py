"""Extend: adds a column to rows, with each value that all of several indexes have under the row's key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.motifs import extension as kernel
from deltamark.dataflow.kernels.motifs.extender import DeltaExtender
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.operators.errors import wide_weight
from deltamark.dataflow.operators.motifs.index import Index, index_key
from deltamark.dataflow.plan.nodes import Extend, Measure, Seek
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class ExtendCounts:
    """The state of an extension, which keeps no rows: the numbers of values that it proposed and accepted."""

    block: int

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        return wide_weight()

    def proposals(self) -> int:
        return kernel.ExtendBlock(self.block).proposals

    def extended(self) -> int:
        return kernel.ExtendBlock(self.block).extended


def is_counted(node: Extend | Seek | Measure, names: Iterable[str]) -> bool:
    """Return whether only the number of values is required. names: the required columns."""
    return node.column not in names and node.column not in node.rows.schema


def _mode(node: Extend | Seek | Measure, names: Iterable[str]) -> int:
    """Return the mode of an extension; see the kernel."""
    if isinstance(node, Measure):
        return kernel.MEASURED
    return kernel.SUMMED if is_counted(node, names) else kernel.LISTED


def extend(stream: Stream, node: Extend | Seek | Measure, indexes: Sequence[Index], names: Iterable[str]) -> Stream:
    """Append the operator. indexes: those that the node reads; names: the required columns."""
    program, new = stream.program, node.column
    proposer = node.proposer if isinstance(node, Extend) else None
    table: list[int] = []
    for read, index in zip(node.indexes, indexes, strict=True):
        key = index_key(stream, read.row_keys, index.of.types).cell
        table += DeltaExtender.words(index=index.block, key=key, sees_old=read.version == "old")
    is_bound = new in node.rows.schema
    bound = stream.column(new) if is_bound else 0
    size, time, diff, rows, values = program.cell(), *(program.vector() for _ in range(4))
    block = program.add(
        Opcode.EXTEND, kernel.ExtendBlock, size=stream.size, time=stream.time, diff=stream.diff,
        extender_count=len(indexes), extenders=program.table(table), is_bound=is_bound, bound=bound,
        proposer=kernel.FEWEST if proposer is None else proposer, mode=_mode(node, names), out_size=size,
        out_time=time, out_diff=diff, out_row=rows, out_value=values, fan_out=program.fan_out,
    )  # fmt: skip
    program.add_state(ExtendCounts(block))

    def column(name: str) -> int:
        return values if name == new else extended.take(stream.column(name), rows)

    extended = Stream(program, size, time, diff, column)
    return extended
