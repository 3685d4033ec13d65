"""The kernels that reduce the rows of a loop agree with plain Python."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks
from support.engines.loop_blocks import HIGH_KEY, LOW_KEY, Reduction, best, few, iterations, rows_in, values

from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.loops import reduce_state, running_sums
from deltamark.dataflow.kernels.loops.reduce import buffer_updates, evaluate_keys
from deltamark.dataflow.kernels.loops.running_sums import NEW, OLD
from deltamark.dataflow.kernels.status import FAILED


def expected_changes(rows, min_weight):
    """Return the rows of each iteration after 0 as differences from those of the iteration before."""
    changes = Counter()
    for key in range(LOW_KEY, HIGH_KEY + 1):
        for iteration in range(8):
            changes[iteration + 1, key, best(rows, key, iteration, min_weight)] += 1
            changes[iteration + 1, key, best(rows, key, iteration - 1, min_weight)] -= 1
    return {row: diff for row, diff in changes.items() if diff and row[2] is not None}


@st.composite
def epochs(draw):
    """Draw epochs of slices, in which no value of an iteration has a negative weight, but rows may."""
    live, result = [], []
    for _ in range(draw(st.integers(1, 4))):
        slices = []
        for _ in range(draw(st.integers(1, 3))):
            rows = []
            for _ in range(draw(st.integers(0, 6))):
                if live and draw(st.booleans()):
                    iteration, key, value = live.pop(draw(st.integers(0, len(live) - 1)))
                    rows.append((iteration + draw(st.integers(0, 2)), -1, key, value))
                else:
                    iteration, key, value = draw(st.tuples(iterations, st.integers(LOW_KEY, LOW_KEY + 2), values))
                    live.append((iteration, key, value))
                    rows.append((iteration, 1, key, value))
            slices.append(rows)
        result.append(slices)
    return result


@settings(max_examples=150)
@given(
    drawn=epochs(),
    hashed=st.booleans(),
    min_weight=st.integers(1, 2),
    min_summed_rows=st.sampled_from([0, 100]),
    limit=st.integers(1, 3),
)
def test_a_reduction_keeps_the_least_value_in_every_iteration(drawn, hashed, min_weight, min_summed_rows, limit):
    reduction = Reduction(Blocks(), hashed, min_weight, min_summed_rows)
    rows, changes, answer = Counter(), Counter(), Counter()
    for slices in drawn:
        for iteration, diff, key, value in (row for rows_ in slices for row in rows_):
            rows[key, iteration, value] += diff
        new_changes, new_answer = reduction.run_epoch(slices, limit)
        for total, more in ((changes, new_changes), (answer, new_answer)):
            for row, diff in more.items():
                total[row] += diff
        assert {row: diff for row, diff in changes.items() if diff} == expected_changes(rows, min_weight)
        kept = {(key, best(rows, key, 99, min_weight)): 1 for key in range(LOW_KEY, HIGH_KEY + 1)}
        assert {row: diff for row, diff in answer.items() if diff} == {
            row: 1 for row in kept if row[1] is not None
        }  # fmt: skip
        live = {row: weight for row, weight in rows.items() if weight}
        assert rows_in(reduction.block.trace) == live
        if hashed:
            assert reduction.block.trace.keys.used == len({key for key, _, _ in live})


def test_a_reduction_names_the_value_of_negative_weight():
    for min_summed_rows in (0, 100):
        reduction = Reduction(Blocks(), hashed=False, min_weight=1, min_summed_rows=min_summed_rows)
        reduction.run_epoch([[(0, 1, 4, 2)]], 8)
        reduction.rows.set([(0, -2, 4, 2), (1, 1, 4, 1)])
        assert buffer_updates(reduction.block) == 0
        assert evaluate_keys(reduction.block, 8) == FAILED
        block = reduction.block
        found = block.error, hash_map.key_of(block.trace.keys, block.error_key), block.error_value
        assert found == (reduce_state.NEGATIVE_WEIGHT, 4, 2)


@few
@given(
    st.lists(st.tuples(iterations, st.integers(1, 3), st.just(4), st.integers(0, 30)), min_size=1, max_size=40),
    iterations,
    st.integers(1, 3),
)
def test_running_sums_are_the_sums_of_the_rows_so_far(rows, iteration, min_weight):
    reduction = Reduction(Blocks(), hashed=False, min_weight=1, min_summed_rows=100)
    reduction.run_epoch([rows[::2]], 8)
    reduction.rows.set(rows[1::2])
    assert buffer_updates(reduction.block) == 0
    first = reduce_state.key_state.py_func(reduction.block.trace.lists, 4 - LOW_KEY).first
    sums = running_sums.sums_at.py_func(reduction.block, running_sums.make_sums(reduction.block, first, -1, 0))
    for stop in (iteration, iteration + 2):
        running_sums.add_until(reduction.block, sums, first, stop)
        for which, part in ((NEW, rows), (OLD, rows[::2])):
            weights = Counter()
            for at, weight, _, value in part:
                weights[value] += weight if at < stop else 0
            index = running_sums.least(sums, which, min_weight)
            expected = min((value for value, weight in weights.items() if weight >= min_weight), default=None)
            found = running_sums.value_at(sums, index)
            assert found == (reduce_state.NO_VALUE if expected is None else expected)
        later = [at for at, *_ in rows if at >= stop]
        following = running_sums.next_iteration(reduction.block, sums, first)
        assert following == min(later, default=reduce_state.NEVER)
