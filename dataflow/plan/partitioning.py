"""Where the rows of each stream lie when several workers run a plan, and what must be moved for an operator.

What looks at states needs all rows of a key, or of a row's value, at one worker. Streams whose rows are already dealt
by some of those columns stay where they are. With one worker everything is in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from deltamark.dataflow.codegen.program import key_range
from deltamark.dataflow.kernels.parallel.key_partition import MAX_KEYS, MIN_RANGE
from deltamark.dataflow.plan.nodes import Node
from deltamark.dataflow.types import Type, spanning

Owed = Mapping[Node, Iterable[str]]
"""The columns of each node that anybody uses: as far as anybody knows they are the row."""

FEW_GROUPS = 4096
"""Each worker has a copy of so many."""


@dataclass(frozen=True)
class Placement:
    """Where a stream's rows lie.

    sliced    each worker has a slice of each round, and its times follow those of the worker before
    anywhere  equal rows may lie at different workers
    scanned   as sliced; `by` names the aggregate, for the times of others follow other slices
    owned     at the worker that owns the values of the columns `by`; with `low`, of the one column in `by`, whose
              values from `low` up are dealt in blocks
    first     at the first worker
    """

    kind: Literal["sliced", "anywhere", "scanned", "owned", "first"]
    by: tuple[str, ...] = ()
    low: int | None = None

    @property
    def settled(self) -> bool:
        """Do equal rows lie at one worker?"""
        return self.kind in ("owned", "first")

    @property
    def in_order(self) -> bool:
        """Is no row of a worker earlier than one of a worker before it?"""
        return self.kind in ("sliced", "scanned")


SLICED, ANYWHERE, FIRST = Placement("sliced"), Placement("anywhere"), Placement("first")


@dataclass(frozen=True)
class Delivery:
    """Where a stream must be moved: to the owners of columns, to the first worker, or to every one."""

    to: Literal["owner", "first", "all"]
    by: tuple[str, ...] = ()
    low: int | None = None

    def __str__(self) -> str:
        return f"by {', '.join(self.by)}" if self.to == "owner" else f"to {self.to.replace('first', 'one worker')}"


@dataclass(frozen=True)
class Layout:
    """How a node runs on several workers: what is done with its inputs first, and where its rows come to lie."""

    deliveries: tuple[Delivery | None, ...]
    placement: Placement
    again: Delivery | None = None
    """For what picks a few rows of all: each worker picks among its own, and one of them among what was picked."""


def layout(node: Node, placed: Sequence[Placement], owed: Owed, key_types: Sequence[Type]) -> Layout:
    """Place a node whose inputs are placed. key_types: of the keys by which a join or a bound meets."""
    match node.op:
        case "input":
            return Layout((), SLICED)
        case "where" | "negate":
            return Layout((None,), placed[0])
        case "select":
            return Layout((None,), _renamed(placed[0], node))
        case "concat":
            return _concat(node, placed, set(owed[node]))
        case "top":
            return _picked(node, placed[0], owed)
        case "extreme" if not node.params[0]:
            return _picked(node, placed[0], owed)
        case "aggregate" if placed[0].in_order and _groups(node) <= FEW_GROUPS:
            return Layout((None,), Placement("scanned", (node.digest.hex(),)))
        case "aggregate" | "extreme":
            keys = node.params[0]
            return _gathered(placed[0], keys, [node.inputs[0].schema[name] for name in keys])
        case "threshold" | "consolidate":
            names = tuple(owed[node.inputs[0]])
            return _gathered(placed[0], names, [node.schema[name] for name in names])
        case "join" | "bound":
            return _met(node, placed, owed, key_types)
        case "extend":
            return _extended(placed)
        case "seek" | "measure":
            ((mine, theirs, _, _),) = node.params[1]
            left, right = (each.schema for each in node.inputs)
            types = [spanning(left[name], right[other]) for name, other in zip(mine, theirs, strict=True)]
            return _together(mine, theirs, placed, types) if mine else _extended(placed)
    return _gathered(placed[0], (), ())


def _groups(node: Node) -> int:
    return prod(radix for _, radix in key_range([node.schema[name] for name in node.params[0]]))


def by_row(node: Node, placement: Placement, owed: Owed) -> Delivery | None:
    """Return how equal rows of a node come to lie at one worker."""
    if placement.settled:
        return None
    names = tuple(owed[node])
    return _owner(names, [node.schema[name] for name in names])


def delivered(placement: Placement, delivery: Delivery | None) -> Placement:
    """Return where rows lie after a delivery."""
    if delivery is None:
        return placement
    if delivery.to == "owner":
        return Placement("owned", delivery.by, delivery.low)
    return FIRST if delivery.to == "first" else ANYWHERE


def _owner(names: Sequence[str], types: Sequence[Type]) -> Delivery:
    if not names:
        return Delivery("first")
    low = types[0].low if len(types) == 1 and _in_blocks(types[0]) else None
    return Delivery("owner", tuple(names), low)


def _in_blocks(type_: Type) -> bool:
    """Are keys of a type dealt in blocks? Texts have other numbers at every worker: they are dealt by their bytes."""
    return type_.kind != "text" and not type_.nullable and MIN_RANGE <= type_.high - type_.low < MAX_KEYS


def _gathered(placement: Placement, names: Sequence[str], types: Sequence[Type]) -> Layout:
    """Bring together the rows of equal values in some columns; of all rows, if there are none."""
    if placement == FIRST or (placement.kind == "owned" and set(placement.by) <= set(names)):
        return Layout((None,), placement)
    delivery = _owner(names, types)
    return Layout((delivery,), delivered(placement, delivery))


def _picked(node: Node, placement: Placement, owed: Owed) -> Layout:
    if placement == FIRST:
        return Layout((None,), FIRST)
    return Layout((by_row(node.inputs[0], placement, owed),), FIRST, Delivery("first"))


def _renamed(placement: Placement, node: Node) -> Placement:
    """Follow the columns by which rows are owned through a select; where one goes, so does what is known."""
    if placement.kind != "owned":
        return placement
    new = {term.value: name for name, term in reversed(node.params) if term.op == "column"}
    if not set(placement.by) <= new.keys():
        return ANYWHERE
    return replace(placement, by=tuple(new[name] for name in placement.by))


def _concat(node: Node, placed: Sequence[Placement], names: set[str]) -> Layout:
    """Move the parts to where one of them is already, if its rows are settled and all have the columns.

    It is the last such part, for an antijoin subtracts what has met by the very key to which its rows went before.
    """
    if len(set(placed)) == 1 and placed[0].kind != "scanned":
        return Layout((None,) * len(placed), placed[0])
    target = next((each for each in reversed(placed) if _takes(each, names, node)), None)
    if target is None:
        return Layout((None,) * len(placed), ANYWHERE)
    moved = Delivery("owner", target.by, target.low)
    return Layout(tuple(None if each == target else moved for each in placed), target)


def _takes(placement: Placement, names: set[str], node: Node) -> bool:
    """Can rows of a node go to where others are owned, by columns `names` that both have?"""
    if placement.kind != "owned" or not set(placement.by) <= names:
        return False
    return _deals(placement, [node.schema[name] for name in placement.by])


def _deals(placement: Placement, types: Sequence[Type]) -> bool:
    """Are keys of these types dealt like those of a placement, if that deals blocks of keys?"""
    if placement.low is None:
        return True
    (type_,) = types
    return _in_blocks(type_) and type_.low >= placement.low and type_.high - placement.low < MAX_KEYS


def _met(node: Node, placed: Sequence[Placement], owed: Owed, key_types: Sequence[Type]) -> Layout:
    """Bring the two sides of a join, or rows and their limits, together by key; without keys, one of them to all."""
    mine, theirs = node.params[:2]
    if placed[0] == placed[1] == FIRST:
        return Layout((None, None), FIRST)
    if not mine:
        return _crossed(node, placed, owed)
    return _together(mine, theirs, placed, key_types)


def _together(
    mine: Sequence[str], theirs: Sequence[str], placed: Sequence[Placement], key_types: Sequence[Type]
) -> Layout:
    """Bring two inputs together by the values of columns; where one is dealt by some of these, the other joins it."""
    names = dict(zip(mine, theirs, strict=True)), dict(zip(theirs, mine, strict=True))
    types = dict(zip(mine, key_types, strict=True)), dict(zip(theirs, key_types, strict=True))
    for side, other in ((0, 1), (1, 0)):
        kept = placed[side]
        owned = kept.kind == "owned" and set(kept.by) <= names[side].keys()
        if owned and _deals(kept, [types[side][name] for name in kept.by]):
            moved = Placement("owned", tuple(names[side][name] for name in kept.by), kept.low)
            delivery = None if placed[other] == moved else Delivery("owner", moved.by, moved.low)
            deliveries = (None, delivery) if side == 0 else (delivery, None)
            return Layout(deliveries, kept if side == 0 else moved)
    left, right = _owner(mine, key_types), _owner(theirs, key_types)
    return Layout((left, right), delivered(placed[0], left))


def _extended(placed: Sequence[Placement]) -> Layout:
    """Leave rows where they are, and have what extends them at every worker."""
    if placed[0] == FIRST:
        return Layout((None, *(None if each == FIRST else Delivery("first") for each in placed[1:])), FIRST)
    return Layout((None, *(Delivery("all") for _ in placed[1:])), placed[0])


def _crossed(node: Node, placed: Sequence[Placement], owed: Owed) -> Layout:
    """Send the smaller side, which often is one row, to all."""
    small = 0 if node.op == "join" and node.inputs[0].schema.rows < node.inputs[1].schema.rows else 1
    large = 1 - small
    moved = by_row(node.inputs[large], placed[large], owed)
    deliveries: Mapping[int, Delivery | None] = {small: Delivery("all"), large: moved}
    return Layout((deliveries[0], deliveries[1]), delivered(placed[large], moved))
