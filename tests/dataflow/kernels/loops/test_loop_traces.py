"""The kernels of traces, worklists and cycles agree with plain Python."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks
from support.engines.loop_blocks import (
    LOW_KEY,
    Slice,
    detector_of,
    few,
    iterations,
    keys,
    rows_in,
    trace_of,
    values,
    worklist_of,
)

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.loops import cycles, trace, worklist
from deltamark.dataflow.kernels.loops.trace import TraceRow

slices = st.lists(st.lists(st.tuples(iterations, st.sampled_from([-1, 1, 2]), keys, values), max_size=8), max_size=6)


@few
@given(slices, st.booleans())
def test_a_trace_sums_weights_by_key_iteration_and_value(batches, hashed):
    blocks = Blocks()
    rows, expected, stored = Slice(blocks), Counter(), set()
    block = trace_of(blocks, rows, hashed=hashed, record_words=TraceRow.size_in_words + 2, key_width=1)
    for batch in batches:
        rows.set(batch)
        assert trace.add_slice(block) >= 0
        for iteration, diff, key, value in batch:
            expected[key, iteration, value] += diff
            stored.add((key, iteration, value))
        assert rows_in(block) == {row: expected[row] for row in stored}
        for slot in {block.slots[at] for at in range(len(batch))}:
            if TraceRow(block.records.address + 8 * block.record_words * slot).weight == 0:
                trace.remove_row(block, slot)
        stored = {row for row in stored if expected[row]}
        assert rows_in(block) == {row: expected[row] for row in stored}
        assert block.used == len(stored)


def test_a_trace_reports_weights_beyond_64_bits():
    blocks = Blocks()
    rows = Slice(blocks)
    block = trace_of(blocks, rows, hashed=False, record_words=TraceRow.size_in_words + 1, key_width=1)
    rows.set([(0, 2**62, LOW_KEY, 0)])
    assert trace.add_slice(block) >= 0
    assert trace.add_slice(block) < 0


@few
@given(st.lists(st.one_of(st.tuples(keys, iterations), st.integers(1, 3)), max_size=40))
def test_a_worklist_yields_the_keys_of_the_first_iteration(steps):
    blocks, waiting, heap = Blocks(), defaultdict(list), []
    block, taken = worklist_of(blocks), Array(blocks.room())
    for step in steps:
        if isinstance(step, tuple):
            worklist.schedule(block, *step)
            waiting[step[1]].append(step[0])
            heapq.heappush(heap, step[1])
        elif heap:
            assert worklist.first_iteration(block) == heap[0]
            count = worklist.take(block, step, taken)
            assert count == min(step, len(waiting[heap[0]]))
            for at in range(count):
                waiting[heap[0]].remove(taken[at])
            for _ in range(count):
                heapq.heappop(heap)
        assert worklist.is_empty(block) == (not heap)
    assert block.next_node <= len(steps) + 1


def first_cycle(totals, min_iterations):
    """Run iterations whose rows have these digests; return the first that ends a cycle, and its period."""
    blocks, before = Blocks(), 0
    detector = detector_of(blocks, min_iterations)
    for iteration, total in enumerate(totals):
        detector.digests[iteration] = total - before
        before = total
        if iteration and (period := cycles.begin_iteration(detector, iteration)):
            return iteration, period
    return None


@few
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.lists(st.integers(5, 6), max_size=5), st.integers(1, 5))
def test_cycles_are_found_and_are_real(cycle, beginning, min_iterations):
    totals = beginning + cycle * 40
    found = first_cycle(totals, min_iterations)
    assert found is not None or len(set(cycle)) == 1
    if found is not None:
        end, period = found
        assert totals[end] == totals[end - period]
        assert len(set(totals[end - period : end])) > 1


def test_rows_that_never_repeat_are_no_cycle():
    assert first_cycle(list(range(300)), 1) is None
    assert first_cycle([0, *[7] * 300], 1) is None
