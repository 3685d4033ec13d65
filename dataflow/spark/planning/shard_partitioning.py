"""Partitioning over shards: the preferred keys of each node, and the distribution of its rows.

The preferred keys are those by which the operators above a node need its rows. The distribution is that over workers
(`plan/passes/partitioning.py`) with three differences: shards never own ranges of keys, distinct rows may be
partitioned by their preferred keys, and an input that only the first shard reads is sent to it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from deltamark.dataflow.plan.nodes import (
    Aggregate,
    Concat,
    Consolidate,
    Extreme,
    Filter,
    Join,
    MovingThreshold,
    Negate,
    Node,
    Project,
    Threshold,
)
from deltamark.dataflow.plan.passes.distribution import FIRST, Distribution, Exchange, OperatorDistribution
from deltamark.dataflow.plan.passes.partitioning import distribute
from deltamark.dataflow.spark.planning.locations import BY_ROW
from deltamark.dataflow.types import Field, key_count

MIN_KEYS = 1024
"""The least number of different keys by which rows are partitioned for a later operator; not measured."""

RANGED = ("int", "date", "code")
"""The kinds of types whose bounds tell the number of values."""


def has_many_keys(node: Node, keys: Sequence[str]) -> bool:
    """Return whether key columns can have enough different values to balance the shards."""
    return bool(keys) and key_count(node.schema[name] for name in keys) >= MIN_KEYS


def widest(fields: Iterable[Field]) -> tuple[str, ...]:
    """Return the name of the column with the most possible values, as the only key of a partitioning."""
    by_width = sorted(fields, key=lambda each: each.type.high - each.type.low if each.type.kind in RANGED else 0)
    return (by_width[-1].name,) if by_width else ()


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


def distribute_over_shards(
    node: Node, inputs: Sequence[Distribution], columns: Mapping[Node, Iterable[str]], preferred: tuple[str, ...]
) -> OperatorDistribution:
    """Distribute a node over several shards. preferred: the keys by which later operators need its rows."""
    over_workers = distribute(node, inputs, columns)
    is_moved = over_workers.exchanges != (None,)
    if isinstance(node, Threshold | Consolidate) and is_moved and has_many_keys(node, preferred):
        return OperatorDistribution((Exchange("owner", preferred),), Distribution("owned", preferred))
    exchanges = tuple(each and replace(each, low=None) for each in over_workers.exchanges)
    if over_workers.distribution == FIRST:  # an exchange to all shards would serve the first one only
        exchanges = tuple(each and Exchange("first") for each in exchanges)
    elif isinstance(node, Concat):  # a part that the first shard alone computes, like a row of NULL, is moved
        pairs = zip(exchanges, inputs, strict=True)
        exchanges = tuple(each or (BY_ROW if own == FIRST else None) for each, own in pairs)
    return OperatorDistribution(exchanges, replace(over_workers.distribution, low=None), over_workers.second)
