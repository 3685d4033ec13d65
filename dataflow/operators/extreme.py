"""Extreme: the rows of each group that attain the best value, perhaps by way of a tournament of smaller groups."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.codegen.program import key_range
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.groups.group_changes import EXTREME
from deltamark.dataflow.operators.rows import Side, columns, watch
from deltamark.dataflow.plan.nodes import Extreme
from deltamark.dataflow.plan.traversal import base_rows
from deltamark.dataflow.types import Type, integer

BUCKET = "bucket of a tournament"
"""The name of a column that no schema has."""

MANY, FEW = 512, 64
"""Groups that may have more rows than MANY are dealt into smaller ones of about FEW."""

LARGEST_KEY = 2**62

MOST_DEALT = 2**31
"""Rows that smaller groups are made for: rows are dealt by a hash of 31 bits."""


def extreme(stream: Stream, node: Extreme, columns_read: Sequence[str]) -> Stream:
    """Append a tournament: each level selects among the winners of the level before."""
    keys, of = node.keys, node.column
    names = tuple(dict.fromkeys([of, *keys, *columns_read]))
    turned = frozenset([of] if node.which == "smallest" else [])
    types = tuple(node.schema[name] for name in keys)
    for buckets in _levels(node, types):
        dealt = _dealt(stream, _identity(node, names, buckets), buckets)
        stream = _level(dealt, node, names, turned, ((*keys, BUCKET), (*types, integer(0, buckets - 1))))
    return _level(stream, node, names, turned, (keys, types))


def _level(
    stream: Stream,
    node: Extreme,
    names: Sequence[str],
    turned: frozenset[str],
    key: tuple[Sequence[str], Sequence[Type]],
) -> Stream:
    number = stream.key(*key)
    keys = stream.program.keys(number, base_rows(node), stream.size)
    return watch(EXTREME, keys, [Side(stream, number.cell, columns(stream, names, node.schema, turned))])


def _levels(node: Extreme, types: Sequence[Type]) -> tuple[int, ...]:
    """Return the given levels, or choose some; none where a key and a bucket do not fit into one number."""
    levels = node.levels
    groups = prod(radix for _, radix in key_range(types))
    size = min(node.rows.schema.rows, base_rows(node), MOST_DEALT) // groups
    while not node.levels and size > MANY:
        size //= FEW
        levels += (size,)
    return levels if groups * max(levels, default=1) <= LARGEST_KEY else ()


def _identity(node: Extreme, names: Sequence[str], buckets: int) -> Sequence[str]:
    """By which columns rows are dealt: not by what changes while a row keeps its other values, if they are enough."""
    keys, of = node.keys, node.column
    others = [name for name in names if name != of and name not in keys]
    many = prod(radix for _, radix in key_range([node.schema[name] for name in others])) >= buckets
    return others if others and many else [of, *others]


def _dealt(stream: Stream, names: Sequence[str], buckets: int) -> Stream:
    """Add the column of buckets to a stream."""

    def make(name: str) -> int:
        if name != BUCKET:
            return stream.column(name)
        program, result = stream.program, stream.program.vector()
        inputs, sources = program.table([stream.column(each) for each in names]), program.words(len(names))
        program.op(vm.BUCKET, stream.size, len(names), inputs, sources, buckets, result)
        return result

    return Stream(stream.program, stream.size, stream.time, stream.diff, make, raw=stream.raw)
