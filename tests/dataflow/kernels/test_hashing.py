"""Hash sets and the interner against dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks, Updates, random_slices

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.hashing import hash_set, interner
from deltamark.dataflow.kernels.hashing.interner import InternBlock, InternerBlock, intern

HASHES = st.integers(0, 40) | st.integers(hash_set.MAX_HASH - 20, hash_set.MAX_HASH)
SLOTS = st.integers(1, 30) | st.integers(2**32 - 9, 2**32 - 1)


def entry_of(row_hash, slot):
    return row_hash << 32 | slot


@given(st.lists(st.tuples(SLOTS, HASHES), max_size=60))
def test_a_hash_set_has_the_slots_that_were_inserted_and_not_removed(steps):
    """Each step removes a slot that is in the set, and inserts one that is not."""
    blocks, mask, known = Blocks(), 3, {}
    table = Array(blocks.words([0] * (mask + 1)))
    for slot, row_hash in steps:
        if slot in known:
            hash_set.remove(table, mask, known.pop(slot), slot)
        else:
            known[slot] = row_hash
            if 2 * len(known) > mask + 1:
                larger = Array(blocks.words([0] * 2 * (mask + 1)))
                hash_set.move_entries(table, mask, larger, 2 * mask + 1)
                table, mask = larger, 2 * mask + 1
            hash_set.insert(table, mask, entry_of(row_hash, slot))
        entries = view(table.address, mask + 1)
        assert sorted(entries[entries != 0].tolist()) == sorted(entry_of(known[each], each) for each in known)
        for each, its_hash in known.items():
            assert entries[hash_set.find_slot(table, mask, its_hash, each)] == entry_of(its_hash, each)
            assert all(entries[place & mask] for place in probes(entries, mask, its_hash, each))


def probes(entries, mask, row_hash, slot):
    """Return the places from the home of an entry to the entry."""
    home, place = row_hash & mask, int(np.flatnonzero(entries == entry_of(row_hash, slot))[0])
    return range(home, home + (place - home & mask) + 1)


class Interner:
    """An interner of rows (a, b) that numbers the rows of several streams, and a dictionary of the same ids."""

    def __init__(self, streams, *, keeps_ids=0):
        self._blocks = blocks = Blocks()
        room, self.stored = blocks.room, [blocks.room() for _ in range(2)]
        self.streams = [Updates(blocks, 2) for _ in range(streams)]
        self.frontier = blocks.cell()
        self.block = blocks.block(
            InternerBlock, columns=2, table=blocks.words([0] * 8), mask=7, free=room(),
            stored=blocks.words(self.stored), count=room(), empty_since=room(), waiting=room(),
            frontier=self.frontier, keeps_ids=keeps_ids,
        )  # fmt: skip
        self.ops = [
            blocks.block(
                InternBlock, interner=self.block.address, size=each.size, time=each.time, diff=each.diff,
                inputs=blocks.words(each.columns), result=blocks.vector(), leads=int(place == 0),
            )
            for place, each in enumerate(self.streams)
        ]  # fmt: skip
        self.known, self.counts, self.emptied, self._ended, self._latest = {}, Counter(), {}, 0, 0

    def run(self, parts, frontier):
        """Number a slice of each stream; compare the ids with those of the dictionary."""
        view(self.frontier, 1)[0] = frontier
        self._forget_ended()
        self._ended = frontier
        for op, updates, part in zip(self.ops, self.streams, parts, strict=True):
            updates.set(part, frontier)
            self._make_room(op)
            assert intern(op) == 0
            ids = view(op.result.address, len(part)).tolist()
            self._latest = max([self._latest, *(time for time, *_ in part)])
            for (_, diff, *row), row_id in zip(part, ids, strict=True):
                assert self.known.setdefault(tuple(row), row_id) == row_id
                self.counts[tuple(row)] += diff
                if self.counts[tuple(row)] == 0:
                    self.emptied[tuple(row)] = self._latest
        self._check()

    def _forget_ended(self):
        """Forget the rows without uses, once all times had ended before the last slice that were seen before."""
        for row, time in list(self.emptied.items()):
            if self.counts[row] == 0 and time < self._ended and not self.block.keeps_ids:
                del self.known[row], self.emptied[row]

    def _make_room(self, op):
        while 2 * (self.block.used + op.size) > self.block.mask + 1:
            before, words = intern(op), 2 * (self.block.mask + 1)
            assert before == interner.NEEDS_ROOM
            interner.rehash(self.block, Array(self._blocks.words([0] * words)), words - 1)

    def _check(self):
        block, rows = self.block, {row_id: row for row, row_id in self.known.items()}
        assert len(rows) == len(self.known) == block.used
        assert block.live == sum(count != 0 for count in self.counts.values())
        stored = [view(address, block.next_id) for address in self.stored]
        assert all(tuple(int(column[row_id]) for column in stored) == row for row_id, row in rows.items())


def random_streams(rng, streams, times):
    """Return updates (time, stream, diff, a, b), of which none is retracted before it was inserted."""
    live, updates = [], []
    for time in np.sort(rng.integers(0, times, size=300)).tolist():
        stream = int(rng.integers(streams))
        if live and rng.random() < 0.5:
            updates.append((time, stream, -1, *live.pop(int(rng.integers(len(live))))))
        else:
            live.append(tuple(rng.integers([0, -(2**62)], [12, -(2**62) + 3]).tolist()))
            updates.append((time, stream, 1, *live[-1]))
    return updates


def test_an_id_is_kept_while_a_stream_may_use_it_although_another_one_takes_its_last_row_earlier():
    tested = Interner(2)
    tested.run([[(0, 1, 5, 5)], [(0, 1, 5, 5)]], 1)
    tested.run([[(1, -1, 5, 5), (3, 1, 5, 5), (3, -1, 5, 5)], [(1, -1, 5, 5)]], 3)
    used = tested.block.used
    tested.run([[], []], 3)
    assert tested.block.used == used == 1
    tested.run([[(3, 1, 5, 5)], []], 4)
    assert list(tested.counts.values()) == [1]


@pytest.mark.parametrize("keeps_ids", [0, 1])
@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("times", [1, 12, 200])
def test_equal_rows_have_one_id_until_a_time_ends_without_them(times, streams, keeps_ids):
    for seed in range(10):
        rng, tested = np.random.default_rng(seed), Interner(streams, keeps_ids=keeps_ids)
        updates = random_streams(rng, streams, times)
        for part, frontier in random_slices(rng, updates):
            parts = [[(time, *row) for time, of, *row in part if of == stream] for stream in range(streams)]
            tested.run(parts, frontier)
        distinct = len({tuple(row) for *_, a, b in updates for row in [(a, b)]})
        if keeps_ids:
            assert tested.block.used == distinct
        tested.run([[]] * streams, times + 1)
        assert tested.block.used == (distinct if keeps_ids else tested.block.live)


def test_ids_are_given_again():
    tested = Interner(1)
    for time in range(50):
        tested.run([[(time, 1, time, 0), (time, -1, time, 0)]], time + 1)
    assert tested.block.next_id <= 3


def test_a_freed_row_gets_an_id_anew():
    tested = Interner(1)
    tested.run([[(0, 1, 5, 5), (0, 1, 6, 6)]], 1)
    interner.free_id(tested.block, tested.known.pop((5, 5)))
    tested.counts[5, 5] = 0
    view(tested.block.count.address, 1)[0], tested.block.live = 0, 1
    tested.run([[(1, 1, 7, 7), (1, 1, 5, 5)]], 2)
    assert tested.known == {(6, 6): 1, (7, 7): 0, (5, 5): 2}
