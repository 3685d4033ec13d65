"""Bisection of rates: the rate that it finds passes, the one above it fails, and their ratio is the resolution."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from deltamark.harness.suites.rate import RESOLUTION, STEP, highest_rate

RATES = st.floats(0.1, 1e9)


@given(threshold=RATES, guess=RATES, least=RATES)
def test_the_highest_rate_lies_just_below_the_threshold(threshold, guess, least):
    tried = []
    found = highest_rate(lambda rate: tried.append(rate) or rate <= threshold, guess, least)
    assert len({*tried}) == len(tried)
    if found is None:
        assert threshold < STEP * least
        return
    assert least <= found.passed <= threshold < found.failed <= RESOLUTION * found.passed
    assert {found.passed, found.failed} <= {*tried}
    steps = abs(math.log(found.passed / guess, STEP))
    assert len(tried) <= steps + math.log2(math.log(STEP) / math.log(RESOLUTION)) + 3


@given(rates=st.sets(st.integers(0, 40)))
def test_a_test_that_is_not_monotone_also_ends(rates):
    found = highest_rate(lambda rate: rate < 1e6 and int(rate) % 41 in rates, 1000.0, 1.0)
    assert found is None or found.passed < found.failed <= RESOLUTION * found.passed
