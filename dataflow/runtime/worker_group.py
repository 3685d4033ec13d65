"""A worker group: W processes on this machine that run one dataflow, with the same changes for every W.

Every process runs the same compiled program over the same supersteps (kernels.program), and keeps the state of the keys
that it owns (kernels.parallel.exchange). The processes are forked once the program is compiled, so an address means the
same in all of them. A feed is passed as addresses in shared memory, or as a message to a source, of which every worker
has a copy. The changes that each worker has collected lie in shared memory, too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numba

from deltamark.dataflow.batch import BYTES, PADDING_BYTES, Batch, Pointers, merged
from deltamark.dataflow.codegen.compiled import Compiled
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.interpreter.run import run
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, view
from deltamark.dataflow.kernels.parallel.key_partition import MAX_WORKERS
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.exchange import trim
from deltamark.dataflow.runtime.process_pool import ProcessPool, spins
from deltamark.dataflow.runtime.worker import Worker
from deltamark.errors import DeltamarkError

MAX_KEPT_BYTES = 1 << 26
"""Bytes that each piece of shared memory keeps after a feed; the rest goes back to the system. Not measured."""

LINE_BYTES = 64


class BatchSource(Protocol):
    """A source of batches, which gives every worker equal batches for equal messages."""

    def take(self, message: Any) -> Mapping[str, Batch]: ...


class WorkerGroup:
    """The workers of one dataflow. After it has raised an error from a worker, it can only be closed.

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
        self.schemas = {name: each.schema for name, each in plans.items()}
        self.worker = Worker(compile_plans({name: each.node for name, each in plans.items()}, workers))
        self._program = self.compiled.program
        self._taken: dict[str, Pointers] = {}
        self._batches: Mapping[str, Batch] = {}
        self._number = 0
        with self._program.memory.or_closed():
            self._source = open_source and open_source(self.inputs)
            self._arena = self._program.memory.share(UNBOUNDED_WORDS)
            self._counts = self._program.memory.share(workers * len(plans))
            """The number of changes of each answer that each worker has collected."""
            view(self._program.spins, 1)[0] = spins(workers)
            self._pool: ProcessPool[tuple[str, Any]] = ProcessPool(workers, self._program)
            self._pool.start(self._become, self._command)

    @property
    def compiled(self) -> Compiled:
        return self.worker.compiled

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        return self.worker.inputs

    @property
    def pending(self) -> None:
        """No plan: plans are attached on one worker."""

    def feed(self, batches: Mapping[str, Batch]) -> dict[str, Batch]:
        self._run(batches, "feed")
        counts = view(self._counts, self._pool.workers * len(self.schemas)).reshape(self._pool.workers, -1)
        return {name: self._merged(name, column.tolist()) for name, column in zip(self.schemas, counts.T, strict=True)}

    def _merged(self, name: str, counts: list[int]) -> Batch:
        """Return the changes of an answer that all workers have collected."""
        parts = [self.worker.changes(name, rows, worker) for worker, rows in enumerate(counts) if rows]
        for worker, rows in enumerate(counts):
            if 8 * rows > MAX_KEPT_BYTES and self._pool.workers > 1:
                for vector in self.compiled.roots[name].vectors[worker]:
                    self._program.memory.clear(vector, 8 * rows)
        return merged(parts) if parts else self.worker.changes(name, 0)

    def push(self, batches: Mapping[str, Batch]) -> int:
        return sum(self._run(batches, "push"))

    def take(self, message: Any) -> int:
        """Take batches from the source of every worker for `push_taken`; return their number of rows."""
        return self._pool.run(("take", message))[0]

    def push_taken(self) -> int:
        """Apply the batches that were taken; return the number of changes."""
        return sum(self._pool.run(("push", None)))

    def state_rows(self) -> int:
        return sum(self._pool.run(("count", None)))

    def close(self) -> None:
        self._pool.close()
        self.worker.close()

    def _run(self, batches: Mapping[str, Batch], command: str) -> list[int]:
        self._pool.check()
        pointers = self.worker.checked(batches)
        if self._pool.workers > 1:
            pointers = self._shared(pointers)
        return self._pool.run((command, pointers))

    def _shared(self, pointers: Mapping[str, Pointers]) -> dict[str, Pointers]:
        """Copy batches to shared memory."""
        end = self._arena

        def copied(address: int, size: int) -> int:
            nonlocal end
            start, end = end, end + -(-size // LINE_BYTES) * LINE_BYTES + LINE_BYTES
            ctypes.memmove(start, address, size)
            return start

        shared = {}
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
            shared[name] = Pointers(each.rows, each.last, time, diff, columns, (), {})
        return shared

    def _become(self, worker: int) -> None:
        self._number = worker
        self._program.become_worker(worker)

    def _command(self, message: tuple[str, Any]) -> int:
        """Run one worker's part of a command."""
        match message:
            case ("take", inner):
                return self._take(inner)
            case ("count", _):
                return self.worker.state_rows()
            case (command, pointers):
                for each in self.compiled.exchanges:
                    trim(self._program, each, MAX_KEPT_BYTES)
                counts = self.worker.run(pointers or self._taken, self._pool.wait, drop=command == "push")
                view(self._counts + 8 * len(counts) * self._number, len(counts))[:] = [*counts.values()]
                return sum(counts.values())
        raise AssertionError(message)

    def _take(self, message: Any) -> int:
        if self._source is None:
            raise DeltamarkError("no source to take from", message, "give WorkerGroup a source")
        self._batches = self._source.take(message)
        self._taken = self.worker.checked(self._batches)
        return sum(each.rows for each in self._taken.values())
