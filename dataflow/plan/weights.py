"""Weights of rows: the columns by which a node has at most one row, and whether all weights are positive."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.plan.loops import closing
from deltamark.dataflow.plan.nodes import (
    Aggregate,
    Concat,
    Consolidate,
    Extreme,
    Filter,
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


def is_unique(node: Node, names: Sequence[str]) -> bool:
    """Return whether each combination of values of these columns has at most one row, of weight 1."""
    match node:
        case Input():
            return bool(node.key) and set(node.key) <= set(names)
        case Threshold():
            return set(node.schema.names) <= set(names) or _are_extremes(node.rows, names)
        case Aggregate():
            return set(node.keys) <= set(names)
        case TopK():
            return node.k == 1
        case Iterate():
            return set(closing(node.body).keys) <= set(names)
        case Filter() | Consolidate() | MovingThreshold() | NullRow():
            return is_unique(node.rows, names)
        case Project():
            return is_unique(node.rows, [node.copied[name] for name in names if name in node.copied])
        case Join():
            return _is_unique_join(node, names)
        case Concat() if _is_antijoin(node):
            return is_unique(node.parts[0], names)
        case _:
            return False


def _is_unique_join(node: Join, names: Sequence[str]) -> bool:
    """Return whether a row of one side has at most one partner, and these columns determine the row."""
    right_of = dict(zip(node.left_keys, node.right_keys, strict=True))
    of_right = [right_of.get(name, name) for name in names if name in right_of or name not in node.left.schema]
    of_left = [name for name in names if name in node.left.schema]
    return (is_unique(node.right, node.right_keys) and is_unique(node.left, of_left)) or (
        is_unique(node.left, node.left_keys) and is_unique(node.right, of_right)
    )


def _are_extremes(node: Node, names: Sequence[str]) -> bool:
    """Return whether the distinct rows of a node are the extreme of each group, and nothing else."""
    if not isinstance(node, Project) or not isinstance(node.rows, Extreme):
        return False
    extreme, copied = node.rows, node.copied
    keys = {copied[name] for name in names if name in copied}
    return (
        len(copied) == len(node.columns)
        and set(copied.values()) <= {*extreme.keys, extreme.column}
        and (set(extreme.keys) <= keys)
    )


def is_multiset(root: Node) -> bool:
    """Return whether no row of a plan over multisets has a negative weight at the end of a time.

    Rows may be subtracted only as an antijoin does, from the collection that they are rows of.
    """
    nodes = list(walk(root))
    antijoins = {each.parts[1] for each in nodes if isinstance(each, Concat) and _is_antijoin(each)}
    return all(each in antijoins for each in nodes if isinstance(each, Negate))


def _is_antijoin(node: Concat) -> bool:
    if len(node.parts) != 2 or not isinstance(node.parts[1], Negate):
        return False
    pairs = node.parts[1].rows
    return isinstance(pairs, Join) and pairs.left is node.parts[0] and is_unique(pairs.right, pairs.right_keys)
