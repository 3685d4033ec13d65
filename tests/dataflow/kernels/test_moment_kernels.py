"""Moments are those of exact arithmetic, rounded."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks
from support.reference.operators import exact_moment

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups.double_moments import SCRATCH_WORDS, add_values, moment, moment_words
from deltamark.dataflow.kernels.moments import DIGIT_BITS, MomentBlock, moments
from deltamark.dataflow.operators.aggregate import moment_function
from deltamark.dataflow.plan.terms import MOMENTS, OF_SAMPLES, ROOTS, ExactMoment, column
from deltamark.dataflow.types import DOUBLE, NULL, doubles, stored_double, value_of

VALUES = st.one_of(st.integers(-5, 5), st.integers(2**31 - 5, 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=30)


def sums_of(pairs):
    """Return the sums of both values, and of the digits of their products."""
    products = [x * y for x, y in pairs]
    low = sum(each % 2**DIGIT_BITS for each in products)
    return [sum(x for x, _ in pairs), sum(y for _, y in pairs), low, sum(each >> DIGIT_BITS for each in products)]


def computed(numbers, *, less=0, power=1, is_root=0):
    """Return the double that the kernel stores for one row."""
    blocks = Blocks()
    result = blocks.vector()
    moments(
        blocks.block(
            MomentBlock, size=blocks.cell(1), numbers=blocks.words(_cells(blocks, numbers)),
            slice_numbers=blocks.words([0] * len(numbers)), comoments=len(numbers) // 4, less=less, power=power,
            is_root=is_root, wide=blocks.words([0, 0]), result=result,
        )
    )  # fmt: skip
    return float(doubles(np.array(blocks.vector_values(result, 1)))[0])


def _cells(blocks, numbers):
    return [blocks.cell(blocks.words([each])) for each in numbers]


def comoment(pairs):
    return len(pairs) * sum(x * y for x, y in pairs) - sum(x for x, _ in pairs) * sum(y for _, y in pairs)


@given(PAIRS, st.booleans(), st.integers(0, 4))
def test_a_covariance_is_exact_but_for_its_last_digits(pairs, is_sample, scale):
    rows = len(pairs)
    found = computed([rows, *sums_of(pairs)], less=int(is_sample), power=10**scale)
    if rows == 1 and is_sample:
        assert math.isnan(found)
    else:
        exact = Fraction(comoment(pairs), rows * (rows - is_sample) * 10**scale)
        assert math.isclose(found, float(exact), rel_tol=1e-15)


@given(PAIRS)
def test_a_standard_deviation_is_the_root_of_a_variance(pairs):
    same = [(x, x) for x, _ in pairs]
    found = computed([len(same), *sums_of(same)], is_root=1)
    assert math.isclose(found, math.sqrt(comoment(same)) / len(same), rel_tol=1e-15)


@given(PAIRS)
def test_a_correlation_is_no_number_if_a_value_does_not_vary(pairs):
    first, last = [(x, x) for x, _ in pairs], [(y, y) for _, y in pairs]
    found = computed([len(pairs), *sums_of(pairs), *sums_of(first), *sums_of(last)])
    if comoment(first) == 0 or comoment(last) == 0:
        assert math.isnan(found)
    else:
        expected = comoment(pairs) / (math.sqrt(comoment(first)) * math.sqrt(comoment(last)))
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


MAGNITUDES = st.sampled_from([0.1, 0.2, -0.3, 1e16, 1e16 + 2, -1e16, 1.7e308, -1e308, 5e-324, 2.0**-1022, 0.0])
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = MAGNITUDES | FINITE | st.integers(-5, 5).map(float)
WEIGHTS = st.integers(1, 3) | st.sampled_from([2**31, 2**33, 2**40 + 7])
DRAWN = st.lists(st.tuples(NUMBERS, NUMBERS, WEIGHTS), min_size=1, max_size=8)


class State:
    """The state of a moment of doubles."""

    def __init__(self, function):
        of = tuple(column(name, DOUBLE) for name in ("x", "y")[: 1 + function.startswith("co")])
        self.term = ExactMoment(function, of)
        self.bits, blocks = moment_function(self.term), Blocks()
        self.blocks = blocks
        self.words = Array(blocks.words([0] * moment_words(self.bits)))
        self.scratch = Array(blocks.words([0] * SCRATCH_WORDS))

    def add(self, rows, sign=1):
        for x, y, weight in rows:
            values = [stored_double(each) if each is not None else NULL for each in (x, y)]
            add_values(self.words, self.bits, values[0], values[len(self.term.numbers) - 1], sign * weight)

    def read(self):
        return moment(self.words, self.bits, self.scratch)

    def wanted(self, rows):
        of_one = len(self.term.numbers) == 1
        return exact_moment(self.term, [([x] if of_one else [x, y], weight) for x, y, weight in rows])

    @property
    def is_empty(self):
        return not view(self.words.address, moment_words(self.bits)).any()


def fraction_of(function, rows):
    """Return the exact moment, or the square of a standard deviation."""
    count = sum(weight for *_, weight in rows)
    pairs = [(Fraction(x), Fraction(y if function.startswith("co") else x), weight) for x, y, weight in rows]
    shared = sum(x * y * weight for x, y, weight in pairs)
    means = [sum(pair[at] * pair[2] for pair in pairs) for at in range(2)]
    return (count * shared - means[0] * means[1]) / (count * (count - (function in OF_SAMPLES)))


@given(DRAWN, st.sampled_from([each for each in MOMENTS if each != "corr"]))
def test_a_moment_of_doubles_is_the_exact_one_but_for_its_last_bit(rows, function):
    state = State(function)
    state.add(rows)
    if sum(weight for *_, weight in rows) <= (function in OF_SAMPLES):
        assert state.read() == 0
        return
    exact, found = fraction_of(function, rows), value_of(DOUBLE, state.read())
    if function in ROOTS:
        if 0 < exact < Fraction(2.0**1000) ** 2 and exact > Fraction(2) ** -2000:
            assert abs(Fraction(found) ** 2 / exact - 1) < Fraction(2) ** -50
        return
    if abs(exact) >= Fraction(1.7e308):
        assert abs(found) > 1.6e308
    else:
        assert abs(Fraction(found) - exact) <= max(abs(exact) * Fraction(2) ** -51, Fraction(2) ** -1074)


@given(DRAWN, st.sampled_from(MOMENTS), st.randoms(use_true_random=False))
def test_a_moment_of_doubles_forgets_what_leaves_and_does_not_depend_on_the_order(rows, function, order):
    state = State(function)
    odd = [(math.inf, 1.0, 1), (2.0, math.nan, 1), (None, 1.0, 2), (1.0, None, 1)]
    order.shuffle(odd)
    state.add(odd)
    state.add(rows)
    state.add(odd, sign=-1)
    found = state.read()
    assert found == state.wanted(rows)
    shuffled = [row for x, y, weight in rows for row in ((x, y, weight - 1), (x, y, 1))]
    order.shuffle(shuffled)
    other = State(function)
    other.add(shuffled)
    assert other.read() == found
    other.add(rows, sign=-1)
    assert other.is_empty


@given(DRAWN, st.sampled_from(MOMENTS), st.sampled_from([math.inf, -math.inf, math.nan]))
def test_a_moment_of_an_infinite_value_is_no_number(rows, function, odd):
    state = State(function)
    state.add([*rows, (odd, 1.0, 1)])
    assert math.isnan(value_of(DOUBLE, state.read()))
