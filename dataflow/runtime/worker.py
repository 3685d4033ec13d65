"""A dataflow in one process: feed it changes, get the answer's changes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from deltamark.dataflow.batch import BYTES, Batch, Pointers
from deltamark.dataflow.codegen.compiled import Compiled
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.codegen.program import Op, nobody
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core.memory import view, words
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.motifs.extend import Extend
from deltamark.dataflow.operators.text import texts_at
from deltamark.dataflow.plan.explain import explain
from deltamark.dataflow.plan.nodes import Node
from deltamark.dataflow.runtime.batch_checks import Accepted
from deltamark.dataflow.runtime.binding import Aim
from deltamark.errors import DeltamarkError, unknown

LOOK = 1 << 10
"""Rows of an answer that are looked at, at least."""

WHOLE = 1 << 40
"""Rows of a slice that is a whole feed."""

ANSWER = "answer"
"""The name of the only dataflow of a worker."""


class Shard:
    """What one process runs of a compiled plan."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._program = compiled.program
        self.inputs: dict[str, Aim] = {}
        self._seen: dict[tuple[str, int], list[np.ndarray]] = {}
        self._broken: BaseException | None = None
        """What stopped a feed halfway, if anything did: then states are between two times for good."""
        self.last = -1
        """The last time that was fed. The first feed is over with time 0, even if it has no rows."""
        self._loop = compiled.loop()
        self.refresh()

    def refresh(self, behind: Mapping[str, Sequence[Op]] = MappingProxyType({})) -> None:
        """Run what is compiled by now, but for the operators of answers that are behind."""
        compiled, without = self.compiled, {each for ops in behind.values() for each in ops}
        self.inputs = {name: self.inputs.get(name) or Aim(block) for name, block in compiled.inputs.items()}
        for each in self.inputs.values():
            each.refresh()
        self._all = {name: words(root.block, vm.DROP + 1) for name, root in compiled.roots.items()}
        self._collected = {name: each for name, each in self._all.items() if name not in behind}
        self._seen = {}
        self._program.memory.release(self._loop.block)
        self._loop = compiled.loop(without)

    def checked(self, batches: Mapping[str, Batch]) -> dict[str, Pointers]:
        """Check the next batches, and take note of them and of their last time; those without rows are left out.

        Nothing is changed unless all of them are right.
        """
        if self._broken is not None:
            actual = f"{type(self._broken).__name__}: {self._broken}"
            raise DeltamarkError("an earlier feed was stopped halfway", actual, "close this dataflow, and begin anew")
        if not isinstance(batches, Mapping):
            actual = type(batches).__name__
            raise DeltamarkError("not batches by the names of inputs", actual, "feed {input: Batch(...), ...}")
        pointers, accepted = dict[str, Pointers](), dict[str, Accepted]()
        for name, batch in batches.items():
            if name not in self.inputs:
                raise unknown("input", str(name), self.inputs)
            if (known := getattr(batch, "pointers", None)) is not None:
                pointers[name] = known
            elif (found := self.inputs[name].check(batch, self.last)) is not None:
                pointers[name], accepted[name] = found.pointers, found
        for name, found in accepted.items():
            self.inputs[name].accepted(found)
        self.last = max([self.last, 0, *(each.last for each in pointers.values())])
        return pointers

    def run(self, pointers: Mapping[str, Pointers], wait: Callable[[], None], *, drop: bool) -> dict[str, int]:
        """Run the program over batches; return how many changes of each answer it has collected, or only counted."""
        self._program.sweep_if_due()
        for collected in self._collected.values():
            collected[vm.DROP] = drop
        for name, each in pointers.items():
            self.inputs[name].aim(each)
        try:
            self._program.run(self._loop, -1, wait)
        except BaseException as error:
            self._broken = error
            raise
        finally:
            for name in pointers:
                self.inputs[name].nowhere()
        return {answer: self._counted(collected) for answer, collected in self._collected.items()}

    def _counted(self, collected: ctypes.Array[ctypes.c_int64]) -> int:
        changes, collected[vm.COLLECTED] = collected[vm.COLLECTED], 0
        return changes

    def state_rows(self) -> int:
        """Count what is kept between feeds: rows, groups, keys and texts."""
        self._program.sweep()
        states = {id(each): each for each in self._program.states.values()}.values()
        return sum(state.rows() for state in states) + (self._program.pool.used() if self._program.pool else 0)

    def proposals(self) -> int:
        """Count the values that have been proposed as extensions of rows."""
        return sum(each.proposals() for each in self._extends())

    def extended(self) -> int:
        """Count the rows that have been made by extending others."""
        return sum(each.extended() for each in self._extends())

    def _extends(self) -> Iterator[Extend]:
        return (state for state in self._program.states.values() if isinstance(state, Extend))

    def answer(self, worker: int, rows: int, name: str = ANSWER) -> Batch:
        """Copy what a worker has collected of an answer; its texts can be read until the next feed."""
        time, diff, *arrays = (each[:rows].copy() for each in self._views(name, worker, rows))
        return self._batch(name, time, diff, arrays)

    def _views(self, name: str, worker: int, rows: int) -> list[np.ndarray]:
        """Look at what a worker has collected of an answer; a new look takes longer than one that is kept."""
        views = self._seen.get((name, worker))
        if views is None or len(views[0]) < rows:
            vectors = self.compiled.roots[name].vectors[worker]
            views = self._seen[name, worker] = [view(vector, max(2 * rows, LOOK)) for vector in vectors]
        return views

    def collected(self, name: str) -> Batch:
        """Copy what has been collected of an answer that is behind."""
        return self.answer(0, self._counted(self._all[name]), name)

    def settled(self, name: str, time: int) -> Batch:
        """Return, as of one time, what is left of all that has been collected of an answer."""
        rows = self._counted(self._all[name])
        _, diff, *arrays = (view(vector, rows) for vector in self.compiled.roots[name].vectors[0])
        order = np.lexsort(arrays) if arrays else np.arange(rows)
        changed = np.zeros(max(rows - 1, 0), bool)
        for each in arrays:
            changed |= np.diff(each[order]) != 0
        starts = np.flatnonzero(np.append(rows > 0, changed))
        weights = np.add.reduceat(diff[order], starts) if rows else diff.copy()
        kept = order[starts[weights != 0]]
        return self._batch(name, np.full(len(kept), time), weights[weights != 0], [each[kept] for each in arrays])

    def _batch(self, name: str, time: np.ndarray, diff: np.ndarray, arrays: Iterable[np.ndarray]) -> Batch:
        root = self.compiled.roots[name]
        named = dict(zip(root.arrays, arrays, strict=True))
        for text in root.texts:
            named[text] = texts_at(named[text], named.pop(f"{text}{BYTES}"))
        return Batch(time, diff, {each: named[each] for each in root.names})


class Maintained:
    """Dataflows that this process maintains alone."""

    def __init__(self, plans: Mapping[str, Node]) -> None:
        self._shard = Shard(compile_plans(plans))

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The inputs, and the columns that are read from them."""
        return {name: aim.names for name, aim in self._shard.inputs.items()}

    def nullable_texts(self, name: str) -> list[str]:
        """Name the columns of an input that are read, are texts, and may be NULL."""
        return self._shard.inputs[name].nullable

    def _run(self, batches: Mapping[str, Batch], *, drop: bool) -> dict[str, int]:
        return self._shard.run(self._shard.checked(batches), nobody, drop=drop)

    def state_rows(self) -> int:
        """Count what is kept between feeds: rows, groups and keys."""
        return self._shard.state_rows()

    def state_bytes(self) -> int:
        """Count the memory of what is kept between feeds."""
        program = self._shard.compiled.program
        return sum(program.memory.resident(program.state_memory()).values())

    def take_whole(self) -> None:
        """Take each feed as one slice from now on."""
        self._shard.compiled.program.slice_rows = WHOLE
        self._shard.refresh()

    def proposals(self) -> int:
        """Count the values that have been proposed as extensions of rows: see dataflow.language.motif."""
        return self._shard.proposals()

    def extended(self) -> int:
        """Count the rows that have been made by extending others."""
        return self._shard.extended()

    def explain(self) -> str:
        """Describe the plans as they run: operators, arrangements and who shares them, rows and bytes."""
        return explain(self._shard.compiled)

    def close(self) -> None:
        self._shard.compiled.program.memory.close()


class Worker(Maintained):
    """The only worker of one dataflow."""

    def __init__(self, collection: Collection) -> None:
        super().__init__({ANSWER: collection.node})
        self.schema = collection.schema

    def feed(self, batches: Mapping[str, Batch]) -> Batch:
        """Apply whole logical times, later than all before; return what changed in the answer, in order of time."""
        return self._shard.answer(0, self._run(batches, drop=False)[ANSWER])

    def push(self, batches: Mapping[str, Batch]) -> int:
        """Do as `feed` does, but only count the changes of the answer."""
        return self._run(batches, drop=True)[ANSWER]
