"""The kernels of consolidate and merge agree with plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.engines.kernel_blocks import Blocks, Updates, random_slices

from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.status import FAILED, NEEDS_ROOM
from deltamark.dataflow.operators.consolidate import ConsolidateBlock, consolidate
from deltamark.dataflow.operators.linear import MergeBlock, MergedStream, merge


def rows_of(blocks, cells, size):
    return list(zip(*(blocks.vector_values(cell, view(size, 1)[0]) for cell in cells), strict=True))


def consolidation(blocks, columns, mask):
    updates, out_size = Updates(blocks, columns), blocks.cell()
    out = [blocks.vector() for _ in range(columns + 2)]
    op = blocks.block(
        ConsolidateBlock, size=updates.size, columns=columns + 2,
        inputs=blocks.words([updates.time, updates.diff, *updates.columns]), frontier=updates.frontier,
        buffer=blocks.words([blocks.room() for _ in out]), table=blocks.words([0] * (mask + 1)), mask=mask,
        out_size=out_size, out=blocks.words(out),
    )  # fmt: skip
    return (
        op,
        updates,
        lambda: list(zip(*(blocks.vector_values(cell, view(out_size, 1)[0]) for cell in out), strict=True)),
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_time_has_each_row_once_with_a_weight_other_than_zero(seed):
    rng, blocks = np.random.default_rng(seed), Blocks()
    times = np.sort(rng.integers(0, 8, size=200)).tolist()
    rows = [(time, *rng.integers([-2, 0, 0], [3, 3, 3]).tolist()) for time in times]
    op, updates, output = consolidation(blocks, 2, 1023)
    written: Counter[tuple[int, ...]] = Counter()
    for part, frontier in random_slices(rng, rows):
        updates.set(part, frontier)
        assert consolidate(op) == 0
        result = output()
        assert all(diff != 0 and time < frontier for time, diff, *_ in result)
        assert len({(time, *row) for time, _, *row in result}) == len(result)
        for time, diff, *row in result:
            written[time, *row] += diff
    expected: Counter[tuple[int, ...]] = Counter()
    for time, diff, *row in rows:
        expected[time, *row] += diff
    assert written == {row: weight for row, weight in expected.items() if weight}


def test_rows_that_need_a_larger_table_wait():
    blocks = Blocks()
    op, updates, _ = consolidation(blocks, 1, 15)
    updates.set([(0, 1, value) for value in range(9)], 1)
    assert consolidate(op) == NEEDS_ROOM
    assert op.held == 0


def test_a_weight_of_more_than_64_bits_is_an_overflow():
    blocks = Blocks()
    op, updates, _ = consolidation(blocks, 1, 15)
    updates.set([(0, 2**63 - 1, 5), (0, 1, 5)], 1)
    assert consolidate(op) == FAILED


@pytest.mark.parametrize("seed", range(10))
def test_a_merge_is_in_order_of_time_and_keeps_the_order_of_each_stream(seed):
    rng, blocks = np.random.default_rng(seed), Blocks()
    streams = [Updates(blocks, 1) for _ in range(int(rng.integers(1, 5)))]
    out, out_size = [blocks.vector() for _ in range(3)], blocks.cell()
    inputs = [
        blocks.block(
            MergedStream, size=each.size, time=each.time, columns=blocks.words([each.time, each.diff, *each.columns])
        ).address
        for each in streams
    ]
    op = blocks.block(
        MergeBlock, streams=len(streams), inputs=blocks.words(inputs), columns=3, out_size=out_size,
        out=blocks.words(out),
    )  # fmt: skip
    for _ in range(3):
        rows = []
        for place, each in enumerate(streams):
            times = np.sort(rng.integers(0, 10, size=rng.integers(0, 30))).tolist()
            part = [(time, place, at) for at, time in enumerate(times)]
            each.set(part, 0)
            rows += part
        merge(op)
        result = rows_of(blocks, out, out_size)
        assert result == sorted(rows)
