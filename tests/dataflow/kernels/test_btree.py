"""B+-trees agree with sorted lists."""

from __future__ import annotations

import numpy as np
import pytest
from support.engines.kernel_blocks import Blocks

from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import LARGEST, MAX_DEPTH, ROWS, SMALLEST, BTree
from deltamark.dataflow.types import NULL

SLOTS = 4000
RECORD_WORDS = 3


def walk(tree, position):
    while position != 0:
        yield btree.slot_at(tree, position)
        position = btree.following(tree, position)


@pytest.mark.parametrize("largest", [3, 50, 10**6])
def test_a_tree_has_its_records_in_order_of_their_words_and_slots(largest):
    rng, blocks = np.random.default_rng(largest), Blocks()
    values = rng.integers(-largest, largest, size=(SLOTS, 2))
    records = blocks.words([0] * (SLOTS * RECORD_WORDS))
    view(records, SLOTS * RECORD_WORDS).reshape(-1, RECORD_WORDS)[:, 1:] = values
    tree = blocks.block(
        BTree, records=records, record_words=RECORD_WORDS, first_word=1, compared_words=2,
        are_texts=blocks.words([0, 0]), nodes=blocks.memory.reserve(1 << 20), path=blocks.words([0] * 2 * MAX_DEPTH),
    )  # fmt: skip

    def key(slot):
        return (*values[slot].tolist(), slot)

    present: set[int] = set()
    for share in (0.9, 0.5, 0.1, 0.7, 0.0):  # the share of insertions: nodes are split, and merged until one is left
        for slot in rng.integers(1, SLOTS, size=3000).tolist():
            if slot in present and rng.random() >= share:
                btree.delete(tree, slot)
                present.remove(slot)
            elif slot not in present and rng.random() < share:
                btree.insert(tree, slot)
                present.add(slot)
        in_order = sorted(present, key=key)
        assert list(walk(tree, btree.start(tree))) == in_order
        for slot in rng.integers(1, SLOTS, size=5).tolist():
            assert list(walk(tree, btree.seek(tree, slot))) == [each for each in in_order if key(each) >= key(slot)]
    for slot in list(present):
        btree.delete(tree, slot)
    assert btree.start(tree) == 0
    assert tree.depth == 0


@pytest.mark.parametrize("kind", [SMALLEST, LARGEST])
def test_the_nearest_row_within_a_bound_is_that_of_a_scan(kind):
    rng, blocks, slots = np.random.default_rng(kind), Blocks(), 1500
    values, copies = rng.integers(-50, 50, slots), rng.integers(0, 3, (slots, 2))
    values[rng.random(slots) < 0.2] = NULL
    words = 5  # a link, the order, the value, and two weights
    records = blocks.words([0] * (slots * words))
    view(records, slots * words).reshape(-1, words)[:, 1:3] = np.stack([rng.permutation(slots), values], axis=1)
    tree = blocks.block(
        BTree, records=records, record_words=words, first_word=1, compared_words=1, are_texts=blocks.words([0]),
        nodes=blocks.memory.reserve(1 << 20), path=blocks.words([0] * 2 * MAX_DEPTH), items=2,
        kinds=blocks.words([ROWS, kind]), arguments=blocks.words([0, 2]), copies_word=3,
        sums=blocks.memory.reserve(1 << 20), pending=blocks.words([0] * 6 * MAX_DEPTH),
    )  # fmt: skip
    for slot in range(1, slots):
        btree.insert(tree, slot)
        btree.set_copies(tree, slot, *copies[slot].tolist())
    in_order = list(walk(tree, btree.start(tree)))
    for _ in range(500):
        version, step = int(rng.integers(2)), int(rng.choice([-1, 1]))
        rows = [slot for slot in in_order for _ in range(copies[slot, version])]
        start, stop = sorted(rng.integers(0, len(rows) + 1, 2).tolist())
        bound = int(rng.integers(-60, 60))
        found = [
            at for at in range(start, stop) if (value := values[rows[at]]) != NULL
            and (value <= bound if kind == SMALLEST else value >= bound)
        ]  # fmt: skip
        place = btree.nearest_within(tree, version, 1, start, stop, bound, step)
        assert (place >= 0) == bool(found)
        if found:
            assert rows[place] == rows[found[0] if step > 0 else found[-1]]
            assert start <= place < stop
