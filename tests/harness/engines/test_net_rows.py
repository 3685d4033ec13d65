"""Laws of net rows: they lead from the live rows before a batch to those after it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamark.datagen.feed import Delta
from deltamark.harness.engines.answers import net_rows


def delta(rows, diff):
    return Delta("orders", np.zeros(len(rows), np.int64), np.array(diff), rows, {})


@given(st.sets(st.integers(0, 9)), st.lists(st.integers(0, 9), min_size=1))
def test_net_rows_have_the_effect_of_all_changes(before, flipped):
    live, diff = set(before), []
    for row in flipped:  # a live row leaves, and any other one arrives
        diff.append(-1 if row in live else 1)
        live ^= {row}
    net = net_rows(delta(np.array(flipped), diff))
    arriving = [flipped[at] for at in net.arriving]
    assert len(set(arriving)) == len(arriving)
    assert set(net.leaving) <= before
    assert (before - set(net.leaving)) | set(arriving) == live


@pytest.mark.parametrize("diff", [1, -1])
def test_consecutive_rows_stay_ranges(diff):
    net = net_rows(delta(range(3, 7), [diff] * 4))
    assert (net.arriving, net.leaving) == ((range(4), range(0)) if diff > 0 else (range(0), range(3, 7)))
