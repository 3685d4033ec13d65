"""The distribution of one node over several workers, and its exchanges, given the distributions of its inputs.

Operators with state need all rows of a key, or all copies of a row, at one worker. Rows that are already partitioned by
some of those columns stay where they are. If every worker has all rows of one input, the rows of the other stay, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from deltamark.dataflow.kernels.parallel.key_partition import MAX_KEYS, MIN_RANGE
from deltamark.dataflow.plan.nodes import (
    Aggregate,
    Concat,
    Consolidate,
    Extend,
    Extreme,
    Filter,
    Input,
    Iterate,
    Join,
    Measure,
    MovingThreshold,
    Negate,
    Node,
    NullRow,
    Project,
    Seek,
    Threshold,
    TopK,
    Variable,
)
from deltamark.dataflow.plan.passes.distribution import (
    ANYWHERE,
    FIRST,
    SLICED,
    WHOLE,
    Distribution,
    Exchange,
    OperatorDistribution,
)
from deltamark.dataflow.types import Type, key_count
from deltamark.errors import DeltamarkError

Columns = Mapping[Node, Iterable[str]]
"""The required columns of each node, which are all that its rows consist of."""

MAX_REPLICATED_GROUPS = 4096
"""The most groups of an aggregate whose state every worker has a copy of; not measured."""


def distribute(node: Node, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
    """Distribute a node over several workers, given the distributions of its inputs."""
    if inputs and all(each == WHOLE for each in inputs) and not isinstance(node, Iterate | Variable):
        return OperatorDistribution((None,) * len(inputs), WHOLE)
    match node:
        case Input():
            return OperatorDistribution((), SLICED)
        case Filter() | Negate():
            return OperatorDistribution((None,), inputs[0])
        case Project():
            return OperatorDistribution((None,), _renamed(inputs[0], node))
        case Concat():
            return _concat(node, inputs, columns)
        case TopK():
            return _two_phases(node, inputs[0], columns)
        case Extreme():
            return _by_group(node, inputs[0]) if node.keys else _two_phases(node, inputs[0], columns)
        case Aggregate():
            return _aggregate(node, inputs[0])
        case Threshold() | Consolidate():
            names = tuple(columns[node.rows])
            return _gather(inputs[0], names, [node.schema[name] for name in names])
        case NullRow():
            return _gather(inputs[0], (), ())
        case Join() | MovingThreshold():
            return _join(node, inputs, columns)
        case Extend():
            return _extend(inputs)
        case Seek() | Measure():
            index = node.index
            types = index.key_types(node.rows)
            pairs = index.row_keys, index.keys
            return _co_partition(node, pairs, inputs, types) if index.row_keys else _extend(inputs)
        case Iterate() | Variable():
            raise DeltamarkError("a loop runs on one worker", "several workers", "give one worker")
        case _:
            assert_never(node)


def exchange_to_owner(node: Node, distribution: Distribution, columns: Columns) -> Exchange | None:
    """Return the exchange that brings equal rows of a node to their owner, if they are at several workers."""
    if distribution.equal_rows_meet:
        return None
    names = tuple(columns[node])
    return to_owner(names, [node.schema[name] for name in names])


def to_owner(names: Sequence[str], types: Sequence[Type]) -> Exchange:
    if not names:
        return Exchange("first")
    low = types[0].low if len(types) == 1 and in_ranges(types[0]) else None
    return Exchange("owner", tuple(names), low)


def in_ranges(type_: Type) -> bool:
    """Return whether keys of a type are owned in ranges; texts are hashed, as their numbers differ between workers."""
    return type_.kind != "text" and not type_.nullable and MIN_RANGE <= type_.high - type_.low < MAX_KEYS


def _gather(distribution: Distribution, names: Sequence[str], types: Sequence[Type]) -> OperatorDistribution:
    """Bring rows with equal values in some columns to one worker; without columns, all rows."""
    if distribution == FIRST or (distribution.kind == "owned" and set(distribution.by) <= set(names)):
        return OperatorDistribution((None,), distribution)
    exchange = to_owner(names, types)
    return OperatorDistribution((exchange,), exchange.applied())


def _aggregate(node: Aggregate, distribution: Distribution) -> OperatorDistribution:
    """Replicate an aggregate with few groups over rows in order: its workers exchange sums instead of rows."""
    groups = key_count(node.schema[name] for name in node.keys)
    if distribution.in_order and groups <= MAX_REPLICATED_GROUPS:
        return OperatorDistribution((None,), Distribution("scanned", aggregate=node.digest.hex()))
    return _by_group(node, distribution)


def _by_group(node: Aggregate | Extreme, distribution: Distribution) -> OperatorDistribution:
    return _gather(distribution, node.keys, [node.rows.schema[name] for name in node.keys])


def _two_phases(node: TopK | Extreme, distribution: Distribution, columns: Columns) -> OperatorDistribution:
    if distribution == FIRST:
        return OperatorDistribution((None,), FIRST)
    return OperatorDistribution((exchange_to_owner(node.rows, distribution, columns),), FIRST, Exchange("first"))


def _renamed(distribution: Distribution, node: Project) -> Distribution:
    """Follow the columns by which rows are owned through a projection; if one is dropped, their owner is unknown."""
    if distribution.kind != "owned":
        return distribution
    new = {old: name for name, old in reversed(list(node.copied.items()))}
    if not set(distribution.by) <= new.keys():
        return ANYWHERE
    return replace(distribution, by=tuple(new[name] for name in distribution.by))


def _concat(node: Concat, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
    """Move the parts to the rows of one of them, if these are owned by columns that all parts have.

    The last such part is chosen: in an antijoin it is the result of a join, whose rows have been moved already.
    """
    if len(set(inputs)) == 1 and inputs[0].kind != "scanned":
        return OperatorDistribution((None,) * len(inputs), inputs[0])
    names = tuple(columns[node])
    target = next((each for each in reversed(inputs) if _accepts(each, names, node)), None)
    if target is None:
        own = to_owner(names, [node.schema[name] for name in names])
        return OperatorDistribution(tuple(own if each == WHOLE else None for each in inputs), ANYWHERE)
    exchange = Exchange("owner", target.by, target.low)
    return OperatorDistribution(tuple(None if each == target else exchange for each in inputs), target)


def _accepts(distribution: Distribution, names: Iterable[str], node: Node) -> bool:
    """Return whether rows of a node can be moved to the owners of others, by columns `names` that both have."""
    if distribution.kind != "owned" or not set(distribution.by) <= set(names):
        return False
    return fits(distribution, [node.schema[name] for name in distribution.by])


def fits(distribution: Distribution, types: Sequence[Type]) -> bool:
    """Return whether keys of some types have the owners of a distribution, if that is in ranges."""
    if distribution.low is None:
        return True
    (type_,) = types
    return in_ranges(type_) and type_.low >= distribution.low and type_.high - distribution.low < MAX_KEYS


def _join(node: Join | MovingThreshold, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
    """Bring rows of equal keys together; without keys, send one side to all workers."""
    if inputs[0] == inputs[1] == FIRST:
        return OperatorDistribution((None, None), FIRST)
    if not node.keys[0]:
        return _cross(node, inputs, columns)
    return _co_partition(node, node.keys, inputs, node.key_types)


def _co_partition(
    node: Node, keys: tuple[Sequence[str], Sequence[str]], inputs: Sequence[Distribution], key_types: Sequence[Type]
) -> OperatorDistribution:
    """Bring two inputs together by key; if one is owned by some of its keys, the other is moved to it."""
    left_keys, right_keys = keys
    pairs = tuple(zip(left_keys, right_keys, strict=True))
    names = dict(pairs), {right: left for left, right in pairs}
    types = dict(zip(left_keys, key_types, strict=True)), dict(zip(right_keys, key_types, strict=True))
    for side, other in ((0, 1), (1, 0)):
        kept = inputs[side]
        owned = kept.kind == "owned" and set(kept.by) <= names[side].keys()
        if owned and fits(kept, [types[side][name] for name in kept.by]):
            moved = Distribution("owned", tuple(names[side][name] for name in kept.by), kept.low)
            exchange = None if inputs[other] == moved else Exchange("owner", moved.by, moved.low)
            exchanges = (None, exchange) if side == 0 else (exchange, None)
            return OperatorDistribution(exchanges, kept if side == 0 else moved)
    for side, other in ((0, 1), (1, 0)):
        kept = inputs[side]
        if inputs[other] == WHOLE and kept.equal_rows_meet:
            by = tuple(names[side].get(name, name) if side == 1 else name for name in kept.by)
            if set(by) <= set(node.schema.names):
                return OperatorDistribution((None, None), replace(kept, by=by))
    left = to_owner(left_keys, key_types)
    return OperatorDistribution((left, to_owner(right_keys, key_types)), left.applied())


def _extend(inputs: Sequence[Distribution]) -> OperatorDistribution:
    """Leave the extended rows where they are, and have the indexes at every worker that has rows."""
    rows, *indexes = inputs
    if rows == FIRST:
        to_first = (None if each in (FIRST, WHOLE) else Exchange("first") for each in indexes)
        return OperatorDistribution((None, *to_first), FIRST)
    return OperatorDistribution((None, *(None if each == WHOLE else Exchange("all") for each in indexes)), rows)


def _cross(node: Join | MovingThreshold, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
    """Send the smaller side, which often is one row, to all workers. Limits are always sent."""
    small = 0 if isinstance(node, Join) and node.left.schema.rows < node.right.schema.rows else 1
    large = 1 - small
    moved = exchange_to_owner(node.inputs[large], inputs[large], columns)
    to_all = None if inputs[small] == WHOLE else Exchange("all")
    exchanges = (moved, to_all) if small else (to_all, moved)
    return OperatorDistribution(exchanges, inputs[large] if moved is None else moved.applied())
