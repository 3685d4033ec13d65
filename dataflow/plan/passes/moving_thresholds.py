"""Moving thresholds: the pass that replaces a comparison of joined rows with the one limit of their group.

`lines.join(means, on="part").where(col.quantity < col.mean)` keeps the lines of each part in order of quantity instead
of joining them, if each part has at most one mean and the result needs no column of `means`. When a mean moves, only
the lines between its old and its new value are touched.

The pass takes plans by name and returns plans. It visits each node once; its cost is that of pruning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from deltamark.dataflow.plan.nodes import Filter, Join, MovingThreshold, Node, Project
from deltamark.dataflow.plan.passes.pruning import prune
from deltamark.dataflow.plan.terms import Term, all_of, column, conjuncts, product, shifted, substituted
from deltamark.dataflow.plan.weights import is_multiset, is_unique
from deltamark.dataflow.types import LARGEST, Field, Schema


def with_moving_thresholds(plans: Mapping[str, Node]) -> Mapping[str, Node]:
    """Replace the comparisons that a moving threshold can maintain."""
    pruned = prune(plans)
    new: dict[Node, Node] = {}
    for node in pruned.nodes:
        inputs = [new.get(each, each) for each in node.inputs]
        new[node] = node if inputs == list(node.inputs) else node.with_inputs(inputs)
        if isinstance(node, Filter) and node not in pruned.looping:
            new[node] = _as_threshold(new[node], pruned.columns[node]) or new[node]
    return {name: new[plan] for name, plan in plans.items()}


@dataclass(frozen=True)
class _Sides:
    """The two sides of a join: rows, and the limits that they are compared with.

    row_terms, limit_terms: the columns of each side, by their names in the join.
    """

    rows: Node
    limits: Node
    row_keys: tuple[str, ...]
    limit_keys: tuple[str, ...]
    row_terms: Mapping[str, Term]
    limit_terms: Mapping[str, Term]

    def are_rows(self, term: Term) -> bool:
        """Return whether a term is computed from the rows alone."""
        return term.columns <= self.row_terms.keys()

    def are_limits(self, term: Term) -> bool:
        """Return whether a term is computed from the limits alone."""
        return bool(term.columns) and term.columns <= self.limit_terms.keys()


@dataclass(frozen=True)
class _Comparison:
    """The condition that value * denominator is above or below the numerator."""

    value: Term
    which: Literal["above", "below"]
    numerator: Term
    denominator: Term | None


def _sides(join: Join) -> Iterator[_Sides]:
    """Yield the sides of a join in both roles."""
    left = {name: column(name, join.left.schema[name]) for name in join.left.schema.names}
    rest = [name for name in join.right.schema.names if name not in join.right_keys]
    right = {name: column(name, join.right.schema[name]) for name in rest}
    yield _Sides(join.left, join.right, join.left_keys, join.right_keys, left, right)
    keys = zip(join.left_keys, join.right_keys, strict=True)
    right |= {mine: column(theirs, join.right.schema[theirs]) for mine, theirs in keys}
    left = {name: term for name, term in left.items() if name not in join.left_keys}
    yield _Sides(join.right, join.left, join.right_keys, join.left_keys, right, left)


def _as_threshold(node: Node, required: Sequence[str]) -> Node | None:
    """Return the moving threshold with the required columns of a filtered join, if there is one."""
    if not isinstance(node, Filter) or not isinstance(node.rows, Join):
        return None
    for sides in _sides(node.rows):
        if (
            set(required) <= sides.row_terms.keys()
            and is_unique(sides.limits, sides.limit_keys)
            and not is_unique(sides.rows, sides.row_keys)  # with one row in each group, a join does the same
            and is_multiset(sides.rows)
        ):
            result = _threshold_of(sides, conjuncts(node.condition), required)
            if result is not None:
                return result
    return None


def _threshold_of(sides: _Sides, conditions: Sequence[Term], required: Sequence[str]) -> Node | None:
    """Filter both sides by the conditions on each alone, and keep the rows by the one that compares them."""
    comparisons = [each for each in conditions if not sides.are_rows(each) and not sides.are_limits(each)]
    comparison = _comparison(sides, comparisons[0]) if len(comparisons) == 1 else None
    if comparison is None:
        return None
    rows = _filtered(sides.rows, [each for each in conditions if sides.are_rows(each)], sides.row_terms)
    limits = _filtered(sides.limits, [each for each in conditions if sides.are_limits(each)], sides.limit_terms)
    limits, numerator, denominator = _limit_columns(sides, limits, comparison)
    value = substituted(comparison.value, sides.row_terms)
    threshold = MovingThreshold(
        rows, limits, sides.row_keys, sides.limit_keys, value, comparison.which, numerator, denominator,
        schema=rows.schema,
    )  # fmt: skip
    terms = {name: sides.row_terms[name] for name in required}
    return threshold if all(name == term.value for name, term in terms.items()) else _projected(threshold, terms)


def _filtered(node: Node, conditions: Sequence[Term], terms: Mapping[str, Term]) -> Node:
    if not conditions:
        return node
    return Filter(node, substituted(all_of(conditions), terms), schema=node.schema)


def _limit_columns(sides: _Sides, limits: Node, comparison: _Comparison) -> tuple[Node, str, str]:
    """Return the limits, and the names of the numerator and the denominator in them; compute what is no column."""
    parts = {"numerator": comparison.numerator, "denominator": comparison.denominator}
    terms = {name: substituted(each, sides.limit_terms) for name, each in parts.items() if each is not None}
    if any(term.op != "column" for term in terms.values()):
        keys = {name: column(name, limits.schema[name]) for name in sides.limit_keys}
        computed = {_unused(name, keys): term for name, term in terms.items()}
        limits = _projected(limits, {**keys, **computed})
        terms = {name: column(each, term.type) for (name, term), each in zip(terms.items(), computed, strict=True)}
    return limits, terms["numerator"].value, terms["denominator"].value if "denominator" in terms else ""


def _projected(node: Node, terms: Mapping[str, Term]) -> Node:
    fields = tuple(Field(name, term.type) for name, term in terms.items())
    return Project(node, tuple(terms.items()), schema=Schema(fields, node.schema.rows))


def _unused(name: str, others: Collection[str]) -> str:
    return _unused(f"{name}'", others) if name in others else name


def _comparison(sides: _Sides, condition: Term) -> _Comparison | None:
    """Read a condition as a comparison of a value of the rows with a limit."""
    is_strict = condition.op != "not"
    less = condition if is_strict else condition.args[0]
    if less.op != "less":
        return None
    low, high = less.args if is_strict else reversed(less.args)
    if any(each.type.kind != "int" or each.type.nullable for each in (low, high)):
        return None
    if (
        not is_strict
        and max(abs(bound) for each in (low, high) for bound in (each.type.low, each.type.high)) == LARGEST
    ):
        return None
    if sides.are_limits(high):
        return _with_factors(sides, low, "below", shifted(high, 0 if is_strict else 1))
    if sides.are_limits(low):
        return _with_factors(sides, high, "above", shifted(low, 0 if is_strict else -1))
    return None


def _with_factors(sides: _Sides, scaled: Term, which: Literal["above", "below"], numerator: Term) -> _Comparison | None:
    """Divide a product into the value of the rows and the denominator of the limits."""
    factors = list(_factors(scaled))
    values = [each for each in factors if sides.are_rows(each)]
    denominators = [each for each in factors if sides.are_limits(each)]
    if len(values) + len(denominators) < len(factors) or not any(each.columns for each in values):
        return None
    denominator = reduce(product, denominators) if denominators else None
    if denominator is not None and denominator.type.low < 1:
        return None
    value = reduce(product, values) if denominators else scaled
    return _Comparison(value, which, numerator, denominator)


def _factors(term: Term) -> Iterator[Term]:
    if term.op != "multiply":
        yield term
        return
    for arg in term.args:
        yield from _factors(arg)
