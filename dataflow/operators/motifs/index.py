"""Index: for each key of a collection its values; all operators that extend rows by them share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltamark.dataflow.codegen.columns import MOST_PACKED, Digit, Key, Stream
from deltamark.dataflow.codegen.memory_layout import UNBOUNDED_WORDS
from deltamark.dataflow.codegen.program import Program, key_range
from deltamark.dataflow.kernels.hashing.hash_map import key_of as key_of_id
from deltamark.dataflow.kernels.motifs import index as kernel
from deltamark.dataflow.kernels.motifs.index_settle import OVERFLOW, SettleIndexBlock
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.ordered.sorted_lists import SIZE_CLASSES
from deltamark.dataflow.operators.arrangement import negative, wide_weight
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError

MAX_NARROW_RANGE = 1 << 31
"""The values of smaller ranges take 4 bytes each."""

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
    """An index: its block, its columns, and the type of its values."""

    block: int
    of: Indexed
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
        row = {**self._row(key_of_id(block.keys, block.error_key)), self.of.value: block.low + block.error_number}
        return negative(row, block.error_time)

    def _row(self, key: int) -> dict[str, int]:
        if len(self.of.keys) == 1:
            return {self.of.keys[0]: key}
        row, divisor = {}, 1
        for name, (low, radix) in reversed(list(zip(self.of.keys, key_range(self.of.types), strict=True))):
            row[name] = Digit(divisor, radix, low, nullable=False).of(key)
            divisor *= radix
        return dict(reversed(row.items()))


def key_of(stream: Stream, names: Sequence[str], types: Sequence[Type]) -> Key:
    """Return the keys of a stream in the form that indexes use."""
    plain = Stream(stream.program, stream.size, stream.time, stream.diff, stream.column)
    key = plain.key(names, types)
    if key.interner is not None:
        actual = f"{', '.join(names)}: more than {MOST_PACKED} values"
        raise DeltamarkError("a key that is too wide for an index", actual, "declare narrower bounds")
    return key


def index(stream: Stream, of: Indexed, value: Type, rows: int) -> Index:
    """Append the insertion of a stream into an index. rows: a bound of the live rows."""
    program, reserve = stream.program, stream.program.memory.reserve
    key = key_of(stream, of.keys, of.types)
    keys = program.keys(key, rows, stream.size)
    if value.high - value.low >= MOST_PACKED:
        actual = f"{of.value}: {value.low}..{value.high}"
        raise DeltamarkError("a range that is too wide for an index", actual, "declare narrower bounds")
    width = 4 if value.high - value.low < MAX_NARROW_RANGE else 8
    block = program.add(
        Opcode.INDEX, kernel.IndexBlock, width=width, heads=reserve(2 * keys.capacity), pool=reserve(UNBOUNDED_WORDS),
        weights=reserve(2 * UNBOUNDED_WORDS), free=program.words(SIZE_CLASSES), size=stream.size, time=stream.time,
        diff=stream.diff, key=key.cell, value=stream.column(of.value), keys=keys.block, frontier=program.frontier,
        low=value.low, **{name: reserve(UNBOUNDED_WORDS) for name in SCRATCH},
    )  # fmt: skip
    appended = Index(block, of, value)
    program.keep(appended)
    return appended


def settled(program: Program, unsettled: Index) -> None:
    """Append the settling of an index, after all its readers."""
    program.add_late(Opcode.SETTLE_INDEX, SettleIndexBlock, index=unsettled.block)
    program.keep(unsettled)
