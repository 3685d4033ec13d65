"""The kernels of extreme, top, moving threshold and null row agree with plain Python functions of the rows so far."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest
from support.engines.kernel_blocks import Blocks, Updates, random_slices

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups import grouped_rows
from deltamark.dataflow.kernels.groups.grouped_rows import GROUP_WORDS, RowGroup, RowRecord, RowTable
from deltamark.dataflow.kernels.ordered.btree import MAX_DEPTH, BTree
from deltamark.dataflow.kernels.status import FAILED, NEEDS_ROOM
from deltamark.dataflow.operators.extreme import EXTREME
from deltamark.dataflow.operators.moving_threshold import MOVING_THRESHOLD
from deltamark.dataflow.operators.null_row import NULL_ROW
from deltamark.dataflow.operators.top import TOP
from deltamark.dataflow.types import NULL

KEYS, PLACES = 5, 7
VALUES = RowRecord.size_in_words


class Operator:
    """An operator over rows (value, key, other value), and perhaps over limits (numerator, denominator, key)."""

    def __init__(self, step, *, key, inputs=1, order=(), **fields):
        self._blocks = blocks = Blocks()
        self.inputs = [Updates(blocks, 3) for _ in range(inputs)]
        self.out, zeros = [blocks.room() for _ in range(5)], blocks.vector()
        tables = [
            self._table(each, zeros if key is None else each.columns[key[place]], place)
            for place, each in enumerate(self.inputs)
        ]
        if order:
            tree = blocks.block(
                BTree, records=tables[0].records.address, record_words=VALUES + 3, first_word=order[0],
                compared_words=order[1], are_texts=blocks.words([0] * order[1]),
                nodes=blocks.memory.reserve(1 << 18), path=blocks.words([0] * 2 * MAX_DEPTH),
            )  # fmt: skip
            fields["order"] = tree.address
        if step is TOP:
            fields["placed"] = blocks.room()
        if inputs == 2:
            fields["limits"] = tables[1].address
        self.keys = blocks.keys(form="hashed" if key is not None else "direct")
        self.block = blocks.block(
            step.block, ending=step.ending_code(), rows=tables[0].address, keys=self.keys.address,
            groups=blocks.words([0] * GROUP_WORDS * 64), frontier=self.inputs[0].frontier, touched=blocks.room(),
            out_size=blocks.cell(), out_time=self.out[0], out_diff=self.out[1], out=blocks.words(self.out[2:]),
            **fields,
        )  # fmt: skip

    def _table(self, updates, key, place):
        room = self._blocks.room
        return self._blocks.block(
            RowTable, size=updates.size, time=updates.time, diff=updates.diff, key=key, columns=3,
            inputs=self._blocks.words(updates.columns), slice_columns=room(), hashes=room(),
            table=self._blocks.words([0] * 16), mask=15, records=room(), record_words=VALUES + 3, is_limits=place,
        )  # fmt: skip

    def run(self):
        """Run over the slice; return the output, or None if the operator has failed."""
        while (status := grouped_rows.update_groups(self.block)) == NEEDS_ROOM:
            for table in (self.block.rows, self.block.limits):
                if table.address != 0 and grouped_rows.needs_rehash(table):
                    entries = 2 * (table.mask + 1)
                    grouped_rows.rehash(table, Array(self._blocks.words([0] * entries)), entries - 1)
        if status == FAILED:
            return None
        return list(zip(*(view(column, self.block.out_size).tolist() for column in self.out), strict=True))

    def feed(self, slices):
        """Return the consolidated output of slices, each of which has the rows of each input and the frontier."""
        weights: Counter[tuple[int, ...]] = Counter()
        for *parts, frontier in slices:
            for updates, part in zip(self.inputs, parts, strict=True):
                updates.set(part, frontier)
            for time, diff, *row in self.run():
                weights[time, *row] += diff
        return {row: weight for row, weight in weights.items() if weight}


def random_rows(rng, size, *, times):
    """Draw rows (time, diff, value, key, other value), none of which is retracted before its insertion."""
    live: list[tuple[int, ...]] = []
    rows = []
    for time in np.sort(rng.integers(0, times, size=size)).tolist():
        if live and rng.random() < 0.48:
            rows.append((time, -1, *live.pop(int(rng.integers(len(live))))))
        else:
            row = tuple(rng.integers([-6, 0, 0], [7, KEYS, 2]).tolist())
            live.append(row)
            rows.append((time, 1, *row))
    return rows


def changes(answer, times, *inputs):
    """Return the changes of an answer, a function of the weights of the rows of each input, at the end of each time."""
    states = [Counter[tuple[int, ...]]() for _ in inputs]
    before: Counter[tuple[int, ...]] = Counter()
    expected = {}
    for now in range(times):
        for state, rows in zip(states, inputs, strict=True):
            for time, diff, *row in rows:
                if time == now:
                    state[tuple(row)] += diff
        after = Counter(answer(*states))
        for row in before | after:
            if after[row] != before[row]:
                expected[now, *row] = after[row] - before[row]
        before = after
    return expected


def best_rows(rows):
    best = defaultdict(list)
    for (value, key, other), weight in rows.items():
        if weight:
            best[key].append((value, key, other))
    largest = {key: max(found)[0] for key, found in best.items()}
    return {row: rows[row] for key, found in best.items() for row in found if row[0] == largest[key]}


def first_rows(rows):
    return Counter(sorted(rows.elements())[:PLACES])


def rows_or_null(rows):
    return +rows or {(NULL,) * 3: 1}


def rows_above(rows, limits):
    bounds = {key: numerator // denominator for (numerator, denominator, key), weight in limits.items() if weight}
    return {row: weight for row, weight in rows.items() if weight and row[1] in bounds and row[0] > bounds[row[1]]}


@pytest.mark.parametrize("times", [3, 40, 300])
@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: Operator(EXTREME, key=[1]), best_rows),
        (lambda: Operator(TOP, key=None, order=(VALUES, 3), places=PLACES, free_places=PLACES), first_rows),
    ],
    ids=["extreme", "top"],
)
def test_the_output_changes_as_the_answer_over_the_rows_does(make, answer, times):
    rng = np.random.default_rng(times)
    for _ in range(8):
        operator, rows = make(), random_rows(rng, 300, times=times)
        assert operator.feed(random_slices(rng, rows)) == changes(answer, times, rows)
        assert operator.block.rows.used == len({row[2:] for row in rows}) - sum(
            not weight for weight in weights(rows).values()
        )
        operator.inputs[0].set([(times, -1, 9, 0, 9)], times + 1)
        assert operator.run() is None
        assert operator.block.error == grouped_rows.NEGATIVE


def weights(rows):
    total: Counter[tuple[int, ...]] = Counter()
    for _, diff, *row in rows:
        total[tuple(row)] += diff
    return total


def test_groups_without_rows_have_no_keys():
    rng = np.random.default_rng(1)
    operator, rows = Operator(EXTREME, key=[1]), random_rows(rng, 300, times=9)
    rest = [(9, -weight, *row) for row, weight in weights(rows).items() if weight]
    operator.feed(random_slices(rng, [*rows, *rest]))
    assert operator.keys.used == 0
    assert operator.block.rows.used == 0


@pytest.mark.parametrize("times", [3, 40])
def test_there_is_a_row_of_nulls_while_there_are_no_rows(times):
    rng = np.random.default_rng(times)
    for size in (0, 2, 6, 60):
        operator, rows = Operator(NULL_ROW, key=None), random_rows(rng, size, times=times)
        rows += [(times, -weight, *row) for row, weight in weights(rows).items() if weight]
        values = RowRecord(operator.block.rows.records.address).values
        for column in range(3):
            values[column] = NULL
        operator.block.touched_count = 1
        RowGroup(operator.block.groups.address).is_touched = 1
        assert operator.feed(random_slices(rng, rows)) == changes(rows_or_null, times + 1, rows)


def random_limits(rng, *, times):
    """Draw rows (time, diff, numerator, denominator, key) with at most one limit of a key at the end of each time."""
    limits: dict[int, tuple[int, ...]] = {}
    rows = []
    for time in range(times):
        for key in range(KEYS):
            if rng.random() < 0.3:
                if key in limits:
                    rows.append((time, -1, *limits.pop(key)))
                if rng.random() < 0.7:
                    limits[key] = int(rng.integers(-20, 20)), int(rng.integers(1, 4)), key
                    rows.append((time, 1, *limits[key]))
    return rows


def both_slices(rng, rows, limits, times):
    """Cut two inputs at the same times."""
    cuts = sorted({0, *rng.integers(0, times, size=4).tolist(), times})
    for start, stop in pairwise(cuts):
        yield [row for row in rows if start <= row[0] < stop], [row for row in limits if start <= row[0] < stop], stop


@pytest.mark.parametrize("times", [3, 40])
def test_rows_above_the_limit_of_their_key_are_the_output(times):
    rng = np.random.default_rng(times)
    for _ in range(10):
        operator = Operator(MOVING_THRESHOLD, key=[1, 2], inputs=2, order=(VALUES - 1, 2))
        rows, limits = random_rows(rng, 300, times=times), random_limits(rng, times=times)
        slices = both_slices(rng, rows, limits, times)
        assert operator.feed(slices) == changes(rows_above, times, rows, limits)


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ([(0, 1, 4, 1, 2), (0, 1, 5, 1, 2)], grouped_rows.TWO_LIMITS),
        ([(0, 1, 4, 0, 2)], grouped_rows.BAD_DENOMINATOR),
        ([(0, -1, 4, 1, 2)], grouped_rows.NEGATIVE),
        ([(0, 2**63 - 1, 4, 1, 2), (0, 1, 4, 1, 2)], grouped_rows.WIDE_WEIGHT),
    ],
)
def test_an_invalid_limit_is_an_error(limits, error):
    operator = Operator(MOVING_THRESHOLD, key=[1, 2], inputs=2, order=(VALUES - 1, 2))
    operator.inputs[0].set([], 1)
    operator.inputs[1].set(limits, 1)
    assert operator.run() is None
    assert operator.block.error == error
    if error != grouped_rows.WIDE_WEIGHT:
        assert operator.block.error_is_limit == 1
