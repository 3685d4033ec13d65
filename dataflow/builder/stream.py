"""Streams of updates between operators: cells for the size, times, diffs and columns of a slice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from deltamark.dataflow.builder.program import NO_VECTOR, BlockAddress, CellAddress, Program, VectorAddress
from deltamark.dataflow.builder.texts import InputText
from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.parallel.key_partition import BLOCK_BITS, key_at, turn_of


@dataclass(frozen=True)
class KeyPartition:
    """The partition of a column's keys, from `low` up, over the workers: see kernels.parallel.key_partition."""

    column: str
    low: int
    workers: int
    worker: CellAddress
    """The number of the worker that owns all keys of the stream."""

    def key(self, place: int) -> int:
        """Return the key at a place among those of this worker."""
        return int(key_at(place, self.low, self.workers, int(view(self.worker, 1)[0])))

    def keys(self, places: np.ndarray) -> np.ndarray:
        """Return the keys at places, as `key` does."""
        groups = places >> BLOCK_BITS
        turned: np.ndarray = turn_of.py_func(groups, self.workers)  # type: ignore[arg-type,assignment]  # of each
        turns = (int(view(self.worker, 1)[0]) - turned) % self.workers
        keys: np.ndarray = self.low + ((groups * self.workers + turns) << BLOCK_BITS | places & (1 << BLOCK_BITS) - 1)
        return keys

    def largest(self, high: int) -> int:
        """Return the largest place of a key up to `high`."""
        return ((high - self.low >> BLOCK_BITS) // self.workers + 1 << BLOCK_BITS) - 1


@dataclass(frozen=True)
class Selection:
    """The numbers of some rows of a stream, or NO_VECTOR for all of them, and how many they are."""

    stream: Stream
    selected: VectorAddress
    size: CellAddress

    @classmethod
    def of(cls, stream: Stream) -> Selection:
        """Return the selection of all rows of a stream, or of those of another one that it consists of."""
        return stream.dealt or cls(stream, NO_VECTOR, stream.size)


@dataclass
class Stream:
    """A stream of updates. Columns are computed once, when an operator first reads them."""

    program: Program
    size: CellAddress
    times: VectorAddress | Callable[[], VectorAddress]
    """The cell of the times, or the function that appends their computation."""
    diffs: VectorAddress | Callable[[], VectorAddress]
    compute: Callable[[str], VectorAddress]
    """Append the computation of a column, and return its cell."""
    computed: dict[str, VectorAddress] = field(default_factory=dict)
    """The cells of the columns that are computed already."""
    raw: Mapping[str, tuple[VectorAddress, int]] = field(default_factory=dict)
    """Columns of an input as they are stored: cell, and bytes of a value."""
    partition: KeyPartition | None = None
    """The partition of its keys, if this worker owns blocks of them."""
    input_text: Callable[[str], InputText | None] = lambda _: None
    """Return a column of text as the feed has it, or None if the feed does not have it."""
    deferred: Mapping[str, Callable[[Stream, VectorAddress], VectorAddress]] = field(default_factory=dict)
    """Columns that cost less after a selection: append the computation for a stream of the rows at a selection."""
    input: BlockAddress | None = None
    """The input whose weights those of the rows are."""
    chosen: Selection | None = None
    """The rows of another stream that a filter has chosen."""
    dealt: Selection | None = None
    """The rows of another stream that this one consists of, if no operator but the deal has selected them."""

    def __post_init__(self) -> None:
        self.part = self.program.part
        """The part of the program to which its columns belong, whichever part reads them."""

    @property
    def time(self) -> VectorAddress:
        """The cell of the times."""
        if not isinstance(self.times, int):
            with self.program.building(self.part):
                self.times = self.times()
        return self.times

    @property
    def diff(self) -> VectorAddress:
        """The cell of the diffs."""
        if not isinstance(self.diffs, int):
            with self.program.building(self.part):
                self.diffs = self.diffs()
        return self.diffs

    def stored(self, name: str) -> tuple[VectorAddress, int]:
        """Return the cell of a column, and the bytes of a value: as stored if it is an input's, else 8."""
        return self.raw[name] if name in self.raw else (self.column(name), 8)

    def column(self, name: str) -> VectorAddress:
        """Return the cell of a column, a vector of int64."""
        with self.program.building(self.part):
            if name not in self.computed:
                self.computed[name] = self.compute(name)
        return self.computed[name]

    def take_times(self, stream: Stream, selection: VectorAddress) -> VectorAddress:
        """Append the selection of another stream's times; return their cell."""
        return self._take_repeated(stream, stream.time, 0, selection)

    def take_weights(self, stream: Stream, selection: VectorAddress) -> VectorAddress:
        """Append the selection of another stream's weights; return their cell."""
        return self._take_repeated(stream, stream.diff, stream.input or 0, selection)

    def _take_repeated(
        self, stream: Stream, source: VectorAddress, input_: int, selection: VectorAddress
    ) -> VectorAddress:
        if stream.input is None:
            return self.take(source, selection)
        program, result = self.program, self.program.alias()
        program.add(
            expressions.TAKE_REPEATED, size=self.size, input=input_, source_size=stream.size, source=source,
            selected=selection, room=program.read(program.vector()), result=result,
        )  # fmt: skip
        return result

    def take(self, source: VectorAddress, selection: VectorAddress, width: int = 8) -> VectorAddress:
        """Append the copy of a source's values at a selection of this stream's size, or of all; return its cell."""
        result = self.program.vector()
        self.program.add(
            expressions.TAKE, size=self.size, source=source, width=width, selected=selection,
            result=result,
        )  # fmt: skip
        return result
