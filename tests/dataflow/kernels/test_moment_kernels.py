"""Moments are those of exact arithmetic, rounded."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks

from deltamark.dataflow.kernels.moments import DIGIT_BITS, MomentBlock, moments
from deltamark.dataflow.types import doubles

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
