"""Arrangements and joins in a memory of their own, and a nested loop over weighted updates to compare them with."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks, Updates

from deltamark.dataflow.kernels.arrangements import debts, join_cursor, settle, update_log
from deltamark.dataflow.kernels.arrangements.arrangement import PENDING, ArrangementBlock
from deltamark.dataflow.kernels.arrangements.insert import insert
from deltamark.dataflow.kernels.arrangements.join import JoinBlock, JoinSide, join
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.operators.arrangement import GROWING

LAST_TIME, KEYS, COLUMNS = 6, range(3, 8), 3
LEFT, RIGHT = 0, 1
UNIT_DIFFS, ANY_DIFFS = [-1, 1, 1], [-3, -1, 1, 1, 1, 2]


def updates_of(diffs):
    """Draw updates (time, side, diff, key, value) in order of time that leave no row negative at the end of a time."""
    update = st.tuples(
        st.integers(0, LAST_TIME), st.sampled_from([LEFT, RIGHT]), st.sampled_from(diffs), st.sampled_from(KEYS),
        st.integers(0, 3),
    )  # fmt: skip
    return st.lists(update, max_size=60).map(with_corrections)


def with_corrections(drawn):
    """Append insertions to each time after which a row would be negative."""
    weights, updates = Counter(), []
    for now in range(LAST_TIME + 1):
        for time, side, diff, *row in drawn:
            if time == now:
                updates.append((time, side, diff, *row))
                weights[side, *row] += diff
        for (side, *row), weight in list(weights.items()):
            updates += [(now, side, 1, *row)] * -weight
            weights[side, *row] = max(weight, 0)
    return updates


def bits_of(value):
    """Return the bits of a row: bit 0 of odd values, bit 1 of values from 2 on."""
    return (value & 1) | (value >= 2) << 1


def passes(value, bit):
    return bit is None or bits_of(value) >> bit & 1 == 1


class Side:
    """A side of a join: an arrangement that stores the key, a value and the bits of each row.

    sparse: whether a bitmap says which keys have rows, if they are not hashed; then key and value take 4 bytes.
    """

    def __init__(self, blocks, *, form, bit=None, sparse=False, last_key=KEYS[-1]):
        self._blocks = blocks
        self.updates, self.slots = Updates(blocks, COLUMNS), blocks.vector()
        updates, self.stored = self.updates, [blocks.room() for _ in range(COLUMNS)]
        self._width = 4 if sparse else 8
        keys = blocks.keys(form=form, low=KEYS[0], high=last_key)
        self.rows = blocks.block(
            ArrangementBlock, size=updates.size, time=updates.time, diff=updates.diff, key=updates.columns[0],
            keys=keys.address, frontier=updates.frontier, lists=blocks.room(),
            present=blocks.room() if sparse and form != "hashed" else 0, pending=blocks.room(), debts=blocks.room(),
            columns=COLUMNS,
            wide=1 if sparse else COLUMNS, inputs=blocks.words([updates.columns[2], *updates.columns[:2]]),
            stored=blocks.words(self.stored), visible_time=updates.time, visible_diff=updates.diff,
            **{each: blocks.room() for each in ("used", "next", "skips", "newest", *GROWING)},
        )  # fmt: skip
        self.block = blocks.block(
            JoinSide, rows=self.rows.address, slots=self.slots, hits=blocks.room(),
            filter=0 if bit is None else self.stored[0], filter_bit=bit or 0,
        )  # fmt: skip

    def insert(self, updates, frontier):
        """Insert a slice of updates (time, diff, key, value)."""
        self.updates.set([(time, diff, key, value, bits_of(value)) for time, diff, key, value in updates], frontier)
        insert(self.rows)

    def settle(self):
        """Settle the slice; return the status."""
        return settle.settle(self.rows)

    def set_debts(self, counts):
        """Let every update be a row, and let the keys have had some numbers of debts."""
        if self.rows.has_debts == 0:
            debts.begin(self.rows)
        view(self.rows.debts.address, len(counts)).view(np.int32)[::2] = counts

    def keep_log(self):
        """Keep updates in a log rather than settle them."""
        self.log = [self._blocks.vector() for _ in range(3)]
        words = self.rows.as_words
        words.visible_time, words.visible_diff = self.log[:2]
        words.log_time, words.log_diff, words.log_key = (int(view(cell, 1)[0]) for cell in self.log)

    def settle_log(self, count, frontier):
        """Settle the first updates of the log as the updates of one slice."""
        rows, words, left = self.rows, self.rows.as_words, self.rows.first - count
        update_log.unlink(rows, count)
        own, log = (words.time, words.diff, words.key), words.log_time
        words.time, words.diff, words.key = self.log
        rows.size, rows.frontier, rows.first, words.log_time = count, frontier, 0, 0
        rows.kind = PENDING
        assert self.settle() == 0
        words.time, words.diff, words.key = own
        rows.first, words.log_time = left, log
        for cell in self.log:
            address = int(view(cell, 1)[0])
            view(address, left)[:] = view(address + 8 * count, left).copy()
        update_log.link(rows)

    def row(self, slot):
        """Return the key and the value in a slot."""
        kind = np.int64 if self._width == 8 else np.int32
        return tuple(view(address, slot + 1).view(kind)[slot] for address in self.stored[1:])

    def weights(self, time=LAST_TIME):
        """Return the weight of each row (key, value) that a cursor reads as of a time."""
        weights, is_last = Counter(), False
        out = [Array(self._blocks.room()) for _ in range(3)]
        cursor = join_cursor.cursor_over(self._blocks.memory.reserve, time, join_cursor.read_by(self.block))
        while not is_last:
            is_last = join_cursor.rows(cursor, 7, *out)
            for slot, key, weight in zip(*(view(each.address, cursor.size).tolist() for each in out), strict=True):
                assert self.row(slot)[0] == key
                weights[self.row(slot)] += weight
        return without_zeros(weights)


class Join:
    """A join and its sides."""

    def __init__(self, forms, bits=(None, None), last_key=KEYS[-1]):
        self.blocks = blocks = Blocks()
        settings = zip(forms, bits, (False, True), strict=True)
        self.sides = [
            Side(blocks, form=one, bit=bit, sparse=sparse, last_key=last_key) for one, bit, sparse in settings
        ]
        left, right = (side.block.address for side in self.sides)
        self.block = blocks.block(
            JoinBlock,
            left=left,
            right=right,
            size=blocks.cell(),
            time=blocks.vector(),
            diff=blocks.vector(),
            fan_out=blocks.cell(),
        )

    def insert(self, part, frontier):
        for number, side in enumerate(self.sides):
            side.insert([(time, *update) for time, of, *update in part if of == number], frontier)

    def run(self, part, frontier):
        """Join a slice, and settle it; return the output."""
        self.insert(part, frontier)
        assert join(self.block) == 0
        output = self.output()
        assert [side.settle() for side in self.sides] == [0, 0]
        return output

    def output(self):
        """Return the pairs (time, weight, key, left value, right value)."""
        words, size, pairs = self.block.as_words, self.block.size, []
        cells = [words.time, words.diff, *(side.slots for side in self.sides)]
        columns = [self.blocks.vector_values(cell, size) for cell in cells]
        for time, weight, *slots in zip(*columns, strict=True):
            rows = [side.row(slot) for side, slot in zip(self.sides, slots, strict=True)]
            assert rows[LEFT][0] == rows[RIGHT][0]
            pairs.append((time, weight, *rows[LEFT], rows[RIGHT][1]))
        return pairs


def consolidated(pairs):
    weights = Counter()
    for time, weight, *row in pairs:
        weights[time, *row] += weight
    return without_zeros(weights)


def without_zeros(weights):
    return {row: weight for row, weight in weights.items() if weight}


def joined(updates, bits=(None, None)):
    """Return the weight of each pair (time, key, left value, right value) by a nested loop."""
    left, right = (
        [(time, *update) for time, of, *update in updates if of == side and passes(update[-1], bits[side])]
        for side in (LEFT, RIGHT)
    )
    weights = Counter()
    for left_time, left_diff, left_key, left_value in left:
        for right_time, right_diff, right_key, right_value in right:
            if left_key == right_key:
                weights[max(left_time, right_time), left_key, left_value, right_value] += left_diff * right_diff
    return without_zeros(weights)


def rows_of(updates, side, *, time=LAST_TIME, bit=None):
    """Return the weight of each row (key, value) of a side that passes a filter, as of a time."""
    weights = Counter()
    for at, of, diff, *row in updates:
        if of == side and at <= time and passes(row[1], bit):
            weights[tuple(row)] += diff
    return without_zeros(weights)
