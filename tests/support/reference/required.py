"""The columns of each node that are read: an engine may miss errors that depend on others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from deltamark.dataflow.operators.aggregate import Aggregate
from deltamark.dataflow.operators.at_most_one import AtMostOne
from deltamark.dataflow.operators.consolidate import Consolidate
from deltamark.dataflow.operators.extreme import Extreme
from deltamark.dataflow.operators.in_order import InOrder
from deltamark.dataflow.operators.iterate import Iterate
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Concat, Filter, Negate, Project
from deltamark.dataflow.operators.moving_threshold import MovingThreshold
from deltamark.dataflow.operators.node import Node, walk
from deltamark.dataflow.operators.pick import Pick
from deltamark.dataflow.operators.repeat import Repeat
from deltamark.dataflow.operators.sample import Sample
from deltamark.dataflow.plan.terms import Checked, FromDouble, Substring, Term, subterms

Names = set[str]


def is_whole(root: Node) -> bool:
    """Return whether all columns of the inputs of operators with state are read."""
    columns = columns_read(root)
    return all(_reads_all(node, columns) for node in walk(root))


def _reads_all(node: Node, columns: dict[Node, Names]) -> bool:
    match node:
        case Extreme() | InOrder() | AtMostOne() | Pick():
            return columns[node.rows] >= set(node.rows.schema.names)
        case MovingThreshold():  # it keeps a computed value, but not the columns of its term
            return columns[node] | {*node.row_keys} >= set(node.rows.schema.names)
        case Aggregate():
            return columns[node] >= {each.name for each in node.sums}
    return not isinstance(node, Iterate)


def has_checked_numbers(root: Node) -> bool:
    """Return whether a node computes values that may not fit into a number, which is an error."""
    return any(map(_is_checked, chain.from_iterable(map(_terms, walk(root)))))


def reads_checked_numbers(root: Node) -> bool:
    """Return whether all columns of such values are read: an engine does not compute others."""
    columns = columns_read(root)
    projects = (node for node in walk(root) if isinstance(node, Project))
    return all(name in columns[each] for each in projects for name, term in each.columns if _is_checked(term))


def _terms(node: Node) -> Iterable[Term]:
    match node:
        case Project():
            return [term for _, term in node.columns]
        case Filter():
            return [node.condition]
        case MovingThreshold():
            return [node.value]
        case Aggregate():
            return [each.term for each in node.sums if each.term is not None]
    return []


def _is_checked(term: Term) -> bool:
    return any(isinstance(each, Checked | FromDouble | Substring) for each in subterms(term))


def columns_read(root: Node) -> dict[Node, Names]:
    """Return the columns of each node that the nodes above it read."""
    nodes = list(walk(root))
    columns: dict[Node, Names] = {node: set() for node in nodes}
    columns[root] = set(root.schema.names)
    for node in reversed(nodes):
        for each, names in zip(node.inputs, _read(node, columns[node]), strict=True):
            columns[each] |= names
    return columns


def _read(node: Node, names: Names) -> list[Names]:  # noqa: C901 (a case per operation)
    """Return the columns of its inputs that a node reads, from its own columns that are read."""
    below = [set(each.schema.names) for each in node.inputs]
    match node:
        case Concat() | Negate() | Consolidate():
            return [set(names) for _ in node.inputs]
        case Filter():
            return [names | node.condition.columns]
        case Project():
            return [set().union(*(term.columns for name, term in node.columns if name in names))]
        case Aggregate():
            terms = (each.term for each in node.sums if each.term is not None and each.name in names)
            return [{*node.keys}.union(*(term.columns for term in terms))]
        case Join():
            return [(names & each) | {*keys} for each, keys in zip(below, node.keys, strict=True)]
        case Sample():
            return [names | {*node.by}]
        case Repeat():
            return [names | {node.times}]
        case InOrder() if not node.orders_ties:
            of = {each.reads for each in node.functions if each.reads}
            return [(names & below[0]) | {*node.keys, *dict(node.order)} | of]
        case Pick():
            return [{*node.keys, *node.compared}]
        case Extreme() | AtMostOne():
            return [names | {*node.keys} | ({node.column} if isinstance(node, Extreme) else set())]
        case MovingThreshold():
            return [names | {*node.row_keys} | node.value.columns, {*node.limit_keys, *node.limit_columns}]
    return below
