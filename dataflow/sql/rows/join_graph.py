"""The graph of a join: elements, the classes of values that its equalities make equal, and estimates of sizes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial, reduce
from itertools import count

from deltamark.dataflow.operators.linear import Filter, Project
from deltamark.dataflow.operators.node import Node, expected_rows, is_unique
from deltamark.dataflow.plan import terms
from deltamark.dataflow.plan.direct_keys import is_direct
from deltamark.dataflow.plan.terms import Coalesce, Ratio, Term, subterms
from deltamark.dataflow.scalars.evaluator import condition, evaluate
from deltamark.dataflow.scalars.expressions import (
    Call,
    Cast,
    Column,
    Comparator,
    Comparison,
    Constant,
    Expression,
    Shifted,
)
from deltamark.dataflow.scalars.functions import ADD, DIVIDE, MULTIPLY, SUBTRACT
from deltamark.dataflow.scalars.values import Truth, cell_of, terms_of, value_of
from deltamark.dataflow.sql.algebra.join_tree import Existence, number_of
from deltamark.dataflow.sql.algebra.operations import EQUALITIES, ElementColumn
from deltamark.dataflow.sql.rows.rows import Rows
from deltamark.dataflow.types import LARGEST

OTHER_SHARE = 0.3
"""The share of pairs that satisfy a condition other than an equality."""

EXISTENCE_SHARE = 0.5
"""The share of rows that a semijoin or an antijoin keeps."""

HASHED_COST, PAIRING_COST = 2.5, 8.0
"""The cost of a row that an index of hashed keys stores, and of one whose partners are found by other conditions than
equalities; 1 is the cost of a row in an index of direct keys, or in a result. None of these numbers is tuned."""


CANNOT_JOIN = 3
"""The distance of sets of elements of which one lacks what a semijoin or an antijoin reads."""

ARITHMETIC = (ADD, SUBTRACT, MULTIPLY, DIVIDE)

Of = Expression[ElementColumn]


class _Classes:
    """Classes of equal values. A class that grows becomes the last one."""

    def __init__(self) -> None:
        self._values: dict[int, list[Of]] = {}
        self._class_of: dict[object, int] = {}
        self._next = count()

    @property
    def members(self) -> list[list[Of]]:
        return list(self._values.values())

    def unite(self, left: Of, right: Of) -> None:
        """Make two values equal, and with them all that are equal to them."""
        together = [left, right]
        for old in sorted({self._class_of[key] for key in map(_identity, together) if key in self._class_of}):
            together += self._values.pop(old)
        members: dict[object, Of] = {}
        for each in together:
            members.setdefault(_identity(each), each)
        new = next(self._next)
        self._values[new] = list(members.values())
        self._class_of.update(dict.fromkeys(members, new))


def _identity(of: Of) -> object:
    """Return what is the same for two expressions if they are one, or the same column."""
    return of.key if isinstance(of, Column) else f"computed {id(of)}"


class JoinGraph:
    """Sets of elements are integers, whose bits are the numbers of elements."""

    def __init__(
        self, elements: Sequence[Rows], existences: Sequence[Existence | None], conditions: Sequence[Of]
    ) -> None:
        self.elements = list(elements)
        self.existences = existences
        self._conditions: list[Of] = []
        """Conditions on several elements other than equalities."""
        united = _Classes()
        own: dict[int, list[Of]] = defaultdict(list)
        for each in conditions:
            if each.elements.bit_count() <= 1:
                own[max(number_of(each.elements), 0)].append(each)
            elif _equates(each) and all(side.elements.bit_count() == 1 for side in each.parts):
                united.unite(*each.parts)
            else:
                self._conditions.append(each)
        self._classes = united.members
        """Values of different elements that are all equal."""
        for number, of in own.items():
            self._filter(number, *of)
        self._compare_within_elements()
        self._connected = [reduce(int.__or__, (each.elements for each in members)) for members in self._classes]
        """The elements of each class."""
        self._sizes = [expected_rows(each.collection.node) for each in self.elements]
        self._known_sizes: dict[int, float] = {}
        self.distance, self.is_valid = cache(self._distance), cache(self._is_valid)
        self._term, self._range = cache(self._evaluated), cache(self._bounded)

    def _filter(self, number: int, *conditions: Of) -> None:
        """Apply conditions to their only element."""

        def truth(of: Of, rows: Rows) -> Truth:
            return condition(of, lambda key: rows.cells[key[1]])

        self.elements[number] = self.elements[number].where_each(partial(truth, each) for each in conditions)

    def _compare_within_elements(self) -> None:
        """Keep one value of each element in a class, after comparing it with the element's others."""
        for members in self._classes:
            first: dict[int, Of] = {}
            for each in list(members):
                other = first.setdefault(each.elements, each)
                if other is not each:
                    self._filter(number_of(each.elements), _equality(other, each))
                    members.remove(each)

    def computed_early(self, of: Of) -> Of:
        """Compute an expression before the joins, if it reads one element; return the column that replaces it.

        Arithmetic is left to the engine, which stores fewer columns where it can.
        """
        reads = of.elements
        if len(self.elements) == 1 or reads.bit_count() != 1 or _is_late(of):
            return of
        number = number_of(reads)
        rows = self.elements[number]
        cell = evaluate(of, lambda key: rows.cells[key[1]])
        terms = terms_of(cell)
        if any(term.may_fail and not _is_computed(rows.collection.node, term) for term in terms) or len(terms) != 1:
            return of
        rows, (name,) = rows.as_columns([cell], "early")
        stored = cell_of(name, cell, rows.types)
        self.elements[number] = rows.with_cells((*rows.cells, stored))
        return Column((number, len(rows.cells)))

    def _existence(self, elements: int) -> Existence | None:
        """Return the semijoin or antijoin that the only element of a set is."""
        return self.existences[number_of(elements)] if elements.bit_count() == 1 else None

    def _is_valid(self, elements: int) -> bool:
        """Return whether a set is one element, or has what all its semijoins and antijoins read."""
        return elements.bit_count() == 1 or all(
            each is None or not each.reads & ~elements for each in (self.existences[at] for at in _numbers(elements))
        )

    def conditions(self, left: int, right: int) -> list[Of]:
        """Return the conditions of the join of two sets, of which the right one may be a semijoin or an antijoin."""
        existence = self._existence(right)
        if existence is not None:
            return list(existence.conditions)
        others = [each for each in self._conditions if _completes(each.elements, left, right)]
        return [*self._equalities(left, right), *others]

    def _equalities(self, left: int, right: int) -> Iterator[Of]:
        for members, elements in zip(self._classes, self._connected, strict=True):
            if elements & left and elements & right:
                mine, theirs = (next(each for each in members if each.elements & side) for side in (left, right))
                yield _equality(mine, theirs)

    def _distance(self, left: int, right: int) -> int:
        """Return 0 if an equality connects two sets, 1 if another condition does, 2 if none does; CANNOT_JOIN."""
        if not (self.is_valid(left) and self.is_valid(right)) or self._existence(left) is not None:
            return CANNOT_JOIN
        existence = self._existence(right)
        if existence is not None:
            return CANNOT_JOIN if existence.reads & ~left else 0
        if any(each & left and each & right for each in self._connected):
            return 0
        return 1 if any(_completes(each.elements, left, right) for each in self._conditions) else 2

    def cost(self, left: int, right: int) -> float:
        """Estimate the rows that a join stores and emits, without those that it stores of single elements."""
        conditions = self.conditions(left, right)
        equal = [each for each in conditions if isinstance(each, Comparison) and each.comparator in EQUALITIES]
        result = self.size(left | right)
        if self._existence(right) is not None:
            each_row = HASHED_COST if len(equal) == len(conditions) else PAIRING_COST
            return self.size(left) * each_row + result
        return result + sum(self._stored(side, equal) for side in (left, right))

    def _stored(self, side: int, equal: Sequence[Of]) -> float:
        """Return the cost of the index of one side; in an index of direct keys, single elements cost nothing."""
        keys = [arg for each in equal for arg in each.parts if not arg.elements & ~side]
        rows = max(self.elements[at].collection.schema.rows for at in _numbers(side))
        direct = is_direct(min(math.prod(map(self._range, keys)), LARGEST), rows)
        return self.size(side) * ((side.bit_count() > 1) if direct else HASHED_COST)

    def size(self, elements: int) -> float:
        """Estimate the rows of a join, once."""
        if elements not in self._known_sizes:
            self._known_sizes[elements] = self._size(elements)
        return self._known_sizes[elements]

    def size_from_sides(self, left: int, right: int) -> None:
        """Estimate the rows of a join by the sizes of its two sides alone, unless its size is known.

        The number of sets that `size` visits doubles with each element.
        """
        if left | right not in self._known_sizes:
            sides = [(left, right)] if self._existence(right) is not None else [(left, right), (right, left)]
            self._known_sizes[left | right] = max(self._joined_size(*each) for each in sides)

    def _size(self, elements: int) -> float:
        """Estimate the rows of a join: the most over the elements that may be joined last."""
        if elements.bit_count() == 1:
            return max(self._sizes[number_of(elements)], 1.0)
        last = [1 << at for at in _numbers(elements)]
        distance = {each: self.distance(elements & ~each, each) for each in last}
        nearest = min(distance.values())
        return max(self._joined_size(elements & ~each, each) for each in last if distance[each] == nearest)

    def _joined_size(self, left: int, right: int) -> float:
        """Estimate the rows of a join. The key of a right element has as many values as the element has rows."""
        if self._existence(right) is not None:
            return self.size(left) * EXISTENCE_SHARE
        distinct: dict[int, dict[str, float]] = defaultdict(dict)
        for at, members in enumerate(self._classes):
            if self._connected[at] & left and self._connected[at] & right:
                ours, theirs = ([each for each in members if each.elements & side] for side in (left, right))
                fewest = (min(map(self._distinct, side)) for side in (ours, theirs))
                distinct[theirs[0].elements][self._column(theirs[0]) or f"class {at}"] = max(fewest)
        values = math.prod(self._combinations(element, counts) for element, counts in distinct.items())
        conditions = sum(_completes(each.elements, left, right) for each in self._conditions)
        return max(self.size(left) * self.size(right) / values * OTHER_SHARE**conditions, 1.0)

    def _combinations(self, element: int, distinct: Mapping[str, float]) -> float:
        """Estimate the combinations of values of some columns of an element. distinct: the values of each column."""
        rows = self.elements[number_of(element)].collection
        key = _key_of(rows.node, list(distinct))
        values = math.prod(count for name, count in distinct.items() if name not in key)
        return values * rows.schema.rows if key else values

    def _evaluated(self, of: Of) -> Term | Ratio:
        cells = self.elements[number_of(of.elements)].cells
        return value_of(evaluate(of, lambda key: cells[key[1]])).term

    def _column(self, of: Of) -> str | None:
        """Return the stored column that an expression is, perhaps with a value for NULL; None if it is computed."""
        term = self._term(of)
        if isinstance(term, Coalesce):
            term = term.value
        return term.name if isinstance(term, terms.Column) else None

    def _distinct(self, of: Of) -> float:
        """Estimate the number of different values of an expression."""
        return min(self.elements[number_of(of.elements)].collection.schema.rows, self._range(of))

    def _bounded(self, of: Of) -> int:
        """Return the number of values that an expression may have, by its bounds."""
        if of.elements.bit_count() != 1:
            return LARGEST
        term = self._term(of)
        return LARGEST if isinstance(term, Ratio) else term.type.high - term.type.low + 1


def _is_computed(node: Node, term: Term) -> bool:
    """Return whether a filter computes a term for each of its rows, and so cannot fail to."""
    while isinstance(node, Project):
        node = node.rows
    return isinstance(node, Filter) and any(each is term for each in subterms(node.condition))


def _equality(left: Of, right: Of) -> Of:
    return Comparison(Comparator.EQUAL, left, right)


def _equates(of: Of) -> bool:
    return isinstance(of, Comparison) and of.comparator is Comparator.EQUAL


def _is_late(of: Of) -> bool:
    """Return whether an expression is not computed before a join."""
    return isinstance(of, Column | Constant | Cast | Shifted) or (isinstance(of, Call) and of.function in ARITHMETIC)


def _completes(reads: int, left: int, right: int) -> bool:
    """Return whether the join of two sets is the first that has all elements which a condition reads."""
    return not reads & ~(left | right) and bool(reads & ~left) and bool(reads & ~right)


def _numbers(elements: int) -> list[int]:
    return [at for at in range(elements.bit_length()) if elements & 1 << at]


def _key_of(node: Node, names: list[str]) -> list[str]:
    """Return the fewest of some columns that determine a row; none if all together do not."""
    if not is_unique(node, names):
        return []
    for each in list(names):
        fewer = [name for name in names if name != each]
        if is_unique(node, fewer):
            names = fewer
    return names
