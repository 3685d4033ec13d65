"""Repeats: rows that only multiply the rows that they are joined with are counted.

`weeks.join(days, on="week")` pairs each change of a week with all of its days. If nothing reads the other columns of
the days, these pairs are equal. So the days of each week are counted, a change is paired with one row, and its weight
is multiplied by the count. The count passes through the joins above, whose arrangements keep rows of weight 1. The cost
is that of pruning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deltamark.dataflow.language.by_terms import columns_of, fresh, projected
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import count
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Filter, Project, is_multiset
from deltamark.dataflow.operators.node import Keys, Node, expected_rows, is_unique, walk
from deltamark.dataflow.operators.repeat import Repeat
from deltamark.dataflow.passes.prune import prune
from deltamark.dataflow.plan.terms import column
from deltamark.dataflow.types import Field, Schema, key_count

LEAST_COPIES = 2
"""The rows that a key must have, by estimate, to be counted: the count replaces one row by two when it changes."""


def with_counted_rows(plans: Mapping[str, Node]) -> Mapping[str, Node]:
    """Count the rows of which joins read no more than their number."""
    pruned = prune(plans)

    def counted(old: Node, node: Node) -> Node:
        if not isinstance(old, Join) or old in pruned.looping:
            return node
        return _with_counts(old, node.inputs, pruned.columns[old])

    return pruned.replaced(counted)


def _with_counts(old: Join, inputs: Sequence[Node], required: Sequence[str]) -> Node:
    """Return a join of new inputs, whose repeats are above it, and of which a side may be counted."""
    sides, times = list(inputs), list[str]()
    counted = next((side for side in (1, 0) if _only_multiplies(old, side, required)), None)
    for side in (0, 1):
        if side == counted:
            name = fresh(f"{old.digest.hex()}\0copies", times)
            below = Collection(sides[side]).aggregate(old.keys[side], **{name: count()}).node
            names = [name]
        else:
            below, names = _without_repeats(sides[side], times)
        sides[side] = below
        times += names
    if not times and sides == list(old.inputs):
        return old
    left, right = sides
    kept = (field for field in right.schema.fields if field.name not in old.right_keys)
    schema = Schema((*left.schema.fields, *kept), old.schema.rows)
    made: Node = Join(left, right, old.left_keys, old.right_keys, schema=schema)
    for name in times:
        made = Repeat.of(made, name)
    return made


def _only_multiplies(join: Join, side: int, required: Sequence[str]) -> bool:
    """Return whether a side of a join is worth counting by key, because nothing else of it is read.

    The other side must change more often, by estimates.
    """
    rows, other, keys = join.inputs[side], join.inputs[1 - side], join.keys[side]
    return (
        not {*rows.schema.names} - {*keys} & {*required}
        and not is_unique(rows, keys)
        and _copies(rows, keys) >= LEAST_COPIES
        and _changes(rows) < _changes(other)
        and is_multiset(rows)
    )


def _copies(rows: Node, keys: Keys) -> float:
    """Estimate the rows of a key. Filters are assumed to select keys: they say nothing of the rows of one."""
    values = key_count(rows.schema[name] for name in keys)
    while isinstance(rows, Filter | Project):
        rows = rows.rows
    return expected_rows(rows) / values


def _changes(root: Node) -> float:
    """Estimate the rows that a node emits over a whole stream: groups emit a row for each one that they read."""
    found: dict[Node, float] = {}
    for node in walk(root):
        found[node] = node.estimate([found[each] for each in node.inputs])
    return found[root]


def _without_repeats(node: Node, taken: Sequence[str]) -> tuple[Node, list[str]]:
    """Return the rows below the repeats at the top of a node, and the columns by which they are repeated.

    taken: names that none of these columns gets.
    """
    below, times = _below_repeats(node)
    new = dict[str, str]()
    for name in times:
        new[name] = fresh(name, [*taken, *new.values()])
    if times != list(new.values()):
        below = projected(below, {new.get(name, name): term for name, term in columns_of(below).items()})
    return below, list(new.values())


def _below_repeats(node: Node) -> tuple[Node, list[str]]:
    """Return the rows below the repeats at the top of a node, and the columns by which they are repeated."""
    match node:
        case Repeat():
            below, times = _below_repeats(node.rows)
            return below, [*times, node.times]
        case Filter():
            below, times = _below_repeats(node.rows)
            return (replace(node, rows=below, schema=below.schema), times) if times else (node, [])
        case Project():
            below, times = _below_repeats(node.rows)
            if not times:
                return node, []
            added = {each: column(each, below.schema[each]) for each in times}
            fields = (Field(each, term.type) for each, term in added.items())
            schema = Schema((*node.schema.fields, *fields), node.schema.rows)
            return replace(node, rows=below, columns=(*node.columns, *added.items()), schema=schema), times
    return node, []
