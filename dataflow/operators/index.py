"""Index: the sorted values of each key of a collection, which all operators that extend rows by them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltamark.dataflow.builder.keys import MAX_PACKED_KEYS, Key, NamedValue, RowCount, key_ids, key_of, key_values
from deltamark.dataflow.builder.program import BlockAddress, Program
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.hashing.hash_map import key_of as key_of_id
from deltamark.dataflow.kernels.motifs import index as kernel
from deltamark.dataflow.kernels.motifs.index import OVERFLOW, SETTLE_INDEX
from deltamark.dataflow.kernels.ordered.sorted_lists import SIZE_CLASSES
from deltamark.dataflow.operators.errors import negative_multiplicity, wide_weight
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError

MAX_NARROW_RANGE = 1 << 31
"""Values take 4 bytes each if their range is smaller, else 8."""

SCRATCH = ("ids", "numbers", "rows", "spare", "counts", "updates", "runs", "added", "removed")
"""Fields of an index with room for the updates of a slice."""


@dataclass(frozen=True)
class Indexed:
    """The columns of an index: those of the key with their types, and the column of the values."""

    keys: tuple[str, ...]
    value: str
    types: tuple[Type, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.keys) or 'nothing'} to {self.value}"


@dataclass(frozen=True)
class Index:
    """The block of an index, its columns, its keys as numbers, and the type of its values."""

    program: Program
    block: BlockAddress
    of: Indexed
    key: Key
    value: Type

    def numbers(self) -> int:
        """Return the number of possible values."""
        return self.value.high - self.value.low + 1

    def rows(self) -> int:
        return kernel.IndexBlock(self.block).live

    def problem(self) -> DeltamarkError:
        block = kernel.IndexBlock(self.block)
        if block.error == OVERFLOW:
            return wide_weight()
        number = int(key_of_id(block.keys, block.error_key))
        row = key_values(self.key, number, self.of.keys, self.of.types)
        row.append(NamedValue(self.of.value, self.value, block.low + block.error_number))
        return negative_multiplicity(self.program, row, block.error_time)


def index_key(stream: Stream, names: Sequence[str], types: Sequence[Type]) -> Key:
    """Return the keys of a stream as indexes number them: alike on all workers, without an interner."""
    plain = Stream(stream.program, stream.size, stream.time, stream.diff, stream.column)
    key = key_of(plain, names, types)
    if key.interner is not None:
        actual = f"{', '.join(names)}: more than {MAX_PACKED_KEYS} values"
        raise DeltamarkError("a key that is too wide for an index", actual, "declare narrower bounds")
    return key


def index(stream: Stream, of: Indexed, value: Type, rows: RowCount) -> Index:
    """Append the insertion of a stream into an index. rows: the live rows."""
    program, reserve, unset = stream.program, stream.program.memory.reserve, stream.program.memory.reserve_unset
    key = index_key(stream, of.keys, of.types)
    keys = key_ids(program, key, rows, stream.size)
    if value.high - value.low >= MAX_PACKED_KEYS:
        actual = f"{of.value}: {value.low}..{value.high}"
        raise DeltamarkError("a range that is too wide for an index", actual, "declare narrower bounds")
    width = 4 if value.high - value.low < MAX_NARROW_RANGE else 8
    block = program.add(
        kernel.INSERT_INDEX, width=width, heads=keys.reserve(program.memory, 2),
        pool=unset(UNBOUNDED_WORDS), weights=unset(2 * UNBOUNDED_WORDS), free=program.words(SIZE_CLASSES),
        size=stream.size, time=stream.time, diff=stream.diff, key=key.cell, value=stream.column(of.value),
        keys=keys.block, frontier=program.frontier, low=value.low, stamps=_stamps(program, value, rows),
        **{name: reserve(UNBOUNDED_WORDS) for name in SCRATCH},
    )  # fmt: skip
    appended = Index(program, block, of, key, value)
    program.add_state(appended)
    return appended


MAX_STAMPS_PER_ROW = 4
"""An index of fewer rows for each possible value has no stamps. Not measured."""


def _stamps(program: Program, value: Type, rows: RowCount) -> int:
    """Return the address of a stamp of a word for each possible value, or 0 if there are too many values."""
    numbers = value.high - value.low + 1
    return program.memory.reserve_whole(numbers) if numbers <= MAX_STAMPS_PER_ROW * rows.bound else 0


def settle(program: Program, index: Index) -> None:
    """Append the settling of an index, which runs after all of its readers."""
    program.add_late(SETTLE_INDEX, index=index.block)
    program.add_state(index)
