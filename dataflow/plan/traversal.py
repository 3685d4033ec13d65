"""Properties of whole plans: the inputs below a node, their rows, and whether rows are subtracted or consolidated."""

from __future__ import annotations

from deltamark.dataflow.plan.nodes import (
    Aggregate,
    Consolidate,
    Extreme,
    Input,
    Iterate,
    Join,
    MovingThreshold,
    Negate,
    Node,
    NullRow,
    Project,
    Threshold,
    TopK,
    walk,
)

CONSOLIDATED = (Aggregate, Threshold, Extreme, TopK, MovingThreshold, NullRow, Consolidate, Iterate)
"""The operations whose results have one update per row and time."""


def base_inputs(root: Node) -> list[Input]:
    """List the inputs below a root."""
    return [each for each in walk(root) if isinstance(each, Input)]


def base_rows(root: Node) -> int:
    """Return the row bound of the largest input below a node, by which memory is sized.

    The bound of a join's own schema is a product, and no guide to its size.
    """
    return max(each.schema.rows for each in base_inputs(root))


def subtracts(root: Node) -> bool:
    """Return whether a plan negates rows anywhere."""
    return any(isinstance(each, Negate) for each in walk(root))


def is_consolidated(root: Node) -> bool:
    """Return whether a result has one update per row and time. A projection that keeps every column preserves this."""
    if isinstance(root, Project):
        return set(root.copied.values()) >= set(root.rows.schema.names) and is_consolidated(root.rows)
    return isinstance(root, CONSOLIDATED)


def has_joined_rows(root: Node) -> bool:
    """Return whether a join has made updates of a result that are not consolidated since."""
    seen: set[Node] = set()
    remaining = [root]
    while remaining:
        node = remaining.pop()
        if isinstance(node, Join):
            return True
        if node not in seen and not isinstance(node, CONSOLIDATED):
            seen.add(node)
            remaining += node.inputs
    return False
