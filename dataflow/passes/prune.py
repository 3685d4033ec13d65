"""Pruning: the second pass finds the columns of each node that the plans above it require.

It takes plans by name and returns them as `Pruned`. Each node is visited once, from the roots down. The cost is linear
in the number of nodes and columns, except for the row estimates of joins whose keys are required.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deltamark.dataflow.operators.by_key import OwnInputs
from deltamark.dataflow.operators.iterate import Iterate, inside
from deltamark.dataflow.operators.node import JoinReads, Node, walk


@dataclass(frozen=True)
class Pruned:
    """Plans with their required columns.

    columns: the required nodes, in the order in which they are first required, with the columns of each;
    nodes: the same nodes, inputs first; looping: the nodes that depend on the variable of a loop.
    """

    plans: Mapping[str, Node]
    nodes: tuple[Node, ...]
    columns: Mapping[Node, tuple[str, ...]]
    looping: frozenset[Node]

    def replaced(self, change: Callable[[Node, Node], Node]) -> Mapping[str, Node]:
        """Return plans in which each node is replaced, inputs first.

        change: gets a node and the same node over its new inputs, and returns what takes its place.
        """
        new: dict[Node, Node] = {}
        for node in self.nodes:
            inputs = [new.get(each, each) for each in node.inputs]
            new[node] = change(node, node if inputs == list(node.inputs) else node.with_inputs(inputs))
        return {name: new[plan] for name, plan in self.plans.items()}


def prune(plans: Mapping[str, Node], reads: JoinReads | None = None) -> Pruned:
    """Find the required columns. reads: by default, joins read their own inputs."""
    nodes = list(dict.fromkeys(node for plan in plans.values() for node in walk(plan)))
    looping = frozenset(each for loop in nodes if isinstance(loop, Iterate) for each in inside(loop))
    reads = reads or OwnInputs(looping)
    columns: dict[Node, dict[str, None]] = {}
    for plan in plans.values():
        columns.setdefault(plan, {}).update(dict.fromkeys(plan.schema.names))
    for node in reversed(nodes):
        if node in columns:
            for below, names in node.required(tuple(columns[node]), reads):
                columns.setdefault(below, {}).update(dict.fromkeys(names))
    kept = tuple(each for each in nodes if each in columns)
    return Pruned(plans, kept, {node: tuple(names) for node, names in columns.items()}, looping)


def required_columns(root: Node) -> Mapping[Node, tuple[str, ...]]:
    """Return the required columns of each node of one plan."""
    return prune({"": root}).columns
