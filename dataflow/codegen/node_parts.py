"""The parts of a compiled program: each belongs to a node, or to an arrangement, index or exchange of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from deltamark.dataflow.builder.program import ProgramPart
from deltamark.dataflow.operators.motifs.index import Indexed
from deltamark.dataflow.plan.nodes import Filter, Join, Node, Project
from deltamark.dataflow.plan.passes.distribution import Exchange
from deltamark.dataflow.plan.passes.pruning import Pruned, prune

ANSWER = "answer"
"""The name of the plan of a dataflow that has only one."""


@dataclass(frozen=True)
class Answer:
    """The collection of the changes of an answer, by the name of its plan."""

    name: str


@dataclass(eq=False, kw_only=True)
class NodePart(ProgramPart):
    """The part of a program that belongs to a node, or to an arrangement (by key columns), index or exchange of it.

    columns: the required columns; rows_cell: the cell with the rows that it emits of a slice, or 0; reads: for each
    input the part that is read, after the projections and residual filters that a join applies as it reads.
    """

    node: Node
    role: tuple[str, ...] | Indexed | Exchange | Answer | None
    columns: tuple[str, ...]
    rows_cell: int = 0
    reads: list[tuple[NodePart, ...]] = field(default_factory=list)
    remark: str = ""
    """A note for `explain` on an operator that works in an unusual way."""

    def read(self, *path: NodePart) -> None:
        """Record that the part reads the last part of a path, and applies the others to its rows."""
        self.uses.add(path[-1])
        self.reads.append(path)


@dataclass
class NodeParts:
    """The parts of nodes: of those that have operators, and of those that joins apply as they read arrangements."""

    pruned: Pruned
    _parts: dict[Node, NodePart] = field(default_factory=dict)

    def __getitem__(self, node: Node) -> NodePart:
        return self._parts[node]

    def add(self, node: Node) -> NodePart:
        """Make the part of a node that has an operator."""
        part = self._parts[node] = NodePart(node=node, role=None, columns=self.pruned.columns[node])
        return part

    def applied(self, join: Join, side: int, arranged: Node) -> Iterator[NodePart]:
        """Yield the projections and residual filters between a join and the node whose arrangement it reads."""
        node = join.inputs[side]
        while isinstance(node, Filter | Project) and node is not arranged:
            if node not in self._parts:
                self._parts[node] = NodePart(node=node, role=None, columns=self._all_columns[node])
            yield self._parts[node]
            node = node.rows

    @cached_property
    def _all_columns(self) -> dict[Node, tuple[str, ...]]:
        """The required columns of all nodes, also of those that have no operator."""
        return dict(prune(self.pruned.plans).columns)
