"""Kernels of loops on their own, against plain Python."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock, insert
from deltamark.dataflow.kernels.arrangements.settle import settle
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap
from deltamark.dataflow.kernels.loops import cycles, reduce_state, running_sums, trace, worklist
from deltamark.dataflow.kernels.loops.cycles import CycleDetector
from deltamark.dataflow.kernels.loops.iterate import FORWARD, IterateBlock, LoopSourceBlock, enter, iterate
from deltamark.dataflow.kernels.loops.join import LoopJoinBlock, loop_join
from deltamark.dataflow.kernels.loops.reduce import buffer_updates, end_epoch, evaluate_keys
from deltamark.dataflow.kernels.loops.reduce_state import LoopReduce, ReduceRow
from deltamark.dataflow.kernels.loops.running_sums import NEW, OLD
from deltamark.dataflow.kernels.loops.trace import Trace, TraceRow
from deltamark.dataflow.kernels.loops.worklist import Worklist

ROOM = 1 << 12
LOW_KEY, HIGH_KEY = 3, 9

keys = st.integers(LOW_KEY, HIGH_KEY)
iterations = st.integers(0, 5)
values = st.integers(-3, 3)
few = settings(max_examples=40)


class Blocks(Memory):
    """Memory with what the tests lay out in it."""

    def block(self, kind, **fields):
        address = self.reserve(kind.size_in_words)
        view(address, kind.size_in_words)[:] = kind.words(**fields)
        return kind(address)

    def cell(self, content=0):
        address = self.reserve(1)
        view(address, 1)[0] = content
        return address

    def vector(self):
        return self.cell(self.reserve(ROOM))

    def table(self, addresses):
        address = self.reserve(len(addresses) + 1)
        view(address, len(addresses))[:] = addresses
        return address

    def key_map(self, *, hashed):
        arrays = {"table": self.reserve(64), "free": self.reserve(64), "keys": self.reserve(64)} if hashed else {}
        return self.block(KeyMap, hashed=hashed, low=LOW_KEY, high=HIGH_KEY, mask=31, **arrays).address


def read(cell, count):
    return view(Array(cell)[0], count).tolist()


def write(cell, content):
    view(Array(cell)[0], len(content))[:] = content


@dataclass
class Slice:
    """The cells of a slice, whose rows are (iteration or time, diff, key, value)."""

    memory: Blocks
    cells: list[int] = field(init=False)
    size: int = field(init=False)

    def __post_init__(self):
        self.size, self.cells = self.memory.cell(), [self.memory.vector() for _ in range(4)]

    def set(self, rows):
        Array(self.size)[0] = len(rows)
        for column, cell in enumerate(self.cells):
            write(cell, [row[column] for row in rows])

    def get(self):
        return list(zip(*(read(cell, Array(self.size)[0]) for cell in self.cells), strict=True))


def trace_of(memory, rows, *, hashed, record_words, key_width):
    iteration, diff, key, value = rows.cells
    resolved, ids, hashes, slots, lists, table, records = (memory.reserve(ROOM) for _ in range(7))
    return memory.block(
        Trace, size=rows.size, iteration=iteration, diff=diff, key=key, keys=memory.key_map(hashed=hashed), columns=1,
        inputs=memory.table([value]), resolved=resolved, ids=ids, hashes=hashes, slots=slots, lists=lists,
        key_width=key_width, table=table, mask=3, records=records, record_words=record_words,
    )  # fmt: skip


def rows_in(block):
    """Read the lists of a trace: the weight of each (key, iteration, value)."""
    rows = Counter()
    for key in range(LOW_KEY, HIGH_KEY + 1):
        key_id = hash_map.id_of(block.keys, key)
        slot, previous = block.lists[block.key_width * key_id] if key_id >= 0 else 0, 0
        while slot:
            row = TraceRow(block.records.address + 8 * block.record_words * slot)
            assert (row.key_id, row.previous) == (key_id, previous)
            assert (key, row.iteration, row.values[0]) not in rows
            rows[key, row.iteration, row.values[0]] = row.weight
            slot, previous = row.next, slot
    return rows


slices = st.lists(st.lists(st.tuples(iterations, st.sampled_from([-1, 1, 2]), keys, values), max_size=8), max_size=6)


@few
@given(slices, st.booleans())
def test_a_trace_sums_weights_by_key_iteration_and_value(batches, hashed):
    memory = Blocks()
    rows, expected, stored = Slice(memory), Counter(), set()
    block = trace_of(memory, rows, hashed=hashed, record_words=TraceRow.size_in_words + 2, key_width=1)
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
    memory = Blocks()
    rows = Slice(memory)
    block = trace_of(memory, rows, hashed=False, record_words=TraceRow.size_in_words + 1, key_width=1)
    rows.set([(0, 2**62, LOW_KEY, 0)])
    assert trace.add_slice(block) >= 0
    assert trace.add_slice(block) < 0


def worklist_of(memory):
    return memory.block(Worklist, lists=memory.reserve(ROOM), nodes=memory.reserve(ROOM), heap=memory.reserve(ROOM))


@few
@given(st.lists(st.one_of(st.tuples(keys, iterations), st.integers(1, 3)), max_size=40))
def test_a_worklist_yields_the_keys_of_the_first_iteration(steps):
    memory, waiting, heap = Blocks(), defaultdict(list), []
    block, taken = worklist_of(memory), Array(memory.reserve(ROOM))
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


def detector_of(memory, min_iterations):
    return memory.block(CycleDetector, digests=memory.reserve(ROOM), min_iterations=min_iterations)


def first_cycle(totals, min_iterations):
    """Run iterations whose rows have these digests; return the first that ends a cycle, and its period."""
    memory, before = Blocks(), 0
    detector = detector_of(memory, min_iterations)
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


@dataclass
class Reduction:
    """A reduction of (key, value) rows, and its input and outputs."""

    memory: Blocks
    hashed: bool
    min_weight: int
    min_summed_rows: int
    rows: Slice | None = None

    def __post_init__(self):
        memory = self.memory
        self.rows, self.feedback, self.answer = self.rows or Slice(memory), Slice(memory), Slice(memory)
        width = reduce_state.STATE_WIDTH
        record_words = ReduceRow.size_in_words
        history = trace_of(memory, self.rows, hashed=self.hashed, record_words=record_words, key_width=width)
        names = ("iteration", "diff", "key", "value")
        outputs = dict(zip(names, self.feedback.cells, strict=True))
        answers = zip(("time", *names[1:]), self.answer.cells, strict=True)
        changed, evaluated, sorted_rows, sums = (memory.reserve(1 << 16) for _ in range(4))
        self.block = memory.block(
            LoopReduce, trace=history.address, worklist=worklist_of(memory).address,
            cycles=detector_of(memory, 1000).address, min_weight=self.min_weight, max_iterations=100,
            min_summed_rows=self.min_summed_rows, now=memory.cell(), changed_keys=changed, evaluated_keys=evaluated,
            sorted_rows=sorted_rows, sums=sums, size=self.feedback.size, answer_size=self.answer.size, **outputs,
            **{f"answer_{name}": cell for name, cell in answers},
        )  # fmt: skip

    def run_epoch(self, slices, limit):
        """Return the changes for the next iterations, and those of the result."""
        changes, answer = Counter(), Counter()
        for rows in slices:
            self.rows.set(rows)
            assert buffer_updates(self.block) == 0
        while not worklist.is_empty(self.block.worklist):
            assert evaluate_keys(self.block, limit) == 0
            for iteration, diff, key, value in self.feedback.get():
                changes[iteration, key, value] += diff
        self.block.answer_size = 0
        assert end_epoch(self.block) == 0
        for _, diff, key, value in self.answer.get():
            answer[key, value] += diff
        return changes, answer


def best(rows, key, last_iteration, min_weight):
    """Return the least value that has enough weight in the rows of a key up to an iteration."""
    weights = Counter()
    for (other, iteration, value), weight in rows.items():
        if other == key and iteration <= last_iteration:
            weights[value] += weight
    return min((value for value, weight in weights.items() if weight >= min_weight), default=None)


def expected_changes(rows, min_weight):
    """Return the rows of each iteration after 0 as differences from those of the iteration before."""
    changes = Counter()
    for key in range(LOW_KEY, HIGH_KEY + 1):
        for iteration in range(8):
            changes[iteration + 1, key, best(rows, key, iteration, min_weight)] += 1
            changes[iteration + 1, key, best(rows, key, iteration - 1, min_weight)] -= 1
    return {row: diff for row, diff in changes.items() if diff and row[2] is not None}


@st.composite
def epochs(draw):
    """Draw epochs of slices, in which no value of an iteration has a negative weight, but rows may."""
    live, result = [], []
    for _ in range(draw(st.integers(1, 4))):
        slices = []
        for _ in range(draw(st.integers(1, 3))):
            rows = []
            for _ in range(draw(st.integers(0, 6))):
                if live and draw(st.booleans()):
                    iteration, key, value = live.pop(draw(st.integers(0, len(live) - 1)))
                    rows.append((iteration + draw(st.integers(0, 2)), -1, key, value))
                else:
                    iteration, key, value = draw(st.tuples(iterations, st.integers(LOW_KEY, LOW_KEY + 2), values))
                    live.append((iteration, key, value))
                    rows.append((iteration, 1, key, value))
            slices.append(rows)
        result.append(slices)
    return result


@settings(max_examples=150)
@given(
    drawn=epochs(),
    hashed=st.booleans(),
    min_weight=st.integers(1, 2),
    min_summed_rows=st.sampled_from([0, 100]),
    limit=st.integers(1, 3),
)
def test_a_reduction_keeps_the_least_value_in_every_iteration(drawn, hashed, min_weight, min_summed_rows, limit):
    reduction = Reduction(Blocks(), hashed, min_weight, min_summed_rows)
    rows, changes, answer = Counter(), Counter(), Counter()
    for slices in drawn:
        for iteration, diff, key, value in (row for rows_ in slices for row in rows_):
            rows[key, iteration, value] += diff
        new_changes, new_answer = reduction.run_epoch(slices, limit)
        for total, more in ((changes, new_changes), (answer, new_answer)):
            for row, diff in more.items():
                total[row] += diff
        assert {row: diff for row, diff in changes.items() if diff} == expected_changes(rows, min_weight)
        kept = {(key, best(rows, key, 99, min_weight)): 1 for key in range(LOW_KEY, HIGH_KEY + 1)}
        assert {row: diff for row, diff in answer.items() if diff} == {
            row: 1 for row in kept if row[1] is not None
        }  # fmt: skip
        live = {row: weight for row, weight in rows.items() if weight}
        assert rows_in(reduction.block.trace) == live
        if hashed:
            assert reduction.block.trace.keys.used == len({key for key, _, _ in live})


def test_a_reduction_names_the_value_of_negative_weight():
    for min_summed_rows in (0, 100):
        reduction = Reduction(Blocks(), hashed=False, min_weight=1, min_summed_rows=min_summed_rows)
        reduction.run_epoch([[(0, 1, 4, 2)]], 8)
        reduction.rows.set([(0, -2, 4, 2), (1, 1, 4, 1)])
        assert buffer_updates(reduction.block) == 0
        assert evaluate_keys(reduction.block, 8) == reduce_state.FAILED
        block = reduction.block
        found = block.error, hash_map.key_of(block.trace.keys, block.error_key), block.error_value
        assert found == (reduce_state.NEGATIVE_WEIGHT, 4, 2)


@few
@given(
    st.lists(st.tuples(iterations, st.integers(1, 3), st.just(4), st.integers(0, 30)), min_size=1, max_size=40),
    iterations,
    st.integers(1, 3),
)
def test_running_sums_are_the_sums_of_the_rows_so_far(rows, iteration, min_weight):
    reduction = Reduction(Blocks(), hashed=False, min_weight=1, min_summed_rows=100)
    reduction.run_epoch([rows[::2]], 8)
    reduction.rows.set(rows[1::2])
    assert buffer_updates(reduction.block) == 0
    first = reduce_state.key_state.py_func(reduction.block.trace.lists, 4 - LOW_KEY).first
    sums = running_sums.sums_at.py_func(reduction.block, running_sums.make_sums(reduction.block, first, -1, 0))
    for stop in (iteration, iteration + 2):
        running_sums.add_until(reduction.block, sums, first, stop)
        for which, part in ((NEW, rows), (OLD, rows[::2])):
            weights = Counter()
            for at, weight, _, value in part:
                weights[value] += weight if at < stop else 0
            index = running_sums.least(sums, which, min_weight)
            expected = min((value for value, weight in weights.items() if weight >= min_weight), default=None)
            found = running_sums.value_at(sums, index)
            assert found == (reduce_state.NO_VALUE if expected is None else expected)
        later = [at for at, *_ in rows if at >= stop]
        following = running_sums.next_iteration(reduction.block, sums, first)
        assert following == min(later, default=reduce_state.NEVER)


def arrangement_of(memory, rows, *, hashed):
    time, diff, key, value = rows.cells
    names = ("lists", "next", "weight", "scratch", "holes", "settled")
    arrays = {name: memory.reserve(ROOM) for name in names}
    return memory.block(
        ArrangementBlock, opcode=0, size=rows.size, time=time, diff=diff, key=key, keys=memory.key_map(hashed=hashed),
        frontier=memory.cell(), columns=1, inputs=memory.table([value]), stored=memory.table([memory.reserve(ROOM)]),
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
    memory = Blocks()
    rows, outer_rows, out = Slice(memory), Slice(memory), Slice(memory)
    outer = arrangement_of(memory, outer_rows, hashed=outer_hashed)
    block = trace_of(memory, rows, hashed=hashed, record_words=TraceRow.size_in_words + 1, key_width=1)
    iteration, diff, slot, value = out.cells
    now = memory.cell()
    join = memory.block(
        LoopJoinBlock, opcode=0, trace=block.address, outer=outer.address, now=now, size=out.size, iteration=iteration,
        diff=diff, slot=slot, columns=memory.table([value]), hits=memory.reserve(ROOM),
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
        outer.as_words.frontier = memory.cell(time + 1)
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
def test_a_loop_whose_body_adds_nothing_keeps_the_least_of_what_enters(slices, max_rows):
    """Each slice has later times than the one before, and ends its last time."""
    memory = Blocks()
    inputs, entered = Slice(memory), Slice(memory)
    reduction = Reduction(memory, hashed=False, min_weight=1, min_summed_rows=100, rows=entered)
    buffers = memory.table([memory.reserve(ROOM) for _ in range(4)])
    source = memory.block(
        LoopSourceBlock, opcode=0, size=inputs.size, columns=4, inputs=memory.table(inputs.cells), buffers=buffers,
        out_size=entered.size, out=memory.table(entered.cells), is_beginning=False,
    )  # fmt: skip
    frontier = memory.cell()
    now = reduction.block.as_words.now
    head = memory.block(
        IterateBlock, opcode=0, frontier=frontier, now=now, max_rows=max_rows, source_count=1,
        sources=memory.table([source.address]), join_count=0, joins=memory.table([]), reduce=reduction.block.address,
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
