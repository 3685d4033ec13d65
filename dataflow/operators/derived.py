"""Derived operators: those that a pass replaces by others before a plan is compiled.

They are units that rewrites recognise, such as a semijoin, which may come before a join or after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.operators.distribution import Columns, Distribution
from deltamark.dataflow.operators.interning import PlanValue
from deltamark.dataflow.operators.node import Emission, JoinReads, Keys, Node, Requirement, is_unique
from deltamark.dataflow.plan.term_sql import sql
from deltamark.dataflow.plan.terms import Coalesce, Column, Equal, Term


@dataclass(frozen=True, eq=False)
class Derived(Node):
    """The base of derived operators."""

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(each, each.schema.names) for each in self.inputs]

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> NoReturn:
        raise AssertionError(self)

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> NoReturn:
        raise AssertionError(self)


TermPair = tuple[Term, Term]


def _equated(equal: Iterable[TermPair]) -> set[str]:
    """Return the columns that equalities compare, perhaps with a value for NULL."""
    terms = (term.value if isinstance(term, Coalesce) else term for pair in equal for term in pair)
    return {each.name for each in terms if isinstance(each, Column)}


@dataclass(frozen=True, eq=False)
class Partners(Derived):
    """The rows that have a partner among other rows: a semijoin; or those that have none: an antijoin.

    equal: values of both sides that are equal, where NULL equals NULL; conditions: others, over the columns of both
    sides, whose names differ.
    """

    rows: Node
    others: Node
    equal: tuple[TermPair, ...]
    conditions: tuple[Term, ...]
    are_kept: bool

    @property
    def title(self) -> str:
        return "semijoin" if self.are_kept else "antijoin"

    def description(self, required: object) -> str:
        return " AND ".join(map(sql, [*(Equal(*each) for each in self.equal), *self.conditions]))

    @property
    def negates(self) -> bool:
        return not self.are_kept

    def determines(self, names: frozenset[str]) -> bool:
        return is_unique(self.rows, names)

    def has_null(self, name: str) -> bool:
        return self.rows.has_null(name)

    def selects_from(self, rows: Node) -> bool:
        return self.rows is rows

    @property
    def sum_columns(self) -> frozenset[str]:
        return self.rows.sum_columns


@dataclass(frozen=True, eq=False)
class LeftJoin(Derived):
    """The pairs of rows, and the left rows without a partner, with NULL in the right columns.

    The columns of both sides have different names; equal and conditions are those of `Partners`.
    """

    left: Node
    right: Node
    equal: tuple[TermPair, ...]
    conditions: tuple[Term, ...]

    @property
    def negates(self) -> bool:
        return True

    def determines(self, names: frozenset[str]) -> bool:
        one = is_unique(self.right, _equated(self.equal) & set(self.right.schema.names))
        return one and is_unique(self.left, names & set(self.left.schema.names))


@dataclass(frozen=True)
class Piece(PlanValue):
    """At most one row for each group, with the keys and other columns, none of which is NULL."""

    rows: Node
    has_all_groups: bool


@dataclass(frozen=True, eq=False)
class SideBySide(Derived):
    """A row for each group, with the columns of several aggregates: NULL where a piece lacks the group."""

    pieces: tuple[Piece, ...]
    keys: Keys

    def determines(self, names: frozenset[str]) -> bool:
        return set(self.keys) <= names
