"""Bars in text have the positions and the lengths of their parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deltamark.harness.console.table import FULL, WIDTH, Bar, flame

WHOLE = Bar("batch", 0, 0, 640)


@given(st.integers(0, WIDTH), st.integers(0, WIDTH))
def test_a_bar_has_the_position_and_the_length_of_its_part(one, other):
    first, last = sorted((one, other))
    whole, line = flame([WHOLE, Bar("jobs", 1, 10 * first, 10 * last)]).splitlines()
    assert line[whole.index(FULL) :] == " " * first + (FULL * (last - first) or "▏")


def test_a_bar_has_its_name_under_its_parent_and_its_length():
    lines = flame([WHOLE, Bar("jobs", 1, 320, 640)]).splitlines()
    assert [line[:16] for line in lines] == ["batch   640 ms  ", "  jobs  320 ms  "]
