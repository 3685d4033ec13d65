"""Join: the pairs of rows with equal keys, of two arrangements that other joins may share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from deltamark.dataflow.builder.program import BlockAddress, Program, VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.arrangements.join import JOIN, JoinSide
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.operators.by_key import Paired
from deltamark.dataflow.operators.distribution import (
    WHOLE,
    Columns,
    Distribution,
    OperatorDistribution,
    crossed,
    fits,
)
from deltamark.dataflow.operators.errors import WeightOverflow
from deltamark.dataflow.operators.in_order import InOrder
from deltamark.dataflow.operators.linear import Filter, Project
from deltamark.dataflow.operators.node import (
    Emission,
    JoinReads,
    Keys,
    Node,
    Placing,
    ReadArrangement,
    Requirement,
    expected_rows,
    is_unique,
)
from deltamark.dataflow.plan.term_sql import listed, on_columns
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import key_count


@dataclass(frozen=True, eq=False)
class Join(Paired):
    """The pairs of rows with equal keys: all columns of the left row, and those of the right one that are no keys."""

    left: Node
    right: Node
    left_keys: Keys
    right_keys: Keys

    @property
    def keys(self) -> tuple[Keys, Keys]:
        return self.left_keys, self.right_keys

    @property
    def title(self) -> str:
        return "join" if self.left_keys else "cross join"

    def description(self, required: Collection[str]) -> str:
        read = listed(name for name in self.schema.names if name in required)
        return f"{on_columns(*self.keys)} -> {read}".strip()

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterator[Requirement]:
        origins = [self.origin(name, reads.looping) for name in columns]
        for side in (0, 1):
            names = [name for origin, name in origins if origin == side]
            if self.inputs[side] in reads.looping:
                yield self.input_requirement(side, names)
            elif (requirement := reads(self, side, names)) is not None:
                yield requirement

    def origin(self, name: str, looping: Collection[Node]) -> tuple[int, str]:
        """Choose the side that a column is read from, and its name there: a key is read where there are fewer rows."""
        if name not in self.left.schema:
            return 1, name
        if name in self.left_keys and self not in looping and expected_rows(self.right) < expected_rows(self.left):
            return 1, self.right_keys[self.left_keys.index(name)]
        return 0, name

    def determines(self, names: frozenset[str]) -> bool:
        """Return whether these columns determine a row of one side, and with its keys the row of the other side."""
        right_of = dict(zip(self.left_keys, self.right_keys, strict=True))
        of_right = [right_of.get(name, name) for name in names if name in right_of or name not in self.left.schema]
        of_left = [name for name in names if name in self.left.schema]
        return (is_unique(self.left, of_left) and is_unique(self.right, [*of_right, *self.right_keys])) or (
            is_unique(self.right, of_right) and is_unique(self.left, [*of_left, *self.left_keys])
        )

    def selects_from(self, rows: Node) -> bool:
        return self.left is rows and is_unique(self.right, self.right_keys)

    def estimate(self, inputs: Sequence[float]) -> float:
        types = [self.left.schema[name] for name in self.left_keys]
        keys = math.prod(each.high - each.low + 1 for each in types)
        return inputs[0] * (inputs[1] / max(min(keys, max(inputs)), 1))

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        """Bring rows of equal keys together; without keys, send the smaller side, often one row, to all workers."""
        if self.left_keys:
            return super().distributed(inputs, columns)
        return crossed(self.inputs, int(self.left.schema.rows >= self.right.schema.rows), inputs, columns)

    def wishes(self, placing: Placing) -> list[Distribution]:
        if self.left_keys:
            return super().wishes(placing)
        left, right = map(placing.default, self.inputs)
        return [WHOLE, right] if placing.is_small(self.left) else [left, WHOLE]

    def is_open(self, placing: Placing) -> bool:
        return all(map(placing.is_free, self.inputs)) and any(map(placing.is_small, self.inputs))

    def below(self, wish: Distribution, placing: Placing) -> list[Distribution] | None:
        """Deal both sides by keys, or one side, and have the other one whole."""
        if wish.kind != "owned":
            return None
        right_of = dict(zip(self.left_keys, self.right_keys, strict=True))
        if set(wish.by) <= right_of.keys():
            types = dict(zip(self.left_keys, self.key_types, strict=True))
            if fits(wish, [types[name] for name in wish.by]):
                return [wish, replace(wish, by=tuple(right_of[name] for name in wish.by))]
        if set(wish.by) <= set(self.left.schema.names) and placing.is_small(self.right):
            return [wish, WHOLE]
        by = tuple(right_of.get(name, name) for name in wish.by)
        if set(by) <= set(self.right.schema.names) and placing.is_small(self.left):
            return [WHOLE, replace(wish, by=by)]
        return None

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        sides = emission.arranged(self)
        origins = {name: self.origin(name, emission.looping) for name in emission.columns(self)}
        columns = {name: (side, sides[side].terms[of]) for name, (side, of) in origins.items()}
        return _join(emission.program, sides, columns)


def repeats_rows(node: Node, names: Iterable[str], columns: Callable[[Node], Sequence[str]]) -> bool:
    """Return whether many updates of some columns of a node are expected to be of equal rows.

    They are if joins below the node make more rows than the columns have values, or if functions in an order are read
    without a column of the order: a row is replaced by an equal one when that column changes. columns: those that are
    read of a node.
    """
    if _has_joined_rows(node) and expected_rows(node) > key_count(node.schema[name] for name in names):
        return True
    ordered = _rows_of(node)
    return isinstance(ordered, InOrder) and not {*ordered.stored(columns(ordered))} <= {*columns(ordered)}


def _rows_of(node: Node) -> Node:
    """Return the node whose rows a node filters or projects."""
    while isinstance(node, Filter | Project):
        node = node.rows
    return node


def _has_joined_rows(root: Node) -> bool:
    """Return whether a join has made updates of a result that are not consolidated since."""
    seen: set[Node] = set()
    remaining = [root]
    while remaining:
        node = remaining.pop()
        if isinstance(node, Join):
            return True
        if node not in seen and not node.consolidated:
            seen.add(node)
            remaining += node.inputs
    return False


def _join(program: Program, sides: Sequence[ReadArrangement], columns: Mapping[str, tuple[int, Term]]) -> Stream:
    """Append the join of two arrangements, each with its residual filter.

    columns: for each column of the output the side that stores it, and the stored term.
    """
    size, time, diff, *slots = (program.cell(), *(program.vector() for _ in range(4)))
    left, right = (_side(program, side, cell) for side, cell in zip(sides, slots, strict=True))
    program.add(JOIN, left=left, right=right, size=size, time=time, diff=diff, fan_out=program.fan_out)
    program.add_state(WeightOverflow())

    def compute(name: str) -> VectorAddress:
        side, term = columns[name]
        cell, width = sides[side].arrangement.stored[term]
        return stream.take(cell, slots[side], width)

    stream = Stream(program, size, time, diff, compute)
    return stream


def _side(program: Program, side: ReadArrangement, slots: VectorAddress) -> BlockAddress:
    """Make the block of a side of a join. slots: the cell of the slots of its rows in the output."""
    bitmap, bit = side.arrangement.bitmap(side.condition)
    hits = program.memory.reserve_unset(UNBOUNDED_WORDS)
    return program.block(JoinSide, rows=side.arrangement.block, slots=slots, hits=hits, filter=bitmap, filter_bit=bit)
