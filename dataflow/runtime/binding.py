"""Input bindings: connect the input blocks of a running program to the arrays of a batch."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from deltamark.dataflow.batch import Batch, Pointers
from deltamark.dataflow.builder.program import SLICE_ROWS, BlockAddress
from deltamark.dataflow.kernels.core.guard import REGISTRY, Range
from deltamark.dataflow.kernels.core.memory import view, words
from deltamark.dataflow.kernels.program import InputBlock
from deltamark.dataflow.operators.input import InputReader
from deltamark.dataflow.runtime.batch_checks import Accepted, accept
from deltamark.errors import DeltamarkError


class InputBinding:
    """Binds one input block of the program to the arrays of a batch while it is fed."""

    def __init__(self, reader: InputReader) -> None:
        self._reader, self._node = reader, reader.node
        self._words = InputBlock(reader.block).as_words
        self._bound: Pointers | None = None
        """The bound batch; keeping it keeps its arrays alive while kernels may read them."""
        self._lent: list[Range] = []
        self._live = 0

    def refresh(self) -> None:
        """Update the columns that are read, because plans were attached or retired."""
        self.names, schema = tuple(self._reader.names), self._node.schema
        self.texts = [name for name in self.names if schema[name].kind == "text"]
        self.nullable = [name for name in self.texts if schema[name].nullable]
        self.widths = {name: width for name, (_, width) in self._reader.arrays.items()}
        """Bytes of an element of each array; 0 for the array of the bytes of texts."""
        self._bases = words(self._reader.bases, len(self.widths))

    @property
    def block(self) -> BlockAddress:
        return self._reader.block

    def check(self, batch: object, last: int) -> Accepted | None:
        """Check a batch whose times must be later than `last`, without changing anything; None if it has no rows."""
        return accept(self._node, self.names, batch, last, self._live)

    def commit(self, accepted: Accepted) -> None:
        """Record the number of live rows after a checked batch."""
        self._live = accepted.live

    def bind(self, pointers: Pointers) -> None:
        """Let the input read a whole batch."""
        self._point(pointers)
        for index, name in enumerate(self.widths):
            self._bases[index] = pointers.columns[name]

    @contextmanager
    def replay(self, pointers: Pointers, names: Sequence[str], after: int) -> Iterator[None]:
        """Let the input read some columns of a batch that was fed before, from the first row after a time."""
        lost = [name for name in names if name not in pointers.columns]
        if lost:
            actual = f"{self._node.name}: {', '.join(lost)}"
            raise DeltamarkError("columns that were not fed", actual, "feed them, or attach without since=")
        self._point(pointers)
        self._words.position = int(np.searchsorted(view(pointers.time, pointers.rows), after, "right"))
        for index, name in enumerate(self.widths):
            self._bases[index] = pointers.columns.get(name, 0)
        try:
            yield
        finally:
            self.unbind()

    def _point(self, pointers: Pointers) -> None:
        self._lend(pointers)
        block = self._words
        block.times, block.diffs = pointers.time, pointers.diff
        block.rows, block.position = pointers.rows, 0

    def unbind(self) -> None:
        """Let the input read no rows."""
        self._words.rows = self._words.position = words(self._words.size, 1)[0] = 0
        self._take_back()

    def _lend(self, pointers: Pointers) -> None:
        """Keep the arrays of a batch alive, and register them with checked kernels, until they are taken back."""
        self._take_back()
        self._bound = pointers
        if REGISTRY is not None:
            sizes = {name: width * (pointers.rows + (name in self.texts)) for name, width in self.widths.items()}
            arrays = {name: sizes[name] or pointers.sizes.get(name, 0) for name in pointers.columns if name in sizes}
            places = [(pointers.time, 8 * pointers.rows), (pointers.diff, 8 * pointers.rows)]
            places += [(pointers.columns[name], size) for name, size in arrays.items()]
            self._lent = [Range(at, at + size, f"the batch of {self._node.name}") for at, size in places]
            REGISTRY.lend(self._lent)

    def _take_back(self) -> None:
        self._bound = None
        if REGISTRY is not None:
            REGISTRY.take_back(self._lent)
            self._lent = []

    def slices(self, batches: Iterable[Batch], names: Sequence[str], time: int, *, counted: bool) -> Generator[None]:
        """Bind columns of the input to one slice of batches after another, as if all rows had one time.

        counted: the rows are already counted as live.
        """
        size, times, diffs = (words(cell, 1) for cell in (self._words.size, self._words.time, self._words.diff))
        cells = {name: (words(cell, 1), width) for name, (cell, width) in self._reader.arrays.items()}
        live = 0
        for batch in batches:
            accepted = accept(self._node, tuple(names), _at(batch, time), -1, live)
            if accepted is None:
                yield  # the reader of an arrangement has done a piece of work without finding a row
                continue
            if not counted:
                self._live += accepted.live - live
            live, pointers = accepted.live, accepted.pointers
            try:
                for start in range(0, pointers.rows, SLICE_ROWS):
                    self._lend(pointers)  # a feed since the last slice has bound another batch
                    size[0] = min(SLICE_ROWS, pointers.rows - start)
                    times[0], diffs[0] = pointers.time + 8 * start, pointers.diff + 8 * start
                    for name, address in pointers.columns.items():
                        cell, width = cells[name]
                        cell[0] = address + width * start
                    yield
                    size[0] = 0
            finally:
                self._take_back()


def _at(batch: object, time: int) -> object:
    """Return a batch with one time for all rows."""
    if not isinstance(batch, Batch):
        return batch
    return Batch(np.full(len(batch.diff), time, dtype=np.int64), batch.diff, batch.columns)
