"""Threshold: the rows that occur at least a number of times, once each. `distinct` is the threshold of one copy.

A row is a key here: it is inserted when its count has reached the minimum at the end of a time, and retracted when it
has fallen below.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from deltamark.dataflow.builder.keys import Key, key_ids, key_of, key_values
from deltamark.dataflow.builder.program import NO_VECTOR, Program
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.blocks import Array, Block, Cell, Operator, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch, wraps
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, add, prefetch_entry, remove
from deltamark.dataflow.kernels.status import DONE, FAILED
from deltamark.dataflow.operators.aggregate import with_keys
from deltamark.dataflow.operators.by_key import Merging
from deltamark.dataflow.operators.errors import negative_multiplicity, wide_weight
from deltamark.dataflow.operators.extreme import Extreme
from deltamark.dataflow.operators.input import row_count
from deltamark.dataflow.operators.linear import Project
from deltamark.dataflow.operators.node import Emission, JoinReads, Keys, Node, Requirement
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError


@dataclass(frozen=True, eq=False)
class Threshold(Merging):
    """The rows whose multiplicity is at least `least`, once each."""

    least: int

    consolidated: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return "distinct" if self.least == 1 else super().title

    def description(self, required: Collection[str]) -> str:
        return "" if self.least == 1 else f"at least {self.least} copies"

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, self.schema.names)]

    def determines(self, names: frozenset[str]) -> bool:
        return set(self.schema.names) <= names or _are_extremes(self.rows, names)

    def preferred(self, keys: Keys) -> Iterable[tuple[Node, Keys]]:
        return [(self.rows, keys)]

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        (stream,) = streams
        program, memory, names = stream.program, stream.program.memory, self.schema.names
        types = tuple(self.schema[name] for name in names)
        key = key_of(stream, names, types)
        keys = key_ids(program, key, row_count(self), stream.size)
        size, time, diff, out_key = program.cell(), *(program.vector() for _ in range(3))
        block = program.add(
            THRESHOLD, size=stream.size, time=stream.time, diff=stream.diff, key=key.cell,
            keys=keys.block, frontier=program.frontier, minimum=self.least, state=keys.reserve(memory, 2),
            saved=memory.reserve_unset(UNBOUNDED_WORDS), touched=memory.reserve_unset(UNBOUNDED_WORDS), out_size=size,
            out_time=time, out_diff=diff, out_key=out_key,
        )  # fmt: skip
        program.add_state(CountedRows(program, ThresholdBlock(block), names, types, key))
        return with_keys(Stream(program, size, time, diff, lambda _: NO_VECTOR), out_key, key, names, types)


def _are_extremes(node: Node, names: frozenset[str]) -> bool:
    """Return whether the distinct rows of a node are the extreme of each group, and nothing else."""
    copied: Mapping[str, str] = {name: name for name in node.schema.names}
    if isinstance(node, Project) and len(node.copied) == len(node.columns):
        copied, node = node.copied, node.rows
    if not isinstance(node, Extreme):
        return False
    keys = {copied[name] for name in names if name in copied}
    return set(copied.values()) <= {*node.keys, node.column} and set(node.keys) <= keys


@dataclass(frozen=True)
class CountedRows:
    """The state of a threshold: the number of copies of each row."""

    program: Program
    block: ThresholdBlock
    names: Keys
    types: tuple[Type, ...]
    key: Key

    def rows(self) -> int:
        """Count the rows that have copies."""
        return self.block.live

    def problem(self) -> DeltamarkError:
        """Return the error that has made the kernel fail."""
        if self.block.overflow < 0:
            return wide_weight()
        number = int(hash_map.key_of(self.block.keys, self.block.error_group))
        row = key_values(self.key, number, self.names, self.types)
        return negative_multiplicity(self.program, row, self.block.open_time)


AHEAD = 16
"""The number of updates ahead at which the count of a key is prefetched. Not measured."""


class KeyCount(Block):
    """The state of a key."""

    rows: int
    place: int
    """1 + its place among the touched keys, or 0."""


class ThresholdBlock(Operator):
    """The number of rows of each key, and the keys that have enough."""

    size: Cell
    time: Vector
    diff: Vector
    key: Vector
    keys: KeyMap
    frontier: Cell
    minimum: int
    state: Array
    """A `KeyCount` for each key id."""
    saved: Array
    """The counts of the touched keys before `open_time`."""
    touched: Array
    """The ids of the keys that `open_time` has touched."""
    touched_count: int = 0
    open_time: int = 0
    out_size: Cell
    out_time: Vector
    out_diff: Vector
    out_key: Vector
    live: int = 0
    """The number of keys that have rows."""
    error_group: int = 0
    """The key id whose count is negative, after a failure without overflow."""
    overflow: int = 0
    """Negative if a count needs more than 64 bits."""


@inline
def _count_of(state: Array, key_id: int) -> KeyCount:
    return KeyCount(state[2 * key_id :].address)


@kernel
def threshold(op: ThresholdBlock) -> int:
    """Add the updates of the slice, and emit the crossings of the times that end."""
    size, times, diffs, key, keys, frontier = op.size, op.time, op.diff, op.key, op.keys, op.frontier
    state, saved, touched = op.state, op.saved, op.touched
    opened, now, rows, wrapped = op.touched_count, op.open_time, 0, 0
    hashed, low = keys.hashed != 0, keys.low
    for at in range(size):
        ahead = key[min(at + AHEAD, size - 1)]
        if hashed:
            prefetch_entry(keys, ahead)
        else:
            prefetch(_count_of(state, ahead - low).address)
        time = times[at]
        if time != now:
            if opened > 0:
                rows = _end_time(op, rows, opened)
                opened = 0
                if rows < 0:
                    break
            now = time
            op.open_time = now
        key_id = add(keys, key[at]) if hashed else key[at] - low  # after the end of a time, which frees ids
        count = _count_of(state, key_id)
        old, place = count.rows, count.place
        saved[opened] = old  # without a branch: overwritten unless the key is touched for the first time
        touched[opened] = key_id
        opened += place == 0
        count.place = place if place != 0 else opened
        wrapped |= wraps(old, diffs[at])
        count.rows = old + diffs[at]
    if rows >= 0 and opened > 0 and now < frontier:
        rows = _end_time(op, rows, opened)
        opened = 0
    op.overflow = wrapped
    if rows < 0:
        return FAILED
    op.touched_count = opened
    op.out_size = rows
    return FAILED if wrapped < 0 else DONE


@kernel
def _end_time(op: ThresholdBlock, rows: int, opened: int) -> int:
    """Emit the keys whose count has crossed the minimum; return the size of the output, or -1 at a negative count."""
    state, minimum, keys, now, live = op.state, op.minimum, op.keys, op.open_time, op.live
    saved, touched, out_time, out_diff, out_key = op.saved, op.touched, op.out_time, op.out_diff, op.out_key
    for place in range(opened):
        key_id, old = touched[place], saved[place]
        count = _count_of(state, key_id)
        new = count.rows
        count.place = 0
        if new < 0:
            op.error_group = key_id
            return -1
        out_time[rows] = now
        out_diff[rows] = 1 if new >= minimum else -1
        out_key[rows] = hash_map.key_of(keys, key_id)
        rows += (new >= minimum) != (old >= minimum)
        live += (new != 0) - (old != 0)
        if new == 0 and keys.hashed != 0:
            remove(keys, hash_map.key_of(keys, key_id))
    op.live = live
    return rows


THRESHOLD = step(threshold, idle=("size", "touched_count", "out_size"), ends_times=True)
