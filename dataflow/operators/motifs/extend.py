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
from deltamark.dataflow.plan.nodes import Node
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class Extend:
    """What can go wrong in it, and how much it has proposed; it keeps no rows."""

    block: int

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        return wide_weight()

    def proposals(self) -> int:
        return int(view(self.block, kernel.PROPOSALS + 1)[kernel.PROPOSALS])

    def made(self) -> int:
        return int(view(self.block, kernel.MADE + 1)[kernel.MADE])


def is_counted(node: Node, owed: Iterable[str]) -> bool:
    """Is the number of values all that anybody wants to know of them? owed: the columns that are read."""
    new = node.params[0]
    return new not in owed and new not in node.inputs[0].schema


def _listed(node: Node, owed: Iterable[str]) -> int:
    """Say what becomes of the values that a row has."""
    if node.op == "measure":
        return kernel.MEASURED
    return kernel.SUMMED if is_counted(node, owed) else kernel.LISTED


def extend(stream: Stream, node: Node, indexes: Sequence[Index], owed: Iterable[str]) -> Stream:
    """Append the operator. indexes: one for each of the node's parts; owed: the columns that are read."""
    program = stream.program
    new, parts, proposer = node.params
    table: list[int] = []
    for (mine, _, _, sees), each in zip(parts, indexes, strict=True):
        fields = [each.block, key_of(stream, mine, each.of.types).cell, int(sees == "old")]
        table += [*fields, *[0] * (kernel.PART - len(fields))]
    bound = stream.column(new) if new in node.inputs[0].schema else 0
    size, time, diff, rows, values = program.cell(), *(program.vector() for _ in range(4))
    first = kernel.ANYBODY if proposer is None else proposer
    block = program.op(
        vm.EXTEND, stream.size, stream.time, stream.diff, len(parts), program.table(table), bound, first, size, time,
        0, diff, rows, values, 0, program.crowd, _listed(node, owed), 0,
    )  # fmt: skip
    program.keep(Extend(block))

    def make(name: str) -> int:
        return values if name == new else made.take(stream.column(name), rows)

    made = Stream(program, size, time, diff, make)
    return made
