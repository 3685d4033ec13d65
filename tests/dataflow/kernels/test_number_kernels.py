"""Kernels of doubles, of conversions, of checked arithmetic and of exact sums, against plain Python."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks
from support.reference import terms as reference
from support.reference.operators import double_sum

from deltamark.dataflow.builder.terms import FUNCTION_NUMBERS
from deltamark.dataflow.kernels import numbers
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups.double_sums import SUM_WORDS, add_double, rounded_sum
from deltamark.dataflow.kernels.numbers import CheckedBlock, DoublesBlock, FromDoubleBlock, ToDoubleBlock
from deltamark.dataflow.kernels.status import DONE, FAILED
from deltamark.dataflow.plan.terms import Checked, DoubleArithmetic, DoubleFunction, FromDouble, ToDouble, column
from deltamark.dataflow.types import DOUBLE, LARGEST, NULL, doubles, integer, stored_double, value_of

NOTABLE = [
    0.0, -0.0, 1.0, 0.1, 0.5, 2.5, -2.5, 0.285, 1e16, -1e16, 2.0**53, 2.0**-1074, -(2.0**-1074), 2.0**-1022, 1e308,
    -1e308, math.inf, -math.inf, math.nan, 1 / 3, 2.0**63, -(2.0**63), 9.2e18,
]  # fmt: skip
VALUES = st.sampled_from(NOTABLE) | st.floats()
ZEROS = st.sampled_from([0, numbers.NEGATIVE_ZERO])
OPERANDS = st.just(numbers.NEGATIVE_ZERO) | VALUES.map(stored_double)
WORDS = st.sampled_from([NULL, -LARGEST, -1, 0, 1, 2**32, 3 * 10**9, LARGEST]) | st.integers(NULL, LARGEST)
WIDE = integer(-LARGEST, LARGEST)
FUNCTIONS = ("abs", "floor", "ceil", "trunc", "sqrt", "float", *reference.LIBRARY)
X, Y = column("x", DOUBLE), column("y", DOUBLE)


class Run:
    """One call of a kernel over rows."""

    def __init__(self, kind, **columns):
        self._blocks = Blocks()
        self._size = len(next(iter(columns.values())))
        self.columns = {name: self._vector(values) for name, values in columns.items()}
        self._result = self._blocks.vector()
        self.kind = kind

    def _vector(self, values):
        cell = self._blocks.vector()
        self._blocks.set_vector(cell, values)
        return cell

    def call(self, kernel, **fields):
        fields = {**self.columns, **fields, "size": self._blocks.cell(self._size), "result": self._result}
        self.block = self._blocks.block(self.kind, **fields)
        return kernel(self.block)

    @property
    def result(self):
        return self._blocks.vector_values(self._result, self._size)


@given(st.lists(VALUES, min_size=1, max_size=20))
def test_stored_doubles_are_in_the_order_of_doubles(values):
    stored = [stored_double(each) for each in values]
    assert [value_of(DOUBLE, each) for each in stored] == pytest.approx(values, nan_ok=True, rel=0, abs=0)
    assert np.array_equal(doubles(np.array(stored)), np.array(values), equal_nan=True)
    known = sorted(each for each in values if not math.isnan(each))
    assert [value_of(DOUBLE, each) for each in sorted(stored)][: len(known)] == known


@given(
    st.lists(st.tuples(OPERANDS, OPERANDS), min_size=1, max_size=20), st.sampled_from([*"+-*/%", "**", "atan2"]), ZEROS
)
def test_arithmetic(rows, sign, zero):
    stored = [list(side) for side in zip(*rows, strict=True)]
    run = Run(DoublesBlock, a=stored[0], b=stored[1])
    run.call(numbers.doubles, function=FUNCTION_NUMBERS[sign], zero=zero)
    term = DoubleArithmetic(X, Y, sign)
    assert run.result == [reference.double_arithmetic(term, *each, zero=zero) for each in rows]


@given(
    st.lists(OPERANDS, min_size=1, max_size=20),
    st.sampled_from([("round", 0), ("round", 2), ("round", -2), *((each, 0) for each in FUNCTIONS)]),
    ZEROS,
)
def test_functions(stored, function, zero):
    name, places = function
    power = [stored_double(10.0 ** abs(places))] * len(stored)
    run = Run(DoublesBlock, a=stored, b=power if name == "round" else stored)
    run.call(numbers.doubles, function=FUNCTION_NUMBERS["round tens" if places < 0 else name], zero=zero)
    term = DoubleFunction(X, name, places)
    assert run.result == [reference.double_function(term, each, zero=zero) for each in stored]


@given(st.lists(st.integers(-LARGEST, LARGEST), min_size=1, max_size=20), st.sampled_from([0, 2, 18]))
def test_numbers_become_doubles(values, scale):
    run = Run(ToDoubleBlock, numbers=values)
    run.call(numbers.to_double, power=10**scale)
    term = ToDouble(column("n", integer(-LARGEST, LARGEST, scale)))
    assert run.result == [reference.to_double(term, each) for each in values]


@given(VALUES, st.sampled_from([0, 2]), st.booleans())
def test_doubles_become_numbers_or_fail(value, scale, to_even):
    run = Run(FromDoubleBlock, doubles=[stored_double(value)])
    status = run.call(numbers.from_double, power=10**scale, to_even=to_even, low=-LARGEST, high=LARGEST)
    fits = math.isfinite(value) and abs(value * 10**scale) < 2**63
    assert status == (DONE if fits else FAILED)
    if fits:
        term = FromDouble(X, to_even, integer(-LARGEST, LARGEST, scale))
        assert run.result == [reference.from_double(term, stored_double(value))]


@given(WORDS, WORDS, st.sampled_from("+-*"))
def test_checked_arithmetic_is_exact_or_fails(a, b, sign):
    run = Run(CheckedBlock, a=[a], b=[b])
    wanted = {"+": a + b, "-": a - b, "*": a * b}[sign]
    status = run.call(numbers.checked, function=FUNCTION_NUMBERS[sign])
    if abs(wanted) > LARGEST:
        assert (status, run.block.error_a, run.block.error_b) == (FAILED, a, b)
    else:
        term = Checked(column("a", WIDE), column("b", WIDE), sign, WIDE)
        assert (status, run.result) == (DONE, [reference.checked(term, a, b)])


WEIGHTS = st.integers(-3, 3) | st.sampled_from([2**40, -(2**40), 2**62, -(2**62)])


@given(st.lists(st.tuples(VALUES, WEIGHTS), max_size=20), st.randoms(use_true_random=False))
def test_a_sum_of_doubles_is_the_nearest_to_the_exact_one_and_leaves_nothing_behind(rows, order):
    blocks = Blocks()
    total = Array(blocks.words([0] * SUM_WORDS))
    for value, weight in rows:
        add_double(total, stored_double(value), weight)
    assert rounded_sum(total) == double_sum(rows)
    order.shuffle(rows)
    for value, weight in rows:
        add_double(total, stored_double(value), -weight)
    assert not view(total.address, SUM_WORDS).any()


def test_the_sum_of_a_tie_is_even():
    blocks = Blocks()
    total = Array(blocks.words([0] * SUM_WORDS))
    for value, weight in ((1.0, 1), (2.0**-53, 1)):
        add_double(total, stored_double(value), weight)
    assert value_of(DOUBLE, rounded_sum(total)) == 1.0
    add_double(total, stored_double(2.0**-1074), 1)
    assert value_of(DOUBLE, rounded_sum(total)) == float(Fraction(1) + Fraction(2.0**-52))
