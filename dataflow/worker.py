"""One shard of a compiled dataflow: feed it changes, get the answer's changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dataflow.collection import Collection
from dataflow.compile import Root, compile_plans
from dataflow.kernels import consolidate as consolidate_kernel
from dataflow.kernels import run as vm
from dataflow.kernels.memory import view
from deltamark import DeltamarkError, unknown


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes of a collection: times are non-decreasing, columns int64."""

    time: np.ndarray
    diff: np.ndarray
    columns: Mapping[str, np.ndarray]


class Worker:
    def __init__(self, collection: Collection) -> None:
        self._compiled = compile_plans([collection.node])
        self._program = self._compiled.program
        self._last = -1
        self._ready = np.zeros(1, dtype=np.int64)

    def feed(self, batches: Mapping[str, Batch]) -> Batch:
        """Apply whole logical times, later than all before; return what changed in the answer, in order of time."""
        kept = [self._aim(name, batch) for name, batch in batches.items()]
        self._last = max([self._last, *(int(batch.time[-1]) for batch in batches.values() if len(batch.time))])
        self._run()
        for _, block in self._compiled.inputs.values():
            view(block.block, 4)[vm.ROWS : vm.POSITION + 1] = 0
        del kept
        return self._answer(self._compiled.roots[0])

    def state_rows(self) -> int:
        """Count what is kept between feeds: rows, groups and keys."""
        return sum(state.rows() for state in {id(each): each for each in self._program.states.values()}.values())

    def close(self) -> None:
        self._program.memory.close()

    def _aim(self, name: str, batch: Batch) -> list[np.ndarray]:
        """Point an input at a batch; return what must stay alive meanwhile."""
        if name not in self._compiled.inputs:
            raise unknown("input", name, self._compiled.inputs)
        node, block = self._compiled.inputs[name]
        arrays = [np.ascontiguousarray(each, dtype=np.int64) for each in (batch.time, batch.diff)]
        rows = len(arrays[0])
        if rows:
            if arrays[0][0] <= self._last or (np.diff(arrays[0]) < 0).any():
                actual = f"{name}: {arrays[0][0]} after {self._last}"
                raise DeltamarkError("times out of order", actual, "feed whole times, each later than all before")
        bases = view(block.bases, max(len(block.names), 1))
        for index, column in enumerate(block.names):
            type_ = node.schema[column]
            values = np.ascontiguousarray(batch.columns[column], dtype=f"i{type_.width}")
            if rows and not (type_.low <= values.min() and values.max() <= type_.high):
                actual = f"{name}.{column}: {values.min()}..{values.max()}, declared {type_.low}..{type_.high}"
                raise DeltamarkError("a value outside its bounds", actual, "declare wider bounds")
            bases[index] = values.ctypes.data
            arrays.append(values)
        view(block.block, 4)[:] = [arrays[0].ctypes.data, arrays[1].ctypes.data, rows, 0]
        return arrays

    def _run(self) -> None:
        stopped = vm.run(self._compiled.block, -1)
        while stopped != vm.DONE:
            at, reason = divmod(stopped, 4)
            if reason == vm.FAILED:
                raise self._program.states[at].problem()
            self._grow(self._program.ops[at])
            stopped = vm.run(self._compiled.block, at)

    def _grow(self, op: int) -> None:
        if view(op, 1)[0] == vm.ROOM:
            self._program.grow_keys(op)
            return
        words = view(op, consolidate_kernel.OUT + 1)
        need = 2 * (int(words[consolidate_kernel.HELD]) + int(view(int(words[consolidate_kernel.SIZE]), 1)[0]))
        slots = int(words[consolidate_kernel.MASK]) + 1
        while slots < need:
            slots *= 2
        self._program.memory.release(int(words[consolidate_kernel.TABLE]))
        words[consolidate_kernel.TABLE], words[consolidate_kernel.MASK] = self._program.memory.reserve(slots), slots - 1

    def _answer(self, root: Root) -> Batch:
        collected = view(root.block, 2)
        rows = int(collected[vm.COLLECTED])
        collected[vm.COLLECTED] = 0
        time, diff, *columns = (view(vector, rows).copy() for vector in root.vectors)
        return Batch(time, diff, dict(zip(root.names, columns, strict=True)))
