"""Arrivals: due times have the given rate, and bursts are drawn once for all rates and engines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamark.errors import DeltamarkError
from deltamark.harness.suites.rate import INTERVAL_S, burst_sizes, due_times, known_arrivals


@given(
    arrivals=st.sampled_from(["steady", "burst:1.05", "burst:1.5", "burst:100"]), rate=st.floats(0.5, 1e6),
    seconds=st.floats(0.01, 1), most=st.integers(1, 10_000),
)  # fmt: skip
def test_due_times_have_the_rounds_of_a_trial_in_order(arrivals, rate, seconds, most):
    due = due_times(arrivals, rate=rate, seconds=seconds, most=most)
    assert len(due) == max(min(int(rate * seconds), most), 1)
    assert due[0] >= 0
    assert (np.diff(due) >= 0).all()
    assert due[-1] <= len(due) / rate
    assert due.tolist() == due_times(arrivals, rate=rate, seconds=seconds, most=most).tolist()


def test_steady_rounds_are_due_at_equal_intervals():
    assert due_times("steady", rate=4, seconds=1.5, most=99).tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25]


@given(shape=st.floats(1.05, 100), rounds=st.integers(0, 10**6), bursts=st.integers(1, 1000))
def test_bursts_divide_all_rounds(shape, rounds, bursts):
    sizes = burst_sizes(shape, rounds, bursts)
    assert len(sizes) == bursts
    assert sizes.sum() == rounds
    assert sizes.min() >= 0


def test_a_burst_is_the_same_share_at_every_rate():
    slow, fast = (due_times("burst:1.5", rate=rate, seconds=1, most=10**9) for rate in (100_000, 1_000_000))
    edges = np.arange(1001) * INTERVAL_S - INTERVAL_S / 2
    few, many = (np.histogram(due, edges)[0] for due in (slow, fast))
    assert np.abs(many - 10 * few).max() <= 10


def test_bursts_have_a_heavy_tail():
    largest = [burst_sizes(shape, 10**6, 1000).max() / 1000 for shape in (1.1, 1.5, 3, 100)]
    assert largest == sorted(largest, reverse=True)
    assert largest[0] > 10
    assert largest[-1] < 1.2
    sizes = burst_sizes(1.5, 10**9, 10**5)
    for factor in (2, 10, 50):  # the share of bursts above a multiple of the smallest falls as a power of it
        assert (sizes > factor * sizes.min()).mean() == pytest.approx(factor**-1.5, rel=0.15)


@pytest.mark.parametrize("text", ["burst:1", "burst:nan", "burst:", "burst", "burst:1e9", "burst:x"])
def test_a_wrong_shape_is_an_error(text):
    with pytest.raises(DeltamarkError, match=r"not a shape of bursts: .*; write burst:S with S from 1.05 to 100"):
        known_arrivals(text)


def test_unknown_arrivals_are_an_error():
    with pytest.raises(DeltamarkError, match="unknown arrivals: stedy; did you mean steady"):
        known_arrivals("stedy")
    assert known_arrivals("burst:1.5") == "burst:1.5"
