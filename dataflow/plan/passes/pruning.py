"""Pruning: the second pass finds the columns of each node that the plans above it require.

It takes plans by name and returns them as `Pruned`. Each node is visited once, from the roots down. The cost is linear
in the number of nodes and columns, except for the row estimates of joins whose keys are required.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from deltamark.dataflow.plan.cardinality import expected_rows
from deltamark.dataflow.plan.loops import inside
from deltamark.dataflow.plan.nodes import (
    Aggregate,
    Concat,
    Consolidate,
    Extend,
    Extreme,
    Filter,
    Input,
    Iterate,
    Join,
    Measure,
    MovingThreshold,
    Negate,
    Node,
    NullRow,
    Project,
    Seek,
    Threshold,
    TopK,
    Variable,
    walk,
)

Requirement = tuple[Node, Iterable[str]]
"""A node, and the columns of it that are required."""

JoinReads = Callable[[Join, int, Sequence[str]], Requirement | None]
"""Finds the requirement of a join on one side (0: left, 1: right), given the columns besides the keys."""


@dataclass(frozen=True)
class Pruned:
    """Plans with their required columns.

    columns: the required nodes, in the order in which they are first required, with the columns of each;
    nodes: the same nodes, inputs first; looping: the nodes that depend on the variable of a loop.
    """

    plans: Mapping[str, Node]
    nodes: tuple[Node, ...]
    columns: Mapping[Node, tuple[str, ...]]
    looping: frozenset[Node]

    def origin(self, join: Join, name: str) -> tuple[int, str]:
        """Return the side that a column of a join is read from, and its name there."""
        return _origin(join, name, self.looping)


def prune(plans: Mapping[str, Node], reads: JoinReads | None = None) -> Pruned:
    """Find the required columns. reads: by default a join requires its keys and columns of its own inputs."""
    nodes = list(dict.fromkeys(node for plan in plans.values() for node in walk(plan)))
    looping = frozenset(each for loop in nodes if isinstance(loop, Iterate) for each in inside(loop))
    columns: dict[Node, dict[str, None]] = {}
    for plan in plans.values():
        columns.setdefault(plan, {}).update(dict.fromkeys(plan.schema.names))
    for node in reversed(nodes):
        if node in columns:
            for below, names in _required(node, tuple(columns[node]), looping, reads or _reads_input):
                columns.setdefault(below, {}).update(dict.fromkeys(names))
    kept = tuple(each for each in nodes if each in columns)
    return Pruned(plans, kept, {node: tuple(names) for node, names in columns.items()}, looping)


def required_columns(root: Node) -> Mapping[Node, tuple[str, ...]]:
    """Return the required columns of each node of one plan."""
    return prune({"": root}).columns


def _required(node: Node, columns: Sequence[str], looping: frozenset[Node], reads: JoinReads) -> Iterable[Requirement]:
    """Return what a node requires of its inputs for some of its columns."""
    match node:
        case Input() | Variable():
            return ()
        case Filter():
            return [(node.rows, [*columns, *sorted(node.condition.columns)])]
        case Project():
            return [(node.rows, [name for each in columns for name in sorted(node.terms[each].columns)])]
        case Aggregate():
            return [(node.rows, [*node.keys, *(name for term in node.terms for name in sorted(term.columns))])]
        case Extreme():
            return [(node.rows, [node.column, *node.keys, *columns])]
        case Join():
            return _required_by_join(node, columns, looping, reads)
        case MovingThreshold():
            rows = [*node.row_keys, *sorted(node.value.columns), *columns]
            return [(node.rows, rows), (node.limits, [*node.limit_keys, *node.limit_columns])]
        case Threshold() | TopK() | NullRow() | Iterate():
            return [(each, node.schema.names) for each in node.inputs]
        case Concat() | Negate() | Consolidate():
            return [(each, columns) for each in node.inputs]
        case Extend() | Seek() | Measure():
            return _required_by_extend(node, columns)
        case _:
            assert_never(node)


def _reads_input(join: Join, side: int, columns: Sequence[str]) -> Requirement:
    return join.inputs[side], [*join.keys[side], *columns]


def _required_by_join(
    join: Join, columns: Sequence[str], looping: frozenset[Node], reads: JoinReads
) -> Iterator[Requirement]:
    origins = [_origin(join, name, looping) for name in columns]
    for side in (0, 1):
        names = [name for origin, name in origins if origin == side]
        requirement = (_reads_input if join.inputs[side] in looping else reads)(join, side, names)
        if requirement is not None:
            yield requirement


def _origin(join: Join, name: str, looping: frozenset[Node]) -> tuple[int, str]:
    """Choose the side that a column is read from: a key is read from the side with fewer rows."""
    if name not in join.left.schema:
        return 1, name
    if name in join.left_keys and join not in looping and expected_rows(join.right) < expected_rows(join.left):
        return 1, join.right_keys[join.left_keys.index(name)]
    return 0, name


def _required_by_extend(node: Extend | Seek | Measure, columns: Sequence[str]) -> Iterator[Requirement]:
    for index in node.indexes:
        yield index.rows, [*index.keys, index.value]
    names = [node.column, *columns, *(name for index in node.indexes for name in index.row_keys)]
    yield node.rows, [name for name in dict.fromkeys(names) if name in node.rows.schema]
