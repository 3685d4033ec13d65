"""Motifs whose indexes are partitioned over the shards by key, where `Extend` needs a copy of them at every shard.

A row visits the indexes one after another, at the shards that own its keys. Each says how many values it has for the
row, then the one with the fewest proposes its values, and the others validate them. So a row travels once per visit.
The proposals are those of `Extend`, except for values that have come and gone within a batch, which an index still
counts. If the plan fixes the proposer, no index is measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.plan.nodes import Concat, Extend, IndexRead, Measure, Node, Seek, walk
from deltamark.dataflow.types import Field, Schema, integer

VALUES = integer(0, 1 << 40)
"""The type of the number of values that an index has for a row."""


def by_key(collection: Collection) -> Collection:
    """Replace every extension by visits of its indexes."""
    rewritten: dict[Node, Node] = {}
    for node in walk(collection.node):
        local = node.with_inputs(rewritten[each] for each in node.inputs)
        rewritten[node] = _visits(local) if isinstance(local, Extend) else local
    return Collection(rewritten[collection.node])


def _visits(node: Extend) -> Node:
    rows, indexes = node.rows, node.indexes
    if node.column in rows.schema:
        return _sought(node, rows, indexes)
    if node.proposer is not None or len(indexes) == 1:
        return _sought(node, rows, _beginning_with(indexes, node.proposer or 0))
    measured, names = rows, [f"values\0{number}" for number in range(len(indexes))]
    for name, index in zip(names, indexes, strict=True):
        schema = Schema((*measured.schema.fields, Field(name, VALUES)), rows.schema.rows)
        measured = Measure(measured, name, index, schema=schema)
    proposed = []
    for proposer, name in enumerate(names):
        least = Collection(measured)
        for other in names[:proposer]:
            least = least.where(col[name] < col[other])
        for other in names[proposer + 1 :]:
            least = least.where(col[name] <= col[other])
        own = least.select(*rows.schema.names).node
        proposed.append(_sought(node, own, _beginning_with(indexes, proposer)))
    return Concat(tuple(proposed), schema=node.schema)


def _sought(node: Extend, rows: Node, indexes: Sequence[IndexRead]) -> Node:
    """Extend rows by one index after another; the first one proposes the values, unless they are bound already."""
    for index in indexes:
        rows = Seek(rows, node.column, index, schema=node.schema)
    return rows


def _beginning_with(indexes: Sequence[IndexRead], first: int) -> list[IndexRead]:
    """Move one index to the front."""
    return [indexes[first], *indexes[:first], *indexes[first + 1 :]]
