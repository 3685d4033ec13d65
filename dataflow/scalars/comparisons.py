"""Comparisons of values, lists of values, and choices between values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TypeAlias, TypeVar

from deltamark.dataflow.plan.terms import (
    FALSE,
    LONGEST_CHAIN,
    TRUE,
    And,
    Coalesce,
    Constant,
    Equal,
    IsNull,
    Less,
    Lookup,
    Match,
    Member,
    Ratio,
    Term,
    aligned,
    balanced,
    coalesced,
    negative,
    number,
    product,
    quotient,
)
from deltamark.dataflow.plan.terms import disjunction as any_of
from deltamark.dataflow.scalars.doubles import in_double, is_double, is_inexact
from deltamark.dataflow.scalars.expressions import Call, Comparator
from deltamark.dataflow.scalars.numbers import ONE, as_ratio, scaled
from deltamark.dataflow.scalars.problems import unsupported
from deltamark.dataflow.scalars.times import as_timestamp
from deltamark.dataflow.scalars.values import (
    Cell,
    Truth,
    Value,
    both,
    chosen,
    either,
    kind_of,
    known_count,
    negated,
    surely,
    text_term,
    truth_of,
    unified_values,
    value_of,
)
from deltamark.dataflow.types import SHORT, SHORT_BYTES, TIMESTAMPS, TOO_WIDE, Type, pack_bytes, pack_short
from deltamark.errors import DeltamarkError

Test: TypeAlias = type[Equal | Less]

TEXTS = ("text", "code", "short")


def compared(comparator: Comparator, left: Value, right: Value) -> Truth:
    """Compare two values. Quotients that cannot be compared exactly are compared as doubles."""
    try:
        return exactly_compared(comparator, left, right)
    except DeltamarkError as error:
        if not is_inexact(error, left.term, right.term):
            raise
    return exactly_compared(comparator, *(replace(each, term=in_double(each.term)) for each in (left, right)))


def exactly_compared(comparator: Comparator, left: Value, right: Value) -> Truth:
    """Compare two values, quotients by their cross products."""
    missing = either(left.null, right.null)
    if comparator in (Comparator.DISTINCT, Comparator.NOT_DISTINCT):
        equal = both(_tested(Equal, left, right), negated(missing))
        same = either(equal, both(left.null, right.null))
        return Truth.of(same if comparator is Comparator.NOT_DISTINCT else negated(same))
    if missing is TRUE:
        return Truth(None, None, total=False)
    return Truth.of(_compared(comparator, left, right), missing)


def _compared(comparator: Comparator, left: Value, right: Value) -> Term:
    """Compare the terms of two values, neither of which is NULL."""
    match comparator:
        case Comparator.EQUAL:
            return _tested(Equal, left, right)
        case Comparator.UNEQUAL:
            return negated(_tested(Equal, left, right))
        case Comparator.LESS:
            return _tested(Less, left, right)
        case Comparator.GREATER:
            return _tested(Less, right, left)
        case Comparator.AT_MOST:
            return negated(_tested(Less, right, left))
        case _:
            return negated(_tested(Less, left, right))


def _tested(test: Test, left: Value, right: Value) -> Term:
    if TRUE in (left.null, right.null):
        return FALSE
    a, b = left.term, right.term
    if is_double(a) or is_double(b):
        return test(in_double(a), in_double(b))
    if isinstance(a, Ratio) or isinstance(b, Ratio):
        return _ratios_compared(test, *(_known_ratio(each, either(left.null, right.null)) for each in (left, right)))
    if a.type.kind in TEXTS and b.type.kind in TEXTS:
        return _texts_compared(test, a, b)
    if {a.type.kind, b.type.kind} == {"date", "timestamp"}:
        return test(as_timestamp(a), as_timestamp(b))
    if a.type.comparable != b.type.comparable:
        actual = f"{a} is {a.type}, {b} is {b.type}"
        raise DeltamarkError("cannot be compared", actual, "compare values of the same type")
    return _numbers_compared(test, a, b) if a.type.kind == "int" else test(a, b)


def _numbers_compared(test: Test, a: Term, b: Term) -> Term:
    """Compare two numbers. If one has too few decimal places to be written with those of the other, that is rounded."""
    try:
        return _decided(test, *aligned(a, b))
    except DeltamarkError as error:
        if error.cause != TOO_WIDE:
            raise
    if a.type.scale > b.type.scale:
        below, above = _whole(a, b.type.scale)
        return Less(below, b) if test is Less else And(negated(Less(b, above)), negated(Less(below, b)))
    below, above = _whole(b, a.type.scale)
    return Less(a, above) if test is Less else And(negated(Less(a, above)), negated(Less(below, a)))


def _decided(test: Test, a: Term, b: Term) -> Term:
    """Compare two numbers of one scale, unless their bounds tell the result."""
    if a.type.high < b.type.low:
        return FALSE if test is Equal else TRUE
    if a.type.low > b.type.high or (test is Less and a.type.low == b.type.high):
        return FALSE
    return test(a, b)


def _whole(term: Term, scale: int) -> tuple[Term, Term]:
    """Return a number rounded down, and rounded up, to fewer decimal places."""
    divisor = number(10 ** (term.type.scale - scale))
    return quotient(term, divisor, scale), negative(quotient(negative(term), divisor, scale))


def _texts_compared(test: Test, a: Term, b: Term) -> Term:
    """Compare texts by their bytes."""
    kinds = {a.type.kind, b.type.kind}
    match a, b:
        case Constant(str(one)), Constant(str(other)):
            return TRUE if (one == other if test is Equal else one < other) else FALSE
        case (Constant(str()), _) | (_, Constant(str())) if "short" in kinds and test is Less:
            return _short_before(a, b)
        case Constant(str(word)), _ if test is Equal or "code" in kinds:
            return _word_compared(test, b, word, lambda word, other: word > other)
        case _, Constant(str(word)) if test is Equal or "code" in kinds:
            return _word_compared(test, a, word, lambda word, other: word < other)
    if kinds == {"short"} or (kinds == {"code"} and a.type.words == b.type.words):
        return test(a, b)
    return test(text_term(a), text_term(b))


def _word_compared(test: Test, term: Term, word: str, less: Callable[[str, str], bool]) -> Term:
    """Compare a code with a word, or test whether a text is equal to it."""
    if term.type.kind == "code":
        return Lookup(term, tuple(other == word if test is Equal else less(other, word) for other in term.type.words))
    return _is_one_of(term, [word])


def _is_one_of(term: Term, words: Sequence[str]) -> Term:
    """Return the condition that a text is one of some words."""
    match term.type.kind:
        case "code":
            return Lookup(term, tuple(word in words for word in term.type.words))
        case "short":
            return Member(term, tuple(sorted({packed for word in words if (packed := pack_short(word)) is not None})))
    return any_of([Match(term, (word,)) for word in words])


def _short_before(a: Term, b: Term) -> Term:
    """Return whether one text comes before another: a short one and a constant, which follows its first bytes."""
    constant = str(
        next(each.value for each in (a, b) if isinstance(each, Constant) and each.type.kind == "text")
    ).encode()
    packed = Constant(pack_bytes(constant[:SHORT_BYTES]), SHORT)
    if a.type.kind == "text":
        return Less(packed, b)
    if len(constant) > SHORT_BYTES:
        return negated(Less(packed, a))
    return Less(a, packed)


def _known_ratio(value: Value, missing: Term | None) -> Ratio:
    """Return a value as a ratio, for rows in which it is not NULL."""
    ratio = as_ratio(value.term)
    return Ratio(ratio.numerator, known_count(ratio.denominator, missing))


def _ratios_compared(test: Test, left: Ratio, right: Ratio) -> Term:
    """Compare quotients by their cross products.

    As in DuckDB, a quotient by zero is infinite, with the sign of the dividend, and 0 / 0 is greater than all others.
    """
    unsure = [each.denominator for each in (left, right) if each.denominator.type.low < 1]
    if not unsure:
        return _divided_less(left, right) if test is Less else _crossed(Equal, left, right)
    if len(unsure) > 1:
        raise unsupported("a comparison of two quotients whose divisors may be zero or negative")
    if left.denominator.type.low >= 1:
        if test is Equal:
            return _ratios_compared(test, right, left)
        return _exclusive(
            right, (_crossed(Less, left, right), _crossed(Less, right, left)), lambda n, zero: negated(Less(n, zero))
        )
    if test is Equal:
        crossed = _crossed(Equal, left, right)
        return _exclusive(left, (crossed, crossed), lambda *_: FALSE)
    return _exclusive(left, (_crossed(Less, left, right), _crossed(Less, right, left)), Less)


def _crossed(test: Test, left: Ratio, right: Ratio) -> Term:
    return test(*aligned(scaled(left.numerator, right.denominator), scaled(right.numerator, left.denominator)))


def _exclusive(of: Ratio, by_sign: tuple[Term, Term], without: Callable[[Term, Term], Term]) -> Term:
    """Choose a condition by the sign of a divisor: for positive ones, for negative ones, and for zero."""
    divisor = of.denominator
    zero = number(0, divisor.type.scale)
    at_zero = both(Equal(divisor, zero), without(of.numerator, number(0, of.numerator.type.scale)))
    above, below = both(Less(zero, divisor), by_sign[0]), both(Less(divisor, zero), by_sign[1])
    return surely(either(either(above, below), at_zero))


def _divided_less(left: Ratio, right: Ratio) -> Term:
    """Compare ratios with positive divisors. If a product is too wide, a constant divisor divides, and rounds down."""
    try:
        return Less(*aligned(scaled(left.numerator, right.denominator), scaled(right.numerator, left.denominator)))
    except DeltamarkError as error:
        if error.cause != TOO_WIDE or not _has_constant_divisor(left, right):
            raise
    if left.denominator is ONE:
        left, right = (Ratio(negative(each.numerator), each.denominator) for each in (right, left))
    return Less(_rounded_down(left, right.numerator.type.scale), right.numerator)


def _has_constant_divisor(left: Ratio, right: Ratio) -> bool:
    """Return whether one side is a number, and the other one has a constant divisor."""
    divisors = left.denominator, right.denominator
    return any(number_of is ONE and isinstance(divisor, Constant) for number_of, divisor in (divisors, divisors[::-1]))


def _rounded_down(value: Ratio, scale: int) -> Term:
    """Return the largest number with some decimal places that is not larger than a ratio with a constant divisor."""
    above, below = value.numerator, value.denominator
    by = scale + below.type.scale - above.type.scale
    assert isinstance(below, Constant)
    factor, divisor = (10**by, int(below.value)) if by >= 0 else (1, int(below.value) * 10**-by)
    common = math.gcd(factor, divisor)
    return quotient(product(above, number(factor // common)), number(divisor // common), scale)


def is_less(left: Value, right: Value) -> Term:
    """Return the condition that one value, which is not NULL, is less than another."""
    return surely(compared(Comparator.LESS, replace(left, null=None), replace(right, null=None)).true)


def one_of(value: Value, others: Sequence[Value]) -> Truth:
    """Return whether a value is one of several."""
    known = [each.term for each in others if each.null is None]
    constants = [each for each in known if isinstance(each, Constant)]
    null_count = sum(each.null is TRUE for each in others)
    found = None
    if len(constants) + null_count == len(others) and not isinstance(value.term, Ratio | Constant):
        found = _is_constant(value.term, constants)
    if found is None:
        return balanced([compared(Comparator.EQUAL, value, each) for each in others], disjunction)
    truth = Truth.of(found, value.null)
    return Truth(truth.true, None, total=False) if null_count else truth


def _is_constant(term: Term, constants: Sequence[Constant]) -> Term | None:
    """Return the condition that a value is one of some constants of its kind; None if they are of others."""
    words = [each.value for each in constants if isinstance(each.value, str)]
    if len(words) == len(constants) and term.type.kind in TEXTS:
        return _is_one_of(term, words)
    if term.type.kind not in ("int", "date", "time", *TIMESTAMPS) or any(
        each.type.kind != term.type.kind for each in constants
    ):
        return None
    stored = sorted(set(_stored(term.type, constants)))
    return Member(term, tuple(stored)) if stored else FALSE


def _stored(type_: Type, constants: Sequence[Constant]) -> Iterator[int]:
    """Yield the constants as a type stores them, without those that it has no value for."""
    for each in constants:
        stored, rest = divmod(int(each.value) * 10**type_.scale, 10**each.type.scale)
        if rest == 0 and type_.low <= stored <= type_.high:
            yield stored


def conjunction(left: Truth, right: Truth) -> Truth:
    """Return whether both conditions are true."""
    return Truth(both(left.true, right.true), either(left.false, right.false), left.total and right.total)


def disjunction(left: Truth, right: Truth) -> Truth:
    """Return whether at least one of two conditions is true."""
    return Truth(either(left.true, right.true), both(left.false, right.false), left.total and right.total)


def when(test: Term, yes: Value, no: Value) -> Value:
    """Return one of two values of the same kind."""
    if test is TRUE or test is FALSE:
        return yes if test is TRUE else no
    otherwise = no.null if yes.null is TRUE else both(negated(test), no.null)
    missing = either(both(test, yes.null), otherwise)
    if isinstance(yes.term, Ratio) and isinstance(no.term, Ratio):
        above = chosen(test, yes.term.numerator, no.term.numerator)
        below = chosen(test, yes.term.denominator, no.term.denominator)
        return Value(Ratio(above, below, is_mean=yes.term.is_mean or no.term.is_mean), missing)
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
        raise _different("results", [value_of(each) for each in results])
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
        raise _different("values", [value_of(first), value_of(second)])
    stored = _stored_column(values[0])
    if stored is not None and values[1].null is None and not isinstance(values[1].term, Ratio):
        return Value(coalesced(stored, values[1].term))
    return when(negated(missing), replace(values[0], null=None), values[1])


def _stored_column(value: Value) -> Term | None:
    """Return the term that is NULL exactly where a value is, and else equal to it; None without one."""
    match value.null, value.term:
        case IsNull(known), Coalesce(stored) if known is stored:
            return known
        case IsNull(known), term if known is term:
            return known
    return None


def _different(construct: str, values: Sequence[Value]) -> DeltamarkError:
    kinds = " and ".join(dict.fromkeys(kind_of(each) for each in values if each.null is not TRUE))
    return DeltamarkError(f"{construct} of different types", kinds, "give them one type")


def best_of(of: Call[object], *given: Value, largest: bool) -> Value:
    """Return the largest or the smallest of several values, without those that are NULL."""
    same = unified_values(given)
    if same is None:
        raise _different(f"arguments of {of.name}", given)
    return reduce(partial(_better, largest=largest), same)


def _better(one: Value, other: Value, *, largest: bool) -> Value:
    less = is_less(one, other)
    takes_other = either(both(less if largest else negated(less), negated(other.null)), one.null)
    result = when(surely(takes_other), replace(other, null=None), replace(one, null=None))
    return replace(result, null=both(one.null, other.null))
