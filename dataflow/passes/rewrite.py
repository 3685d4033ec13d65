"""Rewriting: the first pass replaces parts of plans by others with the same result, which cost less to maintain.

**Moving thresholds.** `lines.join(means, on="part").where(col.quantity < col.mean)` keeps the lines of each part in
order of quantity instead of joining them, if each part has at most one mean and the result needs no column of `means`.
When a mean moves, only the lines between its old and its new value are touched. The cost is that of pruning.

**Counted rows.** See `repeats.py`.

**Early terms.** `lines.join(orders, on="order").aggregate(by="day", revenue=(col.price * (1 - col.discount)).sum())`
stores one product for each line in the arrangement of the join, instead of a price and a discount. The rule repeats
until no term moves, because a term may cross several joins, and its parts may cross more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

from deltamark.dataflow.operators.aggregate import Aggregate
from deltamark.dataflow.operators.interning import term_digest
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Filter, Project, is_multiset
from deltamark.dataflow.operators.moving_threshold import MovingThreshold
from deltamark.dataflow.operators.node import Node, is_unique
from deltamark.dataflow.passes.prune import prune
from deltamark.dataflow.passes.repeats import with_counted_rows
from deltamark.dataflow.passes.settle import settled
from deltamark.dataflow.plan.memo import kept
from deltamark.dataflow.plan.term_sql import sql
from deltamark.dataflow.plan.terms import (
    Add,
    Column,
    Constant,
    Less,
    Multiply,
    Not,
    Subtract,
    Term,
    all_of,
    column,
    number,
    product,
    replaced,
    shifted,
    substituted,
    total,
)
from deltamark.dataflow.scalars.values import requirements
from deltamark.dataflow.types import LARGEST, Field, Schema


def rewrite(plans: Mapping[str, Node]) -> Mapping[str, Node]:
    """Rewrite plans, which are given and returned by name."""
    return settled(_with_early_terms(with_counted_rows(_with_moving_thresholds(plans))))


def _with_moving_thresholds(plans: Mapping[str, Node]) -> Mapping[str, Node]:
    """Replace the comparisons that a moving threshold can maintain."""
    pruned = prune(plans)

    def compared(old: Node, node: Node) -> Node:
        return node if old in pruned.looping else _as_threshold(node, pruned.columns[old]) or node

    return pruned.replaced(compared)


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
            result = _threshold_of(sides, requirements(node.condition), required)
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
    is_whole = all(isinstance(term, Column) and name == term.name for name, term in terms.items())
    return threshold if is_whole else _projected(threshold, terms)


def _filtered(node: Node, conditions: Sequence[Term], terms: Mapping[str, Term]) -> Node:
    if not conditions:
        return node
    return Filter(node, substituted(all_of(conditions), terms), schema=node.schema)


def _limit_columns(sides: _Sides, limits: Node, comparison: _Comparison) -> tuple[Node, str, str]:
    """Return the limits, and the names of the numerator and the denominator in them; compute what is no column."""
    parts = {"numerator": comparison.numerator, "denominator": comparison.denominator}
    terms = {name: substituted(each, sides.limit_terms) for name, each in parts.items() if each is not None}
    names = {name: term.name for name, term in terms.items() if isinstance(term, Column)}
    if len(names) < len(terms):
        keys = {name: column(name, limits.schema[name]) for name in sides.limit_keys}
        names = {name: _unused(name, keys) for name in terms}
        limits = _projected(limits, {**keys, **{names[name]: term for name, term in terms.items()}})
    return limits, names["numerator"], names.get("denominator", "")


def _projected(node: Node, terms: Mapping[str, Term]) -> Node:
    fields = tuple(Field(name, term.type) for name, term in terms.items())
    return Project(node, tuple(terms.items()), schema=Schema(fields, node.schema.rows))


def _unused(name: str, others: Collection[str]) -> str:
    return _unused(f"{name}'", others) if name in others else name


def _comparison(sides: _Sides, condition: Term) -> _Comparison | None:
    """Read a condition as a comparison of a value of the rows with a limit."""
    match condition:
        case Less(low, high):
            is_strict = True
        case Not(Less(high, low)):
            is_strict = False
        case _:
            return None
    if any(each.type.nullable or not _is_number(each) for each in (low, high)):
        return None
    if low.type.kind == "double":
        low, high = map(_in_order, (low, high))
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


def _is_number(term: Term) -> bool:
    """Return whether a term is a number, or a double that can be computed for any row."""
    return term.type.kind == "int" or (term.type.kind == "double" and not term.may_fail)


def _in_order(of: Term) -> Term:
    """Return the number that stores a double: these numbers are in the order of the doubles."""
    return total(of, number(0))


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
    if not isinstance(term, Multiply):
        yield term
        return
    yield from _factors(term.left)
    yield from _factors(term.right)


def _with_early_terms(plans: Mapping[str, Node]) -> Mapping[str, Node]:
    """Compute terms below joins where that saves columns."""
    pruned = prune(plans)

    def with_early(old: Node, node: Node) -> Node:
        return node if old in pruned.looping else _with_terms_below(node, pruned.columns[old])

    result = pruned.replaced(with_early)
    return plans if result == plans else _with_early_terms(result)


def _with_terms_below(node: Node, required: Sequence[str]) -> Node:
    """Move terms of a projection or an aggregate below the join that it reads."""
    match node:
        case Project():
            early = _early_terms(node.rows, [node.terms[name] for name in required])
            columns = tuple((name, replaced(term, early)) for name, term in node.columns)
            return replace(node, rows=_with_columns(node.rows, early), columns=columns) if early else node
        case Aggregate():
            keys = [column(name, node.rows.schema[name]) for name in node.keys]
            early = _early_terms(node.rows, [*keys, *node.terms])
            sums = tuple(replace(each, term=each.term and replaced(each.term, early)) for each in node.sums)
            return replace(node, rows=_with_columns(node.rows, early), sums=sums) if early else node
    return node


def _early_terms(rows: Node, terms: Sequence[Term]) -> Mapping[Term, Column]:
    """Return the terms that are worth computing before the join, each with the column that replaces it."""
    conditions = []
    join = rows
    while isinstance(join, Filter):
        conditions.append(join.condition)
        join = join.rows
    if not isinstance(join, Join):
        return {}
    early = {each: Column(_name(each), each.type) for term in terms for each in _of_one_side(join, term)}
    before = _columns([*terms, *conditions])
    after = _columns([*(replaced(term, early) for term in terms), *conditions])
    return early if len(after) < len(before) else {}


def _name(term: Term) -> str:
    """Return a name that no other column has: the text of a term does not tell all terms apart."""
    return f"{term_digest(term)}\0{sql(term)}"


def _columns(terms: Iterable[Term]) -> frozenset[str]:
    return frozenset[str]().union(*(each.columns for each in terms))


def _of_one_side(join: Join, term: Term) -> Iterator[Term]:
    """Yield the largest parts of a term that are arithmetic on several columns of one side."""
    remaining, seen = [term], set[Term]()
    while remaining:
        part = remaining.pop()
        if part in seen:
            continue
        seen.add(part)
        if len(part.columns) > 1 and _is_arithmetic(part) and _side(join, part) is not None:
            yield part
        else:
            remaining += reversed(part.args)


@kept
def _is_arithmetic(term: Term) -> bool:
    if isinstance(term, Column | Constant):
        return term.type.kind == "int" and not term.type.nullable
    return isinstance(term, Add | Subtract | Multiply) and all(map(_is_arithmetic, term.args))


def _side(join: Join, term: Term) -> int | None:
    """Return the side of a join that has all columns of a term."""
    if term.columns <= set(join.left.schema.names):
        return 0
    return 1 if term.columns <= set(join.right.schema.names) - {*join.right_keys} else None


def _with_columns(rows: Node, early: Mapping[Term, Column]) -> Node:
    for term, new in early.items():
        rows = _with_column(rows, new.name, term)
    return rows


def _with_column(rows: Node, name: str, term: Term) -> Node:
    """Compute a term below the joins whose one side has all of its columns, as an additional column."""
    if name in rows.schema:
        return rows
    schema = Schema((*rows.schema.fields, Field(name, term.type)), rows.schema.rows)
    match rows:
        case Filter(rows=Join() | Filter()):
            return replace(rows, rows=_with_column(rows.rows, name, term), schema=schema)
        case Join() if _side(rows, term) == 0:
            return replace(rows, left=_with_column(rows.left, name, term), schema=schema)
        case Join() if _side(rows, term) == 1:
            return replace(rows, right=_with_column(rows.right, name, term), schema=schema)
        case Project():
            return replace(rows, columns=(*rows.columns, (name, substituted(term, rows.terms))), schema=schema)
    copies = tuple((each, column(each, rows.schema[each])) for each in rows.schema.names)
    return Project(rows, (*copies, (name, term)), schema=schema)
