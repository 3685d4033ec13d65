"""The feed: a workload cut into physical batches of columns for an engine.

A row of relation r has the time 8 * (round // logical) + rank(r). A physical batch consists of P logical batches, and P
may change from batch to batch. Numbers have as few bytes as the bounds of their column need: they are
converted when the feed is made. The columns of a batch are views of the texts in mapped files and of these numbers if
its rows are consecutive in one file, and copies otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.positions import Rows, Values, array_of, cut, joined, values_at
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.datagen.workloads.workload import ChangedRows, Workload
from deltamark.errors import DeltamarkError


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes of one relation in one physical batch. time: non-decreasing; rows: positions in the relation."""

    relation: str
    time: np.ndarray
    diff: np.ndarray
    rows: Rows
    columns: dict[str, Values]
    addresses: dict[str, int] = field(default_factory=dict)
    """The addresses of numeric columns that lie in one file: computing them is faster than reading them from views."""
    nullable: tuple[str, ...] = ()
    """The columns of texts that may be NULL."""


@dataclass(frozen=True, slots=True)
class Several:
    """Several physical batches in one. ends: the last logical time of each batch that has rows; rows: their number."""

    deltas: list[Delta]
    ends: np.ndarray
    rows: list[int]


def last_time(rounds: int, logical: int) -> int:
    """Return the last logical time of a number of rounds."""
    return (rounds - 1) // logical * TIMES_PER_ROUND + TIMES_PER_ROUND - 1


class Feed:
    """Cuts a workload for one worker. The shares of all workers together are the whole batch."""

    def __init__(  # noqa: PLR0913 (independent settings)
        self,
        workload: Workload,
        columns: Mapping[str, Sequence[str]],
        *,
        logical: int = 1,
        worker: int = 0,
        workers: int = 1,
        until: int | None = None,
    ) -> None:
        _at_least_one("logical batch", logical)
        if not 0 <= worker < workers:
            raise DeltamarkError(f"no such worker of {workers}", worker, f"give one from 0 to {workers - 1}")
        self._workload = workload
        self.logical = logical
        self._share = (worker, workers)
        self._readers = [_Reader(workload.dataset, name, names, logical) for name, names in columns.items()]
        self._end = workload.rounds if until is None else workload.check_end(until, logical)
        self.round = 0
        """The first round of the next batch."""

    @property
    def done(self) -> bool:
        return self.round >= self._end

    def take(self, physical: int) -> list[Delta]:
        """Cut the next `physical` logical batches; return a delta for each relation with rows in them."""
        _at_least_one("physical batch", physical)
        start = self.round
        self.round = stop = min(start + physical * self.logical, self._end)
        deltas = []
        for reader in self._readers:
            pieces = self._workload.pieces(reader.name, start, stop)
            if self._share != (0, 1):
                pieces = [share for piece in pieces if len((share := piece.share(*self._share)).rows)]
            if pieces:
                deltas.append(reader.read(pieces))
        return deltas

    def take_several(self, physical: int, batches: int) -> Several:
        """Cut the next batches of `physical` logical batches, all in one."""
        first = self.round
        deltas = self.take(physical * batches)
        starts = range(first + physical * self.logical, self.round, physical * self.logical)
        ends = np.array([last_time(until, self.logical) for until in (*starts, self.round)])
        rows = np.zeros(len(ends), np.int64)
        for delta in deltas:
            rows += np.diff(np.searchsorted(delta.time, ends, side="right"), prepend=0)
        return Several(deltas, ends[rows > 0], rows[rows > 0].tolist())

    def batches(self, physical: int) -> Iterator[list[Delta]]:
        while not self.done:
            yield self.take(physical)


class _Reader:
    """Reads the columns of one relation."""

    def __init__(self, dataset: Dataset, name: str, columns: Sequence[str], logical: int) -> None:
        self.name = name
        self._rank = dataset.relations[name].rank
        self._logical = logical
        self._shift = dataset.shift
        self._dataset = dataset
        self._unchecked = set(range(len(dataset.manifest.relations[name].chunks)))
        """Files from which no row was read yet."""
        self._columns = [(column, dataset.narrow_pieces(name, column)) for column in columns]
        of = map(dataset.relations[name].column, columns)
        self._nullable = tuple(column.name for column in of if column.kind == "text" and column.nullable)
        self._addresses = [
            (column, [piece.ctypes.data for piece in stored], stored[0].itemsize)
            for column, stored in self._columns
            if stored and isinstance(stored[0], np.ndarray)
        ]
        self._steps = _constant(np.empty(0, dtype=np.int64))  # 8 * (i // logical)
        self._diffs = dict.fromkeys((1, -1), self._steps)

    def read(self, pieces: list[ChangedRows]) -> Delta:
        if self._unchecked:
            self._check(pieces)
        if len(pieces) == 1:
            piece = pieces[0]
            if not isinstance(rows := piece.rows, range):
                columns = {name: values_at(stored, self._shift, rows) for name, stored in self._columns}
                return Delta(self.name, self._time(piece), self._diff(piece), rows, columns, {}, self._nullable)
            start, stop = rows.start, rows.stop
            columns = {name: cut(stored, self._shift, start, stop) for name, stored in self._columns}
            addresses = self._addresses_of(start, stop)
            return Delta(self.name, self._time(piece), self._diff(piece), rows, columns, addresses, self._nullable)
        return self._merged(pieces)

    def _check(self, pieces: list[ChangedRows]) -> None:
        """Check the columns of the files that are read for the first time."""
        for piece in pieces:
            for file in self._unchecked.intersection(self._dataset.files_of(piece.rows)):
                for column, _ in self._columns:
                    self._dataset.check(self.name, column, file)
                self._unchecked.remove(file)

    def _addresses_of(self, start: int, stop: int) -> dict[str, int]:
        """Return the addresses of consecutive rows in the numeric columns; none if they span two files."""
        file = start >> self._shift
        if file != (stop - 1) >> self._shift:
            return {}
        first = start - (file << self._shift)
        return {name: address[file] + first * width for name, address, width in self._addresses}

    def _merged(self, pieces: list[ChangedRows]) -> Delta:
        time = np.concatenate([self._time(piece) for piece in pieces])
        order = np.argsort(time, kind="stable")
        columns = {}
        for name, stored in self._columns:
            columns[name] = joined([values_at(stored, self._shift, piece.rows) for piece in pieces]).take(order)
        return Delta(
            self.name,
            _constant(time[order]),
            _constant(np.concatenate([self._diff(piece) for piece in pieces])[order]),
            np.concatenate([array_of(piece.rows) for piece in pieces])[order],
            columns,
            nullable=self._nullable,
        )

    def _time(self, piece: ChangedRows) -> np.ndarray:
        if piece.rounds is not None:
            return _constant(piece.rounds // self._logical * TIMES_PER_ROUND + self._rank)
        # i // L + j // L = (i + j) // L if L divides i: skip the remainder of `first`, which is small
        skip = piece.first % self._logical
        size = skip + len(piece.rows)
        if len(self._steps) < size:
            self._steps = _constant(np.arange(2 * size) // self._logical * TIMES_PER_ROUND)
        return _constant(self._steps[skip:size] + (piece.first // self._logical * TIMES_PER_ROUND + self._rank))

    def _diff(self, piece: ChangedRows) -> np.ndarray:
        size = len(piece.rows)
        if len(self._diffs[piece.diff]) < size:
            self._diffs[piece.diff] = _constant(np.full(2 * size, piece.diff))
        return self._diffs[piece.diff][:size]


def _constant(array: np.ndarray) -> np.ndarray:
    """Make an array read-only, as the views of mapped files are."""
    array.flags.writeable = False
    return array


def _at_least_one(what: str, value: int) -> None:
    if value < 1:
        raise DeltamarkError(f"a {what} is at least 1", value, "give a whole number from 1 up")
