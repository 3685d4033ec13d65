"""Weights of rows: the columns by which a node has at most one row, and whether all weights are positive."""

from __future__ import annotations

from collections.abc import Iterable

from deltamark.dataflow.plan.loops import closing
from deltamark.dataflow.plan.memo import kept_by_argument
from deltamark.dataflow.plan.nodes import (
    Aggregate,
    Concat,
    Consolidate,
    Extreme,
    Filter,
    Input,
    Iterate,
    Join,
    MovingThreshold,
    Negate,
    Node,
    NullRow,
    Project,
    Threshold,
    TopK,
    walk,
)
from deltamark.dataflow.plan.terms import Term, conjuncts


def is_unique(node: Node, names: Iterable[str]) -> bool:
    """Return whether each combination of values of these columns has at most one row, of weight 1."""
    return _is_unique(node, frozenset(names))


@kept_by_argument
def _is_unique(node: Node, names: frozenset[str]) -> bool:
    match node:
        case Input():
            return bool(node.key) and set(node.key) <= set(names)
        case Threshold():
            return set(node.schema.names) <= set(names) or _are_extremes(node.rows, names)
        case Aggregate():
            return set(node.keys) <= set(names)
        case TopK():
            return node.k == 1
        case Iterate():
            return set(closing(node.body).keys) <= set(names)
        case Filter() | Consolidate() | MovingThreshold() | NullRow():
            return is_unique(node.rows, names)
        case Project():
            sources = (_source(node.terms[name], node.rows) for name in names if name in node.terms)
            return is_unique(node.rows, [source for source in sources if source is not None])
        case Join():
            return _is_unique_join(node, names)
        case Concat() if _is_antijoin(node):
            return is_unique(node.parts[0], names)
        case _:
            return False


def _source(term: Term, rows: Node) -> str | None:
    """Return the column that a term is: also one whose NULL it replaces, if the column has none."""
    match term:
        case Term(op="column"):
            return str(term.value)
        case Term(op="coalesce", args=(Term(op="column", value=name), Term(op="literal"))) if not _has_null(rows, name):
            return str(name)
    return None


def _has_null(node: Node, name: str) -> bool:
    """Return whether a column may be NULL."""
    match node:
        case Filter():
            tests = (each.args[0] for each in conjuncts(node.condition) if each.op == "not")
            is_tested = any(each.op == "is_null" and each.args[0].value == name for each in tests)
            return not is_tested and _has_null(node.rows, name)
        case Project() if name in node.copied:
            return _has_null(node.rows, node.copied[name])
    return node.schema[name].nullable


def _is_unique_join(node: Join, names: Iterable[str]) -> bool:
    """Return whether a row of one side has at most one partner, and these columns determine the row."""
    right_of = dict(zip(node.left_keys, node.right_keys, strict=True))
    of_right = [right_of.get(name, name) for name in names if name in right_of or name not in node.left.schema]
    of_left = [name for name in names if name in node.left.schema]
    return (is_unique(node.right, node.right_keys) and is_unique(node.left, of_left)) or (
        is_unique(node.left, node.left_keys) and is_unique(node.right, of_right)
    )


def _are_extremes(node: Node, names: Iterable[str]) -> bool:
    """Return whether the distinct rows of a node are the extreme of each group, and nothing else."""
    if not isinstance(node, Project) or not isinstance(node.rows, Extreme):
        return False
    extreme, copied = node.rows, node.copied
    keys = {copied[name] for name in names if name in copied}
    return (
        len(copied) == len(node.columns)
        and set(copied.values()) <= {*extreme.keys, extreme.column}
        and (set(extreme.keys) <= keys)
    )


def is_multiset(root: Node) -> bool:
    """Return whether no row of a plan over multisets has a negative weight at the end of a time.

    Rows may be subtracted only as an antijoin does, from the collection that they are rows of.
    """
    nodes = list(walk(root))
    antijoins = {each.parts[1] for each in nodes if isinstance(each, Concat) and _is_antijoin(each)}
    return all(each in antijoins for each in nodes if isinstance(each, Negate))


def _is_antijoin(node: Concat) -> bool:
    if len(node.parts) != 2 or not isinstance(node.parts[1], Negate):
        return False
    pairs = node.parts[1].rows
    return isinstance(pairs, Join) and pairs.left is node.parts[0] and is_unique(pairs.right, pairs.right_keys)
