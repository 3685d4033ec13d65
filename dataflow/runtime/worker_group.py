"""A worker group: W processes on this machine that run one dataflow, with the same changes for every W.

Every process runs the same compiled program over the same supersteps (kernels.program), and keeps the state of the keys
that it owns (kernels.parallel.exchange). The processes are forked once the program is compiled, so an address means the
same in all of them. A feed is passed as addresses in shared memory, or as a message to a source, of which every worker
has a copy. The changes that each worker has collected lie in shared memory, too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from typing import Any, Protocol

import numba
import numpy as np

from deltamark.dataflow.batch import BYTES, PADDING_BYTES, Batch, EachBatch, Pointers, Times, merged
from deltamark.dataflow.explain import StateSizes, state_sizes
from deltamark.dataflow.interpreter.run import run
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, view
from deltamark.dataflow.kernels.parallel.key_partition import MAX_WORKERS
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.exchange import trim
from deltamark.dataflow.runtime.inputs import accept_ends
from deltamark.dataflow.runtime.live_plans import Counts, LivePlans
from deltamark.dataflow.runtime.process_pool import ProcessPool, spins
from deltamark.errors import DeltamarkError

MAX_KEPT_BYTES = 1 << 26
"""Bytes that each piece of shared memory keeps after a feed; the rest goes back to the system. Not measured."""

LINE_BYTES = 64


class BatchSource(Protocol):
    """A source of batches, which gives every worker equal batches for equal messages."""

    def take(self, message: Any) -> Mapping[str, Batch]: ...


class WorkerGroup(LivePlans):
    """The plans of a dataflow on several workers. After an error of a worker, it can only be closed.

    open_source: given the inputs and their columns, returns the source of `take`; each worker has a copy of it.
    """

    def __init__(
        self,
        plans: Mapping[str, Collection],
        workers: int,
        open_source: Callable[[Mapping[str, tuple[str, ...]]], BatchSource] | None = None,
    ) -> None:
        if not 1 <= workers <= MAX_WORKERS:
            raise DeltamarkError("no such number of workers", workers, f"give from 1 to {MAX_WORKERS}")
        run.compile((numba.types.int64, numba.types.int64))
        super().__init__(plans, workers)
        self._program = self.compiled.program
        self._taken: dict[str, Pointers] = {}
        self._batches: Mapping[str, Batch] = {}
        self._number = 0
        memory = self._program.memory
        with memory.or_closed():
            self._source = open_source and open_source(self.inputs)
            self._arena = memory.share(UNBOUNDED_WORDS)
            """The batches of a feed."""
            self._reports = memory.share(UNBOUNDED_WORDS)
            """The results of a command: the same number of words of each worker."""
            self._program.write(self._program.spins, spins(workers))
            self._pool: ProcessPool[tuple[str, Any]] = ProcessPool(workers, self.worker)
            self._pool.start(self._become, self._command)

    def _run(self, batches: Mapping[str, Batch], *, drop: bool) -> Counts:
        self._pool.check()
        self._pool.run(("push" if drop else "feed", self._sent(self.worker.checked(batches))))
        return self._counts(self._reported(len(self.schemas)))

    def _run_each(
        self, batches: Mapping[str, Batch], ends: Times, *, started: int, drop: bool
    ) -> tuple[Counts, EachBatch]:
        """Run the batches in all workers, which do not wait between two batches. A batch ends with its last worker."""
        self._pool.check()
        times = accept_ends(ends, self.worker.last)
        pointers = self._sent(self.worker.checked(batches, int(times[-1])))
        self._pool.run(("push each" if drop else "feed each", (pointers, times, started)))
        counts, changes, clock = np.split(
            self._reported(len(self.schemas) + 2 * len(times)), [len(self.schemas), len(self.schemas) + len(times)], 1
        )
        ended = np.cumsum(clock, axis=1).max(axis=0)
        return self._counts(counts), EachBatch(changes.sum(axis=0), np.diff(ended, prepend=0))

    def _counts(self, reported: np.ndarray) -> Counts:
        return dict(zip(self.schemas, reported.T.tolist(), strict=True))

    def _collected(self, name: str, counts: Sequence[int]) -> Batch:
        pieces = [self.worker.changes(name, rows, number) for number, rows in enumerate(counts) if rows]
        for number, rows in enumerate(counts):
            if 8 * rows > MAX_KEPT_BYTES and self._pool.workers > 1:
                for vector in self.compiled.roots[name].vectors[number]:
                    self._program.memory.clear(vector, 8 * rows)
        return merged(pieces) if pieces else self.worker.changes(name, 0)

    def take(self, message: Any) -> int:
        """Take batches from the source of every worker for `push_taken`; return their number of rows."""
        return self._pool.run(("take", message))[0]

    def push_taken(self) -> int:
        """Apply the batches that were taken; return the number of changes."""
        return sum(self._pool.run(("push", None)))

    def state_rows(self) -> int:
        return sum(self._pool.run(("count", methodcaller("state_rows"))))

    def state_bytes(self) -> int:
        return sum(self._pool.run(("count", methodcaller("state_bytes"))))

    def state_sizes(self) -> StateSizes:
        self._pool.run(("state_sizes", None))
        parts = list(self.compiled.states())
        sums = self._reported(2 * len(parts)).sum(axis=0).reshape(-1, 2)
        return {part: (int(rows), int(size)) for part, (rows, size) in zip(parts, sums, strict=True)}

    def _drop(self, name: str) -> None:
        self._pool.run(("retire", name))

    def close(self) -> None:
        self._pool.close()
        self.worker.close()

    def _sent(self, pointers: Mapping[str, Pointers]) -> Mapping[str, Pointers]:
        """Return batches where all workers can read them."""
        return self._copied(pointers) if self._pool.workers > 1 else pointers

    def _copied(self, pointers: Mapping[str, Pointers]) -> dict[str, Pointers]:
        """Copy batches to shared memory."""
        end = self._arena

        def copied(address: int, size: int) -> int:
            nonlocal end
            start, end = end, end + -(-size // LINE_BYTES) * LINE_BYTES + LINE_BYTES
            ctypes.memmove(start, address, size)
            return start

        batches = {}
        for name, each in pointers.items():
            binding, columns = self.worker.bindings[name], {}
            for array, width in binding.widths.items():
                if width > 0:
                    columns[array] = copied(each.columns[array], (each.rows + (array in binding.texts)) * width)
            for text in binding.texts:
                offsets = (ctypes.c_int32 * (each.rows + 1)).from_address(each.columns[text])
                first, last = offsets[0], offsets[each.rows]
                size = last - first + PADDING_BYTES
                columns[f"{text}{BYTES}"] = copied(each.columns[f"{text}{BYTES}"] + first, size) - first
            time, diff = copied(each.time, 8 * each.rows), copied(each.diff, 8 * each.rows)
            batches[name] = Pointers(each.rows, each.last, time, diff, columns, (), {})
        return batches

    def _become(self, number: int) -> None:
        self._number = number
        self.worker.become(number)

    def _command(self, message: tuple[str, Any]) -> int:
        """Run one worker's part of a command, report its results, and return their sum."""
        words = self._done(message)
        view(self._reports + 8 * len(words) * self._number, len(words))[:] = words
        return sum(words)

    def _reported(self, count: int) -> np.ndarray:
        """Return the results of the last command: a row of `count` words for each worker."""
        return view(self._reports, self._pool.workers * count).reshape(self._pool.workers, count).copy()

    def _done(self, message: tuple[str, Any]) -> list[int]:
        match message:
            case ("take", inner):
                return [self._take(inner)]
            case ("count", count):
                return [count(self.worker)]
            case ("state_sizes", _):
                return [word for each in state_sizes(self.compiled).values() for word in each]
            case ("retire", name):
                return self._retire(name)
            case ("feed each" | "push each" as command, (pointers, ends, started)):
                self._trim()
                counts, each = self.worker.run_each(pointers, ends, started=started, drop=command == "push each")
                return [*counts.values(), *each.changes.tolist(), *each.nanoseconds.tolist()]
            case (command, pointers):
                self._trim()
                return [*self.worker.run(pointers or self._taken, drop=command == "push").values()]

    def _trim(self) -> None:
        """Return the memory of the last feed's messages to the system, if they were large."""
        for each in self.compiled.exchanges:
            trim(self._program, each, MAX_KEPT_BYTES)

    def _retire(self, name: str) -> list[int]:
        with self.worker.failing():
            del self.schemas[name]
            self.compiled.retire(name)
            self.worker.refresh()
        return []

    def _take(self, message: Any) -> int:
        if self._source is None:
            raise DeltamarkError("no source to take from", message, "give WorkerGroup a source")
        self._batches = self._source.take(message)
        self._taken = self.worker.checked(self._batches)
        return sum(each.rows for each in self._taken.values())
