"""The kernels of joins and iterations in a loop agree with plain Python."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks
from support.engines.loop_blocks import (
    HIGH_KEY,
    LOW_KEY,
    Reduction,
    Slice,
    best,
    few,
    iterations,
    key_map,
    keys,
    rows_in,
    trace_of,
    values,
)

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.arrangements.insert import insert
from deltamark.dataflow.kernels.arrangements.settle import settle
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.loops.iterate import IterateBlock, LoopSourceBlock, enter, iterate
from deltamark.dataflow.kernels.loops.join import LoopJoinBlock, loop_join
from deltamark.dataflow.kernels.loops.reduce import buffer_updates
from deltamark.dataflow.kernels.loops.trace import TraceRow
from deltamark.dataflow.kernels.status import FORWARD
from deltamark.dataflow.operators.arrangement import GROWING


def arrangement_of(blocks, rows, *, hashed):
    time, diff, key, value = rows.cells
    names = ("lists", "pending", "debts", "used", "next", "skips", "newest", *GROWING)
    arrays = {name: blocks.room() for name in names}
    return blocks.block(
        ArrangementBlock, size=rows.size, time=time, diff=diff, key=key, keys=key_map(blocks, hashed=hashed),
        frontier=blocks.cell(), columns=1, wide=1, inputs=blocks.words([value]), stored=blocks.words([blocks.room()]),
        visible_time=time, visible_diff=diff, **arrays,
    )  # fmt: skip


@st.composite
def join_epochs(draw):
    """Draw epochs of updates of the arrangement, which are sets of rows, and slices of the loop's rows."""
    live, result = set(), []
    for _ in range(draw(st.integers(1, 4))):
        toggled = draw(st.lists(st.tuples(keys, values), max_size=5, unique=True))
        updates = [(-1 if row in live else 1, *row) for row in toggled]
        live ^= set(toggled)
        rows = st.lists(st.tuples(iterations, st.sampled_from([-1, 1, 2]), keys, values), max_size=6)
        result.append((updates, draw(st.lists(rows, min_size=1, max_size=3))))
    return result


@few
@given(join_epochs(), st.booleans(), st.booleans())
def test_a_loop_join_is_the_join_of_both_totals(drawn, hashed, outer_hashed):
    blocks = Blocks()
    rows, outer_rows, out = Slice(blocks), Slice(blocks), Slice(blocks)
    outer = arrangement_of(blocks, outer_rows, hashed=outer_hashed)
    block = trace_of(blocks, rows, hashed=hashed, record_words=TraceRow.size_in_words + 1, key_width=1)
    iteration, diff, slot, value = out.cells
    now = blocks.cell()
    join = blocks.block(
        LoopJoinBlock, trace=block.address, outer=outer.address, now=now, size=out.size, iteration=iteration,
        diff=diff, slot=slot, columns=blocks.words([value]), hits=blocks.room(),
    )  # fmt: skip
    left, right, pairs = Counter(), Counter(), Counter()
    for time, (updates, slices) in enumerate(drawn):
        outer_rows.set([(time, *update) for update in updates])
        insert(outer)
        Array(now)[0] = time
        join.cursor, join.stop = 0, len(updates)
        for batch in slices:
            rows.set(batch)
            assert loop_join(join) == 0
            for at, weight, place, mine in out.get():
                pairs[at, mine, outer.stored[0][place]] += weight
        Array(outer_rows.size)[0] = len(updates)
        outer.as_words.frontier = blocks.cell(time + 1)
        assert settle(outer) == 0
        for weight, key, theirs in updates:
            right[key, theirs] += weight
        for at, weight, key, mine in (row for batch in slices for row in batch):
            left[key, at, mine] += weight
        expected = Counter()
        for (key, at, mine), weight in left.items():
            for (other, theirs), times in right.items():
                expected[at, mine, theirs] += weight * times if key == other else 0
        assert {pair: weight for pair, weight in pairs.items() if weight} == {
            pair: weight for pair, weight in expected.items() if weight
        }
        assert rows_in(block) == {row: weight for row, weight in left.items() if weight}


@few
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 4), keys, values), max_size=6), min_size=1, max_size=4),
    st.integers(1, 3),
)
def test_a_loop_whose_body_adds_no_row_keeps_the_least_of_its_input(slices, max_rows):
    """Each slice has later times than the one before, and ends its last time."""
    blocks = Blocks()
    inputs, entered = Slice(blocks), Slice(blocks)
    reduction = Reduction(blocks, hashed=False, min_weight=1, min_summed_rows=100, rows=entered)
    buffers = blocks.words([blocks.room() for _ in range(4)])
    source = blocks.block(
        LoopSourceBlock, size=inputs.size, columns=4, inputs=blocks.words(inputs.cells), buffers=buffers,
        out_size=entered.size, out=blocks.words(entered.cells), is_beginning=False,
    )  # fmt: skip
    frontier = blocks.cell()
    now = reduction.block.as_words.now
    head = blocks.block(
        IterateBlock, frontier=frontier, now=now, max_rows=max_rows, source_count=1,
        sources=blocks.words([source.address]), join_count=0, joins=blocks.words([]), reduce=reduction.block.address,
    )  # fmt: skip
    rows, answer = Counter(), Counter()
    for number, drawn in enumerate(slices):
        batch = sorted((10 * number + time, 1, key, value) for time, key, value in drawn)
        inputs.set(batch)
        Array(frontier)[0] = 10 * number + 10
        enter(source)
        while (status := iterate(head)) != FORWARD:
            assert status == 0
            assert buffer_updates(reduction.block) == 0
        for time, diff, key, value in reduction.answer.get():
            answer[time, key, value] += diff
        for time in sorted({time for time, *_ in batch}):
            before = {key: best(rows, key, 0, 1) for key in range(LOW_KEY, HIGH_KEY + 1)}
            rows.update((key, 0, value) for other, _, key, value in batch if other == time)
            for key, old in before.items():
                answer[time, key, best(rows, key, 0, 1)] -= 1
                answer[time, key, old] += 1
        assert not {row: diff for row, diff in answer.items() if diff and row[2] is not None}
