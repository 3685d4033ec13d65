"""The protocol that the inputs of a query implement: numbered batches, which tasks read in disjoint pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from deltamark.dataflow.batch import Batch

InputColumns = Mapping[str, tuple[str, ...]]
"""The columns that are read of each input."""


class BatchReader(Protocol):
    """An open source, which hands out pieces of its batches."""

    def take(self, batch: int, piece: int, pieces: int, /) -> Mapping[str, Batch]:
        """Return one piece of a batch. The pieces of a batch are disjoint, complete and each in the order of time."""
        ...


class InputSource(Protocol):
    """The changes of a query's inputs. The source is pickled, sent to every executor, and opened there."""

    @property
    def batches(self) -> int:
        """The number of physical batches."""
        ...

    @property
    def identity(self) -> Mapping[str, str]:
        """The properties of the source that must not change while a checkpoint is in use."""
        ...

    def rows(self, batch: int, /) -> int:
        """Estimate the rows of a batch."""
        ...

    def open(self, columns: InputColumns, /) -> BatchReader: ...
