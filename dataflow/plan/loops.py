"""Loops in plans: the nodes that depend on the variable of a loop, and the end of its body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deltamark.dataflow.plan.nodes import Extreme, Iterate, Node, Threshold, Variable, walk
from deltamark.errors import DeltamarkError

MAX_ITERATIONS = 1 << 20
"""The iterations of a loop within one epoch; a loop that needs more is an error."""


def free(root: Node) -> frozenset[int]:
    """Return the depths of the variables that a plan depends on and does not bind."""
    found: dict[Node, frozenset[int]] = {}
    for node in walk(root):
        match node:
            case Variable():
                found[node] = frozenset([node.depth])
            case Iterate():
                found[node] = found[node.seed] | (found[node.body] - {node.depth})
            case _:
                found[node] = frozenset().union(*(found[each] for each in node.inputs))
    return found[root]


def inside(loop: Iterate) -> list[Node]:
    """Return the nodes of a loop's body that depend on its variable, inputs first."""
    depends: dict[Node, bool] = {}

    def visit(node: Node) -> bool:
        if node not in depends:
            inputs = (node.seed,) if isinstance(node, Iterate) else node.inputs
            found = [visit(each) for each in inputs]
            depends[node] = any(found) or (isinstance(node, Variable) and node.depth == loop.depth)
        return depends[node]

    visit(loop.body)
    return [node for node, does in depends.items() if does]


@dataclass(frozen=True)
class Closing:
    """The end of a body: rows are kept per key, either by multiplicity or by the best value of a column.

    below: the node whose rows are reduced; of: the column whose best value is kept; least: the least multiplicity.
    """

    below: Node
    keys: tuple[str, ...]
    of: str | None = None
    which: Literal["largest", "smallest"] = "smallest"
    least: int = 1


def closing(root: Node) -> Closing:
    """Read the end of a body."""
    match root:
        case Threshold(rows=Extreme() as extreme, least=1) if {*extreme.keys, extreme.column} == set(root.schema.names):
            keys = tuple(name for name in extreme.keys if name != extreme.column)
            return Closing(extreme.rows, keys, extreme.column, extreme.which)
        case Threshold():
            return Closing(root.rows, root.schema.names, least=root.least)
    remedy = "end it by .distinct(), or by .smallest(of, by=all other columns).distinct()"
    raise DeltamarkError("the body of a loop does not end in a reduction", root.operation, remedy)
