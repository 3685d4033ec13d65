"""The order of joins: the tree that stores and emits the fewest rows, by estimates.

An incremental join stores both sides and emits each pair when it appears. So over a whole stream, a tree of joins works
on about as many rows as its inputs and its intermediate results have at the end. A semijoin or an antijoin may come
before a join or after it.

Sets of parts are integers, whose bits are the numbers of parts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import count

from deltamark.dataflow.language.by_terms import filtered, only, paired, same, with_columns
from deltamark.dataflow.operators.derived import TermPair
from deltamark.dataflow.operators.linear import Filter, Project
from deltamark.dataflow.operators.node import Node, expected_rows, is_unique
from deltamark.dataflow.passes.expansion import with_partner, without_partner
from deltamark.dataflow.passes.join_tree import JoinTree, Parts, Test, as_pair, column_names
from deltamark.dataflow.plan.direct_keys import is_direct
from deltamark.dataflow.plan.terms import (
    Add,
    Coalesce,
    Column,
    Constant,
    Multiply,
    Quotient,
    Subtract,
    Term,
    column,
    subterms,
)
from deltamark.dataflow.scalars.values import simplified
from deltamark.dataflow.types import LARGEST

OTHER_SHARE = 0.3
"""The share of pairs that satisfy a condition other than an equality."""

TEST_SHARE = 0.5
"""The share of rows that a semijoin or an antijoin keeps."""

HASHED_COST, PAIRING_COST = 2.5, 8.0
"""The cost of a row that an index of hashed keys stores, and of one whose partners are found by other conditions than
equalities; 1 is the cost of a row in an index of direct keys, or in a result. None of these numbers is tuned."""

MOST_PARTS = 9
"""The parts up to which all trees are compared: at most 3^9 ways to divide a set in two. Above it, each step makes the
join that costs least, and n parts have fewer than 2 n^2 joins to estimate."""

CANNOT_JOIN = 3
"""The distance of sets of parts of which one lacks what a semijoin or an antijoin reads."""


@dataclass(frozen=True)
class _Made:
    """The join of some parts. places: the terms that replace columns of the parts that it does not have."""

    parts: Parts
    node: Node
    places: Mapping[Term, Term]


def ordered(tree: JoinTree, wanted: Sequence[Term]) -> tuple[Node, list[Term]]:
    """Order all joins in the best way. wanted: terms over the parts' columns; return them over those of the node."""
    graph = JoinGraph(tree)
    early = graph.computed_early(wanted)
    ordering = _Ordering(graph)
    made = ordering.best_tree() if len(graph.nodes) <= MOST_PARTS else ordering.greedy_tree()
    return made.node, [simplified(early.get(each, each), made.places) for each in wanted]


class _Ordering:
    def __init__(self, graph: JoinGraph) -> None:
        self._graph = graph
        self._best, self._price = cache(self._best_split), cache(self._priced)
        self._names = {name for each in graph.nodes for name in each.schema.names}

    def best_tree(self) -> _Made:
        return self._made((1 << len(self._graph.nodes)) - 1)

    def greedy_tree(self) -> _Made:
        parts = [self._part(at) for at in range(len(self._graph.nodes))]
        while len(parts) > 1:
            ways = [(one, other) for one in parts for other in parts if one is not other]
            left, right = min(ways, key=lambda way: self._price(way[0].parts, way[1].parts))
            parts = [each for each in parts if each not in (left, right)] + [self._pair(left, right)]
        return parts[0]

    def _priced(self, left: Parts, right: Parts) -> tuple[int, float, int]:
        """Return what a step of the greedy search makes as small as it can."""
        distance = self._graph.distance(left, right)
        if distance == CANNOT_JOIN:
            return distance, 0.0, left
        self._graph.size_from_sides(left, right)
        return distance, self._graph.cost(left, right), left

    def _best_split(self, parts: Parts) -> tuple[float, int]:
        """Return the cost of the best tree, and the parts of its left side."""
        if parts.bit_count() == 1:
            return 0.0, parts
        graph, choices = self._graph, []
        for left in _subsets(parts):
            right = parts & ~left
            distance = graph.distance(left, right)
            if distance < CANNOT_JOIN and (left < right or graph.distance(right, left) == CANNOT_JOIN):
                choices.append((distance, left, right))
        nearest = min(distance for distance, *_ in choices)
        costs = [
            (self._best(left)[0] + self._best(right)[0] + graph.cost(left, right), left)
            for distance, left, right in choices
            if distance == nearest
        ]
        return min(costs)

    def _made(self, parts: Parts) -> _Made:
        if parts.bit_count() == 1:
            return self._part(_number(parts))
        left = self._best(parts)[1]
        return self._pair(self._made(left), self._made(parts & ~left))

    def _part(self, number: int) -> _Made:
        return _Made(1 << number, self._graph.nodes[number], {})

    def _pair(self, left: _Made, right: _Made) -> _Made:
        graph = self._graph
        places = {**left.places, **right.places}
        equal, conditions = graph.conditions(left.parts, right.parts)
        equal = [(simplified(mine, left.places), simplified(theirs, right.places)) for mine, theirs in equal]
        conditions = [simplified(each, places) for each in conditions]
        parts, test = left.parts | right.parts, graph.test(right.parts)
        if test is not None:
            keys = [name for _, theirs in equal for name in column_names(theirs)]
            if test.are_kept and conditions and is_unique(right.node, keys):
                node = only(paired(left.node, right.node, equal, conditions, self._names)[0], left.node.schema.names)
            elif test.are_kept:
                node = with_partner(left.node, right.node, equal, conditions, self._names)[1]
            else:
                node = without_partner(left.node, right.node, equal, conditions, self._names)
            self._names |= set(node.schema.names)
            return _Made(parts, node, left.places)
        node, moved = paired(left.node, right.node, equal, conditions, self._names)
        self._names |= set(node.schema.names)
        return _Made(parts, node, {old: simplified(new, moved) for old, new in places.items()} | moved)


def _subsets(parts: Parts) -> Iterator[Parts]:
    """Yield the subsets of a set that are neither empty nor the whole."""
    subset = (parts - 1) & parts
    while subset:
        yield subset
        subset = (subset - 1) & parts


class _Classes:
    """Classes of equal values. A class that grows becomes the last one."""

    def __init__(self) -> None:
        self._values: dict[int, list[Term]] = {}
        self._class_of: dict[Term, int] = {}
        self._next = count()

    @property
    def members(self) -> list[list[Term]]:
        return list(self._values.values())

    def unite(self, left: Term, right: Term) -> None:
        """Make two values equal, and with them all that are equal to them."""
        together = [left, right]
        for old in sorted({self._class_of[each] for each in (left, right) if each in self._class_of}):
            together += self._values.pop(old)
        new = next(self._next)
        self._values[new] = list(dict.fromkeys(together))
        self._class_of.update(dict.fromkeys(together, new))


class JoinGraph:
    """The graph of a join: parts, the classes of values that its equalities make equal, and estimates of sizes."""

    def __init__(self, tree: JoinTree) -> None:
        self._tree = tree
        self.nodes = [each.node for each in tree.parts]
        self._tests = [each.test for each in tree.parts]
        self._conditions: list[tuple[Parts, tuple[Term, ...]]] = []
        """Conditions on several parts other than equalities."""
        united = _Classes()
        own: dict[int, list[Term]] = defaultdict(list)
        for pair in (*tree.equal, *map(as_pair, tree.conditions)):
            sides = [tree.reads(side) for side in pair]
            both = reduce(int.__or__, sides)
            if both.bit_count() <= 1:
                own[max(_number(both), 0)].append(_condition(pair))
            elif [side.bit_count() for side in sides] == [1, 1]:
                united.unite(*pair)
            else:
                self._conditions.append((both, pair))
        self._classes = united.members
        """Values of different parts that are all equal."""
        for number, conditions in own.items():
            self.nodes[number] = filtered(self.nodes[number], *conditions)
        self._compare_within_parts()
        self._connected = [tree.reads(*members) for members in self._classes]
        """The parts of each class."""
        self._sizes = [expected_rows(each) for each in self.nodes]
        self._known_sizes: dict[Parts, float] = {}
        self.distance, self._is_valid = cache(self._distance), cache(self._has_all_reads)

    def _compare_within_parts(self) -> None:
        """Keep one value of each part in a class, after comparing it with the part's others."""
        for members in self._classes:
            first: dict[Parts, Term] = {}
            for each in list(members):
                part = self._tree.reads(each)
                other = first.setdefault(part, each)
                if other is not each:
                    self.nodes[_number(part)] = filtered(self.nodes[_number(part)], same(other, each))
                    members.remove(each)

    def computed_early(self, wanted: Sequence[Term]) -> Mapping[Term, Term]:
        """Compute terms before the joins, each of which reads one part, if no more columns are needed then.

        Return the columns that replace them. Arithmetic is left to the engine, which stores fewer columns where it can.
        """
        if len(self.nodes) == 1:
            return {}
        candidates: dict[int, list[Term]] = defaultdict(list)
        for each in dict.fromkeys(wanted):
            reads = self._tree.reads(each)
            if reads.bit_count() == 1 and not _comes_after_joins(each):
                candidates[_number(reads)].append(each)
        early: dict[Term, Term] = {}
        taken = set(self._tree.number_of)
        for number, terms in candidates.items():
            node = self.nodes[number]
            others = [each for each in wanted if each not in terms and each.columns & set(node.schema.names)]
            needed = frozenset[str]().union(*(each.columns for each in others)) & set(node.schema.names)
            saved = frozenset[str]().union(*(each.columns for each in terms)) - needed
            if len(terms) > len(saved) or any(each.may_fail and not _is_computed(node, each) for each in terms):
                continue
            self.nodes[number], names = with_columns(node, terms, "early", taken)
            early |= {each: column(name, each.type) for each, name in zip(terms, names, strict=True)}
            taken |= set(names)
        return early

    def test(self, parts: Parts) -> Test | None:
        """Return the semijoin or antijoin that the only part of a set is."""
        return self._tests[_number(parts)] if parts.bit_count() == 1 else None

    def _has_all_reads(self, parts: Parts) -> bool:
        """Return whether a set is one part, or has what all its semijoins and antijoins read."""
        return parts.bit_count() == 1 or all(
            each is None or not each.reads & ~parts for each in (self._tests[at] for at in _numbers(parts))
        )

    def conditions(self, left: Parts, right: Parts) -> tuple[list[TermPair], list[Term]]:
        """Return the equalities and the other conditions of the join of two sets.

        The right one may be a semijoin or an antijoin.
        """
        test = self.test(right)
        if test is not None:
            return list(test.equal), list(test.conditions)
        equal, others = list(self._equalities(left, right)), []
        for reads, pair in self._conditions:
            if _completes(reads, left, right):
                sides = [self._tree.reads(each) for each in pair]
                if len(pair) == 1 or all(each & left and each & right for each in sides[:1]):
                    others.append(_condition(pair))
                elif not sides[0] & ~left and not sides[1] & ~right:
                    equal.append((pair[0], pair[1]))
                elif not sides[1] & ~left and not sides[0] & ~right:
                    equal.append((pair[1], pair[0]))
                else:
                    others.append(_condition(pair))
        return equal, others

    def _equalities(self, left: Parts, right: Parts) -> Iterator[TermPair]:
        for members, parts in zip(self._classes, self._connected, strict=True):
            if parts & left and parts & right:
                mine, theirs = (
                    next(each for each in members if self._tree.reads(each) & side) for side in (left, right)
                )
                yield mine, theirs

    def _distance(self, left: Parts, right: Parts) -> int:
        """Return 0 if an equality connects two sets, 1 if another condition does, 2 if none does; CANNOT_JOIN."""
        if not (self._is_valid(left) and self._is_valid(right)) or self.test(left) is not None:
            return CANNOT_JOIN
        test = self.test(right)
        if test is not None:
            return CANNOT_JOIN if test.reads & ~left else 0
        if any(each & left and each & right for each in self._connected):
            return 0
        return 1 if any(_completes(reads, left, right) for reads, _ in self._conditions) else 2

    def cost(self, left: Parts, right: Parts) -> float:
        """Estimate the rows that a join stores and emits, without those that it stores of single parts."""
        equal, others = self.conditions(left, right)
        result = self.size(left | right)
        if self.test(right) is not None:
            return self.size(left) * (PAIRING_COST if others else HASHED_COST) + result
        keys = list(zip(*equal, strict=True)) or [(), ()]
        return result + sum(self._stored(side, terms) for side, terms in zip((left, right), keys, strict=True))

    def _stored(self, side: Parts, keys: Sequence[Term]) -> float:
        """Return the cost of the index of one side; in an index of direct keys, single parts cost nothing."""
        rows = max(self.nodes[at].schema.rows for at in _numbers(side))
        direct = is_direct(min(math.prod(map(self._range, keys)), LARGEST), rows)
        return self.size(side) * ((side.bit_count() > 1) if direct else HASHED_COST)

    def size(self, parts: Parts) -> float:
        """Estimate the rows of a join, once."""
        if parts not in self._known_sizes:
            self._known_sizes[parts] = self._size(parts)
        return self._known_sizes[parts]

    def size_from_sides(self, left: Parts, right: Parts) -> None:
        """Estimate the rows of a join by the sizes of its two sides alone, unless its size is known.

        The number of sets that `size` visits doubles with each part.
        """
        if left | right not in self._known_sizes:
            sides = [(left, right)] if self.test(right) is not None else [(left, right), (right, left)]
            self._known_sizes[left | right] = max(self._joined_size(*each) for each in sides)

    def _size(self, parts: Parts) -> float:
        """Estimate the rows of a join: the most over the parts that may be joined last."""
        if parts.bit_count() == 1:
            return max(self._sizes[_number(parts)], 1.0)
        last = [1 << at for at in _numbers(parts)]
        distance = {each: self.distance(parts & ~each, each) for each in last}
        nearest = min(distance.values())
        return max(self._joined_size(parts & ~each, each) for each in last if distance[each] == nearest)

    def _joined_size(self, left: Parts, right: Parts) -> float:
        """Estimate the rows of a join. The key of a right part has as many values as the part has rows."""
        if self.test(right) is not None:
            return self.size(left) * TEST_SHARE
        distinct: dict[Parts, dict[str, float]] = defaultdict(dict)
        for at, members in enumerate(self._classes):
            if self._connected[at] & left and self._connected[at] & right:
                ours, theirs = ([each for each in members if self._tree.reads(each) & side] for side in (left, right))
                fewest = (min(map(self._distinct, side)) for side in (ours, theirs))
                name = next(iter(column_names(theirs[0])), f"class {at}")
                distinct[self._tree.reads(theirs[0])][name] = max(fewest)
        values = math.prod(self._combinations(_number(part), counts) for part, counts in distinct.items())
        conditions = sum(_completes(reads, left, right) for reads, _ in self._conditions)
        return max(self.size(left) * self.size(right) / values * OTHER_SHARE**conditions, 1.0)

    def _combinations(self, number: int, distinct: Mapping[str, float]) -> float:
        """Estimate the combinations of values of some columns of a part. distinct: the values of each column."""
        key = _key_of(self.nodes[number], list(distinct))
        values = math.prod(count for name, count in distinct.items() if name not in key)
        return values * self.nodes[number].schema.rows if key else values

    def _distinct(self, term: Term) -> float:
        """Estimate the number of different values of a term."""
        return min(self.nodes[_number(self._tree.reads(term))].schema.rows, self._range(term))

    def _range(self, term: Term) -> int:
        """Return the number of values that a term may have, by its bounds."""
        return term.type.high - term.type.low + 1 if self._tree.reads(term).bit_count() == 1 else LARGEST


def _condition(pair: Sequence[Term]) -> Term:
    return same(*pair) if len(pair) > 1 else pair[0]


def _is_computed(node: Node, term: Term) -> bool:
    """Return whether a filter computes a term for each of its rows, and so cannot fail to."""
    while isinstance(node, Project):
        node = node.rows
    return isinstance(node, Filter) and any(each is term for each in subterms(node.condition))


def _comes_after_joins(term: Term) -> bool:
    """Return whether a term is computed after joins rather than below them."""
    return isinstance(term, Column | Constant | Coalesce | Add | Subtract | Multiply | Quotient)


def _completes(reads: Parts, left: Parts, right: Parts) -> bool:
    """Return whether the join of two sets is the first that has all parts which a condition reads."""
    return not reads & ~(left | right) and bool(reads & ~left) and bool(reads & ~right)


def _number(parts: Parts) -> int:
    """Return the number of the only part of a set."""
    return parts.bit_length() - 1


def _numbers(parts: Parts) -> list[int]:
    return [at for at in range(parts.bit_length()) if parts & 1 << at]


def _key_of(node: Node, names: list[str]) -> list[str]:
    """Return the fewest of some columns that determine a row; none if all together do not."""
    if not is_unique(node, names):
        return []
    for each in list(names):
        fewer = [name for name in names if name != each]
        if is_unique(node, fewer):
            names = fewer
    return names
