"""The base of operators: each class of nodes says here what the passes must know of it, and appends itself to programs.

An operator is a module of this package: the class of its nodes, the blocks and the state of its programs, its errors,
and its line in `explain`. Nodes are interned, so equal sub-plans are one object.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.operators.distribution import WHOLE, Columns, Distribution, OperatorDistribution
from deltamark.dataflow.operators.interning import PlanNode
from deltamark.dataflow.plan.memo import kept_by_argument
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Type, spanning

if TYPE_CHECKING:
    from deltamark.dataflow.operators.arrangement import Arrangement
    from deltamark.dataflow.operators.by_key import Paired
    from deltamark.dataflow.operators.extend import Extension
    from deltamark.dataflow.operators.index import Index
    from deltamark.dataflow.operators.input import Input
    from deltamark.dataflow.operators.iterate import Iterate

Keys = tuple[str, ...]

Requirement = tuple["Node", Iterable[str]]
"""A node, and the columns of it that are required."""


class JoinReads(Protocol):
    """Finds what the sides of pairs require, which depends on the arrangements that they can read."""

    @property
    def looping(self) -> Collection[Node]:
        """The nodes that depend on the variable of a loop."""
        ...

    def __call__(self, join: Paired, side: int, columns: Sequence[str]) -> Requirement | None:
        """Return the requirement of one side (0: left, 1: right), given the columns besides the keys."""
        ...


class Placing(Protocol):
    """A distribution of plans over workers in progress."""

    def is_free(self, node: Node) -> bool:
        """Return whether any worker can have any rows of a node without an exchange."""
        ...

    def is_small(self, node: Node) -> bool:
        """Return whether every worker may compute a node."""
        ...

    def readers(self, node: Node) -> int:
        """Return the number of nodes that read a node."""
        ...

    def default(self, node: Node) -> Distribution:
        """Return a distribution of a node for a reader that has no wish."""
        ...

    def owned(self, node: Node, names: Sequence[str] | None = None) -> Distribution:
        """Return a distribution of a node by some of its columns; by default, by those that are required."""
        ...

    def together(self, inputs: Sequence[Node], keys: tuple[Keys, Keys], types: Sequence[Type]) -> list[Distribution]:
        """Return distributions of two inputs by one key, or of one of them as the other one is distributed."""
        ...


class ReadArrangement(NamedTuple):
    """An arrangement that one side of pairs reads, with the residual filter.

    terms: the columns that the side needs, as the arrangement stores them.
    """

    arrangement: Arrangement
    condition: Term | None
    terms: Mapping[str, Term]


class Emission(Protocol):
    """A program under construction, as the operator of one node sees it."""

    @property
    def program(self) -> Program: ...

    def columns(self, node: Node) -> tuple[str, ...]:
        """Return the required columns of a node."""
        ...

    def distribution(self, node: Node) -> OperatorDistribution: ...

    def remark(self, text: str) -> None:
        """Add a note for `explain` on an operator that works in an unusual way."""
        ...

    def input(self, node: Input) -> Stream: ...

    def first_worker_selects(self, selected: Stream, columns: Mapping[str, Type], node: Node) -> Stream:
        """Send the rows that each worker has selected to the first one."""
        ...

    @property
    def looping(self) -> Collection[Node]:
        """The nodes that depend on the variable of a loop."""
        ...

    def arranged(self, node: Paired) -> Sequence[ReadArrangement]:
        """Return the arrangement that each side reads."""
        ...

    def indexes(self, node: Extension) -> list[Index]:
        """Return the indexes that an extension reads."""
        ...

    def loop(self, node: Iterate) -> Stream: ...


@dataclass(frozen=True, eq=False)
class Node(PlanNode):
    """The base of all operations. Methods without a body here have no default."""

    parallel: ClassVar[bool] = True
    """Whether the operator runs on several workers."""

    needs_complete_times: ClassVar[bool] = False
    """Whether a time must have all of its rows when it ends, also while history is loaded."""

    @property
    def negates(self) -> bool:
        """Whether the result has rows with negated weights."""
        return False

    # explain

    @property
    def title(self) -> str:
        """The name of the operator as users know it, such as `distinct`."""
        return self.operation

    def description(self, required: Collection[str]) -> str:
        """Describe the arguments in SQL: `by shop: sum(price) AS total`; empty if there are none."""
        return ""

    @property
    def consolidated(self) -> bool:
        """Whether a result always has one update per row and time."""
        return False

    # analyses: call `is_unique` and `expected_rows`, which keep what they have found

    @abstractmethod
    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        """Return what the operator requires of its inputs for some of its columns."""

    def determines(self, names: frozenset[str]) -> bool:
        """Return whether each combination of values of these columns has at most one row, of weight 1."""
        return False

    def selects_from(self, rows: Node) -> bool:
        """Return whether the result consists of some rows of another node, once each for each copy."""
        return False

    def has_null(self, name: str) -> bool:
        """Return whether a column may be NULL."""
        return self.schema[name].nullable

    def estimate(self, inputs: Sequence[float]) -> float:
        """Estimate the number of rows, given those of the inputs."""
        return inputs[0] if inputs else self.schema.rows

    @property
    def sum_columns(self) -> frozenset[str]:
        """The columns that are sums, about whose values their range says little."""
        return frozenset()

    # several workers

    @abstractmethod
    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        """Distribute the operator, given the distributions of its inputs, of which not all are whole."""

    def wishes(self, placing: Placing) -> list[Distribution]:
        """Return the distributions of the inputs with which the operator needs few exchanges."""
        return [placing.default(each) for each in self.inputs]

    def is_open(self, placing: Placing) -> bool:
        """Return whether the first reader may choose the distribution."""
        return False

    def below(self, wish: Distribution, placing: Placing) -> list[Distribution] | None:
        """Return the distributions of the inputs that give an open node a distribution without an exchange."""
        return [wish] * len(self.inputs)

    def preferred(self, keys: Keys) -> Iterable[tuple[Node, Keys]]:
        """Return the keys by which the inputs are needed, given those by which the result is needed; () if any."""
        return ()

    # programs

    @abstractmethod
    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        """Append the operator over the streams of its inputs; return the stream of its result."""


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


def distribute(node: Node, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
    """Distribute a node over several workers, given the distributions of its inputs."""
    if inputs and all(each == WHOLE for each in inputs) and node.parallel:
        return OperatorDistribution((None,) * len(inputs), WHOLE)
    return node.distributed(inputs, columns)


def spanned_types(left: Node, left_keys: Sequence[str], right: Node, right_keys: Sequence[str]) -> tuple[Type, ...]:
    """Return the types of key columns, each spanning the bounds of both sides."""
    pairs = zip(left_keys, right_keys, strict=True)
    return tuple(spanning(left.schema[mine], right.schema[theirs]) for mine, theirs in pairs)


def is_unique(node: Node, names: Iterable[str]) -> bool:
    """Return whether each combination of values of these columns has at most one row, of weight 1."""
    return _is_unique(node, frozenset(names))


@kept_by_argument
def _is_unique(node: Node, names: frozenset[str]) -> bool:
    return node.determines(names)


_expected: WeakKeyDictionary[Node, float] = WeakKeyDictionary()
"""The estimates of nodes, as long as these live."""


def expected_rows(root: Node) -> float:
    """Estimate the number of rows of a node, once for each node below it.

    The estimates start from the declared row bounds of inputs, and take values to be spread evenly over the declared
    range of their column. Sums are not: the range of a sum is that of the sum of all rows.
    """
    remaining = [root]
    while remaining:
        node = remaining[-1]
        if unknown := [each for each in node.inputs if each not in _expected]:
            remaining += unknown
            continue
        if node not in _expected:
            _expected[node] = min(node.estimate([_expected[each] for each in node.inputs]), node.schema.rows)
        remaining.pop()
    return _expected[root]
