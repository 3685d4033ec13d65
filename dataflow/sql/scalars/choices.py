"""Choices between values: CASE, COALESCE, and the larger or smaller value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from deltamark.dataflow.plan.terms import Ratio, Term
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
    assert isinstance(yes.term, Term)
    assert isinstance(no.term, Term)
    if yes.null is TRUE:
        return Value(no.term, missing)
    return Value(yes.term if no.null is TRUE else chosen(test, yes.term, no.term), missing)


def case_of(tests: Sequence[Truth], results: Sequence[Cell]) -> Cell:
    """Return the result of the first test that is true; the last result is that of ELSE."""
    if all(isinstance(each, Truth) for each in results):
        return _case_of_truths(tests, [truth_of(each) for each in results])
    values = unified_values([value_of(each) for each in results])
    if values is None:
        raise unsupported("CASE with results of different kinds")
    result = values[-1]
    for test, value in zip(reversed(tests), reversed(values[:-1]), strict=True):
        result = when(surely(test.true), value, result)
    return result


def _case_of_truths(tests: Sequence[Truth], results: Sequence[Truth]) -> Truth:
    result = results[-1]
    for test, value in zip(reversed(tests), reversed(results[:-1]), strict=True):
        holds, fails = test.true, negated(test.true)
        true = either(both(holds, value.true), both(fails, result.true))
        false = either(both(holds, value.false), both(fails, result.false))
        result = Truth(true, false, value.total and result.total)
    return result


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
        raise unsupported(f"{of.op} of values of different kinds", of.place)
    return reduce(partial(_better, largest=largest), same)


def _better(one: Value, other: Value, *, largest: bool) -> Value:
    less = is_less(one, other)
    takes_other = either(both(less if largest else negated(less), negated(other.null)), one.null)
    result = when(surely(takes_other), replace(other, null=None), replace(one, null=None))
    return replace(result, null=both(one.null, other.null))
