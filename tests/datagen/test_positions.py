"""Laws of positions: the values at some positions of a column in pieces are those of the whole column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltamark.datagen.positions import array_of, index_of, values_at


@st.composite
def columns(draw):
    """Draw a column, its pieces of 1 << shift rows, and positions in it."""
    rows, shift = draw(st.integers(1, 40)), draw(st.integers(0, 4))
    whole = np.arange(rows) * 3
    if draw(st.booleans()):
        whole = pa.array([f"text {row}" for row in range(rows)])
    pieces = [whole[start : start + (1 << shift)] for start in range(0, rows, 1 << shift)]
    start = draw(st.integers(0, rows - 1))
    consecutive = range(start, draw(st.integers(start + 1, rows)))
    listed = np.array(draw(st.lists(st.integers(0, rows - 1), min_size=1)))
    return whole, pieces, shift, draw(st.sampled_from([consecutive, listed]))


@given(columns())
def test_the_values_in_pieces_are_those_of_the_whole(column):
    whole, pieces, shift, rows = column
    found = values_at(pieces, shift, rows)
    assert found.tolist() == whole.take(array_of(rows)).tolist()
    assert array_of(rows).tolist() == np.arange(len(whole))[index_of(rows)].tolist() == list(rows)
