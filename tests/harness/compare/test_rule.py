"""The rule of the gate is silent on equal sides, and detects a tenth more."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamark.harness.compare import rule
from deltamark.harness.compare.rule import STATE, TIME, Pair
from deltamark.harness.measure.stats import interval


@pytest.mark.parametrize("size", range(6, 31))
def test_the_interval_has_the_exact_ranks(size):
    low, high = interval(range(1, size + 1))
    assert high == size + 1 - low

    def missed(rank):
        """Return the probability that the median lies outside the interval."""
        return 2 * sum(Fraction(math.comb(size, heads), 2**size) for heads in range(rank))

    assert missed(low) <= Fraction(5, 100) < missed(low + 1)


def pairs(ratios, quantity=TIME, base=1.0):
    return [Pair({quantity.name: base}, {quantity.name: base * ratio}) for ratio in ratios]


def simulated(rng, factor, count):
    """Return pairs with 3% noise, in which one sample of twenty is disturbed."""
    noise = rng.normal(0, 0.03, (2, count)) + rng.exponential(0.3, (2, count)) * (rng.random((2, count)) < 0.05)
    return pairs(factor * np.exp(noise[0] - noise[1]))


def simulated_verdict(rng, factor):
    verdict = rule.screen([simulated(rng, factor, rule.SCREEN_PAIRS)], TIME).verdict
    return (
        rule.confirm([simulated(rng, factor, rule.CONFIRM_PAIRS)], TIME).verdict
        if verdict == "inconclusive"
        else verdict
    )


def test_simulations_have_no_false_alarm_and_detect_a_tenth():
    rng = np.random.default_rng(5)
    equal = [simulated_verdict(rng, 1.0) for _ in range(3000)]
    slower = [simulated_verdict(rng, 1.1) for _ in range(300)]
    assert not {"regression", "improvement"} & set(equal)
    assert slower.count("regression") > 0.85 * len(slower)


def test_few_pairs_conclude_nothing():
    assert rule.screen([pairs([1.0] * 5)], TIME).verdict == "inconclusive"
    assert rule.confirm([pairs([2.0] * 5)], TIME).verdict == "inconclusive"
    assert rule.confirm([pairs([2.0] * 6)], TIME).verdict == "regression"


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.2] * 8 + [0.5], "regression"), ([1.2] * 7 + [0.5] * 2, "inconclusive"), ([1.04] * 9, "unchanged"),
        ([0.9] * 9, "improvement"), ([1.0, 1.1] * 5, "inconclusive"),
    ],
)  # fmt: skip
def test_nine_pairs_forgive_one(ratios, verdict):
    assert rule.confirm([pairs(ratios)], TIME).verdict == verdict


def test_small_cells_and_small_differences_are_left_out():
    assert rule.confirm([pairs([2.0] * 9, base=0.02)], TIME).verdict == "too small"
    assert rule.confirm([pairs([3.0] * 9, base=0.02)], TIME).verdict == "regression"
    assert rule.confirm([pairs([1.08] * 9, base=0.06)], TIME).verdict == "unchanged"
    assert rule.confirm([pairs([1.04] * 9, STATE, 5e6)], STATE).verdict == "unchanged"


def test_an_interval_that_is_wide_is_never_unchanged():
    noisy = pairs([0.69, 0.72, 0.95, 0.99, 1.0, 1.01, 1.02, 1.3, 1.45, 1.51], base=0.06)
    assert rule.screen([noisy], TIME).verdict == rule.confirm([noisy], TIME).verdict == "inconclusive"


SWAPPED = {"regression": "improvement", "improvement": "regression"}


@given(
    st.sampled_from([rule.screen, rule.confirm]),
    st.sampled_from([TIME, STATE]),
    st.floats(0.2, 20),
    st.floats(0.8, 1.25).flatmap(
        lambda middle: st.lists(st.floats(0.9, 1.1).map(lambda noise: middle * noise), min_size=9, max_size=20)
    ),
)
def test_unchanged_means_that_the_interval_is_within_the_tolerance(judge, quantity, base, ratios):
    base *= quantity.minimum
    change = judge([pairs(ratios, quantity, base)], quantity)
    limit = quantity.tolerance(change.base, change.head) * (2 if judge is rule.screen else 1)
    if change.verdict == "unchanged":
        assert max(map(abs, change.bounds)) <= limit
    backwards = judge([[Pair(pair.head, pair.base) for pair in pairs(ratios, quantity, base)]], quantity)
    assert backwards.verdict == SWAPPED.get(change.verdict, change.verdict)


def test_a_row_is_judged_by_the_geometric_mean_of_its_cells():
    one, other, small = pairs([1.2] * 9), pairs([1.0] * 9), pairs([9.0] * 9, base=0.001)
    change = rule.confirm([one, other, small], TIME)
    assert math.exp(change.log_ratio) == pytest.approx(math.sqrt(1.2))
    assert (change.base, change.head) == (2.0, pytest.approx(2.2))
    assert change.verdict == "regression"


@pytest.mark.parametrize(("seconds", "count"), [(0.1, 20), (6.0, 20), (10.0, 12), (60.0, 9)])
def test_slow_cells_are_confirmed_by_fewer_pairs(seconds, count):
    assert rule.confirming_pairs(seconds) == count
