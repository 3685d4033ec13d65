"""Locations: the stages and shards in which the rows of the nodes of a plan are available.

Partitioning over shards: the distribution of the rows of a node.

It is that over workers (`operators/distribution.py`) with three differences: shards never own ranges of keys,
distinct rows may be partitioned by their preferred keys, and an input that only the first shard reads is sent to it
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deltamark.dataflow.operators.consolidate import Consolidate
from deltamark.dataflow.operators.distribution import (
    ANYWHERE,
    FIRST,
    WHOLE,
    Distribution,
    Exchange,
    OperatorDistribution,
)
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Concat, Filter, Negate, Project, subtracts
from deltamark.dataflow.operators.moving_threshold import MovingThreshold
from deltamark.dataflow.operators.node import Node, distribute
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.passes.partition import has_many_keys
from deltamark.dataflow.types import Field


@dataclass(frozen=True)
class Location:
    """The stage and the shards in which the rows of a node are available.

    placed      in `stage`, as the result of the node `local` over the inputs of that stage, and in later stages
    unplaced    in any stage: computed from inputs and replicated rows wherever they are needed
    replicated  in any stage, with a copy at every shard
    """

    kind: Literal["placed", "unplaced", "replicated"]
    stage: int = 0
    distribution: Distribution = ANYWHERE
    local: Node | None = None


UNPLACED, REPLICATED = Location("unplaced"), Location("replicated")

BY_ROW = Exchange("owner")
"""The exchange that moves equal rows to the same shard, by the widest of their columns."""


def may_cancel(node: Node, at: Location) -> bool:
    """Return whether a row may have a negative weight at one shard, because its other copies are at other shards."""
    return not at.distribution.equal_rows_meet and subtracts(node)


def is_chain(node: Node) -> bool:
    """Return whether a node can be computed from one input row by row, without state, and only copies texts.

    Stage 0 sends a text as the place of the input's row that has it, so it cannot send a computed one.
    """
    match node:
        case Project():
            texts = [name for name, term in node.columns if term.type.kind == "text"]
            return is_chain(node.rows) and node.copied.keys() >= set(texts)
        case Filter() | Negate():
            return is_chain(node.rows)
    return isinstance(node, Input)


def exchange_below(node: Node, below: Node, exchange: Exchange) -> Exchange | None:
    """Return the exchange of the input `below` with the same effect as an exchange of an unplaced node, or None."""
    names = {name: name for name in exchange.by}
    if isinstance(node, Project):
        names = dict(node.copied)
    if isinstance(node, Join) and below is node.right:
        names |= dict(zip(node.left_keys, node.right_keys, strict=True))
    by = tuple(names[name] for name in exchange.by if name in names and names[name] in below.schema)
    return replace(exchange, by=by) if len(by) == len(exchange.by) else None


def can_deal(node: Node, exchange: Exchange) -> bool:
    """Return whether the rows of a replicated node can be sent to the owners of many keys instead of to all shards."""
    return has_many_keys(node, exchange.by) and (is_chain(node) or dealt_input(node, exchange) is not None)


def dealt_input(node: Node, exchange: Exchange) -> Node | None:
    """Return the input of a replicated node that is sent to the owners of the node's keys; None if there is none."""
    if isinstance(node, Join | Project | Filter | Negate):
        for each in node.inputs:
            below = exchange_below(node, each, exchange)
            if below and can_deal(each, below):
                return each
    return None


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
