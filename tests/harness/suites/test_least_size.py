"""Bisection: the size that it finds passes, the one below it fails, and both are within the resolution."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from deltamark.harness.suites.memory import PAGE_BYTES, RESOLUTION, least_size

SIZES = st.integers(PAGE_BYTES, 1 << 40)


@given(threshold=SIZES, guess=SIZES, most=SIZES)
def test_the_least_size_lies_just_above_the_threshold(threshold, guess, most):
    tried = []
    found = least_size(lambda size: tried.append(size) or size >= threshold, guess, most)
    assert len({*tried}) == len(tried)
    assert all(size == most or size % PAGE_BYTES == 0 for size in tried)
    if found is None:
        assert most < threshold
        return
    assert found.failed < threshold <= found.passed <= most
    assert found.passed <= max(RESOLUTION * found.failed, found.failed + PAGE_BYTES)
    doublings = abs(math.log2(found.passed / min(guess, most)))
    assert len(tried) <= doublings + math.log2(math.log(2) / math.log(RESOLUTION)) + 6


def test_a_good_guess_needs_few_trials():
    tried = []
    found = least_size(lambda size: tried.append(size) or size >= 100_000_000, 101_000_000, 1 << 40)
    assert 95_000_000 < found.failed < 100_000_000 <= found.passed <= 101_000_000
    assert len(tried) <= 7


@given(sizes=st.sets(st.integers(1, 1 << 10)))
def test_a_test_that_is_not_monotone_also_ends(sizes):
    found = least_size(lambda size: size // PAGE_BYTES in sizes, 1 << 20, 1 << 23)
    assert found is None or (found.passed // PAGE_BYTES in sizes and found.failed // PAGE_BYTES not in sizes)
