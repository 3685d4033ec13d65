"""The order of joins: the tree that stores and emits the fewest rows, by estimates.

An incremental join stores both sides and emits each pair when it appears. So over a whole stream, a tree of joins works
on about as many rows as its inputs and its intermediate results have at the end. A semijoin or an antijoin may come
before a join or after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from deltamark.dataflow.scalars.expressions import Column, Expression
from deltamark.dataflow.sql.algebra.operations import ElementColumn
from deltamark.dataflow.sql.rows.existence import matching, without_match
from deltamark.dataflow.sql.rows.join_graph import CANNOT_JOIN, JoinGraph
from deltamark.dataflow.sql.rows.joins import pairs
from deltamark.dataflow.sql.rows.rows import Rows

MOST_ELEMENTS = 9
"""The elements up to which all trees are compared: at most 3^9 ways to divide a set in two. Above it, each step makes
the join that costs least, and n elements have fewer than 2 n^2 joins to estimate."""


@dataclass(frozen=True)
class _Part:
    """The join of some elements, and the columns of the elements in their order."""

    elements: int
    rows: Rows
    keys: tuple[ElementColumn, ...]


def joined(graph: JoinGraph) -> tuple[Rows, Callable[[ElementColumn], Expression[int]]]:
    """Join all elements in the best order. Return the rows, and what replaces an element's column in expressions."""
    ordering = _Ordering(graph)
    part = ordering.best_tree() if len(graph.elements) <= MOST_ELEMENTS else ordering.greedy_tree()
    at = {key: Column(position) for position, key in enumerate(part.keys)}
    return part.rows, at.__getitem__


class _Ordering:
    def __init__(self, graph: JoinGraph) -> None:
        self._graph = graph
        self._best, self._price = cache(self._best_split), cache(self._priced)

    def best_tree(self) -> _Part:
        return self._made((1 << len(self._graph.elements)) - 1)

    def greedy_tree(self) -> _Part:
        parts = [self._element(at) for at in range(len(self._graph.elements))]
        while len(parts) > 1:
            ways = [(one, other) for one in parts for other in parts if one is not other]
            left, right = min(ways, key=lambda way: self._price(way[0].elements, way[1].elements))
            parts = [each for each in parts if each not in (left, right)] + [self._pair(left, right)]
        return parts[0]

    def _priced(self, left: int, right: int) -> tuple[int, float, int]:
        """Return what a step of the greedy search makes as small as it can."""
        distance = self._graph.distance(left, right)
        if distance == CANNOT_JOIN:
            return distance, 0.0, left
        self._graph.size_from_sides(left, right)
        return distance, self._graph.cost(left, right), left

    def _best_split(self, elements: int) -> tuple[float, int]:
        """Return the cost of the best tree, and the elements of its left side."""
        if elements.bit_count() == 1:
            return 0.0, elements
        graph, choices = self._graph, []
        for left in _parts(elements):
            right = elements & ~left
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

    def _made(self, elements: int) -> _Part:
        if elements.bit_count() == 1:
            return self._element(elements.bit_length() - 1)
        left = self._best(elements)[1]
        return self._pair(self._made(left), self._made(elements & ~left))

    def _element(self, number: int) -> _Part:
        rows = self._graph.elements[number]
        return _Part(1 << number, rows, tuple((number, each) for each in range(len(rows.cells))))

    def _pair(self, left: _Part, right: _Part) -> _Part:
        keys = (*left.keys, *right.keys)
        at = {key: Column(position) for position, key in enumerate(keys)}
        conditions = [
            each.with_columns(at.__getitem__) for each in self._graph.conditions(left.elements, right.elements)
        ]
        elements = left.elements | right.elements
        existence = self._graph.existences[right.elements.bit_length() - 1] if right.elements.bit_count() == 1 else None
        if existence is None:
            return _Part(elements, pairs(left.rows, right.rows, conditions), keys)
        if existence.join.kind == "SEMI":
            return _Part(elements, matching(left.rows, right.rows, conditions)[1], left.keys)
        knows_null = existence.join.knows_null
        return _Part(elements, without_match(left.rows, right.rows, conditions, knows_null=knows_null), left.keys)


def _parts(elements: int) -> Iterator[int]:
    """Yield the subsets of a set that are neither empty nor the whole."""
    subset = (elements - 1) & elements
    while subset:
        yield subset
        subset = (subset - 1) & elements
