"""The change stream of a cell, up to a number of rounds or a logical time, as lines of CSV and as a digest.

A line is `time,diff,columns...`. The digest is the number of lines, and the sum modulo 2^128 of a hash of the UTF-8
bytes of each line. It depends on every byte of every line, and not on the order of the lines. docs/queries.md has the
same digest in plain Python.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute

from deltamark.dataflow.answer import stored_array
from deltamark.dataflow.batch import Batch, concatenated
from deltamark.dataflow.kernels.core.guard import lent
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import NULL, Schema, Type, value_of
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import last_time
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check import csv_kernel
from deltamark.harness.check.csv_kernel import DATE, NUMBER, SHORT, TEXT
from deltamark.harness.engines.base import StreamEngine
from deltamark.harness.engines.registry import open_stream

KINDS = {"int": NUMBER, "date": DATE, "code": TEXT, "short": SHORT, "text": TEXT, "bool": TEXT}
"""The kinds of values that the kernel of CSV writes; it has others as texts."""

BLOCK_ROWS = 1 << 15
"""The number of rows that a kernel call writes or digests. Not tuned."""

NUMBER_BYTES = 22
"""The length of the longest number: a sign, 19 digits, a point and a leading zero."""

DIGEST_THREADS = 2
MAX_PENDING_BATCHES = 4
"""The number of batches that may wait for a digest thread, which bounds memory. Neither number is tuned."""


@dataclass
class Digest:
    """The digest of the added changes."""

    updates: int = 0
    _halves: np.ndarray = field(default_factory=lambda: np.zeros(2, dtype=np.uint64))

    def add(self, updates: int, halves: np.ndarray) -> None:
        """Add a number of lines and the sum of their hashes, as its low and high 64 bits."""
        low, high = (int(mine) + int(theirs) for mine, theirs in zip(self._halves, halves, strict=True))
        self.updates += updates
        self._halves = np.array([low % 2**64, (high + (low >> 64)) % 2**64], dtype=np.uint64)

    def join(self, other: Digest) -> None:
        self.add(other.updates, other._halves)

    def __str__(self) -> str:
        return f"{self.updates} {int(self._halves[1]):016x}{int(self._halves[0]):016x}"


class ChangeCsv:
    """Writes and digests the changes of an answer as CSV."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._kinds = np.array([KINDS.get(each.type.kind, TEXT) for each in schema.fields], dtype=np.int64)
        self._scales = np.array([each.type.scale for each in schema.fields], dtype=np.int64)

    @property
    def header(self) -> str:
        return ",".join(["time", "diff", *self._schema.names])

    def blocks(self, changes: Batch) -> Iterator[bytes]:
        """Write a line for each change; yield blocks of whole lines."""
        for block in self._blocks(changes):
            yield block.lines()

    def digest(self, changes: Batch, digest: Digest) -> None:
        """Add changes to a digest."""
        for block in self._blocks(changes):
            digest.add(len(block.time), block.digest())

    def ordered(self, changes: Batch) -> Batch:
        """Order changes by time and then by their columns."""
        columns = {name: stored_array(self._schema, name, changes.columns[name]) for name in self._schema.names}
        table = pa.Table.from_arrays([pa.array(changes.time), *columns.values()], names=["", *columns])
        order = pa.compute.sort_indices(table, [(name, "ascending") for name in table.column_names]).to_numpy()
        ordered = {name: each[order] for name, each in changes.columns.items()}
        return Batch(changes.time[order], changes.diff[order], ordered)

    def _blocks(self, changes: Batch) -> Iterator[_Block]:
        for first in range(0, len(changes.time), BLOCK_ROWS):
            last = min(first + BLOCK_ROWS, len(changes.time))
            yield self._block(changes, first, last)

    def _block(self, changes: Batch, first: int, last: int) -> _Block:
        values = np.empty((len(self._kinds), last - first), dtype=np.int64)
        texts = _Texts()
        for at, each in enumerate(self._schema.fields):
            column = changes.columns[each.name][first:last]
            values[at] = (
                column if each.type.kind != "text" else texts.add(stored_array(self._schema, each.name, column))
            )
            if each.type.kind not in KINDS:
                written = [None if number == NULL else str(value_of(each.type, number)) for number in column.tolist()]
                values[at] = texts.add(pa.array(written, pa.string()))
            if each.type.words:
                values[at] = texts.words(each.type, column)
        offsets, data = texts.joined()
        wide = NUMBER_BYTES * (len(self._kinds) + 2) + (2 * texts.longest + 3) * len(self._kinds)
        return _Block(
            changes.time[first:last], changes.diff[first:last], values, self._kinds, self._scales, offsets, data,
            np.empty(wide * (last - first), dtype=np.uint8),
        )  # fmt: skip


class Digester:
    """Digests changes in threads of its own, while the engine computes the next ones."""

    def __init__(self, lines: ChangeCsv) -> None:
        self._lines = lines
        self._threads = ThreadPoolExecutor(DIGEST_THREADS)
        self._pending: deque[Future[Digest]] = deque()
        self._digest = Digest()

    def add(self, changes: Batch) -> None:
        """Start to digest changes; wait if too many batches are pending."""
        self._pending.append(self._threads.submit(self._digest_of, changes))
        while len(self._pending) > MAX_PENDING_BATCHES:
            self._digest.join(self._pending.popleft().result())

    def digest(self) -> Digest:
        """Wait for all pending batches; return the digest of all changes."""
        while self._pending:
            self._digest.join(self._pending.popleft().result())
        return self._digest

    def close(self) -> None:
        self._threads.shutdown()

    def _digest_of(self, changes: Batch) -> Digest:
        digest = Digest()
        self._lines.digest(changes, digest)
        return digest


@dataclass(frozen=True)
class _Block:
    """The rows of a kernel call, and the buffer that it writes to."""

    time: np.ndarray
    diff: np.ndarray
    values: np.ndarray
    kinds: np.ndarray
    scales: np.ndarray
    offsets: np.ndarray
    data: np.ndarray
    out: np.ndarray

    def lines(self) -> bytes:
        with lent(self.offsets, self.data, self.out) as addresses:
            size = csv_kernel.write(self.time, self.diff, self.values, self.kinds, self.scales, *addresses)
        return self.out[:size].tobytes()

    def digest(self) -> np.ndarray:
        with lent(self.offsets, self.data, self.out) as addresses:
            return csv_kernel.digest(self.time, self.diff, self.values, self.kinds, self.scales, *addresses)


class _Texts:
    """The texts of a block in one buffer; columns refer to them by number."""

    def __init__(self) -> None:
        self._offsets = [np.zeros(1, dtype=np.int64)]
        self._data: list[np.ndarray] = []
        self._count = self._bytes = 0
        self.longest = 7

    def add(self, texts: pa.StringArray) -> np.ndarray:
        """Add a column; return the number of the text of each row, or NULL."""
        numbers = np.arange(self._count, self._count + len(texts))
        if texts.null_count:
            numbers[texts.is_null().to_numpy(zero_copy_only=False)] = csv_kernel.NULL
        whole = pa.array(texts.fill_null("")) if texts.null_count else texts
        _, offsets, data = whole.buffers()
        ends = np.frombuffer(offsets, dtype=np.int32)[whole.offset : whole.offset + len(whole) + 1].astype(np.int64)
        self._data.append(np.frombuffer(data or b"", dtype=np.uint8)[ends[0] : ends[-1]])
        self._offsets.append(ends[1:] - ends[0] + self._bytes)
        self.longest = max(self.longest, int(np.diff(ends).max(initial=0)))
        self._count += len(whole)
        self._bytes += int(ends[-1] - ends[0])
        return numbers

    def words(self, type_: Type, codes: np.ndarray) -> np.ndarray:
        """Add the words of a type; return the number of the word of each code or condition."""
        first = self._count
        self.add(pa.array(type_.words, pa.string()))
        return np.where(codes == csv_kernel.NULL, csv_kernel.NULL, codes + first)

    def joined(self) -> tuple[np.ndarray, np.ndarray]:
        return np.concatenate(self._offsets), np.concatenate([np.empty(0, dtype=np.uint8), *self._data])


DIGESTED_ROWS = 1 << 15
"""The number of changes that are digested at once, at least. Not tuned."""

DIFFS = "diffs"
"""The input of the plan that sums the differences of a variant."""


@dataclass(frozen=True)
class End:
    """The end of a stream: a number of rounds, and the last logical time."""

    rounds: int
    time: int


def end_of(work: Workload, logical: int, rounds: int | None, time: int | None) -> End:
    """Return the end at a time, after a number of rounds, or of the whole workload."""
    return end_after_rounds(work, logical, rounds) if time is None else end_at_time(work, logical, time)


def end_after_rounds(work: Workload, logical: int, rounds: int | None = None) -> End:
    """Return the end after a number of rounds; by default, after all."""
    last = work.rounds if rounds is None else work.check_end(rounds, logical)
    return End(last, max(last_time(last, logical), 0))


def end_at_time(work: Workload, logical: int, time: int) -> End:
    """Return the end at a logical time."""
    last = last_time(work.rounds, logical)
    if not 0 <= time <= last:
        raise DeltamarkError("no such time in this stream", time, f"ask for one from 0 to {last}")
    return End(min((time // TIMES_PER_ROUND + 1) * logical, work.rounds), time)


@dataclass(frozen=True)
class AnswerStream:
    """The changes of an answer: those of an engine, summed if the variant of the cell emits differences."""

    engine: StreamEngine
    sums: Dataflow[Batch] | None

    @property
    def schema(self) -> Schema:
        return self.sums.schema if self.sums else self.engine.schema

    def changes(self, end: End) -> Iterator[Batch]:
        for each in changes(self.engine, end):
            yield self.sums.feed({DIFFS: each}) if self.sums else each

    def close(self) -> None:
        self.engine.close()
        if self.sums is not None:
            self.sums.close()


def open_answer(cell: Cell, dataset: Dataset, work: Workload) -> AnswerStream:
    """Open the engine of a cell to read the changes of the answer, in any variant."""
    engine = open_stream(cell, dataset, work)
    return AnswerStream(engine, open_sums(cell, engine.schema))


def open_sums(cell: Cell, schema: Schema) -> Dataflow[Batch] | None:
    """Open the dataflow that sums the differences of a variant; None if the variant emits changes of the answer."""
    sums = cell.definition.accumulated.get(cell.variant)
    if sums is None:
        return None
    columns = {field.name: field.type for field in schema.fields}
    return Dataflow(sums(source(DIFFS, columns, schema.rows)))


def changes(engine: StreamEngine, end: End) -> Iterator[Batch]:
    """Run an engine to an end; yield the changes that it emits."""
    for batch in engine.changes(end.rounds):
        kept = int(np.searchsorted(batch.time, end.time, side="right"))
        if kept == len(batch.time):
            yield batch
        else:
            columns = {name: each[:kept] for name, each in batch.columns.items()}
            yield Batch(batch.time[:kept], batch.diff[:kept], columns)


def gathered(stream: Iterator[Batch], rows: int) -> Iterator[Batch]:
    """Join small batches until they have a number of rows."""
    waiting: list[Batch] = []
    waiting_rows = 0
    for each in stream:
        if len(each.time):
            waiting.append(each)
            waiting_rows += len(each.time)
        if waiting_rows >= rows:
            yield concatenated(waiting)
            waiting, waiting_rows = [], 0
    if waiting:
        yield concatenated(waiting)
