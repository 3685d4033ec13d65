"""Inputs of a running program: checking what is fed to them, and pointing them at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from deltamark.dataflow.batch import Batch, Pointers
from deltamark.dataflow.codegen.program import SLICE_ROWS
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core.guard import REGISTRY, Range
from deltamark.dataflow.kernels.core.memory import view, words
from deltamark.dataflow.operators.linear import Input
from deltamark.dataflow.runtime.batch_checks import Accepted, accept
from deltamark.errors import DeltamarkError


class Aim:
    """Points an input of the program at a batch."""

    def __init__(self, block: Input) -> None:
        self._block, self._node = block, block.node
        self._words = vm.InputBlock(block.block).as_words
        self._aimed: Pointers | None = None
        """The batch that the input points at: its arrays live as long as the kernels may read them."""
        self._lent: list[Range] = []
        self._live = 0

    def refresh(self) -> None:
        """Look again which columns are read."""
        self.names, schema = tuple(self._block.names), self._node.schema
        self.texts = [name for name in self.names if schema[name].kind == "text"]
        self.nullable = [name for name in self.texts if schema[name].nullable]
        self.widths = {name: width for name, (_, width) in self._block.arrays.items()}
        """The bytes of an element of each array; 0 for the bytes of texts."""
        self._bases = words(self._block.bases, len(self.widths))

    @property
    def block(self) -> int:
        return self._block.block

    def check(self, batch: object, last: int) -> Accepted | None:
        """Check a batch that must come after the time `last`; None for one without rows. Nothing is changed."""
        return accept(self._node, self.names, batch, last, self._live)

    def accepted(self, found: Accepted) -> None:
        """Take note of a batch that will be fed."""
        self._live = found.live

    def aim(self, pointers: Pointers) -> None:
        self._point(pointers)
        for index, name in enumerate(self.widths):
            self._bases[index] = pointers.columns[name]

    @contextmanager
    def again(self, pointers: Pointers, names: Sequence[str], after: int) -> Iterator[None]:
        """Aim columns at a batch that was fed before, from the first row after a time on."""
        lost = [name for name in names if name not in pointers.columns]
        if lost:
            actual = f"{self._node.params}: {', '.join(lost)}"
            raise DeltamarkError("columns that were not fed", actual, "feed them, or attach as of now")
        self._point(pointers)
        self._words.position = int(np.searchsorted(view(pointers.time, pointers.rows), after, "right"))
        for index, name in enumerate(self.widths):
            self._bases[index] = pointers.columns.get(name, 0)
        try:
            yield
        finally:
            self.nowhere()

    def _point(self, pointers: Pointers) -> None:
        self._lend(pointers)
        block = self._words
        block.times, block.diffs = pointers.time, pointers.diff
        block.rows, block.position = pointers.rows, 0

    def nowhere(self) -> None:
        """Point the input at no rows."""
        self._words.rows = self._words.position = words(self._words.size, 1)[0] = 0
        self._take_back()

    def _lend(self, pointers: Pointers) -> None:
        """Keep the arrays of a batch alive, and make them known to checked kernels, until they are taken back."""
        self._take_back()
        self._aimed = pointers
        if REGISTRY is not None:
            sizes = {name: width * (pointers.rows + (name in self.texts)) for name, width in self.widths.items()}
            arrays = {name: sizes[name] or pointers.sizes.get(name, 0) for name in pointers.columns if name in sizes}
            places = [(pointers.time, 8 * pointers.rows), (pointers.diff, 8 * pointers.rows)]
            places += [(pointers.columns[name], size) for name, size in arrays.items()]
            self._lent = [Range(at, at + size, f"what is fed to {self._node.params}") for at, size in places]
            REGISTRY.lend(self._lent)

    def _take_back(self) -> None:
        self._aimed = None
        if REGISTRY is not None:
            REGISTRY.take_back(self._lent)
            self._lent = []

    def slices(self, batches: Iterable[Batch], names: Sequence[str], time: int, *, counted: bool) -> Iterator[None]:
        """Aim the input's cells, of columns `names`, at slices of batches, as if all of it came at one time.

        counted: the rows are among those that are known to be live.
        """
        size, times, diffs = (words(cell, 1) for cell in (self._words.size, self._words.time, self._words.diff))
        cells = {name: (words(cell, 1), width) for name, (cell, width) in self._block.arrays.items()}
        live = 0
        for batch in batches:
            found = accept(self._node, tuple(names), _at(batch, time), -1, live)
            if found is None:
                continue
            if not counted:
                self._live += found.live - live
            live, pointers = found.live, found.pointers
            try:
                for start in range(0, pointers.rows, SLICE_ROWS):
                    self._lend(pointers)  # again, for a feed may have come in between
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
    """Give all rows of a batch one time."""
    if not isinstance(batch, Batch):
        return batch
    return Batch(np.full(len(batch.diff), time, dtype=np.int64), batch.diff, batch.columns)
