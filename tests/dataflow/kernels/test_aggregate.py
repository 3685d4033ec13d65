"""The kernels of aggregate, threshold and prefix aggregate agree with plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from support.engines.kernel_blocks import KEY_FORMS, Blocks, Updates, random_slices

from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups.aggregate import AggregateBlock, aggregate, group_words
from deltamark.dataflow.kernels.parallel.prefix_aggregate import PrefixAggregateBlock, prefix_aggregate
from deltamark.dataflow.kernels.status import FAILED, WAITING
from deltamark.dataflow.operators.threshold import ThresholdBlock, threshold
from deltamark.dataflow.types import LARGEST

KEYS = 8
LARGE = 2**54
"""A value that is large, though the sum of all rows of a test fits into 64 bits."""


def random_rows(rng, size, *, times):
    """Draw rows (time, diff, key, value), none of which is retracted before its insertion."""
    live: list[tuple[int, int]] = []
    rows = []
    for time in np.sort(rng.integers(0, times, size=size)).tolist():
        if live and rng.random() < 0.45:
            rows.append((time, -1, *live.pop(int(rng.integers(len(live))))))
        else:
            row = int(rng.integers(KEYS)), int(rng.integers(-2, 3)) * LARGE
            live.append(row)
            rows.append((time, 1, *row))
    return rows


def output_of(blocks, op):
    size, cells = op.out_size, [op.as_words.out_time, op.as_words.out_diff, op.as_words.out_key]
    if isinstance(op, AggregateBlock):
        cells += view(op.out.address, op.sums).tolist()
    return list(zip(*(blocks.vector_values(cell, size) for cell in cells), strict=True))


def changes(rows, value_of):
    """Return the changes (time, key, *values) of groups, whose rows a function maps to values, or to None."""
    groups: dict[int, Counter[int]] = defaultdict(Counter)
    expected: Counter[tuple[int, ...]] = Counter()
    for time in sorted({time for time, *_ in rows}):
        touched = {key for at, _, key, _ in rows if at == time}
        before = {key: value_of(groups[key]) for key in touched}
        for at, diff, key, value in rows:
            if at == time:
                groups[key][value] += diff
        for key in touched:
            after = value_of(groups[key])
            if after != before[key]:
                for values, diff in ((before[key], -1), (after, 1)):
                    if values is not None:
                        expected[time, key, *values] += diff
    return expected


def consolidated(output):
    weights: Counter[tuple[int, ...]] = Counter()
    for time, diff, *row in output:
        weights[time, *row] += diff
    return Counter({row: weight for row, weight in weights.items() if weight})


def count_and_sum(rows):
    size, total = rows.total(), sum(value * weight for value, weight in rows.items())
    return (size, total) if size else None


def new_aggregate(blocks, updates, keys, least=-LARGEST, most=LARGEST):
    """Make an aggregate that counts rows, and sums a column between bounds."""
    sums, out = 2, [blocks.vector(), blocks.vector()]
    return blocks.block(
        AggregateBlock, size=updates.size, time=updates.time, diff=updates.diff, key=updates.columns[0],
        keys=keys.address, frontier=updates.frontier, sums=sums, values=blocks.words([0, updates.columns[1]]),
        state=blocks.room(), saved=blocks.room(), touched=blocks.room(), out_size=blocks.cell(),
        out_time=blocks.vector(), out_diff=blocks.vector(), out_key=blocks.vector(), out=blocks.words(out),
        bounds=blocks.words([0, LARGEST, least, most]), slice_values=blocks.words([0] * sums),
        slice_out=blocks.words([0] * sums), double_sums=0, slice_doubles=0, others=0, scratch=0,
    )  # fmt: skip


@pytest.mark.parametrize("form", KEY_FORMS)
@pytest.mark.parametrize("times", [1, 20, 400])
def test_an_aggregate_emits_the_change_of_each_group_when_a_time_ends(times, form):
    rng = np.random.default_rng(times)
    for _ in range(10):
        blocks = Blocks()
        updates, keys = Updates(blocks, 2), blocks.keys(form=form)
        op, rows = new_aggregate(blocks, updates, keys), random_rows(rng, 200, times=times)
        output = []
        for part, frontier in random_slices(rng, rows):
            updates.set(part, frontier)
            assert aggregate(op) == 0
            output += output_of(blocks, op)
        live: Counter[int] = Counter()
        for _, diff, key, _ in rows:
            live[key] += diff
        assert consolidated(output) == changes(rows, count_and_sum)
        assert op.live == sum(size > 0 for size in live.values())
        if form != "direct":
            words = int(group_words(2))
            state = view(op.state.address, words * KEYS).reshape(-1, words)
            assert keys.used == state.any(axis=1).sum()


@pytest.mark.parametrize("rows", [[(3, -1, 5, 0)], [(3, -1, 5, 0), (3, -1, 5, 0)]], ids=["one row", "two rows"])
def test_a_negative_group_fails(rows):
    blocks = Blocks()
    updates = Updates(blocks, 2)
    op = new_aggregate(blocks, updates, blocks.keys(form="direct"))
    updates.set(rows, 4)
    assert aggregate(op) == FAILED
    assert (op.error_group, op.open_time) == (5, 3)


@pytest.mark.parametrize("value", [-1, 3, LARGEST])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_sum_out_of_bounds_fails(rows, value):
    blocks = Blocks()
    updates = Updates(blocks, 2)
    op = new_aggregate(blocks, updates, blocks.keys(form="direct"), least=0, most=2)
    updates.set([(3, 1, 5, 2), (3, 1, 6, 1)], 4)
    assert aggregate(op) == 0
    updates.set([(5, 1, 5, value - 2), (5, -1, 6, 1)][:rows], 6)
    assert aggregate(op) == FAILED
    assert (op.error_group, op.open_time) == (5, 5)


@pytest.mark.parametrize("minimum", [1, 3])
@pytest.mark.parametrize("form", KEY_FORMS)
def test_a_threshold_emits_the_crossings_of_its_minimum(minimum, form):
    rng = np.random.default_rng(minimum)
    for _ in range(10):
        blocks = Blocks()
        updates, keys = Updates(blocks, 1), blocks.keys(form=form)
        op = blocks.block(
            ThresholdBlock, size=updates.size, time=updates.time, diff=updates.diff, key=updates.columns[0],
            keys=keys.address, frontier=updates.frontier, minimum=minimum, state=blocks.room(), saved=blocks.room(),
            touched=blocks.room(), out_size=blocks.cell(), out_time=blocks.vector(), out_diff=blocks.vector(),
            out_key=blocks.vector(),
        )  # fmt: skip
        rows, output = random_rows(rng, 200, times=30), []
        for part, frontier in random_slices(rng, rows):
            updates.set([row[:3] for row in part], frontier)
            assert threshold(op) == 0
            output += output_of(blocks, op)
        assert consolidated(output) == changes(rows, lambda group: () if group.total() >= minimum else None)
        assert op.live == len({row[2] for row in rows}) - sum(
            sum(diff for _, diff, key, _ in rows if key == each) == 0 for each in {row[2] for row in rows}
        )
        updates.set([(50, -1, KEYS)], 51)
        assert threshold(op) == FAILED


class PrefixAggregates:
    """The prefix aggregates of several workers, whose sums lie between bounds."""

    def __init__(self, blocks, workers, **bounds):
        self.frontier = blocks.cell()
        self.updates = [Updates(blocks, 2) for _ in range(workers)]
        self.aggregates = [new_aggregate(blocks, each, blocks.keys(form="direct"), **bounds) for each in self.updates]
        self.shards = [
            blocks.block(
                PrefixAggregateBlock, aggregate=own.address, frontier=self.frontier, until=mine.frontier,
                places=blocks.room(), **meeting,
            )
            for own, mine, meeting in zip(self.aggregates, self.updates, blocks.meetings(workers), strict=True)
        ]  # fmt: skip

    def run(self, rng, rows, frontier):
        """Run a superstep over rows, which are cut at random; return the status of each worker."""
        workers = len(self.shards)
        cuts = [0, *np.sort(rng.integers(0, len(rows) + 1, size=workers - 1)).tolist(), len(rows)]
        for mine, start, stop in zip(self.updates, cuts, cuts[1:], strict=False):
            mine.set(rows[start:stop], 0)
        view(self.frontier, 1)[0] = frontier
        *waiting, last = [prefix_aggregate(shard) for shard in self.shards]
        assert waiting == [WAITING] * (workers - 1)
        return [*(prefix_aggregate(shard) for shard in self.shards[:-1]), last]


@pytest.mark.parametrize("times", [1, 6, 200])
@pytest.mark.parametrize("workers", [2, 3])
def test_prefix_aggregates_emit_together_what_an_aggregate_emits(workers, times):
    rng = np.random.default_rng(workers * times)
    for _ in range(5):
        blocks = Blocks()
        group = PrefixAggregates(blocks, workers)
        rows, output = random_rows(rng, 300, times=times), []
        for part, frontier in random_slices(rng, rows):
            assert group.run(rng, part, frontier) == [0] * workers
            for each in group.aggregates:
                output += output_of(blocks, each)
        assert consolidated(output) == changes(rows, count_and_sum)


@pytest.mark.parametrize("workers", [2, 3])
def test_prefix_aggregates_fail_at_the_time_at_which_an_aggregate_fails(workers):
    rng = np.random.default_rng(workers)
    for _ in range(50):
        blocks, bounds = Blocks(), {"least": -2 * LARGE, "most": 2 * LARGE}
        updates, rows = Updates(blocks, 2), random_rows(rng, 30, times=10)
        alone = new_aggregate(blocks, updates, blocks.keys(form="direct"), **bounds)
        group = PrefixAggregates(blocks, workers, **bounds)
        updates.set(rows, 2**62)
        expected = [alone.open_time] if aggregate(alone) == FAILED else []
        found = []
        for part, frontier in random_slices(rng, rows):
            statuses = group.run(rng, part, frontier)
            found = [of.open_time for of, status in zip(group.aggregates, statuses, strict=True) if status == FAILED]
            if found:
                break
        assert sorted(found)[:1] == expected
