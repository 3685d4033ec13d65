"""Extreme: the rows of each group that have its best value; large groups hold a tournament of smaller ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from deltamark.dataflow.builder.keys import MAX_PACKED_KEYS, key_ids, key_of
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.groups.bucket import BUCKETS
from deltamark.dataflow.kernels.groups.extreme import EXTREME
from deltamark.dataflow.operators.distribution import Columns, Distribution, OperatorDistribution, gather, two_phases
from deltamark.dataflow.operators.grouped_rows import RowInput, grouped_rows, stored_columns
from deltamark.dataflow.operators.input import base_rows, row_count
from deltamark.dataflow.operators.node import Emission, JoinReads, Keys, Node, Placing, Requirement
from deltamark.dataflow.plan.term_sql import by_columns, identifier
from deltamark.dataflow.types import Type, integer, key_count

BUCKET = "bucket of a tournament"
"""The name of the column of buckets, which no schema has."""

MAX_GROUP_ROWS, BUCKET_ROWS = 512, 64
"""Groups that may have more than MAX_GROUP_ROWS rows are split into buckets of about BUCKET_ROWS. Not measured."""

MAX_HASHED_ROWS = 2**31
"""The largest number of buckets: these are computed from hashes of 31 bits."""


@dataclass(frozen=True, eq=False)
class Extreme(Node):
    """The rows of each group that attain the largest or smallest value of a column.

    levels: the numbers of groups of a tournament, the largest first; () lets the operator choose.
    """

    rows: Node
    keys: Keys
    column: str
    which: Literal["largest", "smallest"]
    levels: tuple[int, ...]

    consolidated: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return self.which

    def description(self, required: Collection[str]) -> str:
        groups = ", ".join(map(str, self.levels))
        levels = f", in {len(self.levels)} levels of {groups} groups" if groups else ""
        return f"{identifier(self.column)} {by_columns(self.keys)}".strip() + levels

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, [self.column, *self.keys, *columns])]

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        if not self.keys:
            return two_phases(self.rows, inputs[0], columns)
        return gather(inputs[0], self.keys, [self.rows.schema[name] for name in self.keys])

    def wishes(self, placing: Placing) -> list[Distribution]:
        return [placing.owned(self.rows, self.keys)] if self.keys else super().wishes(placing)

    def preferred(self, keys: Keys) -> Iterable[tuple[Node, Keys]]:
        return [(self.rows, self.keys)]

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        names = emission.columns(self)
        selected = _extreme(streams[0], self, names)
        if emission.distribution(self).second is None:
            return selected
        columns = {name: self.schema[name] for name in dict.fromkeys([self.column, *names])}
        return _extreme(emission.first_worker_selects(selected, columns, self), self, names)


def _extreme(stream: Stream, node: Extreme, columns_read: Sequence[str]) -> Stream:
    """Append the levels of the tournament, each of which finds the winners among those of the level before."""
    keys = node.keys
    names = tuple(dict.fromkeys([node.column, *keys, *columns_read]))
    complemented = frozenset([node.column] if node.which == "smallest" else [])
    types = tuple(node.schema[name] for name in keys)
    for buckets in _levels(node, types):
        bucketed = _with_buckets(stream, _bucket_columns(node, names, buckets), buckets)
        level_key = (*keys, BUCKET), (*types, integer(0, buckets - 1))
        stream = _level(bucketed, node, names, complemented, level_key)
    return _level(stream, node, names, complemented, (keys, types))


def _level(
    stream: Stream,
    node: Extreme,
    names: Sequence[str],
    complemented: frozenset[str],
    key: tuple[Sequence[str], Sequence[Type]],
) -> Stream:
    """Append one level. key: the names and the types of the columns that are its groups."""
    number = key_of(stream, *key)
    keys = key_ids(stream.program, number, row_count(node), stream.size)
    rows = RowInput(stream, number.cell, stored_columns(stream, names, node.schema, complemented))
    return grouped_rows(EXTREME, keys, [rows])


def _levels(node: Extreme, types: Sequence[Type]) -> tuple[int, ...]:
    """Return the numbers of buckets of the levels, which the plan may give; none if a key with a bucket is too wide."""
    levels = node.levels
    groups = key_count(types)
    rows = min(node.rows.schema.rows, base_rows(node), MAX_HASHED_ROWS) // groups
    while not node.levels and rows > MAX_GROUP_ROWS:
        rows //= BUCKET_ROWS
        levels += (rows,)
    return levels if groups * max(levels, default=1) <= MAX_PACKED_KEYS else ()


def _bucket_columns(node: Extreme, names: Sequence[str], buckets: int) -> Sequence[str]:
    """Return the columns that determine the bucket of a row.

    The compared value is one of them only if the other columns have too few values, so that a row whose value changes
    usually stays in its bucket.
    """
    others = [name for name in names if name not in (node.column, *node.keys)]
    suffice = key_count(node.schema[name] for name in others) >= buckets
    return others if others and suffice else [node.column, *others]


def _with_buckets(stream: Stream, names: Sequence[str], buckets: int) -> Stream:
    """Add the column of buckets to a stream."""

    def compute(name: str) -> int:
        if name != BUCKET:
            return stream.column(name)
        program, result = stream.program, stream.program.vector()
        program.add(
            BUCKETS, size=stream.size, columns=len(names),
            inputs=program.table([stream.column(each) for each in names]), slice_columns=program.words(len(names)),
            buckets=buckets, out=result,
        )  # fmt: skip
        return result

    return Stream(stream.program, stream.size, stream.time, stream.diff, compute, raw=stream.raw)
