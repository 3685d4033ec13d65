"""Blocks of the kernels of loops in a memory of their own, with plain Python that computes the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.loops import reduce_state, worklist
from deltamark.dataflow.kernels.loops.cycles import CycleDetector
from deltamark.dataflow.kernels.loops.reduce import buffer_updates, end_epoch, evaluate_keys
from deltamark.dataflow.kernels.loops.reduce_state import LoopReduce, ReduceRow
from deltamark.dataflow.kernels.loops.trace import Trace, TraceRow
from deltamark.dataflow.kernels.loops.worklist import Worklist

LOW_KEY, HIGH_KEY = 3, 9

keys = st.integers(LOW_KEY, HIGH_KEY)
iterations = st.integers(0, 5)
values = st.integers(-3, 3)
few = settings(max_examples=40)


def key_map(blocks, *, hashed):
    """Return the address of an empty map of the keys, small enough for keys to collide."""
    return blocks.keys(form="hashed" if hashed else "direct", low=LOW_KEY, high=HIGH_KEY, mask=31).address


def read(cell, count):
    return view(Array(cell)[0], count).tolist()


def write(cell, content):
    view(Array(cell)[0], len(content))[:] = content


@dataclass
class Slice:
    """The cells of a slice, whose rows are (iteration or time, diff, key, value)."""

    blocks: Blocks
    cells: list[int] = field(init=False)
    size: int = field(init=False)

    def __post_init__(self):
        self.size, self.cells = self.blocks.cell(), [self.blocks.vector() for _ in range(4)]

    def set(self, rows):
        Array(self.size)[0] = len(rows)
        for column, cell in enumerate(self.cells):
            write(cell, [row[column] for row in rows])

    def get(self):
        return list(zip(*(read(cell, Array(self.size)[0]) for cell in self.cells), strict=True))


def trace_of(blocks, rows, *, hashed, record_words, key_width):
    iteration, diff, key, value = rows.cells
    resolved, ids, hashes, slots, lists, table, records = (blocks.room() for _ in range(7))
    return blocks.block(
        Trace, size=rows.size, iteration=iteration, diff=diff, key=key, keys=key_map(blocks, hashed=hashed), columns=1,
        inputs=blocks.words([value]), resolved=resolved, ids=ids, hashes=hashes, slots=slots, lists=lists,
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


def worklist_of(blocks):
    return blocks.block(Worklist, lists=blocks.room(), nodes=blocks.room(), heap=blocks.room())


def detector_of(blocks, min_iterations):
    return blocks.block(CycleDetector, digests=blocks.room(), min_iterations=min_iterations)


@dataclass
class Reduction:
    """A reduction of (key, value) rows, and its input and outputs."""

    blocks: Blocks
    hashed: bool
    min_weight: int
    min_summed_rows: int
    rows: Slice | None = None

    def __post_init__(self):
        blocks = self.blocks
        self.rows, self.feedback, self.answer = self.rows or Slice(blocks), Slice(blocks), Slice(blocks)
        width = reduce_state.STATE_WIDTH
        record_words = ReduceRow.size_in_words
        history = trace_of(blocks, self.rows, hashed=self.hashed, record_words=record_words, key_width=width)
        names = ("iteration", "diff", "key", "value")
        outputs = dict(zip(names, self.feedback.cells, strict=True))
        answers = zip(("time", *names[1:]), self.answer.cells, strict=True)
        changed, evaluated, sorted_rows, sums = (blocks.room(1 << 16) for _ in range(4))
        self.block = blocks.block(
            LoopReduce, trace=history.address, worklist=worklist_of(blocks).address,
            cycles=detector_of(blocks, 1000).address, min_weight=self.min_weight, max_iterations=100,
            min_summed_rows=self.min_summed_rows, now=blocks.cell(), changed_keys=changed, evaluated_keys=evaluated,
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
