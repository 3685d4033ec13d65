"""Which columns of a plan's nodes are read, and so which errors an engine may miss because it reads no others."""

from __future__ import annotations

from dataflow.plan import Node, walk


def is_whole(root: Node) -> bool:
    """Say whether all columns are read of whatever looks at states."""
    owed = _owed(root)
    for node in walk(root):
        match node.op:
            case "extreme" | "bound":
                if owed[node.inputs[0]] < set(node.inputs[0].schema.names):
                    return False
            case "aggregate":
                if owed[node] < {name for name, _, _ in node.params[1]}:
                    return False
            case "iterate":
                return False
    return True


def _owed(root: Node) -> dict[Node, set[str]]:
    nodes = list(walk(root))
    owed: dict[Node, set[str]] = {node: set() for node in nodes}
    owed[root] = set(root.schema.names)
    for node in reversed(nodes):
        for each, names in zip(node.inputs, _read(node, owed[node]), strict=True):
            owed[each] |= names
    return owed


def _read(node: Node, names: set[str]) -> list[set[str]]:
    """Return what a node reads of its inputs if these columns of it are read."""
    below = [set(each.schema.names) for each in node.inputs]
    match node.op:
        case "where":
            return [names | node.params.columns]
        case "select":
            return [set().union(*(term.columns for name, term in node.params if name in names))]
        case "concat" | "negate" | "consolidate":
            return [set(names) for _ in below]
        case "aggregate":
            keys, sums = node.params
            return [{*keys}.union(*(term.columns for name, _, term in sums if term is not None and name in names))]
        case "join":
            return [(names & each) | {*keys} for each, keys in zip(below, node.params, strict=True)]
        case "extreme":
            keys, of, _, _ = node.params
            return [names | {*keys, of}]
        case "bound":
            mine, theirs, value, _, numerator, denominator = node.params
            return [names | {*mine} | value.columns, {*theirs, numerator, *filter(None, [denominator])}]
    return below
