"""Index: for each key of a collection the values that it has, shared by all that extend rows by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltamark.dataflow.codegen.columns import MOST_PACKED, Digit, Key, Stream
from deltamark.dataflow.codegen.program import LOOSE, Program, key_range
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core import hash_map, sorted_lists
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.motifs import index as kernel
from deltamark.dataflow.operators.arrangement import negative, wide_weight
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError

NARROW = 1 << 31
"""Ranges of values below this take 4 bytes a row."""


@dataclass(frozen=True)
class Indexed:
    """What is indexed: columns of a collection, and the one whose values they lead to; types of the columns."""

    keys: tuple[str, ...]
    value: str
    types: tuple[Type, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.keys) or 'nothing'} to {self.value}"


@dataclass(frozen=True)
class Index:
    """Its block, and how its rows are to be read."""

    block: int
    of: Indexed
    value: Type

    def numbers(self) -> int:
        """Return how many different values there may be."""
        return self.value.high - self.value.low + 1

    def rows(self) -> int:
        return int(view(self.block, kernel.WORDS)[kernel.LIVE])

    def problem(self) -> DeltamarkError:
        words = view(self.block, kernel.WORDS)
        if int(words[kernel.ERROR]) == kernel.TOO_HEAVY:
            return wide_weight()
        key = int(hash_map.key_of(int(words[kernel.KEYS]), int(words[kernel.ERROR_KEY])))
        row = {**self._row(key), self.of.value: int(words[kernel.LOW]) + int(words[kernel.ERROR_NUMBER])}
        return negative(row, int(words[kernel.ERROR_TIME]))

    def _row(self, key: int) -> dict[str, int]:
        if len(self.of.keys) == 1:
            return {self.of.keys[0]: key}
        row, divisor = {}, 1
        for name, (low, radix) in reversed(list(zip(self.of.keys, key_range(self.of.types), strict=True))):
            row[name] = Digit(divisor, radix, low, nullable=False).of(key)
            divisor *= radix
        return dict(reversed(row.items()))


def key_of(stream: Stream, names: Sequence[str], types: Sequence[Type]) -> Key:
    """Return a stream's keys as indexes have them."""
    plain = Stream(stream.program, stream.size, stream.time, stream.diff, stream.column)
    key = plain.key(names, types)
    if key.interner is not None:
        actual = f"{', '.join(names)}: more than {MOST_PACKED} values"
        raise DeltamarkError("a key that is too wide for an index", actual, "declare narrower bounds")
    return key


def index(stream: Stream, of: Indexed, value: Type, rows: int) -> Index:
    """Append the insertion of a stream into an index. rows: how many may be live."""
    program, reserve = stream.program, stream.program.memory.reserve
    key = key_of(stream, of.keys, of.types)
    keys = program.keys(key, rows, stream.size)
    if value.high - value.low >= MOST_PACKED:
        actual = f"{of.value}: {value.low}..{value.high}"
        raise DeltamarkError("a range that is too wide for an index", actual, "declare narrower bounds")
    width = 4 if value.high - value.low < NARROW else 8
    fields = [
        width, reserve(2 * keys.capacity), reserve(LOOSE), 0, reserve(2 * LOOSE), program.words(sorted_lists.SIZES),
        sorted_lists.UNIT, 0, stream.size, stream.time, stream.diff, key.cell, stream.column(of.value), keys.block,
        program.frontier, value.low, 0, *(reserve(LOOSE) for _ in range(7)), 0, 0, reserve(LOOSE), reserve(LOOSE),
        *[0] * 8,
    ]  # fmt: skip
    made = Index(program.op(vm.INDEX, *fields), of, value)
    program.keep(made)
    return made


def settled(program: Program, made: Index) -> None:
    """Append the settling of an index, when all have read it."""
    program.late_op(vm.SETTLE_INDEX, made.block)
    program.keep(made)
