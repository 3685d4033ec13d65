"""Laws of arrangements with debts: how they are read in pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.join_blocks import ANY_DIFFS, KEYS, LAST_TIME, Join, Side, joined, updates_of
from support.engines.kernel_blocks import KEY_FORMS, Blocks, random_slices

from deltamark.dataflow.kernels.arrangements import join_cursor
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.status import DONE

seeds = st.integers(0, 1000)


@given(updates_of(ANY_DIFFS), seeds, st.integers(1, 20), st.booleans())
def test_a_cursor_emits_no_pair_that_another_one_cancels(updates, seed, limit, logged):
    op = Join(("hashed", "direct"))
    for side in op.sides:
        side.set_debts([0] * len(KEYS))
        if logged:
            side.keep_log()
    for part, frontier in random_slices(np.random.default_rng(seed), updates):
        op.run(part, frontier)
    pairs, is_last = [], False
    sides = [join_cursor.read_by(side.block) for side in op.sides]
    with join_cursor.cursor_over(op.blocks.memory, LAST_TIME, *sides) as cursor:
        while not is_last:
            is_last = join_cursor.pairs(op.block, cursor, limit)
            pairs += [(weight, *row) for _, weight, *row in op.output()]
    assert all(weight > 0 for weight, *_ in pairs)
    weights = {}
    for (_, *row), weight in joined([(LAST_TIME, *update) for _, *update in updates]).items():
        weights[tuple(row)] = weight
    assert sum(weight for weight, *_ in pairs) == sum(weights.values())
    assert {tuple(row) for _, *row in pairs} == {*weights}


@pytest.mark.parametrize("form", KEY_FORMS)
def test_a_piece_is_bounded_though_all_rows_of_a_key_cancel(form):
    side, rows, limit = Side(Blocks(), form=form), 2000, 10
    side.keep_log()
    side.insert([(0, 1, KEYS[0], value) for value in range(rows)], 1)
    assert side.settle() == DONE
    side.insert([(1, -1, KEYS[0], value) for value in range(rows)], 2)
    assert side.settle() == DONE
    out, pieces, is_last = [Array(Blocks().room()) for _ in range(3)], 0, False
    with join_cursor.cursor_over(side._blocks.memory, 1, join_cursor.read_by(side.block)) as cursor:
        while not is_last:
            is_last = join_cursor.rows(cursor, limit, *out)
            assert cursor.size == 0
            pieces += 1
    assert pieces >= 2 * rows // limit
