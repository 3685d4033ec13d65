"""Partitioning over shards: the distribution of the rows of a node.

It is that over workers (`plan/passes/distributing.py`) with three differences: shards never own ranges of keys,
distinct rows may be partitioned by their preferred keys, and an input that only the first shard reads is sent to it
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from deltamark.dataflow.operators.consolidate import Consolidate
from deltamark.dataflow.operators.distribution import FIRST, WHOLE, Distribution, Exchange, OperatorDistribution
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Concat
from deltamark.dataflow.operators.moving_threshold import MovingThreshold
from deltamark.dataflow.operators.node import Node, distribute
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.passes.partition import has_many_keys
from deltamark.dataflow.spark.planning.locations import BY_ROW
from deltamark.dataflow.types import Field

RANGED = ("int", "date", "code")
"""The kinds of types whose bounds tell the number of values."""


def widest(fields: Iterable[Field]) -> tuple[str, ...]:
    """Return the name of the column with the most possible values, as the only key of a partitioning."""
    by_width = sorted(fields, key=lambda each: each.type.high - each.type.low if each.type.kind in RANGED else 0)
    return (by_width[-1].name,) if by_width else ()


def distribute_over_shards(
    node: Node, inputs: Sequence[Distribution], columns: Mapping[Node, Iterable[str]], preferred: tuple[str, ...]
) -> OperatorDistribution:
    """Distribute a node over several shards. preferred: the keys by which later operators need its rows."""
    over_workers = distribute(node, inputs, columns)
    is_moved = over_workers.exchanges != (None,)
    if isinstance(node, Threshold | Consolidate) and is_moved and has_many_keys(node, preferred):
        return OperatorDistribution((Exchange("owner", preferred),), Distribution("owned", preferred))
    exchanges = tuple(each and replace(each, low=None) for each in over_workers.exchanges)
    if over_workers.distribution == FIRST and not over_workers.second:  # other shards have no use for the rows
        exchanges = tuple(each and Exchange("first") for each in exchanges)
    elif isinstance(node, Concat):  # a part that the first shard alone computes, like a row of NULL, is moved
        pairs = zip(exchanges, inputs, strict=True)
        exchanges = tuple(each or (BY_ROW if own == FIRST else None) for each, own in pairs)
    elif isinstance(node, Join | MovingThreshold) and node.keys[0]:  # a side of which every shard has all rows stays
        exchanges = tuple(None if own == WHOLE else each for each, own in zip(exchanges, inputs, strict=True))
    return OperatorDistribution(exchanges, replace(over_workers.distribution, low=None), over_workers.second)
