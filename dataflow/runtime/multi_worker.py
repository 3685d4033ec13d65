"""W workers on this machine: the same changes as one worker makes, for every W.

Every worker is a process that runs the same compiled program over the same rounds (kernels.interpreter) and keeps the
state of the keys that it owns (kernels.parallel.exchange). This process is worker 0; the others are forked from it once
the program is compiled, so an address means the same in all of them. A feed travels as addresses in shared memory, or
as a message to a source that every worker has a copy of; the changes that each has collected lie in shared memory too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numba
import numpy as np

from deltamark.dataflow.batch import BYTES, TRAILING, Batch, Pointers
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.codegen.program import LOOSE
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.parallel.key_partition import MAX_WORKERS
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.exchange import trim
from deltamark.dataflow.plan.explain import explain
from deltamark.dataflow.runtime.process_pool import Team, spins
from deltamark.dataflow.runtime.worker import ANSWER, Shard
from deltamark.errors import DeltamarkError

KEPT = 1 << 26
"""Bytes that each piece of shared memory may keep after a feed; what has grown beyond goes back to the system."""

ALIGNED = 64


class Source(Protocol):
    """Hands out batches: to every worker the same ones for the same messages."""

    def take(self, message: Any) -> Mapping[str, Batch]: ...


class Embedded:
    """A dataflow on several workers, with the interface of `Worker`. Once it has raised an error, only close it.

    source: makes, given the inputs and the columns that are read, what `take` takes from; each worker has a copy.
    """

    def __init__(
        self,
        collection: Collection,
        workers: int,
        source: Callable[[Mapping[str, tuple[str, ...]]], Source] | None = None,
    ) -> None:
        if not 1 <= workers <= MAX_WORKERS:
            raise DeltamarkError("no such number of workers", workers, f"give from 1 to {MAX_WORKERS}")
        vm.run.compile((numba.types.int64, numba.types.int64))
        self._shard = Shard(compile_plans({ANSWER: collection.node}, workers))
        self._program = self._shard.compiled.program
        self._source = source and source(self.inputs)
        self._taken: dict[str, Pointers] = {}
        self._batches: Mapping[str, Batch] = {}
        self._arena = self._program.memory.share(LOOSE)
        self.schema = collection.schema
        view(self._program.spins, 1)[0] = spins(workers)
        self._team = Team(workers, self._program.memory)
        self._team.start(self._program.become, self._carry_out)

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The inputs, and the columns that are read from them."""
        return {name: aim.names for name, aim in self._shard.inputs.items()}

    def feed(self, batches: Mapping[str, Batch]) -> Batch:
        """Apply whole logical times, later than all before; return what changed in the answer, in order of time."""
        counts = self._feed(batches, drop=False)
        parts = [self._shard.answer(worker, rows) for worker, rows in enumerate(counts) if rows]
        for worker, rows in enumerate(counts):
            if 8 * rows > KEPT:
                self._give_back(worker, 8 * rows)
        return _merged(parts) if parts else self._shard.answer(0, 0)

    def _give_back(self, worker: int, size: int) -> None:
        for vector in self._shard.compiled.roots[ANSWER].vectors[worker] if self._team.workers > 1 else ():
            self._program.memory.clear(vector, size)

    def push(self, batches: Mapping[str, Batch]) -> int:
        """Do as `feed` does, but only count the changes of the answer."""
        return sum(self._feed(batches, drop=True))

    def take(self, message: Any) -> int:
        """Have every worker take batches from its source for `push_taken`; return how many rows they have."""
        return self._team.together(("take", message))[0]

    def push_taken(self) -> int:
        """Do with what was taken as `push` does."""
        return sum(self._team.together(("push", None)))

    def state_rows(self) -> int:
        """Count what is kept between feeds: rows, groups and keys."""
        return sum(self._team.together(("count", None)))

    def explain(self) -> str:
        """Describe the plan as it runs: operators, exchanges, arrangements and who shares them, rows and bytes."""
        return explain(self._shard.compiled)

    def close(self) -> None:
        """End the other workers and give all memory back; again if need be."""
        self._team.close()
        self._program.memory.close()

    def _feed(self, batches: Mapping[str, Batch], *, drop: bool) -> list[int]:
        self._team.check()
        pointers = self._shard.checked(batches)
        if self._team.workers > 1:
            pointers = self._shared(pointers)
        return self._team.together(("push" if drop else "feed", pointers))

    def _shared(self, pointers: Mapping[str, Pointers]) -> dict[str, Pointers]:
        """Copy batches to where every worker can read them."""
        end = self._arena

        def copied(address: int, size: int) -> int:
            nonlocal end
            start, end = end, end + -(-size // ALIGNED) * ALIGNED + ALIGNED
            ctypes.memmove(start, address, size)
            return start

        found = {}
        for name, each in pointers.items():
            aim, columns = self._shard.inputs[name], {}
            for array, width in aim.widths.items():
                if width > 0:
                    columns[array] = copied(each.columns[array], (each.rows + (array in aim.texts)) * width)
            for text in aim.texts:
                offsets = (ctypes.c_int32 * (each.rows + 1)).from_address(each.columns[text])
                first, last = offsets[0], offsets[each.rows]
                size = last - first + TRAILING
                columns[f"{text}{BYTES}"] = copied(each.columns[f"{text}{BYTES}"] + first, size) - first
            time, diff = copied(each.time, 8 * each.rows), copied(each.diff, 8 * each.rows)
            found[name] = Pointers(each.rows, each.last, time, diff, columns, (), {})
        return found

    def _carry_out(self, command: tuple[str, Any]) -> int:
        """Do one worker's part of a command."""
        match command:
            case ("take", message):
                return self._take(message)
            case ("count", _):
                return self._shard.state_rows()
            case (what, pointers):
                for each in self._shard.compiled.exchanges:
                    trim(self._program, each, KEPT)
                return self._shard.run(pointers or self._taken, self._team.wait, drop=what == "push")[ANSWER]
        raise AssertionError(command)

    def _take(self, message: Any) -> int:
        if self._source is None:
            raise DeltamarkError("nothing to take from", message, "give Embedded a source")
        self._batches = self._source.take(message)
        self._taken = self._shard.checked(self._batches)
        return sum(each.rows for each in self._taken.values())


def _merged(parts: list[Batch]) -> Batch:
    """Put together what several workers have collected, in order of time."""
    if len(parts) == 1:
        return parts[0]
    time = np.concatenate([each.time for each in parts])
    order = np.argsort(time, kind="stable")
    columns = {name: np.concatenate([each.columns[name] for each in parts])[order] for name in parts[0].columns}
    return Batch(time[order], np.concatenate([each.diff for each in parts])[order], columns)
