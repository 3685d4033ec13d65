"""Arrangements and their join against a nested loop over weighted updates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.join_blocks import (
    ANY_DIFFS,
    KEYS,
    LAST_TIME,
    LEFT,
    RIGHT,
    UNIT_DIFFS,
    Join,
    Side,
    consolidated,
    joined,
    rows_of,
    updates_of,
)
from support.engines.kernel_blocks import KEY_FORMS, Blocks, random_slices

from deltamark.dataflow.kernels.arrangements import join_cursor, settle, update_log
from deltamark.dataflow.kernels.arrangements.debts import MIN_DEBTS
from deltamark.dataflow.kernels.arrangements.join import join
from deltamark.dataflow.kernels.arrangements.lists import MIN_PASSED
from deltamark.dataflow.kernels.arrangements.slice_rows import FEW
from deltamark.dataflow.kernels.arrangements.slots import BLOCK_SLOTS
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.status import DONE, FAILED

seeds = st.integers(0, 1000)
forms = st.sampled_from(KEY_FORMS)
kinds_of_keys = st.tuples(forms, forms)
filters = st.tuples(*[st.sampled_from([None, 0, 1])] * 2)


@pytest.mark.parametrize("diffs", [UNIT_DIFFS, ANY_DIFFS], ids=["unit weights", "any weights"])
@settings(max_examples=90)
@given(st.data(), kinds_of_keys, filters, seeds)
def test_a_join_emits_each_pair_at_the_later_time_with_the_product_of_weights(diffs, data, kinds, bits, seed):
    updates, op, pairs = data.draw(updates_of(diffs)), Join(kinds, bits), []
    for part, frontier in random_slices(np.random.default_rng(seed), updates):
        output = op.run(part, frontier)
        assert [time for time, *_ in output] == sorted(time for time, *_ in output)
        pairs += output
    assert consolidated(pairs) == joined(updates, bits)
    for number, side in enumerate(op.sides):
        assert side.weights() == rows_of(updates, number, bit=bits[number])


@pytest.mark.parametrize("keys", [5, 150], ids="{} keys".format)
@given(kinds_of_keys, seeds, st.sampled_from([0, 0.01, 0.3]), st.sampled_from([20, 700]))
def test_a_window_that_rows_leave_in_about_the_order_of_their_arrival_is_joined(keys, kinds, seed, late, most):
    rng = np.random.default_rng(seed)
    op, first = Join(kinds, last_key=KEYS[0] + keys - 1), [(0, RIGHT, 1, KEYS[0] + key, key) for key in range(keys)]
    lines = [(KEYS[0] + order % keys, int(rng.integers(4))) for order in range(300) for _ in range(rng.integers(1, 8))]
    stay = 400 + np.where(rng.random(len(lines)) < late, rng.integers(0, 50, len(lines)), 0)
    changes = [(at, LEFT, 1, *line) for at, line in enumerate(lines)]
    changes += [(int(at + stay[at]), LEFT, -1, *line) for at, line in enumerate(lines)]
    updates, pairs, start = first + sorted(changes, key=lambda change: change[0]), [], 0
    while start < len(updates):
        stop = start + int(rng.integers(1, most))
        pairs += op.run(updates[start:stop], updates[stop][0] if stop < len(updates) else updates[-1][0] + 1)
        start = stop
    partner = {key: value for _, _, _, key, value in first}
    assert consolidated(pairs) == consolidated([(time, diff, *row, partner[row[0]]) for time, _, diff, *row in changes])
    assert op.sides[LEFT].rows.live == 0


@pytest.mark.parametrize("logged", [False, True], ids=["settled", "logged"])
@given(updates_of(ANY_DIFFS), kinds_of_keys, seeds)
def test_a_join_of_arrangements_with_debts_is_the_same(logged, updates, kinds, seed):
    rng, op, pairs = np.random.default_rng(seed), Join(kinds), []
    for side in op.sides:
        side.set_debts(rng.integers(-3, MIN_DEBTS, size=2 * len(KEYS)))
        if logged:
            side.keep_log()
    for part, frontier in random_slices(rng, updates):
        pairs += op.run(part, frontier)
        for side in op.sides:
            side.set_debts(rng.integers(-3, MIN_DEBTS, size=2 * len(KEYS)))
            if logged:
                side.settle_log(side.rows.first, frontier)
    assert consolidated(pairs) == joined(updates)
    for number, side in enumerate(op.sides):
        assert side.weights() == rows_of(updates, number)


@pytest.mark.parametrize("rows", [1, 3, 12], ids="{} live rows".format)
@pytest.mark.parametrize("with_debts", [False, True], ids=["settled", "debts"])
@given(forms, seeds, st.permutations([LEFT, LEFT, RIGHT]))
def test_a_slice_in_which_a_key_changes_at_many_times_has_few_pairs(rows, with_debts, form, seed, of):
    op, (first, changes) = Join((form, form)), _replacements(rows, of, np.random.default_rng(seed))
    if with_debts:
        for side in op.sides:
            side.set_debts([0] * len(KEYS))
    before, after = op.run(first, 1), op.run(changes, TIMES)
    assert consolidated([*before, *after]) == joined([*first, *changes])
    assert len(after) == len(changes) * rows


@pytest.mark.parametrize("with_debts", [False, True], ids=["settled", "debts"])
@settings(max_examples=20)
@given(forms, seeds, st.permutations([LEFT, LEFT, RIGHT]), st.sampled_from([-3, 0]))
def test_a_slice_has_few_pairs_though_its_lists_are_too_long_to_be_searched(with_debts, form, seed, of, debts):
    """A reader meets the live rows, and those that the slice has retracted with their retractions."""
    op, (first, changes) = Join((form, form)), _replacements(MANY_ROWS, of, np.random.default_rng(seed))
    for side in op.sides:
        if with_debts:
            side.set_debts([debts] * len(KEYS))
        side.rows.passed = 1 << 20
    before, after = op.run(first, 1), op.run(changes, TIMES)
    assert consolidated([*before, *after]) == joined([*first, *changes])
    assert len(after) <= len(changes) * (3 * MANY_ROWS + 2 * FEW)
    for number, side in enumerate(op.sides):
        assert side.weights(TIMES) == rows_of([*first, *changes], number, time=TIMES)


TIMES = 200
"""The times of replaced rows."""

MANY_ROWS = 20
"""More rows than a retraction searches."""


def _replacements(rows, of, rng):
    """Return some rows of both sides, and changes: at each time a row of a side is replaced.

    So its pairs with the live rows of the other side change.
    """
    live = {side: [*range(rows)] for side in (LEFT, RIGHT)}
    first = [(0, side, 1, KEYS[0], value) for side in live for value in live[side]]
    changes = []
    for time in range(1, TIMES):
        side, at = of[time % len(of)], rng.integers(rows)
        changes.append((time, side, -1, KEYS[0], live[side][at]))
        live[side][at] = int(rng.integers(rows + 4))
        changes.insert(len(changes) - rng.integers(2), (time, side, 1, KEYS[0], live[side][at]))
    return first, changes


@given(updates_of(ANY_DIFFS), kinds_of_keys, seeds, st.integers(-1, LAST_TIME))
def test_a_join_of_logged_arrangements_is_the_same(updates, kinds, seed, settled_time):
    op, pairs = Join(kinds), []
    for side in op.sides:
        side.keep_log()
    for part, frontier in random_slices(np.random.default_rng(seed), updates):
        pairs += op.run(part, frontier)
        until = min(settled_time, frontier - 1)
        for side in op.sides:
            logged = view(side.rows.log_time.address, side.rows.first)
            side.settle_log(int(np.searchsorted(logged, until, "right")), until + 1)
    assert consolidated(pairs) == joined(updates)
    for number, side in enumerate(op.sides):
        for time in range(max(settled_time, 0), LAST_TIME + 1):
            assert side.weights(time) == rows_of(updates, number, time=time)


@given(updates_of(ANY_DIFFS), st.integers(0, 60), forms)
def test_unlinked_updates_are_invisible_until_they_are_linked_again(updates, first, form):
    side = Side(Blocks(), form=form)
    side.keep_log()
    left = [(time, *update) for time, of, *update in updates if of == LEFT]
    first = min(first, len(left))
    side.insert(left, LAST_TIME + 1)
    assert side.settle() == 0
    update_log.unlink(side.rows, first)
    earlier = [(time, LEFT, *update) for time, *update in left[:first]]
    assert side.weights() == rows_of(earlier, LEFT)
    update_log.unlink(side.rows, 0)
    assert side.weights() == {}
    update_log.link(side.rows)
    assert side.weights() == rows_of(updates, LEFT)


@pytest.mark.parametrize("limit", [1, 5, 1000])
@given(updates=updates_of(ANY_DIFFS), seed=seeds, time=st.integers(0, LAST_TIME), form=forms)
def test_a_cursor_emits_the_pairs_as_of_a_time(limit, updates, seed, time, form):
    op = Join((form, "direct"), (0, None))
    for part, frontier in random_slices(np.random.default_rng(seed), updates):
        if frontier > time and not hasattr(op.sides[LEFT], "log"):
            for side in op.sides:
                side.keep_log()
        op.run(part, frontier)
    pairs, done = [], False
    sides = [join_cursor.read_by(side.block) for side in op.sides]
    cursor = join_cursor.cursor_over(op.blocks.memory.reserve, time, *sides)
    while not done:
        done = join_cursor.pairs(op.block, cursor, limit)
        assert op.block.size <= limit
        pairs += op.output()
    expected = joined([(time, *update) for at, *update in updates if at <= time], (0, None))
    assert consolidated(pairs) == expected


@pytest.mark.parametrize("form", KEY_FORMS)
@pytest.mark.parametrize("diff", [1, 2])
def test_rows_under_a_key_of_many_leave_in_any_order(form, diff):
    rng, rows = np.random.default_rng(diff), list(range(1000))
    op, updates = Join((form, form)), [(0, RIGHT, 1, KEYS[0], 0)]
    arriving = [(0, LEFT, diff, KEYS[0], value) for value in rows]
    rng.shuffle(rows)
    for time in range(LAST_TIME):
        leaving, rows = rows[:150], rows[150:]
        updates += [(time, *update) for _, *update in arriving]
        updates += [(time, LEFT, -1 if time else -diff, KEYS[0], value) for value in leaving]
        arriving = [(time, LEFT, 1, KEYS[0], 1000 * (time + 1) + value) for value in range(400)]
    pairs = []
    for time in range(LAST_TIME):
        pairs += op.run([update for update in updates if update[0] == time], time + 1)
    assert op.sides[LEFT].rows.has_debts == 1
    assert consolidated(pairs) == joined(updates)
    assert op.sides[LEFT].weights() == rows_of(updates, LEFT)


@pytest.mark.parametrize("form", KEY_FORMS)
def test_rows_are_found_whether_or_not_the_list_of_their_key_is_in_order(form):
    rng, keys = np.random.default_rng(4), 200
    side = Side(Blocks(), form=form, last_key=KEYS[0] + keys - 1)
    rows = [(KEYS[0] + place % keys, place) for place in range(100 * keys)]
    updates = [(0, 1, *row) for row in rows]
    side.insert(updates, 1)
    assert side.settle() == DONE
    for time in range(1, 9):
        rng.shuffle(rows)
        leaving, rows = rows[:160], rows[160:]
        arriving = [(KEYS[0] + int(key), 40_000 * time + at) for at, key in enumerate(rng.integers(keys, size=60))]
        changes = [(time, -1, *map(int, row)) for row in leaving] + [(time, 1, *row) for row in arriving]
        rows += arriving
        side.insert(changes, time + 1)
        assert side.settle() == DONE
    assert side.rows.has_debts == 1
    lists = view(side.rows.lists.address, keys).view(np.int32).reshape(-1, 2)
    assert {*(lists[:, 1] == 0).tolist()} == {False, True}
    assert side.weights(time) == dict.fromkeys([tuple(map(int, row)) for row in rows], 1)


@pytest.mark.parametrize("oldest_first", [True, False], ids=["oldest first", "any order"])
@pytest.mark.parametrize("form", KEY_FORMS)
def test_slots_of_rows_that_have_left_are_used_again(form, oldest_first):
    rng, rows, keys, most = np.random.default_rng(1), [], 800, 0
    side = Side(Blocks(), form=form, last_key=KEYS[0] + keys - 1)
    for time in range(30):
        arriving = [(KEYS[0] + int(key), time * 4000 + at) for at, key in enumerate(rng.integers(keys, size=4000))]
        if not oldest_first:
            rng.shuffle(rows)
        leaving, rows = rows[: len(rows) // 3], rows[len(rows) // 3 :] + arriving
        updates = [(time, 1, *row) for row in arriving] + [(time, -1, *map(int, row)) for row in leaving]
        side.insert(updates, time + 1)
        assert side.settle() == 0
        most = max(most, side.rows.live)
        assert 3 * side.rows.all_debts <= side.rows.live
    assert side.rows.live == len(rows) + 2 * side.rows.all_debts
    assert side.rows.top <= 2 * most + 4 * BLOCK_SLOTS
    assert side.weights(30) == {tuple(map(int, row)): 1 for row in rows}


@pytest.mark.parametrize("settles", [False, True], ids=["within a slice", "across slices"])
@pytest.mark.parametrize(
    ("weights", "status"), [((2**32, 2**31), FAILED), ((2**32, -(2**31)), DONE), ((-(2**62), 3), FAILED)]
)
def test_a_product_of_more_than_64_bits_is_an_overflow(weights, status, settles):
    op = Join(("direct", "direct"))
    left, right = ((1, side, weight, KEYS[0], 0) for side, weight in enumerate(weights))
    op.insert([left] if settles else [left, right], 1)
    if settles:
        assert join(op.block) == 0
        assert [side.settle() for side in op.sides] == [0, 0]
        op.insert([right], 1)
    assert join(op.block) == status
    if status == DONE:
        assert op.output() == [(1, weights[0] * weights[1], KEYS[0], 0, 0)]


@pytest.mark.parametrize("form", KEY_FORMS)
def test_a_row_may_be_negative_until_its_time_ends(form):
    side = Side(Blocks(), form=form)
    side.insert([(3, 1, KEYS[0], 1), (4, -1, KEYS[1], 2)], 4)
    assert side.settle() == 0
    side.insert([(4, 1, KEYS[1], 2), (5, -2, KEYS[0], 1)], 5)
    assert side.settle() == 0
    side.insert([(6, 1, KEYS[1], 3)], 6)
    assert side.settle() == settle.FAILED
    assert side.rows.negative_time == 5
    assert side.row(side.rows.negative_slot) == (KEYS[0], 1)


@pytest.mark.parametrize("form", KEY_FORMS)
def test_no_retraction_takes_a_row_that_an_earlier_one_needs(form):
    side, (older, row) = Side(Blocks(), form=form), [(KEYS[0], value) for value in range(2)]
    side.insert([(0, 1, *older), (0, 1, *row)], 1)
    assert side.settle() == DONE
    side.rows.passed = MIN_PASSED + 1  # the first retraction is not searched for, the others are the oldest rows
    side.insert([(1, -1, *row), (1, -1, *older), (2, 1, *row), (2, -1, *row)], 3)
    assert side.settle() == DONE
    assert side.weights() == {}


@pytest.mark.parametrize("form", KEY_FORMS)
def test_a_debt_may_be_left_until_its_time_ends(form):
    side = Side(Blocks(), form=form)
    side.set_debts([MIN_DEBTS - 1] * len(KEYS))
    side.insert([(3, -1, KEYS[0], 1), (3, 1, KEYS[0], 2)], 3)
    assert side.settle() == DONE
    assert side.weights() == {(KEYS[0], 1): -1, (KEYS[0], 2): 1}
    side.insert([(3, 1, KEYS[0], 1)], 4)
    assert side.settle() == DONE
    side.set_debts([MIN_DEBTS - 1] * len(KEYS))
    side.insert([(5, -1, KEYS[0], 1)], 6)
    assert side.settle() == FAILED
    assert side.rows.negative_time == 5
    assert side.row(side.rows.negative_slot) == (KEYS[0], 1)


def test_equal_rows_of_an_arrangement_with_debts_become_one():
    side = Side(Blocks(), form="hashed")
    side.set_debts([0] * len(KEYS))
    others = [(0, 1, KEYS[2], value) for value in range(20)]
    side.insert([(0, 1, KEYS[0], 1)] * 100 + [(0, 2, KEYS[0], 2), (0, 5, KEYS[1], 1), *others], 1)
    assert side.settle() == DONE
    side.insert([(1, -1, KEYS[0], 1)] * (MIN_DEBTS - 1) + [(1, -2, KEYS[0], 2)] + [(1, -1, KEYS[1], 1)] * 5, 2)
    assert side.settle() == DONE
    assert side.weights() == {(KEYS[0], 1): 100 - (MIN_DEBTS - 1)} | {(KEYS[2], value): 1 for value in range(20)}
    assert side.rows.live == 1 + 1 + 5 + 20


@pytest.mark.parametrize("form", KEY_FORMS)
def test_a_key_may_lose_all_rows_in_the_slice_in_which_debts_begin(form):
    rng, side = np.random.default_rng(3), Side(Blocks(), form=form)
    rows = [(KEYS[0], value) for value in range(2 * MIN_DEBTS)] + [(KEYS[1], value) for value in range(1000)]
    side.insert([(0, 1, *row) for row in rows], 1)
    assert side.settle() == DONE
    leaving = rows[: 2 * MIN_DEBTS] + [rows[at] for at in 2 * MIN_DEBTS + rng.permutation(1000)[:500]]
    side.insert([(1, -1, *row) for row in leaving], 2)
    assert side.settle() == DONE
    assert side.rows.has_debts == 1
    side.insert([(2, 1, KEYS[0], 7), (2, 1, KEYS[2], 7)], 3)
    assert side.settle() == DONE
    left = {*rows} - {*leaving} | {(KEYS[0], 7), (KEYS[2], 7)}
    assert side.weights() == dict.fromkeys(left, 1)
