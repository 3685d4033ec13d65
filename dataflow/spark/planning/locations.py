"""Locations: the stages and shards at which the rows of a plan's nodes are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from deltamark.dataflow.plan.distribution import ANYWHERE, Distribution, Exchange
from deltamark.dataflow.plan.nodes import Filter, Input, Join, Negate, Node, Project
from deltamark.dataflow.plan.traversal import subtracts


@dataclass(frozen=True)
class Location:
    """The place of a node's rows.

    placed      in a stage, as the result of the node `local`, and on from there
    unplaced    computed wherever they are needed
    replicated  at every shard, in every stage
    """

    kind: Literal["placed", "unplaced", "replicated"]
    stage: int = 0
    distribution: Distribution = ANYWHERE
    local: Node | None = None


UNPLACED, REPLICATED = Location("unplaced"), Location("replicated")

BY_ROW = Exchange("owner")
"""Moves equal rows of an input to the same shard, whichever that is."""


def may_cancel(node: Node, at: Location) -> bool:
    """Return whether a shard may have a negative weight of a row that other shards have, too."""
    return not at.distribution.settled and subtracts(node)


def is_chain(node: Node) -> bool:
    """Return whether a node can be computed from one input row by row, without state."""
    if isinstance(node, Filter | Project | Negate):
        return is_chain(node.rows)
    return isinstance(node, Input)


def exchange_below(node: Node, below: Node, exchange: Exchange) -> Exchange | None:
    """Return the exchange of an input's rows that moves the rows of an unplaced node as another exchange does."""
    names = {name: name for name in exchange.by}
    if isinstance(node, Project):
        names = dict(node.copied)
    if isinstance(node, Join) and below is node.right:
        names |= dict(zip(node.left_keys, node.right_keys, strict=True))
    by = tuple(names[name] for name in exchange.by if name in names and names[name] in below.schema)
    return replace(exchange, by=by) if len(by) == len(exchange.by) else None
