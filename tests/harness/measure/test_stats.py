"""Statistics of numbers with known results."""

from __future__ import annotations

import math

import pytest

from deltamark.harness.measure.stats import geomean, interval, percentile


def test_the_interval_needs_six_values_and_excludes_one_outlier_of_nine():
    assert interval([1, 2, 3, 4, 5]) is None
    assert interval([3, 1, 2, 6, 5, 4]) == (1, 6)
    assert interval(list(range(8))) == (0, 7)
    assert interval([100, *range(1, 9)]) == (2, 8)


@pytest.mark.parametrize(("size", "rank"), [(10, 2), (20, 6), (30, 10), (50, 18)])
def test_ranks_of_the_sign_test_equal_published_tables(size, rank):
    assert interval(list(range(1, size + 1))) == (rank, size + 1 - rank)


def test_the_geometric_mean_is_that_of_the_logarithms():
    assert geomean([1, 100]) == pytest.approx(10)
    assert math.isnan(geomean([]))


def test_percentiles_are_values_of_the_sample():
    ordered = list(range(1, 101))
    assert [percentile(ordered, each) for each in (0, 50, 95, 99, 100)] == [1, 50, 95, 99, 100]
    assert percentile([7], 99) == 7
    assert math.isnan(percentile([], 50))
