"""The exchange of rows between workers, and the partition of keys, against plain Python and numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks, Updates

from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.parallel import key_partition
from deltamark.dataflow.kernels.parallel.exchange import ExchangeBlock, receive, send
from deltamark.dataflow.kernels.parallel.key_partition import (
    BLOCK_BITS,
    MAX_KEYS,
    MAX_WORKERS,
    CompactBlock,
    ExpandBlock,
    compact,
    expand,
    owner_of,
    reciprocal,
)
from deltamark.dataflow.kernels.parallel.meeting import SLOTS
from deltamark.dataflow.kernels.program import InputBlock
from deltamark.dataflow.kernels.status import DONE, WAITING
from deltamark.dataflow.operators.exchange import DealBlock, deal

LOW, ROUNDS = -300, 5
KEYED = {"a hash of one key": (1, False), "a hash of two keys": (2, False), "blocks": (1, True)}

numbers_of_workers = pytest.mark.parametrize("workers", [2, 3, 5])


class Exchange:
    """The workers of an exchange of rows (time, diff, key, other key, number), in one thread."""

    def __init__(self, workers, *, keys=0, in_blocks=False, senders=None, receivers=None, in_order=0):
        self._blocks = blocks = Blocks()
        self.inputs, self.ops, self.out = [], [], []
        for meeting in blocks.meetings(workers):
            updates, out = Updates(blocks, 3), [blocks.vector() for _ in range(5)]
            op = blocks.block(
                ExchangeBlock, size=updates.size, columns=5,
                inputs=blocks.words([updates.time, updates.diff, *updates.columns]), keys=keys,
                key_columns=blocks.words(updates.columns), low=LOW, reciprocal=reciprocal(workers) if in_blocks else 0,
                senders=senders or workers, receivers=receivers or workers, in_order=in_order,
                rows=blocks.memory.reserve(1 << 16), counts=blocks.words([0] * workers), owners=blocks.room(),
                joined=blocks.room(), parts=blocks.words([0] * 2 * workers), places=blocks.words([0] * 2 * workers),
                out_size=blocks.cell(), out=blocks.words(out), **meeting,
            )  # fmt: skip
            self.inputs.append(updates)
            self.ops.append(op)
            self.out.append(out)

    def send(self, worker, rows):
        self.inputs[worker].set(rows, 0)
        return send(self.ops[worker])

    def receive(self, worker):
        """Return the rows that a worker receives, or None if it waits."""
        if receive(self.ops[worker]) == WAITING:
            return None
        size = self.ops[worker].out_size
        return list(zip(*(self._blocks.vector_values(cell, size) for cell in self.out[worker]), strict=True))

    def run(self, parts):
        """Exchange the rows of all workers; return those that each receives."""
        assert [self.send(worker, rows) for worker, rows in enumerate(parts)] == [0] * len(parts)
        return [self.receive(worker) for worker in range(len(parts))]


def random_parts(rng, workers, first, *, in_order=False):
    """Return the rows of each worker in order of time, with the number of each, and a size that may be 0."""
    sizes = rng.integers(0, 60, size=workers) * (rng.random(workers) < 0.8)
    times = [np.sort(rng.integers(10 * worker * in_order, 10 * worker * in_order + 9, size=sizes[worker])).tolist()
             for worker in range(workers)]  # fmt: skip
    numbers = iter(range(first, first + int(sizes.sum())))
    return [
        [
            (time, int(rng.integers(-2, 3)), LOW + 20 * int(rng.integers(600)), int(rng.integers(3)), next(numbers))
            for time in part
        ]
        for part in times
    ]


def merged(parts):
    """Merge rows in order of time; those of one time are in the order of their workers."""
    return sorted((row for part in parts for row in part), key=lambda row: row[0])


@numbers_of_workers
@pytest.mark.parametrize(("keys", "in_blocks"), KEYED.values(), ids=KEYED)
@pytest.mark.parametrize("in_order", [0, 1])
def test_each_row_arrives_once_at_the_owner_of_its_key_in_order_of_time(workers, keys, in_blocks, in_order):
    rng = np.random.default_rng(workers)
    op, owners = Exchange(workers, keys=keys, in_blocks=in_blocks, in_order=in_order), {}
    for number in range(ROUNDS):
        parts = random_parts(rng, workers, 1000 * number, in_order=bool(in_order))
        arrived = op.run(parts)
        for worker, rows in enumerate(arrived):
            for _, _, *key, _ in rows:
                assert owners.setdefault(tuple(key[:keys]), worker) == worker
        owned = [[[row for row in part if owners[row[2 : 2 + keys]] == worker] for part in parts]
                 for worker in range(workers)]  # fmt: skip
        assert arrived == [merged(each) for each in owned]
    assert set(owners.values()) == set(range(workers))
    if in_blocks:
        assert all(owner_of(key, LOW, workers, reciprocal(workers)) == owner for (key,), owner in owners.items())


@numbers_of_workers
def test_each_worker_receives_all_rows_if_there_are_no_keys(workers):
    rng, op = np.random.default_rng(workers), Exchange(workers)
    for number in range(ROUNDS):
        parts = random_parts(rng, workers, 1000 * number)
        assert op.run(parts) == [merged(parts)] * workers


@numbers_of_workers
def test_the_first_worker_receives_all_rows_if_it_is_the_only_receiver(workers):
    rng, op = np.random.default_rng(workers), Exchange(workers, receivers=1)
    for number in range(ROUNDS):
        parts = random_parts(rng, workers, 1000 * number)
        assert op.run(parts) == [merged(parts), *[[]] * (workers - 1)]


@numbers_of_workers
def test_rows_of_the_only_sender_arrive_at_their_owners(workers):
    rng, op = np.random.default_rng(workers), Exchange(workers, keys=1, senders=1)
    for number in range(ROUNDS):
        parts = random_parts(rng, workers, 1000 * number)
        arrived = op.run(parts)
        assert all(numbers == sorted(numbers) for part in arrived for numbers in [[row[-1] for row in part]])
        assert sorted(row for part in arrived for row in part) == sorted(parts[0])


@numbers_of_workers
def test_a_receiver_waits_for_every_sender(workers):
    op, rows = Exchange(workers), [(0, 1, 2, 3, 4)]
    for worker in range(workers - 1):
        assert op.send(worker, rows) == 0
        assert op.receive(worker) is None
    assert op.send(workers - 1, rows) == 0
    assert [op.receive(worker) for worker in range(workers)] == [rows * workers] * workers


def test_a_sender_waits_until_its_message_has_been_read():
    op, rows = Exchange(2, senders=1), [[(number, 1, 2, 3, 4)] for number in range(SLOTS + 1)]
    for part in rows[:SLOTS]:
        assert op.send(0, part) == 0
        assert op.receive(0) == part
    assert op.send(0, rows[SLOTS]) == WAITING
    assert op.receive(1) == rows[0]
    assert op.send(0, rows[SLOTS]) == 0
    assert [op.receive(1) for _ in range(SLOTS + 1)] == [*rows[1:], None]


class Deal:
    """The workers of a deal of rows, in one thread. columns: cells of the keys."""

    def __init__(self, blocks, workers, columns, **fields):
        self._blocks, self._out, self._size = blocks, [blocks.vector() for _ in range(workers)], blocks.cell()
        self._ops = [
            blocks.block(
                DealBlock, size=self._size, key_columns=blocks.words(columns), low=LOW,
                owners=blocks.vector(), out=out, out_size=blocks.cell(), **meeting, **fields,
            )
            for out, meeting in zip(self._out, blocks.meetings(workers), strict=True)
        ]  # fmt: skip

    def run(self, size):
        """Deal some rows, again for the workers that had to wait; return the numbers of the rows of each worker."""
        view(self._size, 1)[0] = size
        waiting = [op for op in self._ops if deal(op) == WAITING]
        assert [deal(op) for op in waiting] == [DONE] * len(waiting)
        return [self._blocks.vector_values(out, op.out_size) for out, op in zip(self._out, self._ops, strict=True)]


@numbers_of_workers
@pytest.mark.parametrize("least", [5, 2**62])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize(("keys", "in_blocks"), KEYED.values(), ids=KEYED)
def test_each_row_is_dealt_to_the_worker_to_which_it_would_be_sent(workers, keys, in_blocks, width, least):
    """A worker finds the owners of all rows, or of a share of them if these are many and have the same order."""
    rng, blocks = np.random.default_rng(workers), Blocks()
    width = width if in_blocks else 8
    columns = [blocks.vector() for _ in range(2)]
    owners = Exchange(workers, keys=keys, in_blocks=in_blocks, senders=1)
    op = Deal(
        blocks, workers, columns, keys=keys, width=width,
        reciprocal=reciprocal(workers) if in_blocks else 0, least_divided=least,
    )  # fmt: skip
    for size in (3, *rng.integers(0, 60, 2 * SLOTS).tolist()):
        keyed = rng.integers(-128, 128, size) if width == 1 else LOW + 20 * rng.integers(600, size=size)
        values = [keyed, rng.integers(3, size=size)]
        for cell, each in zip(columns, values, strict=True):
            kept = np.resize(each.astype(f"i{width}"), -(-size * width // 8) * 8 // width)
            blocks.set_vector(cell, kept.view(np.int64).tolist())
        rows = [(0, 1, int(key), int(other), at) for at, (key, other) in enumerate(zip(*values, strict=True))]
        sent = owners.run([rows, *[[]] * (workers - 1)])
        assert op.run(size) == [[row[-1] for row in part] for part in sent]


@numbers_of_workers
@pytest.mark.parametrize(("keys", "in_blocks"), KEYED.values(), ids=KEYED)
def test_rows_that_workers_choose_of_their_slices_are_dealt_as_those_of_all(workers, keys, in_blocks):
    rng, blocks = np.random.default_rng(workers), Blocks()
    size, sizes = blocks.cell(), [blocks.cell() for _ in range(workers)]
    columns = [[blocks.vector() for _ in range(2)] for _ in range(workers)]
    chosen, outs = ([blocks.vector() for _ in range(workers)] for _ in range(2))
    slices = [blocks.block(InputBlock, size=size, time=size, diff=size) for _ in range(workers)]
    owners = Exchange(workers, keys=keys, in_blocks=in_blocks, senders=1)
    ops = [
        blocks.block(
            DealBlock, size=size, keys=keys, key_columns=blocks.words(columns[number]), width=8, low=LOW,
            reciprocal=reciprocal(workers) if in_blocks else 0, least_divided=0, owners=blocks.vector(),
            input=slices[number].address, chosen=chosen[number], chosen_size=sizes[number], out=outs[number],
            out_size=blocks.cell(), **meeting,
        )
        for number, meeting in enumerate(blocks.meetings(workers))
    ]  # fmt: skip
    for _ in range(2 * SLOTS):
        first = int(rng.integers(1000))
        ends = first + np.cumsum([0, *rng.integers(0, 30, workers)])
        rows = []
        for number, block in enumerate(slices):
            block.first, block.own = first, ends[number]
            kept = np.flatnonzero(rng.random(ends[number + 1] - ends[number]) < 0.6)
            values = [LOW + 20 * rng.integers(600, size=len(kept)), rng.integers(3, size=len(kept))]
            for cell, each in zip([chosen[number], *columns[number]], [kept, *values], strict=True):
                blocks.set_vector(cell, each.tolist())
            view(sizes[number], 1)[0] = len(kept)
            places = (kept + ends[number] - first).tolist()
            rows += [(0, 1, int(key), int(other), at) for at, key, other in zip(places, *values, strict=True)]
        view(size, 1)[0] = ends[-1] - first
        waiting = [op for op in ops if deal(op) == WAITING]
        assert [deal(op) for op in waiting] == [DONE] * len(waiting)
        dealt = [blocks.vector_values(out, op.out_size) for out, op in zip(outs, ops, strict=True)]
        sent = owners.run([rows, *[[]] * (workers - 1)])
        assert dealt == [[row[-1] for row in part] for part in sent]
        view(size, 1)[0] = 0
        assert deal(ops[0]) == DONE  # without the others, which may be idle
        assert ops[0].out_size == 0


@numbers_of_workers
def test_rows_without_keys_are_dealt_to_the_first_worker(workers):
    blocks = Blocks()
    op = Deal(blocks, workers, [blocks.vector()], keys=0, width=8, reciprocal=0, least_divided=2)
    assert op.run(5) == [list(range(5)), *[[]] * (workers - 1)]


WORKERS = st.integers(1, MAX_WORKERS)
KEYS = st.lists(st.integers(0, 2000) | st.integers(0, MAX_KEYS - 1), max_size=60)


def owner(offset, workers):
    """Return the owner of a key by the formula: the blocks of a group are rotated by a hash of the group."""
    group, place = divmod(offset >> BLOCK_BITS, workers)
    mixed = group * key_partition.GOLDEN_HALF % 2**32
    return (place + (mixed * workers >> 32)) % workers


@given(KEYS, WORKERS, st.integers(-(2**40), 2**40))
def test_a_group_has_a_block_for_each_worker(offsets, workers, low):
    inverse = reciprocal(workers)
    assert [owner_of(low + each, low, workers, inverse) for each in offsets] == [
        owner(each, workers) for each in offsets
    ]
    for offset in offsets[:3]:
        start = (offset >> BLOCK_BITS) // workers * workers << BLOCK_BITS
        blocks = range(start, start + (workers << BLOCK_BITS), 1 << BLOCK_BITS)
        assert {owner_of(low + each, low, workers, inverse) for each in blocks} == set(range(workers))


@given(KEYS, WORKERS, st.integers(-(2**40), 2**40))
def test_the_places_of_a_worker_are_dense_and_expand_to_its_keys(offsets, workers, low):
    memory = Blocks()
    for worker in {owner(each, workers) for each in offsets}:
        keys = [low + each for each in offsets if owner(each, workers) == worker]
        size, places, result = memory.cell(len(keys)), memory.vector(), memory.vector()
        cell = memory.cell(memory.words(keys))
        compact(memory.block(CompactBlock, size=size, keys=cell, low=low, reciprocal=reciprocal(workers),
                             result=places))  # fmt: skip
        expand(memory.block(ExpandBlock, size=size, places=places, low=low, workers=workers,
                            worker=memory.cell(worker), result=result))  # fmt: skip
        assert memory.vector_values(result, len(keys)) == keys
        assert memory.vector_values(places, len(keys)) == [
            (key - low >> BLOCK_BITS) // workers << BLOCK_BITS | key - low & ((1 << BLOCK_BITS) - 1) for key in keys
        ]
