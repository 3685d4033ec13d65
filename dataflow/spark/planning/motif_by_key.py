"""Plans whose indexes are spread over the shards by key, where `extend` wants a copy of them at every shard.

One index after another is asked, where it has a row's keys: how many values it has for the row, then the one with
fewest proposes, and the others validate. So rows travel once for each question, and the proposals are those of `extend`
up to what an index only seems to have (values that have come and gone within a batch). Where a plan fixes who proposes
nobody is asked how much he has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.plan.nodes import Node, node, walk
from deltamark.dataflow.types import Field, Schema, integer

MANY = integer(0, 1 << 40)
"""How many values a row may have."""

Asked = tuple[Node, Any]
"""A collection that has values for rows, and which: a part of an `extend`."""


def by_key(collection: Collection) -> Collection:
    """Rewrite a plan."""
    made: dict[Node, Node] = {}
    for at in walk(collection.node):
        inputs = tuple(made[each] for each in at.inputs)
        made[at] = _asking(at, inputs) if at.op == "extend" else node(at.op, inputs, at.params, at.schema)
    return Collection(made[collection.node])


def _asking(at: Node, inputs: Sequence[Node]) -> Node:
    (rows, *others), (new, parts, proposer) = inputs, at.params
    asked = list(zip(others, parts, strict=True))
    if new in rows.schema:
        return _sought(rows, asked, at)
    if proposer is not None or len(asked) == 1:
        return _sought(rows, _first(asked, proposer or 0), at)
    measured, names = rows, [f"values\0{number}" for number in range(len(asked))]
    for name, (of, part) in zip(names, asked, strict=True):
        schema = Schema((*measured.schema.fields, Field(name, MANY)), rows.schema.rows)
        measured = node("measure", (measured, of), (name, (part,), None), schema)
    found = []
    for which, name in enumerate(names):
        least = Collection(measured)
        for other in names[:which]:
            least = least.where(col[name] < col[other])
        for other in names[which + 1 :]:
            least = least.where(col[name] <= col[other])
        found.append(_sought(least.select(*rows.schema.names).node, _first(asked, which), at))
    return node("concat", tuple(found), (), at.schema)


def _sought(rows: Node, asked: Sequence[Asked], at: Node) -> Node:
    """Extend rows by those who are asked in turn: the first one proposes, if the value is not there yet."""
    for of, part in asked:
        rows = node("seek", (rows, of), (at.params[0], (part,), None), at.schema)
    return rows


def _first(asked: Sequence[Asked], which: int) -> list[Asked]:
    """Let one be the first."""
    return [asked[which], *asked[:which], *asked[which + 1 :]]
