"""The meaning of a plan, in plain Python: at each time the whole answer is computed, and the previous one subtracted.

The reference shares the plan with the engine, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from support.reference.errors import PlanError
from support.reference.operators import OPERATORS
from support.reference.rows import Rows, Stream, Update, consolidated, minus

from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.iterate import Iterate, Variable
from deltamark.dataflow.operators.node import Node, walk

Inputs = Mapping[str, Iterable[Update]]


def changes(root: Node, inputs: Inputs) -> Stream:
    """Return the consolidated difference of the answer at each time at which it changes."""
    used = {node.name for node in walk(root) if isinstance(node, Input)}
    recomputed = Recomputed(root, inputs)
    stream: Stream = {}
    before: Rows = {}
    for time in sorted({time for name in used for _, time, _ in inputs.get(name, ())} | {0}):
        now = recomputed.at(time)
        stream |= {(time, row): diff for row, diff in minus(now, before).items()}
        before = now
    return stream


class Recomputed:
    """The answers of a plan at increasing times; a node is computed again only if its inputs have changed.

    A node that has failed is not computed any more, nor are the nodes above it.
    """

    def __init__(self, root: Node, inputs: Inputs) -> None:
        self.rows: dict[Node, Rows] = {}
        """The rows of each node as of the last time, except nodes inside loops and those that have failed."""
        self.errors: list[PlanError] = []
        """The errors of all nodes that have failed, in order of time and then of the nodes."""
        self._failed: set[Node] = set()
        self._root, self._inputs = root, inputs
        self._nodes = _around_loops(root)
        self._left = {name: sorted(stream, key=_time, reverse=True) for name, stream in inputs.items()}
        self._given: dict[Node, tuple[Rows, ...]] = {}

    def at(self, time: int) -> Rows:
        """Compute the answer as of a time, later than all before; raise the first error if a node has failed."""
        self.move(time)
        if self.errors:
            raise self.errors[0]
        return self.rows[self._root]

    def move(self, time: int) -> None:
        """Compute all nodes as of a time, later than all before."""
        for node in self._nodes:
            if node in self._failed or not self._failed.isdisjoint(node.inputs):
                self._fail(node)
                continue
            try:
                self._compute(node, time)
            except PlanError as error:
                error.time = time if error.time is None else error.time
                self.errors += [error, *error.others]
                self._fail(node)

    def _fail(self, node: Node) -> None:
        self._failed.add(node)
        self.rows.pop(node, None)

    def _compute(self, node: Node, time: int) -> None:
        if isinstance(node, Input):
            self.rows[node] = self._moved(self.rows.get(node, {}), self._left.get(node.name, []), time)
        elif isinstance(node, Iterate):
            self.rows[node] = answer(node, self._inputs, time)
        else:
            given = tuple(self.rows[each] for each in node.inputs)
            before = self._given.get(node, ())
            if not before or any(now is not then for now, then in zip(given, before, strict=True)):
                self.rows[node], self._given[node] = OPERATORS[type(node)](node, time, *given), given

    def _moved(self, rows: Rows, left: list[Update], time: int) -> Rows:
        if not left or left[-1][1] > time:
            return rows
        moved = [*rows.items()]
        while left and left[-1][1] <= time:
            row, _, diff = left.pop()
            moved.append((row, diff))
        return consolidated(moved)


def _around_loops(root: Node) -> list[Node]:
    """List the nodes below a root, inputs first, without the nodes inside loops."""
    found: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in found:
            for each in () if isinstance(node, Iterate) else node.inputs:
                visit(each)
            found[node] = None

    visit(root)
    return list(found)


def _time(update: Update) -> int:
    return update[1]


def answer(root: Node, inputs: Inputs, time: int, variables: Mapping[int, Rows] = MappingProxyType({})) -> Rows:
    """Compute the answer from the live rows at the end of a time. variables: the rows of the enclosing loops."""

    @cache
    def rows_of(node: Node) -> Rows:
        if isinstance(node, Input):
            return consolidated((row, diff) for row, at, diff in inputs.get(node.name, ()) if at <= time)
        if isinstance(node, Variable):
            return variables[node.depth]
        if isinstance(node, Iterate):
            before, now = None, rows_of(node.seed)
            while now != before:
                before, now = now, answer(node.body, inputs, time, {**variables, node.depth: now})
            return now
        return OPERATORS[type(node)](node, time, *map(rows_of, node.inputs))

    return rows_of(root)
