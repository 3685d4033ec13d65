"""Extend: extends rows by the values that indexes have under their keys; the one with the fewest values proposes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.motifs import extension as kernel
from deltamark.dataflow.kernels.motifs.extender import DeltaExtender
from deltamark.dataflow.operators.arrangement import wide_weight
from deltamark.dataflow.operators.motifs.index import Index, key_of
from deltamark.dataflow.plan.nodes import Node
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class Extend:
    """The errors and statistics of an operator that keeps no rows."""

    block: int

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        return wide_weight()

    def proposals(self) -> int:
        return kernel.Extend(self.block).proposals

    def extended(self) -> int:
        return kernel.Extend(self.block).extended


def is_counted(node: Node, owed: Iterable[str]) -> bool:
    """Return whether the values are counted, not read. owed: the columns that are read."""
    new = node.params[0]
    return new not in owed and new not in node.inputs[0].schema


def _mode(node: Node, owed: Iterable[str]) -> int:
    """Return the mode of an extension; see the kernel."""
    if node.op == "measure":
        return kernel.MEASURED
    return kernel.SUMMED if is_counted(node, owed) else kernel.LISTED


def extend(stream: Stream, node: Node, indexes: Sequence[Index], owed: Iterable[str]) -> Stream:
    """Append the operator. indexes: one for each part of the node; owed: the columns that are read."""
    program = stream.program
    new, parts, proposer = node.params
    table: list[int] = []
    for (mine, _, _, sees), index in zip(parts, indexes, strict=True):
        key = key_of(stream, mine, index.of.types).cell
        table += DeltaExtender.words(index=index.block, key=key, sees_old=sees == "old")
    is_bound = new in node.inputs[0].schema
    bound = stream.column(new) if is_bound else 0
    size, time, diff, rows, values = program.cell(), *(program.vector() for _ in range(4))
    block = program.add(
        vm.EXTEND, kernel.Extend, size=stream.size, time=stream.time, diff=stream.diff, extender_count=len(parts),
        extenders=program.table(table), is_bound=is_bound, bound=bound,
        proposer=kernel.FEWEST if proposer is None else proposer, mode=_mode(node, owed), out_size=size,
        out_time=time, out_diff=diff, out_row=rows, out_value=values, fan_out=program.crowd,
    )  # fmt: skip
    program.keep(Extend(block))

    def column(name: str) -> int:
        return values if name == new else extended.take(stream.column(name), rows)

    extended = Stream(program, size, time, diff, column)
    return extended
