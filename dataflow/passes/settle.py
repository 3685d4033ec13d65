"""Settling: terms that may fail are computed of rows that their collection has, and of no others.

An antijoin is the sum of all rows and of those with a partner, negated; the outer joins are made of antijoins. So a row
that it leaves out is inserted and retracted at the same time, and a term above would be computed of it: the query
`SELECT a * b FROM t WHERE NOT EXISTS (...)` would fail for a product of a row that it does not select. The pass lets
`Consolidate` cancel these rows, where a term that may fail is above. Its cost is that of pruning and, for each node
with such a term, a walk down to the nodes that consolidate their rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from deltamark.dataflow.operators.aggregate import Aggregate
from deltamark.dataflow.operators.consolidate import Consolidate
from deltamark.dataflow.operators.linear import Concat, Filter, Negate, Project
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.passes.prune import prune


def settled(plans: Mapping[str, Node]) -> Mapping[str, Node]:
    """Return plans in which terms that may fail read no rows that an antijoin leaves out."""
    pruned = prune(plans)
    failing = [node for node in pruned.nodes if _may_fail(node, pruned.columns[node])]
    antijoins = {each for node in failing for each in _antijoins_below(node)} - pruned.looping
    if not antijoins:
        return plans
    return pruned.replaced(lambda old, node: Consolidate(node, schema=node.schema) if old in antijoins else node)


def _may_fail(node: Node, required: Collection[str]) -> bool:
    """Return whether a node computes terms that may fail."""
    match node:
        case Filter():
            return node.condition.may_fail
        case Project():
            return any(node.terms[name].may_fail for name in required)
        case Aggregate():
            return any(each.may_fail for each in node.terms)
    return False


def _antijoins_below(root: Node) -> Iterator[Node]:
    """Yield the nearest sums with negated parts whose rows reach a node as they are."""
    seen: set[Node] = set()
    remaining = [*root.inputs]
    while remaining:
        node = remaining.pop()
        if node in seen or node.consolidated:
            continue
        seen.add(node)
        if isinstance(node, Concat) and any(isinstance(each, Negate) for each in node.parts):
            yield node
        else:
            remaining += node.inputs
