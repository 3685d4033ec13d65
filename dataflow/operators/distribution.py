"""Distributions of rows over workers, and the exchanges that lead from one to another.

Operators with state need all rows of a key, or all copies of a row, at one worker. Rows that are already partitioned by
some of those columns stay where they are. If every worker has all rows of one input, the rows of the other stay, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from deltamark.dataflow.kernels.parallel.key_partition import MAX_KEYS, MIN_RANGE
from deltamark.dataflow.types import Type

if TYPE_CHECKING:
    from deltamark.dataflow.operators.node import Node

Columns = Mapping["Node", Iterable[str]]
"""The required columns of each node, which are all that its rows consist of."""


@dataclass(frozen=True)
class Distribution:
    """How the rows of a stream are distributed over the workers.

    whole     every worker has all rows
    sliced    each worker has a slice of each superstep, and its times follow those of the worker before
    anywhere  equal rows may be at different workers
    scanned   ordered over the workers as `sliced`, but divided at times that are peculiar to one aggregate, with the
              digest `aggregate`
    owned     at the worker that owns the values of the columns `by`; with `low`, `by` is one column, and a worker owns
              ranges of its values from `low` up
    first     at the first worker
    """

    kind: Literal["whole", "sliced", "anywhere", "scanned", "owned", "first"]
    by: tuple[str, ...] = ()
    low: int | None = None
    aggregate: str = ""

    @property
    def equal_rows_meet(self) -> bool:
        """Whether equal rows are at one worker."""
        return self.kind in ("owned", "first")

    @property
    def in_order(self) -> bool:
        """Whether no row of a worker is earlier than one of a worker before it."""
        return self.kind in ("sliced", "scanned")


WHOLE, SLICED = Distribution("whole"), Distribution("sliced")
ANYWHERE, FIRST = Distribution("anywhere"), Distribution("first")


@dataclass(frozen=True)
class Exchange:
    """A movement of rows: to the owners of the values of columns, to the first worker, or to every worker.

    dealt: every worker has all rows, and takes its own; so nothing moves. It may also take its slice of an input.
    """

    to: Literal["owner", "slice", "first", "all"]
    by: tuple[str, ...] = ()
    low: int | None = None
    dealt: bool = False

    def __str__(self) -> str:
        places = {"first": "one worker", "slice": "slices", "all": "all workers"}
        movement = "deal" if self.dealt else "exchange"
        return f"{movement} by {', '.join(self.by)}" if self.to == "owner" else f"{movement} to {places[self.to]}"

    def applied(self) -> Distribution:
        """Return the distribution of rows after the exchange."""
        if self.to == "owner":
            return Distribution("owned", self.by, self.low)
        return {"first": FIRST, "slice": SLICED, "all": WHOLE}[self.to]


@dataclass(frozen=True)
class OperatorDistribution:
    """How an operator runs on several workers: the exchanges of its inputs, and the distribution of its result.

    second: the exchange between two phases, for an operator that selects few rows of all: each worker selects among its
    own rows, and the first worker selects among those.
    """

    exchanges: tuple[Exchange | None, ...]
    distribution: Distribution
    second: Exchange | None = None


def at_first(inputs: Sequence[Distribution]) -> OperatorDistribution:
    """Bring all inputs to the first worker."""
    return OperatorDistribution(tuple(None if each == FIRST else Exchange("first") for each in inputs), FIRST)


def exchange_to_owner(node: Node, distribution: Distribution, columns: Columns) -> Exchange | None:
    """Return the exchange that brings equal rows of a node to their owner, if they are at several workers."""
    if distribution.equal_rows_meet:
        return None
    names = tuple(columns[node])
    return to_owner(names, [node.schema[name] for name in names])


def to_owner(names: Sequence[str], types: Sequence[Type], sums: Collection[str] = ()) -> Exchange:
    """Return the exchange by some columns.

    sums: columns whose values may lie close together, however wide their range is; those are not owned in ranges.
    """
    if not names:
        return Exchange("first")
    low = types[0].low if len(types) == 1 and in_ranges(types[0]) and names[0] not in sums else None
    return Exchange("owner", tuple(names), low)


def in_ranges(type_: Type) -> bool:
    """Return whether keys of a type are owned in ranges; texts are hashed, as their numbers differ between workers."""
    return type_.kind != "text" and not type_.nullable and MIN_RANGE <= type_.high - type_.low < MAX_KEYS


def gather(
    distribution: Distribution, names: Sequence[str], types: Sequence[Type], sums: Collection[str] = ()
) -> OperatorDistribution:
    """Bring rows with equal values in some columns to one worker; without columns, all rows. sums: see `to_owner`."""
    if distribution == FIRST or (distribution.kind == "owned" and set(distribution.by) <= set(names)):
        return OperatorDistribution((None,), distribution)
    exchange = to_owner(names, types, sums)
    return OperatorDistribution((exchange,), exchange.applied())


def two_phases(rows: Node, distribution: Distribution, columns: Columns) -> OperatorDistribution:
    """Let each worker select among its rows, and the first worker among the selected ones."""
    if distribution == FIRST:
        return OperatorDistribution((None,), FIRST)
    return OperatorDistribution((exchange_to_owner(rows, distribution, columns),), FIRST, Exchange("first"))


def fits(distribution: Distribution, types: Sequence[Type]) -> bool:
    """Return whether keys of some types have the owners of a distribution, if that is in ranges."""
    if distribution.low is None:
        return True
    (type_,) = types
    return in_ranges(type_) and type_.low >= distribution.low and type_.high - distribution.low < MAX_KEYS


def together(
    keys: tuple[Sequence[str], Sequence[str]],
    key_types: Sequence[Type],
    inputs: Sequence[Distribution],
    names_above: Collection[str],
) -> OperatorDistribution:
    """Bring two inputs together by key; if one is owned by some of its keys, the other is moved to it.

    names_above: the columns of the result.
    """
    left_keys, right_keys = keys
    if inputs[0] == inputs[1] == FIRST:
        return OperatorDistribution((None, None), FIRST)
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
            if set(by) <= set(names_above):
                return OperatorDistribution((None, None), replace(kept, by=by))
    left = to_owner(left_keys, key_types)
    return OperatorDistribution((left, to_owner(right_keys, key_types)), left.applied())


def with_whole_indexes(inputs: Sequence[Distribution]) -> OperatorDistribution:
    """Leave the extended rows where they are, and have the indexes at every worker that has rows."""
    rows, *indexes = inputs
    if rows == FIRST:
        to_first = (None if each in (FIRST, WHOLE) else Exchange("first") for each in indexes)
        return OperatorDistribution((None, *to_first), FIRST)
    return OperatorDistribution((None, *(None if each == WHOLE else Exchange("all") for each in indexes)), rows)


def crossed(
    nodes: Sequence[Node], small: int, inputs: Sequence[Distribution], columns: Columns
) -> OperatorDistribution:
    """Send the side `small` to all workers."""
    if inputs[0] == inputs[1] == FIRST:
        return OperatorDistribution((None, None), FIRST)
    large = 1 - small
    moved = exchange_to_owner(nodes[large], inputs[large], columns)
    to_all = None if inputs[small] == WHOLE else Exchange("all")
    exchanges = (moved, to_all) if small else (to_all, moved)
    return OperatorDistribution(exchanges, inputs[large] if moved is None else moved.applied())
