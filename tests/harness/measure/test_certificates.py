"""The exponent of growth, with times of known laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamark.harness.measure.growth import MAINTAINED, Exponent, certificate, exponent, exponent_without_fixed

SIZES = [43_000.0 * step for step in (1, 2, 4, 10, 20, 40)]
LAWS = {
    "constant": (lambda _: 2e-5, "maintained"),
    "logarithm": (lambda size: 2e-6 * math.log(size), "maintained"),
    "square root": (lambda size: 1e-7 * size**0.5, "partly"),
    "linear": (lambda size: 1e-8 * size, "recomputed"),
    "linear above a fixed cost": (lambda size: 2e-3 + 1e-8 * size, "recomputed"),
    "square root above a fixed cost": (lambda size: 2e-5 + 1e-7 * size**0.5, "partly"),
}  # fmt: skip


def times(law, noise=0.0, seed=0, sizes=SIZES):
    factors = np.exp(noise * np.random.default_rng(seed).standard_normal(len(sizes)))
    return [law(size) * factor for size, factor in zip(sizes, factors.tolist(), strict=True)]


@pytest.mark.parametrize("name", LAWS)
def test_a_law_without_noise_has_its_grade(name):
    law, grade = LAWS[name]
    assert certificate(SIZES, times(law)).grade == grade


@pytest.mark.parametrize("name", LAWS)
def test_noise_makes_a_grade_undecided_rather_than_wrong(name):
    law, grade = LAWS[name]
    found = [certificate(SIZES, times(law, 0.03, seed)).grade for seed in range(40)]
    assert found.count(grade) >= 20
    assert len(found) - found.count(grade) - found.count("undecided") <= 2


@given(st.floats(0.0, 1.5), st.floats(1e-9, 1.0))
def test_the_exponent_of_a_power_is_exact_whatever_its_unit(power, unit):
    found = exponent(SIZES, times(lambda size: unit * size**power))
    assert found.value == pytest.approx(power, abs=1e-9)
    assert found.high - found.low < 1e-6


def test_the_interval_has_the_exponent_as_often_as_it_says():
    found = [exponent(SIZES, times(lambda size: size**0.1, 0.05, seed)) for seed in range(400)]
    assert 0.92 < sum(each.low <= 0.1 <= each.high for each in found) / len(found) < 0.98


@given(st.floats(0.3, 1.3), st.floats(0.0, 100.0))
def test_a_fixed_cost_does_not_change_the_exponent_without_it(power, fixed):
    found = exponent_without_fixed(SIZES, times(lambda size: fixed + size**power))
    assert found.low - 0.011 <= power <= found.high + 0.011


def test_a_recomputation_that_hides_in_a_fixed_cost_is_not_maintained():
    hidden = times(lambda size: 0.1 + 1e-9 * size)
    assert exponent(SIZES, hidden).high < MAINTAINED
    assert certificate(SIZES, hidden).grade == "undecided"


def test_a_small_growth_is_not_that_of_a_part():
    law = LAWS["square root above a fixed cost"][0]
    assert certificate(SIZES[1:5], times(law)[1:5]).grade == "undecided"


def test_two_sizes_have_no_certificate_and_three_no_exponent_without_a_fixed_cost():
    assert certificate(SIZES[:2], [1.0, 1.0]) is None
    assert exponent_without_fixed(SIZES[:3], [1.0, 2.0, 4.0]) is None
    assert certificate(SIZES[:3], times(LAWS["linear"][0])[:3]).grade == "undecided"


def test_a_time_of_0_or_a_size_twice_has_no_certificate():
    assert certificate(SIZES, [0.0, *times(LAWS["linear"][0])[1:]]) is None
    assert certificate([1.0, 1.0, 2.0], [1.0, 1.0, 2.0]) is None


def test_an_exponent_is_written_with_its_interval():
    assert str(Exponent(0.034, -0.021, 0.08)) == "0.03 [-0.02, 0.08]"
    assert str(Exponent(-0.001, -0.004, 0.001)) == "0.00 [0.00, 0.00]"
