"""Locations: the stages and shards in which the rows of the nodes of a plan are available."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from deltamark.dataflow.operators.distribution import ANYWHERE, Distribution, Exchange
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Filter, Negate, Project, subtracts
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.passes.partition import has_many_keys


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
