"""Plan nodes: the operations that a collection is computed with. They are interned, so equal sub-plans are one object.

`Node` is the union of all classes, so mypy checks that a `match` that ends in `assert_never` is exhaustive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from deltamark.dataflow.plan.interning import PlanNode, PlanValue
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Type, spanning

Direction = Literal["ascending", "descending"]


@dataclass(frozen=True, eq=False)
class Input(PlanNode):
    """A relation that is fed from outside. key: columns in whose values no two live rows agree; () if unknown."""

    name: str
    key: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Filter(PlanNode):
    """The rows that satisfy a condition."""

    rows: Node
    condition: Term


@dataclass(frozen=True, eq=False)
class Project(PlanNode):
    """Named terms over each row."""

    rows: Node
    columns: tuple[tuple[str, Term], ...]

    @cached_property
    def terms(self) -> Mapping[str, Term]:
        return dict(self.columns)

    @cached_property
    def copied(self) -> Mapping[str, str]:
        """The columns that are copied from the input, with their names in the input."""
        return {name: term.value for name, term in self.columns if term.op == "column"}


@dataclass(frozen=True, eq=False)
class Concat(PlanNode):
    """The sum of collections with the same columns."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Negate(PlanNode):
    """The rows with negated weights."""

    rows: Node


@dataclass(frozen=True)
class Sum(PlanValue):
    """One aggregated column: the sum of a term over a group, or (without a term) the number of its rows."""

    name: str
    kind: Literal["sum", "count"]
    term: Term | None = None


@dataclass(frozen=True, eq=False)
class Aggregate(PlanNode):
    """Sums per group. A group exists while its number of rows is not zero."""

    rows: Node
    keys: tuple[str, ...]
    sums: tuple[Sum, ...]

    @property
    def terms(self) -> list[Term]:
        """The terms that are summed, each once."""
        return list(dict.fromkeys(each.term for each in self.sums if each.term is not None))


@dataclass(frozen=True, eq=False)
class Threshold(PlanNode):
    """The rows whose multiplicity is at least `least`, once each."""

    rows: Node
    least: int


@dataclass(frozen=True, eq=False)
class Join(PlanNode):
    """The pairs of rows with equal keys: all columns of the left row, and those of the right one that are no keys."""

    left: Node
    right: Node
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]

    @property
    def keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.left_keys, self.right_keys

    @cached_property
    def key_types(self) -> tuple[Type, ...]:
        """The types of the keys, each spanning those of both sides."""
        return spanned_types(self.left, self.left_keys, self.right, self.right_keys)


@dataclass(frozen=True, eq=False)
class Extreme(PlanNode):
    """The rows of each group that attain the largest or smallest value of a column.

    levels: the numbers of groups of a tournament, the largest first; () lets the operator choose.
    """

    rows: Node
    keys: tuple[str, ...]
    column: str
    which: Literal["largest", "smallest"]
    levels: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TopK(PlanNode):
    """The first k rows, counting multiplicity, in an order of all columns."""

    rows: Node
    k: int
    order: tuple[tuple[str, Direction], ...]


@dataclass(frozen=True, eq=False)
class MovingThreshold(PlanNode):
    """The rows whose value * denominator is above or below the numerator of the one limit with the same keys.

    numerator, denominator: columns of the limits; an empty denominator stands for 1.
    """

    rows: Node
    limits: Node
    row_keys: tuple[str, ...]
    limit_keys: tuple[str, ...]
    value: Term
    which: Literal["above", "below"]
    numerator: str
    denominator: str

    @property
    def keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.row_keys, self.limit_keys

    @cached_property
    def key_types(self) -> tuple[Type, ...]:
        """The types of the keys, each spanning those of rows and limits."""
        return spanned_types(self.rows, self.row_keys, self.limits, self.limit_keys)

    @property
    def limit_columns(self) -> tuple[str, ...]:
        """The columns of the limits that rows are compared with."""
        return tuple(filter(None, (self.numerator, self.denominator)))


@dataclass(frozen=True, eq=False)
class NullRow(PlanNode):
    """The rows, or one row of NULL while there are none."""

    rows: Node


@dataclass(frozen=True, eq=False)
class Consolidate(PlanNode):
    """The rows with one update per row and time."""

    rows: Node


@dataclass(frozen=True, eq=False)
class Iterate(PlanNode):
    """The fixpoint of a body that begins with the rows of a seed; see dataflow.language.iteration.

    depth: the number of the variable that the loop binds, which is the number of loops around it.
    """

    seed: Node
    body: Node
    depth: int


@dataclass(frozen=True, eq=False)
class Variable(PlanNode):
    """The rows of the current iteration, inside the body of the loop of the same depth."""

    depth: int


@dataclass(frozen=True)
class IndexRead(PlanValue):
    """An index, and how rows look it up.

    rows: the indexed collection; keys, value: its columns, from whose values the index leads to those of `value`;
    row_keys: the columns of the extended rows that are looked up;
    version: whether a row sees the index with (new) or without (old) the changes of the row's own time.
    """

    rows: Node
    row_keys: tuple[str, ...]
    keys: tuple[str, ...]
    value: str
    version: Literal["old", "new"]

    def key_types(self, extended: Node) -> tuple[Type, ...]:
        """Return the types of the keys, each spanning those of the index and of the extended rows."""
        return spanned_types(extended, self.row_keys, self.rows, self.keys)


@dataclass(frozen=True, eq=False)
class Extend(PlanNode):
    """The changes of rows, extended by the values of a column that all indexes have: see dataflow.language.motif.

    proposer: the index that proposes values; None is the one with the fewest values for the row.
    """

    rows: Node
    column: str
    indexes: tuple[IndexRead, ...]
    proposer: int | None


@dataclass(frozen=True, eq=False)
class _IndexStep(PlanNode):
    """A part of an extension: rows are sent to the worker that owns their keys in one index."""

    rows: Node
    column: str
    index: IndexRead

    @property
    def indexes(self) -> tuple[IndexRead, ...]:
        return (self.index,)


@dataclass(frozen=True, eq=False)
class Seek(_IndexStep):
    """The rows, extended by the values of one index; rows that have the new column already are only looked up."""


@dataclass(frozen=True, eq=False)
class Measure(_IndexStep):
    """The rows that have values in an index, with an upper bound on their number as the new column."""


Node: TypeAlias = (
    Input | Filter | Project | Concat | Negate | Aggregate | Threshold | Join | Extreme | TopK | MovingThreshold
    | NullRow | Consolidate | Iterate | Variable | Extend | Seek | Measure
)  # fmt: skip
"""The union of all operations."""

INDEX_READERS = (Extend, Seek, Measure)


def spanned_types(left: Node, left_keys: Sequence[str], right: Node, right_keys: Sequence[str]) -> tuple[Type, ...]:
    """Return the types of key columns, each spanning the bounds of both sides."""
    pairs = zip(left_keys, right_keys, strict=True)
    return tuple(spanning(left.schema[mine], right.schema[theirs]) for mine, theirs in pairs)


def walk(root: Node) -> Iterator[Node]:
    """Yield every node below a root once, inputs first."""
    seen, path = {root}, [(root, iter(root.inputs))]
    while path:
        node, remaining = path[-1]
        below = next((each for each in remaining if each not in seen), None)
        if below is None:
            path.pop()
            yield node
        else:
            seen.add(below)
            path.append((below, iter(below.inputs)))
