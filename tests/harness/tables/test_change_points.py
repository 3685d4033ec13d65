"""Change points: a step is found at its place, noise has few, and the same numbers always have the same ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.harness.history_records import NOISE, noisy_step

from deltamark.harness.tables import history as module
from deltamark.harness.tables.history import MIN_SIZE, SIGNIFICANCE, change_points

SEEDS = range(60)


def positions(values):
    return [point.position for point in change_points(values)]


@pytest.mark.parametrize("ratio", [1.1, 1 / 1.1])
def test_a_step_of_ten_percent_is_found_at_its_commit(ratio):
    found = [positions(noisy_step(seed, 30, 20, ratio)) for seed in SEEDS]
    assert sum(20 in each for each in found) >= 0.8 * len(SEEDS)
    assert sum(any(abs(at - 20) <= 2 for at in each) for each in found) >= 0.95 * len(SEEDS)
    assert sum(len(each) > 1 for each in found) <= 0.05 * len(SEEDS)


def test_noise_has_few_steps():
    noise = [positions(np.random.default_rng(1000 + seed).normal(0, NOISE, 30)) for seed in range(200)]
    assert sum(map(bool, noise)) <= 6


def test_a_step_up_and_down_again_is_two():
    values = np.array(noisy_step(1, 40, 12, 1.2)) - np.where(np.arange(40) >= 25, np.log(1.2), 0)
    assert positions(values) == [12, 25]


def test_steps_do_not_depend_on_earlier_calls_or_on_the_unit():
    values = noisy_step(3, 30, 11, 1.15)
    first = change_points(values)
    assert first
    assert change_points(values) == first
    assert positions([value + 7 for value in values]) == [point.position for point in first]


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 2 * MIN_SIZE, [2.0] * 40, [0.0] * 20 + [9.0, 9.0] + [0.0] * 20])
def test_short_series_constant_ones_and_two_outliers_have_no_step(values):
    assert change_points(values) == []


def test_every_part_has_the_least_number_of_points_and_every_step_is_significant():
    for seed in range(10):
        values = noisy_step(seed, 50, 47, 1.5)
        points = change_points(values)
        bounds = [0, *(point.position for point in points), 50]
        assert min(end - first for first, end in itertools.pairwise(bounds)) >= MIN_SIZE
        assert all(0 < point.p_value <= SIGNIFICANCE for point in points)


def energy(before, after):
    """The statistic of a split, by the formula of the paper."""
    m, n = len(before), len(after)
    between = sum(abs(x - y) for x in before for y in after) * 2 / (m * n)
    within = [
        sum(abs(x - y) for x, y in itertools.combinations(part, 2)) * 2 / (len(part) * (len(part) - 1))
        for part in (before, after)
    ]
    return (between - sum(within)) * m * n / (m + n)


def test_the_statistic_is_that_of_the_paper():
    values = np.random.default_rng(5).normal(size=11)
    (statistics,) = module._statistics(values[None, :])
    for split, end in itertools.product(range(12), repeat=2):
        valid = split >= MIN_SIZE and end - split >= MIN_SIZE
        expected = energy(values[:split], values[split:end]) if valid else 0
        assert statistics[split, end] == pytest.approx(expected)
