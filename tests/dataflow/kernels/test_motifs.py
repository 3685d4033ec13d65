"""The kernels of motifs agree with plain Python: sorted lists, intersections, sorting, indexes and extensions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from deltamark.dataflow.kernels.core.blocks import Array, Array32
from deltamark.dataflow.kernels.core.guard import lent
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap
from deltamark.dataflow.kernels.motifs import extend as extend_kernel
from deltamark.dataflow.kernels.motifs import index
from deltamark.dataflow.kernels.motifs import index as index_kernel
from deltamark.dataflow.kernels.motifs.extend import DeltaExtender
from deltamark.dataflow.kernels.ordered import sorted_lists, sorting
from deltamark.dataflow.kernels.status import FAILED

few = settings(max_examples=25)
ROOM = 1 << 12
NUMBERS = st.lists(st.integers(0, 400), max_size=200, unique=True).map(sorted)
SKEWED = st.integers(0, 5000).flatmap(lambda size: st.just(list(range(0, 3 * size, 3))))


@njit
def sorted_rows(values, rows, spare, size, counts):
    return sorting.sort_rows(values, rows, spare, size, counts).address


def make(memory: Memory, words: list[int]) -> int:
    address = memory.reserve(max(len(words), 1))
    view(address, len(words))[:] = words
    return address


def cell(memory: Memory, content: int = 0) -> int:
    return make(memory, [content])


def vector(memory: Memory, values: list[int]) -> int:
    return cell(memory, make(memory, [*values, *[0] * 8]))


@few
@given(st.lists(st.integers(0, 9) | st.integers(0, 2**40), max_size=100))
def test_rows_are_sorted_stably(values):
    memory, size = Memory(), len(values)
    rows, spare, counts = (Array(memory.reserve(each)) for each in (size + 1, size + 1, sorting.DIGITS))
    view(rows.address, size)[:] = range(size)
    result = sorted_rows(Array(make(memory, values)), rows, spare, size, counts)
    assert view(result, size).tolist() == sorted(range(size), key=values.__getitem__)


@few
@given(a=NUMBERS | SKEWED, b=NUMBERS, low=st.integers(-9, 9), narrow=st.booleans())
def test_an_intersection_is_one_of_sets(a, b, low, narrow):
    with lent(np.array(a or [0], np.int32), np.array(b or [0], np.int32)) as addresses:
        memory, (first, second) = Memory(), map(Array32, addresses)
        for one, size, other, others in ((first, len(a), second, len(b)), (second, len(b), first, len(a))):
            address = memory.reserve(min(size, others) + 8)
            out = Array32(address) if narrow else Array(address)
            count = sorted_lists.intersect(one, size, other, others, low, out)
            assert [out[at] for at in range(count)] == [each + low for each in sorted(set(a) & set(b))]


@few
@given(NUMBERS, st.integers(0, 200), st.integers(-5, 405), st.sampled_from([4, 8]))
def test_a_search_finds_the_first_number_that_is_not_less(numbers, start, number, width):
    with lent(np.array(numbers or [0], np.int32 if width == 4 else np.int64)) as (address,):
        expected = next((at for at in range(start, len(numbers)) if numbers[at] >= number), max(start, len(numbers)))
        assert sorted_lists.seek(Array(address), width, start, len(numbers), number) == expected


@given(st.integers(1, 1 << 32))
def test_a_span_is_at_most_a_quarter_longer_than_its_list(numbers):
    length = sorted_lists.span_length(sorted_lists.size_class_of(numbers))
    assert numbers <= length
    assert length - numbers < max(sorted_lists.UNIT, numbers / 4 + sorted_lists.UNIT)
    assert sorted_lists.size_class_of(numbers) < sorted_lists.SIZE_CLASSES


KEYS, VALUES, SLICE = range(4), range(-3, 40), 64
Row = tuple[int, int]
UPDATES = st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES), st.sampled_from([-1, 1, 1, 1, 2, 3]))


@dataclass
class TestIndex:
    """An index with room for small slices, and its rows as a dictionary."""

    __test__ = False
    width: int
    memory: Memory = field(default_factory=Memory)
    rows: Counter[Row] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        memory = self.memory
        keys = make(memory, KeyMap.words(hashed=0, low=KEYS[0], high=KEYS[-1]))
        self.columns = {name: memory.reserve(SLICE) for name in ("time", "diff", "key", "value")}
        scratch = ("ids", "numbers", "rows", "spare", "counts", "updates", "runs", "added", "removed", "stamps")
        self.block = index.IndexBlock(
            make(
                memory,
                index.IndexBlock.words(
                    width=self.width, heads=memory.reserve(2 * len(KEYS)), pool=memory.reserve(ROOM),
                    weights=memory.reserve(ROOM), free=memory.reserve(sorted_lists.SIZE_CLASSES),
                    size=cell(memory), keys=keys, frontier=cell(memory), low=VALUES[0],
                    **{name: cell(memory, address) for name, address in self.columns.items()},
                    **{name: memory.reserve(ROOM) for name in scratch},
                ),
            )
        )  # fmt: skip

    def insert(self, updates: list[tuple[int, int, int, int]]) -> None:
        """Insert a slice of (time, key, value, diff)."""
        for at, name in enumerate(("time", "key", "value", "diff")):
            view(self.columns[name], SLICE)[: len(updates)] = [update[at] for update in updates]
        self.block.size = len(updates)
        index.insert(self.block)

    def settle(self, frontier: int) -> int:
        self.block.frontier = frontier
        return index_kernel.settle(self.block)

    def pack(self) -> None:
        pool, weights = (Array(self.memory.reserve(ROOM)) for _ in range(2))
        sorted_lists.pack(self.block, len(KEYS), pool, weights)

    def settled(self) -> Counter[Row]:
        block, rows = self.block, Counter()
        for key_id in KEYS:
            head = sorted_lists.ListHead(block.heads[2 * key_id :].address)
            start = head.start * sorted_lists.UNIT
            pool = Array32(block.pool.address) if self.width == 4 else block.pool
            numbers = [pool[start + at] for at in range(head.count)]
            assert numbers == sorted(numbers)
            for at, number in enumerate(numbers):
                weight = block.weights[start + at] if block.weighted else 1
                rows[key_id, number + VALUES[0]] = weight
        return rows


def grown(rows: Counter[Row], updates: list[tuple[int, int, int, int]]) -> Counter[Row]:
    result = Counter(rows)
    for _, key, value, diff in updates:
        result[key, value] += diff
    return Counter({row: weight for row, weight in result.items() if weight})


def slices_of(draw, rows: Counter[Row], time: int) -> list[tuple[int, int, int, int]]:
    """Draw updates of a few times that leave no row negative at the end of a time."""
    updates, live = [], Counter(rows)
    for step in range(draw(st.integers(0, 2))):
        for key, value, diff in draw(st.lists(UPDATES, max_size=20)):
            if live[key, value] + diff >= 0:
                updates.append((time + step, key, value, diff))
                live[key, value] += diff
    return updates


@few
@given(data=st.data(), width=st.sampled_from([4, 8]))
def test_an_index_holds_the_sum_of_all_slices(data, width):
    tested = TestIndex(width)
    for number in range(data.draw(st.integers(1, 5))):
        updates = slices_of(data.draw, tested.rows, 10 * number)
        tested.insert(updates)
        assert tested.settle(10 * number + 10) == 0
        tested.rows = grown(tested.rows, updates)
        assert tested.settled() == tested.rows
        assert tested.block.live == len(tested.rows)
        if data.draw(st.booleans()):
            tested.pack()
            assert tested.block.garbage == 0
            assert tested.settled() == tested.rows


def test_a_row_may_be_negative_until_its_time_ends():
    tested = TestIndex(4)
    tested.insert([(3, 1, 7, -1)])
    assert tested.settle(3) == 0
    tested.insert([(3, 1, 7, 2)])
    assert tested.settle(4) == 0
    assert tested.settled() == {(1, 7): 1}
    tested.insert([(5, 1, 7, -2), (5, 2, 7, 1)])
    assert tested.settle(5) == 0
    assert tested.settle(6) == FAILED
    block = tested.block
    assert (block.error, block.error_key, block.error_number + VALUES[0], block.error_time) == (
        index_kernel.NEGATIVE, 1, 7, 5,
    )  # fmt: skip


def test_a_multiplicity_of_more_than_64_bits_is_an_error():
    tested = TestIndex(8)
    tested.insert([(0, 1, 7, 2**62), (1, 1, 7, 2**62)])
    assert tested.settle(2) == FAILED
    assert tested.block.error == index_kernel.OVERFLOW


def visible(tested: TestIndex, updates: list[tuple[int, int, int, int]], before: int) -> Counter[Row]:
    return grown(tested.rows, [update for update in updates if update[0] < before])


def operator_over(
    memory: Memory, tested: list[TestIndex], rows: list[tuple[int, ...]], sees_old: list[int], **fields: int
) -> extend_kernel.ExtendBlock:
    """Return the block that extends rows (time, diff, bound value, a key for each index)."""
    columns = [vector(memory, [row[at] for row in rows]) for at in range(3 + len(tested))]
    extenders: list[int] = []
    for each, key, old in zip(tested, columns[3:], sees_old, strict=True):
        extenders += DeltaExtender.words(index=each.block.address, key=key, sees_old=old)
    outputs = {f"out_{name}": cell(memory, memory.reserve(1 << 16)) for name in ("time", "diff", "row", "value")}
    words = extend_kernel.ExtendBlock.words(
        size=cell(memory, len(rows)), time=columns[0], diff=columns[1], bound=columns[2],
        extender_count=len(tested), extenders=make(memory, extenders), out_size=cell(memory), fan_out=cell(memory),
        **outputs, **fields,
    )  # fmt: skip
    return extend_kernel.ExtendBlock(make(memory, words))


def output_of(op: extend_kernel.ExtendBlock) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for at in range(op.out_size):
        found[op.out_row[at], op.out_time[at], op.out_value[at]] += op.out_diff[at]
    return found


def extended(
    rows: list[tuple[int, ...]], indexes: list[TestIndex], slices: list[list], sees_old: list[int], *, is_bound: bool
) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for number, (time, diff, bound, *keys) in enumerate(rows):
        seen = [
            visible(each, updates, time + 1 - old) for each, updates, old in zip(indexes, slices, sees_old, strict=True)
        ]
        for value in [bound] if is_bound else VALUES:
            weight = diff
            for key, collection in zip(keys, seen, strict=True):
                weight *= collection[key, value]
            if weight:
                found[number, time, value] += weight
    return found


@pytest.mark.draws(6)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("way", ["fewest", "first", "bound"])
@pytest.mark.parametrize("plain", [False, True])
@settings(max_examples=15)
@given(data=st.data())
def test_rows_are_extended_by_the_values_that_all_indexes_have(count, way, plain, data):
    indexes, slices = [], []
    for _ in range(count):
        tested = TestIndex(data.draw(st.sampled_from([4, 4, 8])))
        loaded = [(0, key, value, 1) for key in KEYS for value in data.draw(st.sets(st.sampled_from(VALUES)))]
        for first in range(0, len(loaded), SLICE):
            tested.insert(loaded[first : first + SLICE])
            tested.settle(1)
        tested.rows = grown(tested.rows, loaded)
        updates = [] if plain else slices_of(data.draw, tested.rows, 10)
        tested.insert(updates)
        indexes.append(tested)
        slices.append(updates)
    keys = st.tuples(*[st.sampled_from(KEYS)] * count)
    row = st.tuples(st.integers(10, 12), st.sampled_from([-2, 1, 3]), st.sampled_from(VALUES), keys)
    rows = [(*each[:3], *each[3]) for each in sorted(data.draw(st.lists(row, max_size=30)))]
    sees_old = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    proposer = data.draw(st.integers(0, count - 1)) if way == "first" else extend_kernel.FEWEST
    expected = extended(rows, indexes, slices, sees_old, is_bound=way == "bound")
    for mode in (extend_kernel.LISTED, extend_kernel.SUMMED):
        memory = Memory()
        op = operator_over(memory, indexes, rows, sees_old, is_bound=way == "bound", proposer=proposer, mode=mode)
        assert extend_kernel.extend(op) == 0
        found = output_of(op)
        if mode == extend_kernel.LISTED:
            assert Counter({key: weight for key, weight in found.items() if weight}) == expected
            continue
        sums: Counter[tuple[int, ...]] = Counter()
        for (number, time, _), weight in expected.items():
            sums[number, time] += weight
        assert {key: weight for key, weight in sums.items() if weight} == {
            (number, time): weight for (number, time, _), weight in found.items()
        }


def test_a_weight_of_more_than_64_bits_is_a_status():
    tested = TestIndex(4)
    tested.insert([(0, 1, 7, 2**40)])
    tested.settle(1)
    memory = Memory()
    op = operator_over(memory, [tested], [(2, 2**40, 0, 1)], [0], is_bound=0, proposer=extend_kernel.FEWEST, mode=0)
    assert extend_kernel.extend(op) != 0
