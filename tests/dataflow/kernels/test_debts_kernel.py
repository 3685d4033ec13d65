"""Laws of arrangements with debts: how many rows they keep, and how they are read in pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.join_blocks import ANY_DIFFS, KEYS, LAST_TIME, LEFT, Join, Side, joined, rows_of, updates_of
from support.engines.kernel_blocks import KEY_FORMS, Blocks, random_slices

from deltamark.dataflow.kernels.arrangements import join_cursor
from deltamark.dataflow.kernels.arrangements.debts import MIN_DEBTS
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.status import DONE

seeds = st.integers(0, 1000)
forms = st.sampled_from(KEY_FORMS)

LONG = -1
"""The number of debts of a key whose list is not searched."""


@settings(max_examples=90)
@given(updates_of(ANY_DIFFS), forms, seeds, st.integers(-3, MIN_DEBTS - 1))
def test_at_the_end_of_a_time_there_are_at_most_three_rows_for_each_unit_of_weight(updates, form, seed, paid):
    side, last = Side(Blocks(), form=form), -1
    side.set_debts([paid] * len(KEYS))
    left = [(time, *update) for time, of, *update in updates if of == LEFT]
    for part, frontier in random_slices(np.random.default_rng(seed), left):
        side.insert(part, frontier)
        assert side.settle() == DONE
        last = part[-1][0] if part else last
        if last < frontier:
            assert side.rows.live <= 3 * sum(rows_of(updates, LEFT, time=last).values())
            assert 3 * side.rows.all_debts <= side.rows.live
    side.insert([(LAST_TIME + 1, -weight, *row) for row, weight in rows_of(updates, LEFT).items()], LAST_TIME + 2)
    assert side.settle() == DONE
    assert side.rows.live == 0


@pytest.mark.parametrize("form", KEY_FORMS)
def test_debts_are_paid_at_the_end_of_their_time_though_no_update_follows(form):
    side = Side(Blocks(), form=form)
    side.set_debts([LONG] * len(KEYS))
    side.insert([(1, 1, KEYS[0], 1), (2, -1, KEYS[0], 1)], 2)
    assert side.settle() == DONE
    assert side.rows.live == 2, "the time may go on"
    side.insert([], 3)
    assert side.settle() == DONE
    assert side.rows.live == 0


@pytest.mark.parametrize("form", KEY_FORMS)
def test_debts_begin_though_many_rows_are_negative_until_their_time_ends(form):
    side, order = Side(Blocks(), form=form), np.random.default_rng(2).permutation(1000)
    for diff, values in ((-1, order), (1, order[::-1])):
        for part in np.split(values, 4):
            side.insert([(1, diff, KEYS[0], int(value)) for value in part], 1)
            assert side.settle() == DONE
    assert side.rows.has_debts == 1
    side.insert([(1, 1, KEYS[0], 1)], 2)
    assert side.settle() == DONE
    assert side.weights() == {(KEYS[0], 1): 1}
    assert side.rows.live <= 3


@given(updates_of(ANY_DIFFS), seeds, st.integers(1, 20), st.booleans())
def test_a_cursor_emits_no_pair_that_another_one_cancels(updates, seed, limit, logged):
    op = Join(("hashed", "direct"))
    for side in op.sides:
        side.set_debts([LONG] * len(KEYS))
        if logged:
            side.keep_log()
    for part, frontier in random_slices(np.random.default_rng(seed), updates):
        op.run(part, frontier)
    pairs, is_last = [], False
    sides = [join_cursor.read_by(side.block) for side in op.sides]
    cursor = join_cursor.cursor_over(op.blocks.memory.reserve, LAST_TIME, *sides)
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
    out, pieces, is_last = [Array(side._blocks.room()) for _ in range(3)], 0, False
    cursor = join_cursor.cursor_over(side._blocks.memory.reserve, 1, join_cursor.read_by(side.block))
    while not is_last:
        is_last = join_cursor.rows(cursor, limit, *out)
        assert cursor.size == 0
        pieces += 1
    assert pieces >= 2 * rows // limit
