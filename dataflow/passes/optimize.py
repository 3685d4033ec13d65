"""Optimization: the order of joins, and rewrites of the joins of a plan, on request.

Plans of SQL are always optimized. A plan by hand keeps its order unless `Collection.optimized` is called. A node that
several others read stays one node: its joins are ordered by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from deltamark.dataflow.language.by_terms import columns_of, filtered, fresh, merged, with_columns
from deltamark.dataflow.operators.aggregate import Aggregate
from deltamark.dataflow.operators.derived import LeftJoin, SideBySide
from deltamark.dataflow.operators.iterate import Iterate, inside
from deltamark.dataflow.operators.linear import Filter, Project
from deltamark.dataflow.operators.node import Node, walk
from deltamark.dataflow.passes.expansion import combined, left_joined
from deltamark.dataflow.passes.grouped_joins import with_reused_groups, without_left_join
from deltamark.dataflow.passes.join_order import ordered
from deltamark.dataflow.passes.join_tree import JoinTree, is_joined, over, taken_apart
from deltamark.dataflow.passes.subqueries import with_extremes, with_limits, without_reductions
from deltamark.dataflow.plan.terms import Column, Term, column
from deltamark.dataflow.types import Schema

WANTED = "wanted "
"""The beginning of names for terms that are computed over a tree of joins."""


def optimized(root: Node, whole: Iterable[Node] = ()) -> Node:
    """Return a node with the same rows and columns, which costs less to maintain by estimates.

    whole: nodes whose joins are ordered by themselves, although one other node reads them.
    """
    nodes = list(walk(root))
    looping = {each for loop in nodes if isinstance(loop, Iterate) for each in inside(loop)}
    optimizer = _Optimizer(nodes, frozenset(whole))
    for each in nodes:
        if each not in looping and not is_joined(each):
            optimizer.node(each)  # inputs first, so that long plans need no deep recursion
    return optimizer.node(root)


class _Optimizer:
    def __init__(self, nodes: Iterable[Node], whole: frozenset[Node]) -> None:
        self._whole = whole
        self._readers = Counter(below for node in nodes for below in node.inputs)
        self._made: dict[Node, Node] = {}

    def node(self, old: Node) -> Node:
        """Return what replaces a node."""
        if old not in self._made:
            self._made[old] = self._make(old)
        return self._made[old]

    def _make(self, old: Node) -> Node:
        match old:
            case Iterate():
                return old  # a body keeps its order
            case LeftJoin():
                left, right = map(self.node, old.inputs)
                made = left_joined(left, right, old.equal, old.conditions)
            case SideBySide():
                made = combined([replace(each, rows=self.node(each.rows)) for each in old.pieces], old.keys)
            case Aggregate():
                made = self._aggregate(old)
            case _ if is_joined(old):
                made = _with_schema(*self._joined(old, list(columns_of(old).values())), old.schema)
            case Filter():
                made = filtered(self.node(old.rows), old.condition)
            case _:
                made = self._over_new_inputs(old)
        return made

    def _over_new_inputs(self, old: Node) -> Node:
        inputs = [self.node(each) for each in old.inputs]
        if isinstance(old, Project):
            return merged(replace(old, rows=inputs[0]))
        return old if inputs == list(old.inputs) else old.with_inputs(inputs)

    def _is_whole(self, node: Node) -> bool:
        return self._readers[node] > 1 or node in self._whole

    def _joined(self, node: Node, wanted: Sequence[Term]) -> tuple[Node, list[Term]]:
        """Order joins anew; return terms over the result instead of terms over the node."""
        tree = taken_apart(node, self._is_whole)
        return self._ordered(tree, [over(each, tree.columns) for each in wanted])

    def _ordered(self, tree: JoinTree, wanted: Sequence[Term]) -> tuple[Node, list[Term]]:
        wide = len(tree.columns)
        columns = {**tree.columns, **{f"{WANTED}{at}": each for at, each in enumerate(wanted)}}
        tree = without_reductions(with_extremes(replace(tree, columns=columns)))
        terms = list(tree.columns.values())[wide:]
        tree = with_limits(tree, terms)
        tree = replace(tree, parts=tuple(replace(each, node=self.node(each.node)) for each in tree.parts))
        return ordered(tree, terms)

    def _aggregate(self, old: Aggregate) -> Node:
        """Aggregate joined rows by their own columns, which get the names of the keys afterwards."""
        if self._is_whole(old.rows):
            return self._over_new_inputs(old)
        if (summed := without_left_join(old)) is not None:
            return self.node(summed)
        if not is_joined(old.rows):
            return self._over_new_inputs(old)
        for tree, wanted in with_reused_groups(old, taken_apart(old.rows, self._is_whole)):
            return _with_schema(*self._ordered(tree, wanted), old.schema)
        keys = [column(name, old.rows.schema[name]) for name in old.keys]
        rows, terms = self._joined(old.rows, [*keys, *old.terms])
        rows, names = with_columns(rows, terms[: len(keys)], "key")
        value_of = dict(zip(old.terms, terms[len(keys) :], strict=True))
        keys_of = dict(zip(old.keys, names, strict=True))
        sum_of: dict[str, str] = {}
        for each in old.sums:
            sum_of[each.name] = fresh(each.name, [*names, *sum_of.values()])
        new_sums = tuple(replace(each.of_values(value_of), name=sum_of[each.name]) for each in old.sums)
        fields = {keys_of[key]: replace(old.schema.field(key), name=keys_of[key]) for key in old.keys}
        fields |= {sum_of[each.name]: replace(old.schema.field(each.name), name=sum_of[each.name]) for each in old.sums}
        schema = Schema(tuple(fields.values()), old.schema.rows)
        new = Aggregate(rows, tuple(dict.fromkeys(names)), new_sums, schema=schema)
        found, name_of = columns_of(new), {**keys_of, **sum_of}
        return _with_schema(new, [found[name_of[name]] for name in old.schema.names], old.schema)


def _with_schema(node: Node, terms: Sequence[Term], schema: Schema) -> Node:
    """Return a node with the columns of a schema, given the term of each."""
    columns = tuple(zip(schema.names, terms, strict=True))
    if node.schema.names == schema.names and all(isinstance(of, Column) and of.name == name for name, of in columns):
        return node
    return merged(Project(node, columns, schema=Schema(schema.fields, min(schema.rows, node.schema.rows))))
