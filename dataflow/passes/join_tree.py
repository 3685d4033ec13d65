"""Trees of joins, taken apart: the parts that are joined, and the conditions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from typing import NamedTuple

from deltamark.dataflow.language.by_terms import columns_of, is_renaming, renamed_apart
from deltamark.dataflow.operators.derived import LeftJoin, Partners, TermPair
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Concat, Filter, Negate, Project
from deltamark.dataflow.operators.node import Node, is_unique
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.plan.terms import Coalesce, Column, Equal, Term, column, conjuncts, null, subterms
from deltamark.dataflow.scalars.values import simplified
from deltamark.dataflow.types import Schema

Source = tuple[Node, str]
"""A node, and one of its columns."""

Parts = int
"""A set of parts: bit i stands for part i."""


@dataclass(frozen=True)
class Test:
    """A semijoin or an antijoin, of which a part is the right side. reads: the other parts that it needs."""

    equal: tuple[TermPair, ...]
    conditions: tuple[Term, ...]
    are_kept: bool
    reads: Parts


@dataclass(frozen=True)
class Part:
    """Rows that are joined, or, with a test, rows among which partners are only looked for."""

    node: Node
    test: Test | None = None


@dataclass(frozen=True)
class JoinTree:
    """Inner, semi- and antijoins with the filters and projections between them.

    All terms are over the columns of the parts, which have different names. equal: values that are equal, where NULL
    equals NULL; columns: those of the node that was taken apart.
    """

    parts: tuple[Part, ...]
    equal: tuple[TermPair, ...]
    conditions: tuple[Term, ...]
    columns: Mapping[str, Term]

    @cached_property
    def number_of(self) -> Mapping[str, int]:
        """The number of the part that has a column."""
        return {name: at for at, part in enumerate(self.parts) for name in part.node.schema.names}

    def reads(self, *terms: Term) -> Parts:
        """Return the parts that terms read."""
        return reduce(int.__or__, (1 << self.number_of[name] for each in terms for name in each.columns), 0)

    @cached_property
    def most_rows(self) -> int:
        """The most rows, by the bounds of the parts, in any order of joins."""
        joined = [at for at, part in enumerate(self.parts) if part.test is None]
        starts = sorted(joined, key=lambda at: self.parts[at].node.schema.rows)
        best: int | None = None
        for start in starts:
            free = [start, *(at for at in starts if at != start)]
            taken: list[int] = []
            known: set[int] = set()
            for at in free:
                if at not in known:
                    taken.append(at)
                    known = self._determined(taken)
            rows = prod(self.parts[at].node.schema.rows for at in taken)
            best = rows if best is None else min(best, rows)
        return best or 0

    def is_determined_by(self, names: Iterable[str]) -> bool:
        """Return whether each combination of values of some columns has at most one row."""
        values = set(names)
        known = self._determined((), values)
        return all(part.test is not None or at in known for at, part in enumerate(self.parts))

    def _determined(self, given: Iterable[int], names: Collection[str] = ()) -> set[int]:
        """Return the parts of which each row of some parts, or combination of values of columns, has at most one."""
        known = set(given)
        while True:
            values = sum(1 << at for at in known)
            new = {
                at
                for at, part in enumerate(self.parts)
                if at not in known and part.test is None and is_unique(part.node, self._compared(at, values, names))
            }
            if not new:
                return known
            known |= new

    def _compared(self, at: int, known: Parts, names: Collection[str]) -> Iterator[str]:
        """Yield the columns of a part that are given, or compared with values that are known."""
        yield from (name for name in names if self.number_of[name] == at)
        for pair in self.equal:
            for mine, other in (pair, pair[::-1]):
                if self.reads(mine) == 1 << at and (not self.reads(other) & ~known or other.columns <= set(names)):
                    yield from column_names(mine)


def column_names(term: Term) -> list[str]:
    """Return the column that a term is, perhaps with a value for NULL; none if it is computed."""
    if isinstance(term, Coalesce):
        term = term.value
    return [term.name] if isinstance(term, Column) else []


def as_pair(condition: Term) -> tuple[Term, ...]:
    """Return the two values that a condition says are equal; otherwise the condition itself."""
    match condition:
        case Equal(left, right) if left.columns and right.columns and not left.columns & right.columns:
            if not left.type.nullable and not right.type.nullable:
                return left, right
    return (condition,)


def over(term: Term, columns: Mapping[str, Term]) -> Term:
    """Replace the columns of a term by terms."""
    read: dict[Term, Term] = {
        each: columns[each.name] for each in subterms(term) if isinstance(each, Column) and each.name in columns
    }
    return simplified(term, read) if any(old is not new for old, new in read.items()) else term


def as_semijoin(node: Node) -> Partners | None:
    """Return a join with distinct keys, of which it reads nothing else, as a semijoin; None if it is another node."""
    if not isinstance(node, Join):
        return None
    right, names = node.right, node.right.schema.names
    if not names or set(names) != set(node.right_keys) or not is_unique(right, names):
        return None
    if isinstance(right, Threshold) and is_unique(right.rows, names):
        right = right.rows
    others, columns = renamed_apart(right, node.left.schema.names)
    left = columns_of(node.left)
    equal = ((left[mine], columns[theirs]) for mine, theirs in zip(node.left_keys, node.right_keys, strict=True))
    return Partners(node.left, others, tuple(equal), (), are_kept=True, schema=node.schema)


def as_left_join(node: Node) -> tuple[LeftJoin, Mapping[str, Term]] | None:
    """Read a node as a left join, and its columns as terms over the join; None if it is another node."""
    match node:
        case LeftJoin():
            return node, columns_of(node)
        case Concat(parts=(Join() as pairs, Project(rows=Concat(parts=(_, Negate(rows=Join() as paired)))) as single)):
            keys = zip(paired.right_keys, pairs.right_keys, strict=False)
            is_same = (
                pairs.left is paired.left is single.rows.antijoined  # type: ignore[attr-defined]  # a Concat
                and pairs.left_keys == paired.left_keys
                and isinstance(paired.right, Threshold)
                and all(source_of(paired.right.rows, one) == source_of(pairs.right, other) for one, other in keys)
                and all(_is_own_or_null(name, term, pairs.left) for name, term in single.columns)
            )
            return _left_joined(node, pairs) if is_same else None
    return None


def _is_own_or_null(name: str, term: Term, left: Node) -> bool:
    """Return whether a term is a left column of the same name, or NULL for one that is not."""
    if name in left.schema:
        return term is column(name, left.schema[name])
    return term is null(term.type)


def _left_joined(node: Node, pairs: Join) -> tuple[LeftJoin, Mapping[str, Term]]:
    left = columns_of(pairs.left)
    right, columns = renamed_apart(pairs.right, left.keys())
    equal = [(left[mine], columns[theirs]) for mine, theirs in zip(*pairs.keys, strict=True)]
    fields = [replace(each, type=each.type.or_null()) for each in right.schema.fields]
    schema = Schema((*pairs.left.schema.fields, *fields), node.schema.rows)
    join = LeftJoin(pairs.left, right, tuple(equal), (), schema=schema)
    names = {old: column_names(term)[0] for old, term in columns.items() if old not in left}
    return join, {**left, **{old: column(name, schema[name]) for old, name in names.items()}}


def is_joined(node: Node) -> bool:
    """Return whether there is a join below filters and projections."""
    while isinstance(node, Filter | Project):
        node = node.rows
    return isinstance(node, Join | Partners)


def taken_apart(node: Node, is_whole: Callable[[Node], bool]) -> JoinTree:
    """Take apart the joins at the top of a plan. is_whole: returns whether a node below is a part as it is."""
    return _Taking(is_whole).tree(node)


class _Taking:
    def __init__(self, is_whole: Callable[[Node], bool]) -> None:
        self._is_whole = is_whole
        self._taken: set[str] = set()
        self._parts: list[Part] = []
        self._equal: list[TermPair] = []
        self._conditions: list[Term] = []

    def tree(self, node: Node) -> JoinTree:
        columns = self._columns(node)
        return reading(JoinTree(tuple(self._parts), tuple(self._equal), tuple(self._conditions), columns))

    def _below(self, node: Node) -> Mapping[str, Term]:
        return self._part(node) if self._is_whole(node) else self._columns(node)

    def _columns(self, node: Node) -> Mapping[str, Term]:
        match node:
            case Join() if (semijoin := as_semijoin(node)) is not None:
                return self._columns(semijoin)
            case Join():
                left, right = self._below(node.left), self._below(node.right)
                self._equal += [
                    (left[mine], right[theirs]) for mine, theirs in zip(node.left_keys, node.right_keys, strict=True)
                ]
                return {**{name: term for name, term in right.items() if name not in node.right_keys}, **left}
            case Partners():
                left = self._below(node.rows)
                both = {**left, **self._part(node.others)}
                equal = tuple((over(mine, both), over(other, both)) for mine, other in node.equal)
                conditions = tuple(over(each, both) for each in node.conditions)
                self._parts[-1] = Part(self._parts[-1].node, Test(equal, conditions, node.are_kept, 0))
                return left
            case Filter():
                columns = self._below(node.rows)
                self._conditions += [over(each, columns) for each in conjuncts(node.condition)]
                return columns
            case Project() if is_joined(node.rows) or _extends(node):
                columns = self._below(node.rows)
                return {name: over(term, columns) for name, term in node.columns}
        return self._part(node)

    def _part(self, node: Node) -> Mapping[str, Term]:
        part, columns = renamed_apart(node, self._taken)
        self._taken |= set(part.schema.names)
        self._parts.append(Part(part))
        return columns


def _extends(node: Project) -> bool:
    """Return whether a projection adds columns to all that it reads."""
    return not is_renaming(node) and set(node.copied.values()) >= set(node.rows.schema.names)


def reading(tree: JoinTree) -> JoinTree:
    """Return a tree whose tests know the parts that they read; one that reads none is a test of the first part."""
    return replace(tree, parts=tuple(_reading(tree, at) for at in range(len(tree.parts))))


def _reading(tree: JoinTree, at: int) -> Part:
    part = tree.parts[at]
    if part.test is None:
        return part
    terms = [*(term for pair in part.test.equal for term in pair), *part.test.conditions]
    return replace(part, test=replace(part.test, reads=tree.reads(*terms) & ~(1 << at) or 1))


class Base(NamedTuple):
    """A node as filters and projections of another one: its columns, and the conditions, as terms over the latter."""

    node: Node
    terms: Mapping[str, Term]
    conditions: Sequence[Term]

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are columns of the base, perhaps with a value for NULL."""
        return {name: found for name, term in self.terms.items() for found in column_names(term)}


def base_of(node: Node) -> Base:
    """Look through filters and projections."""
    match node:
        case Filter():
            below = base_of(node.rows)
            conditions = [over(each, below.terms) for each in conjuncts(node.condition)]
            return below._replace(conditions=[*below.conditions, *conditions])
        case Project():
            below = base_of(node.rows)
            return below._replace(terms={name: over(term, below.terms) for name, term in node.columns})
    return Base(node, columns_of(node), ())


def source_of(node: Node, name: str) -> Source | None:
    """Return the node below projections from which a column comes, and the column; None if it is computed."""
    while isinstance(node, Project):
        if name not in node.copied:
            return None
        name = node.copied[name]
        node = node.rows
    return node, name


def without_part(tree: JoinTree, at: int, new: Mapping[int, Part], moved: Mapping[str, Term]) -> JoinTree:
    """Remove a part, whose columns others replace. new: parts in the place of others."""
    names = set(tree.parts[at].node.schema.names)
    by = {**{name: term for part in tree.parts for name, term in columns_of(part.node).items()}, **moved}

    def placed(terms: Sequence[Term]) -> tuple[Term, ...]:
        return tuple(over(each, by) if each.columns & names else each for each in terms)

    def pair(ends: TermPair) -> TermPair:
        one, other = placed(ends)
        return one, other

    parts = []
    for number_, each in enumerate(tree.parts):
        part = new.get(number_, each)
        if part.test is not None:
            test = part.test
            test = replace(test, equal=tuple(map(pair, test.equal)), conditions=placed(test.conditions))
            part = replace(part, test=test)
        if number_ != at:
            parts.append(part)
    equal = tuple(each for each in map(pair, tree.equal) if each[0] is not each[1])
    columns = dict(zip(tree.columns, placed(list(tree.columns.values())), strict=True))
    return reading(JoinTree(tuple(parts), equal, placed(tree.conditions), columns))
