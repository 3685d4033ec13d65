"""Choices between values: CASE, COALESCE, and the larger or smaller value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TypeVar

from deltamark.dataflow.plan.terms import LONGEST_CHAIN, Ratio, Term, balanced
from deltamark.dataflow.sql.algebra.operations import Expression
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.scalars.comparisons import is_less
from deltamark.dataflow.sql.scalars.conditions import FALSE, TRUE, both, either, negated, surely
from deltamark.dataflow.sql.scalars.values import Cell, Truth, Value, chosen, truth_of, unified_values, value_of


def when(test: Term, yes: Value, no: Value) -> Value:
    """Return one of two values of the same kind."""
    if test is TRUE or test is FALSE:
        return yes if test is TRUE else no
    otherwise = no.null if yes.null is TRUE else both(negated(test), no.null)
    missing = either(both(test, yes.null), otherwise)
    if isinstance(yes.term, Ratio) and isinstance(no.term, Ratio):
        above = chosen(test, yes.term.numerator, no.term.numerator)
        return Value(Ratio(above, chosen(test, yes.term.denominator, no.term.denominator)), missing)
    assert not isinstance(yes.term, Ratio)
    assert not isinstance(no.term, Ratio)
    if yes.null is TRUE:
        return Value(no.term, missing)
    return Value(yes.term if no.null is TRUE else chosen(test, yes.term, no.term), missing)


def case_of(tests: Sequence[Truth], results: Sequence[Cell]) -> Cell:
    """Return the result of the first test that is true; the last result is that of ELSE."""
    if all(isinstance(each, Truth) for each in results):
        return _first_of(tests, [truth_of(each) for each in results], _chosen_truth)
    values = unified_values([value_of(each) for each in results])
    if values is None:
        raise unsupported("CASE with results of different kinds")
    return _first_of(tests, values, lambda test, yes, no: when(surely(test), yes, no))


Result = TypeVar("Result")
Branch = tuple[Term | None, Result]
"""A test, and the result if it is true."""

Choose = Callable[[Term | None, Result, Result], Result]


def _first_of(tests: Sequence[Truth], results: Sequence[Result], choose: Choose[Result]) -> Result:
    """Choose the result of the first true test, or the last result.

    Many tests become a balanced tree, in which the left half of the results is chosen if one of its tests is true.
    """

    def first(one: Branch[Result], other: Branch[Result]) -> Branch[Result]:
        return either(one[0], other[0]), choose(one[0], one[1], other[1])

    *others, result = results
    branches = [(test.true, each) for test, each in zip(tests, others, strict=True)]
    for test, each in [balanced(branches, first)] if len(branches) > LONGEST_CHAIN else reversed(branches):
        result = choose(test, each, result)
    return result


def _chosen_truth(test: Term | None, yes: Truth, no: Truth) -> Truth:
    fails = negated(test)
    true = either(both(test, yes.true), both(fails, no.true))
    false = either(both(test, yes.false), both(fails, no.false))
    return Truth(true, false, yes.total and no.total)


def first_known(first: Cell, second: Cell) -> Cell:
    """Return the first value, or the second one where the first is NULL."""
    missing = first.nulls
    if missing is None:
        return first
    if isinstance(first, Truth) and isinstance(second, Truth):
        true = either(first.true, both(missing, second.true))
        false = either(first.false, both(missing, second.false))
        return Truth(true, false, second.total)
    values = unified_values([value_of(first), value_of(second)])
    if values is None:
        raise unsupported("coalesce of values of different kinds")
    return when(negated(missing), replace(values[0], null=None), values[1])


def best_of(of: Expression, *given: Value, largest: bool) -> Value:
    """Return the largest or the smallest of several values, without those that are NULL."""
    same = unified_values(given)
    if same is None:
        raise unsupported(f"{of.name} of values of different kinds")
    return reduce(partial(_better, largest=largest), same)


def _better(one: Value, other: Value, *, largest: bool) -> Value:
    less = is_less(one, other)
    takes_other = either(both(less if largest else negated(less), negated(other.null)), one.null)
    result = when(surely(takes_other), replace(other, null=None), replace(one, null=None))
    return replace(result, null=both(one.null, other.null))
