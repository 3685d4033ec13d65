"""Preferred keys: those by which the operators above a node need its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltamark.dataflow.plan.nodes import (
    Aggregate,
    Concat,
    Extreme,
    Filter,
    Join,
    MovingThreshold,
    Negate,
    Node,
    Project,
    Threshold,
)
from deltamark.dataflow.types import key_count

MIN_KEYS = 1024
"""The least number of different keys by which rows are partitioned for a later operator; not measured."""


def has_many_keys(node: Node, keys: Sequence[str]) -> bool:
    """Return whether key columns can have enough different values to balance the shards."""
    return bool(keys) and key_count(node.schema[name] for name in keys) >= MIN_KEYS


def preferred_keys(nodes: Sequence[Node]) -> dict[Node, tuple[str, ...]]:
    """Return the keys by which the readers of each node need its rows, if they agree. nodes: inputs first."""
    needed: dict[Node, set[tuple[str, ...]]] = {each: set() for each in nodes}
    for node in reversed(nodes):
        own = next(iter(needed[node])) if len(needed[node]) == 1 else ()
        for each, keys in _preferred_inputs(node, own):
            if keys:
                needed[each].add(keys)
    return {node: next(iter(keys)) for node, keys in needed.items() if len(keys) == 1}


def _preferred_inputs(node: Node, keys: tuple[str, ...]) -> Iterable[tuple[Node, tuple[str, ...]]]:
    match node:
        case Aggregate() | Extreme():
            return [(node.rows, node.keys)]
        case Join() | MovingThreshold():
            return zip(node.inputs, node.keys, strict=True)
        case Project():
            are_copied = all(name in node.copied for name in keys)
            return [(node.rows, tuple(node.copied[name] for name in keys) if are_copied else ())]
        case Filter() | Negate() | Threshold() | Concat():
            return [(each, keys) for each in node.inputs]
        case _:
            return []
