"""Motifs with indexes partitioned by key over the shards; an `Extend` would need a copy of each index at every shard.

A row visits the indexes one after another, at the shards that own its keys. The first visits count the values that each
index has for the row (`Measure`). Then the index with the fewest values proposes them, and the others validate them
(`Seek`). So a row travels once per visit. The proposals are those of `Extend`, except that an index still counts values
that were inserted and retracted within the batch. If the plan fixes the proposer, no index is measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.operators.extend import Extend, IndexRead, Measure, Seek
from deltamark.dataflow.operators.linear import Concat
from deltamark.dataflow.operators.node import Node, walk
from deltamark.dataflow.types import Field, Schema, integer

VALUES = integer(0, 1 << 40)
"""The type of the number of values that an index has for a row; the bound is only a large number."""


def by_key(collection: Collection) -> Collection:
    """Return the plan in which every extension is replaced by visits of its indexes."""
    rewritten: dict[Node, Node] = {}
    for node in walk(collection.node):
        local = node.with_inputs(rewritten[each] for each in node.inputs)
        rewritten[node] = _visiting(local) if isinstance(local, Extend) else local
    return Collection(rewritten[collection.node])


def _visiting(node: Extend) -> Node:
    rows, indexes = node.rows, node.indexes
    if node.column in rows.schema:
        return _seeking(node, rows, indexes)
    if node.proposer is not None or len(indexes) == 1:
        return _seeking(node, rows, _with_first(indexes, node.proposer or 0))
    names = [f"values\0{number}" for number in range(len(indexes))]
    measured = rows
    for name, index in zip(names, indexes, strict=True):
        schema = Schema((*measured.schema.fields, Field(name, VALUES)), rows.schema.rows)
        measured = Measure(measured, name, index, schema=schema)
    proposed = [
        _seeking(node, _rows_with_least(measured, names, proposer, rows.schema), _with_first(indexes, proposer))
        for proposer in range(len(indexes))
    ]
    return Concat(tuple(proposed), schema=node.schema)


def _rows_with_least(measured: Node, counts: Sequence[str], proposer: int, schema: Schema) -> Node:
    """Select the rows for which an index has the fewest values, and no earlier index has as few."""
    rows, least = Collection(measured), col[counts[proposer]]
    for other in counts[:proposer]:
        rows = rows.where(least < col[other])
    for other in counts[proposer + 1 :]:
        rows = rows.where(least <= col[other])
    return rows.select(*schema.names).node


def _seeking(node: Extend, rows: Node, indexes: Sequence[IndexRead]) -> Node:
    """Extend rows by one index after another; the first one proposes the values, unless they are bound already."""
    for index in indexes:
        rows = Seek(rows, node.column, index, schema=node.schema)
    return rows


def _with_first(indexes: Sequence[IndexRead], first: int) -> list[IndexRead]:
    """Move one index to the front."""
    return [indexes[first], *indexes[:first], *indexes[first + 1 :]]
