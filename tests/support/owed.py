"""Which columns of a plan's nodes are read, and so which errors an engine may miss because it reads no others."""

from __future__ import annotations

from collections.abc import Callable

from deltamark.dataflow.plan.nodes import Node, walk

Names = set[str]


def is_whole(root: Node) -> bool:
    """Say whether all columns are read of whatever looks at states."""
    owed = _owed(root)
    return all(_reads_all(node, owed) for node in walk(root))


def _reads_all(node: Node, owed: dict[Node, Names]) -> bool:
    match node.op:
        case "extreme":
            return owed[node.inputs[0]] >= set(node.inputs[0].schema.names)
        case "bound":  # which keeps a value that is computed, but not what it is computed from
            return owed[node] | {*node.params[0]} >= set(node.inputs[0].schema.names)
        case "aggregate":
            return owed[node] >= {name for name, _, _ in node.params[1]}
    return node.op != "iterate"


def _owed(root: Node) -> dict[Node, Names]:
    nodes = list(walk(root))
    owed: dict[Node, Names] = {node: set() for node in nodes}
    owed[root] = set(root.schema.names)
    for node in reversed(nodes):
        read = READ.get(node.op, _all)(node, owed[node])
        for each, names in zip(node.inputs, read, strict=True):
            owed[each] |= names
    return owed


def _all(node: Node, _: Names) -> list[Names]:
    return [set(each.schema.names) for each in node.inputs]


def _same(node: Node, names: Names) -> list[Names]:
    return [set(names) for _ in node.inputs]


def _where(node: Node, names: Names) -> list[Names]:
    return [names | node.params.columns]


def _select(node: Node, names: Names) -> list[Names]:
    return [set().union(*(term.columns for name, term in node.params if name in names))]


def _aggregate(node: Node, names: Names) -> list[Names]:
    keys, sums = node.params
    return [{*keys}.union(*(term.columns for name, _, term in sums if term is not None and name in names))]


def _join(node: Node, names: Names) -> list[Names]:
    below = _all(node, names)
    return [(names & each) | {*keys} for each, keys in zip(below, node.params, strict=True)]


def _extreme(node: Node, names: Names) -> list[Names]:
    keys, of, _, _ = node.params
    return [names | {*keys, of}]


def _bound(node: Node, names: Names) -> list[Names]:
    mine, theirs, value, _, numerator, denominator = node.params
    return [names | {*mine} | value.columns, {*theirs, numerator, *filter(None, [denominator])}]


READ: dict[str, Callable[[Node, Names], list[Names]]] = {
    "where": _where, "select": _select, "concat": _same, "negate": _same, "consolidate": _same,
    "aggregate": _aggregate, "join": _join, "extreme": _extreme, "bound": _bound,
}  # fmt: skip
"""What a node reads of its inputs if some columns of it are read; others read all."""
