"""What a plan means, in plain Python: at each time the whole answer is computed again and the previous one subtracted.

It shares the plan with the engine and nothing else. A collection is a dict {row: multiplicity} without zeros, a row a
tuple in the order of the schema.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

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
    Variable,
    walk,
)
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import LARGEST, NULL, pack_short

Row = tuple[Any, ...]
Update = tuple[Row, int, int]  # row, time, diff
Rows = dict[Row, int]
Inputs = Mapping[str, Iterable[Update]]
Stream = dict[tuple[int, Row], int]


class PlanError(Exception):
    """An error that a plan must raise."""

    cause: str

    def __init__(self, row: object, time: int) -> None:
        super().__init__(row, time)
        self.row, self.time = row, time


class NegativeError(PlanError):
    """A row, or a group, that is there less than zero times."""

    cause = "a negative multiplicity"


class TwoLimitsError(PlanError):
    """More than one row of limits for one key."""

    cause = "more than one limit"


class WideSumError(PlanError):
    """A sum that 64 bits do not hold."""

    cause = "a sum needs more than 64 bits"


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
    """The answers of a plan at one time after another; what has the same inputs as before is not computed again."""

    def __init__(self, root: Node, inputs: Inputs) -> None:
        self.rows: dict[Node, Rows] = {}
        """The rows of each node as of the last time, but for those inside of loops."""
        self._root, self._inputs = root, inputs
        self._nodes = _around_loops(root)
        self._left = {name: sorted(stream, key=_time, reverse=True) for name, stream in inputs.items()}
        self._given: dict[Node, tuple[Rows, ...]] = {}

    def at(self, time: int) -> Rows:
        """Compute the answer as of a time, later than all before."""
        for node in self._nodes:
            if isinstance(node, Input):
                self.rows[node] = self._moved(self.rows.get(node, {}), self._left.get(node.name, []), time)
            elif isinstance(node, Iterate):
                self.rows[node] = answer(node, self._inputs, time)
            else:
                given = tuple(self.rows[each] for each in node.inputs)
                before = self._given.get(node, ())
                if not before or any(now is not then for now, then in zip(given, before, strict=True)):
                    self.rows[node], self._given[node] = OPERATORS[type(node)](node, time, *given), given
        return self.rows[self._root]

    def _moved(self, rows: Rows, left: list[Update], time: int) -> Rows:
        if not left or left[-1][1] > time:
            return rows
        moved = [*rows.items()]
        while left and left[-1][1] <= time:
            row, _, diff = left.pop()
            moved.append((row, diff))
        return consolidated(moved)


def _around_loops(root: Node) -> list[Node]:
    """List the nodes below a root, inputs first, and of loops nothing but the loops themselves."""
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
    """Compute the answer from the rows that are there at the end of a time. variables: those of loops around it."""

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


def consolidated(changes: Iterable[tuple[Row, int]]) -> Rows:
    rows: Counter[Row] = Counter()
    for row, diff in changes:
        rows[row] += diff
    return {row: diff for row, diff in rows.items() if diff}


def minus(now: Rows, before: Rows) -> Rows:
    return consolidated([*now.items(), *((row, -diff) for row, diff in before.items())])


def named(node: Node, row: Row) -> dict[str, Any]:
    return dict(zip(node.schema.names, row, strict=True))


def picked(node: Node, row: Row, names: Iterable[str]) -> Row:
    values = named(node, row)
    return tuple(values[name] for name in names)


def state(rows: Rows, time: int) -> Rows:
    """Look at a state, in which nothing may be there less than zero times."""
    for row, diff in rows.items():
        if diff < 0:
            raise NegativeError(row, time)
    return rows


def grouped(node: Node, rows: Rows, names: Iterable[str]) -> dict[Row, Rows]:
    groups: dict[Row, Rows] = defaultdict(dict)
    for row, diff in rows.items():
        groups[picked(node, row, names)][row] = diff
    return groups


def where(node: Filter, _: int, rows: Rows) -> Rows:
    return {row: diff for row, diff in rows.items() if evaluate(node.condition, named(node.rows, row))}


def select(node: Project, _: int, rows: Rows) -> Rows:
    def selected(row: Row) -> Row:
        values = named(node.rows, row)
        return tuple(evaluate(term, values) for _, term in node.columns)

    return consolidated((selected(row), diff) for row, diff in rows.items())


def concat(_: Node, __: int, *inputs: Rows) -> Rows:
    return consolidated(change for rows in inputs for change in rows.items())


def negate(_: Node, __: int, rows: Rows) -> Rows:
    return {row: -diff for row, diff in rows.items()}


def aggregate(node: Aggregate, time: int, rows: Rows) -> Rows:
    found: Rows = {}
    for key, members in grouped(node.rows, rows, node.keys).items():
        number = sum(members.values())
        if number < 0:
            raise NegativeError(key, time)
        if number:
            row = *key, *(number if each.term is None else weighed(node.rows, members, each.term) for each in node.sums)
            if any(abs(value) > LARGEST for value in row[len(key) :]):
                raise WideSumError(row, time)
            found[row] = 1
    return found


def weighed(node: Node, rows: Rows, term: Term) -> int:
    return sum(diff * evaluate(term, named(node, row)) for row, diff in rows.items())


def threshold(node: Threshold, time: int, rows: Rows) -> Rows:
    return {row: 1 for row, diff in state(rows, time).items() if diff >= node.least}


def join(node: Join, _: int, left: Rows, right: Rows) -> Rows:
    kept = [name for name in node.right.schema.names if name not in node.right_keys]
    partners = grouped(node.right, right, node.right_keys)
    return consolidated(
        (row + picked(node.right, other, kept), diff * more)
        for row, diff in left.items()
        for other, more in partners.get(picked(node.left, row, node.left_keys), {}).items()
    )


def extreme(node: Extreme, time: int, rows: Rows) -> Rows:
    best = {"largest": max, "smallest": min}[node.which]
    found: Rows = {}
    for members in grouped(node, state(rows, time), node.keys).values():
        value_of = {row: ordered(named(node, row)[node.column]) for row in members}
        attained = best(value_of.values())
        found |= {row: diff for row, diff in members.items() if value_of[row] == attained}
    return found


def top(node: TopK, time: int, rows: Rows) -> Rows:
    places = node.k
    ranked = list(state(rows, time))
    for name, direction in reversed(node.order):
        ranked.sort(key=lambda row: ordered(named(node, row)[name]), reverse=direction == "descending")
    found: Rows = {}
    for row in ranked:
        if places:
            found[row] = min(rows[row], places)
            places -= found[row]
    return found


def bound(node: MovingThreshold, time: int, rows: Rows, limits: Rows) -> Rows:
    limit_of = grouped(node.limits, state(limits, time), node.limit_keys)
    for found in limit_of.values():
        if sum(found.values()) > 1:
            raise TwoLimitsError(found, time)

    def kept(row: Row) -> bool:
        found = limit_of.get(picked(node.rows, row, node.row_keys))
        if found is None:
            return False
        (limit,) = (named(node.limits, each) for each in found)
        left = evaluate(node.value, named(node.rows, row)) * (limit[node.denominator] if node.denominator else 1)
        return left > limit[node.numerator] if node.which == "above" else left < limit[node.numerator]

    return {row: diff for row, diff in state(rows, time).items() if kept(row)}


def or_null(node: NullRow, time: int, rows: Rows) -> Rows:
    return state(rows, time) or {(NULL,) * len(node.schema.names): 1}


def consolidate(_: Node, __: int, rows: Rows) -> Rows:
    return rows


OPERATORS: dict[type[Node], Callable[..., Rows]] = {
    Filter: where, Project: select, Concat: concat, Negate: negate, Aggregate: aggregate, Threshold: threshold,
    Join: join, Extreme: extreme, TopK: top, MovingThreshold: bound, NullRow: or_null, Consolidate: consolidate,
}  # fmt: skip


def ordered(value: Any) -> Any:
    """Order text by its bytes, and what is missing first."""
    return value != NULL, value.encode() if isinstance(value, str) else value


def evaluate(term: Term, row: Mapping[str, Any]) -> Any:
    """Compute a term over named values."""
    if term.op == "column":
        return row[term.value]
    return TERMS[term.op](term.value, *(evaluate(arg, row) for arg in term.args))


def match(pieces: tuple[str, ...], text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pieces)), text, re.DOTALL) is not None


def substring(where: tuple[int, int], text: str) -> int:
    start, length = where
    packed = pack_short(text[start - 1 : start - 1 + length])
    assert packed is not None
    return packed


TERMS: dict[str, Callable[..., Any]] = {
    "literal": lambda value: value,
    "add": lambda _, left, right: left + right,
    "subtract": lambda _, left, right: left - right,
    "multiply": lambda _, left, right: left * right,
    "equal": lambda _, left, right: left == right,
    "less": lambda _, left, right: ordered(left) < ordered(right),
    "and": lambda _, left, right: left and right,
    "or": lambda _, left, right: left or right,
    "not": lambda _, test: not test,
    "lookup": lambda table, code: table[code],
    "member": lambda values, value: value in values,
    "match": match,
    "substring": substring,
    "table": lambda table, value: table[1][value - table[0]],
    "when": lambda _, test, value, otherwise: value if test else otherwise,
    "is_null": lambda _, value: value == NULL,
    "coalesce": lambda _, value, otherwise: otherwise if value == NULL else value,
}
