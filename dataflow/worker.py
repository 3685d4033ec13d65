"""A dataflow in one process: feed it changes, get the answer's changes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dataflow.collection import Collection
from dataflow.compile import Compiled, Root, compile_plans
from dataflow.explain import explain
from dataflow.kernels import consolidate as consolidate_kernel
from dataflow.kernels import run as vm
from dataflow.kernels.memory import view
from dataflow.operators.linear import Input
from dataflow.plan import Node
from deltamark import DeltamarkError, unknown


class Batch:
    """Changes of a collection: times are non-decreasing; columns are int64, those of dates and codes int32."""

    __slots__ = ("columns", "diff", "pointers", "time")

    def __init__(self, time: np.ndarray, diff: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        self.time, self.diff, self.columns = time, diff, columns
        self.pointers: Pointers | None = None


@dataclass(frozen=True, slots=True)
class Pointers:
    """Where the arrays of a batch lie, which is not empty."""

    rows: int
    last: int
    time: int
    diff: int
    columns: dict[str, int]


def pointers_to(time: np.ndarray, diff: np.ndarray, columns: Mapping[str, np.ndarray]) -> Pointers:
    places = {name: _address(values) for name, values in columns.items()}
    return Pointers(len(time), int(time[-1]), _address(time), _address(diff), places)


def trusted(time: np.ndarray, diff: np.ndarray, columns: Mapping[str, np.ndarray]) -> Batch:
    """Make a batch whose order and bounds are known to hold, of contiguous arrays of the right types; not empty."""
    batch = Batch(time, diff, columns)
    batch.pointers = pointers_to(time, diff, columns)
    return batch


class Shard:
    """What one process runs of a compiled plan."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.inputs = {name: Aim(node, block) for name, (node, block) in compiled.inputs.items()}
        self._program = compiled.program
        self._collected = _words(compiled.roots[0].block, vm.DROP + 1)

    def checked(self, batches: Mapping[str, Batch], last: int) -> dict[str, Pointers]:
        """Find where batches lie that come after the time `last`; those without rows are left out."""
        found = {}
        for name, batch in batches.items():
            if name not in self.inputs:
                raise unknown("input", name, self.inputs)
            pointers = batch.pointers or self.inputs[name].check(batch, last)
            if pointers is not None:
                found[name] = pointers
        return found

    def run(self, pointers: Mapping[str, Pointers], wait: Callable[[], None], *, drop: bool) -> int:
        """Run the program over batches; return how many changes it has collected, or counted where they drop."""
        self._collected[vm.DROP] = drop
        for name, each in pointers.items():
            self.inputs[name].aim(each)
        stopped = vm.run(self.compiled.block, -1)
        while stopped != vm.DONE:
            at, reason = divmod(stopped, 4)
            if reason == vm.FAILED:
                raise self._program.states[at].problem()
            if reason == vm.WAIT:
                wait()
            else:
                self._grow(self._program.ops[at])
            stopped = vm.run(self.compiled.block, at)
        for name in pointers:
            self.inputs[name].nowhere()
        changes, self._collected[vm.COLLECTED] = self._collected[vm.COLLECTED], 0
        return changes

    def state_rows(self) -> int:
        """Count what is kept between feeds: rows, groups and keys."""
        return sum(state.rows() for state in {id(each): each for each in self._program.states.values()}.values())

    def _grow(self, op: int) -> None:
        if view(op, 1)[0] == vm.ROOM:
            self._program.grow_keys(op)
            return
        if view(op, 1)[0] == vm.INTERN:
            self._program.grow_interner(op)
            return
        if view(op, 1)[0] == vm.WATCH:
            self._program.grow_rows(op)
            return
        words = view(op, consolidate_kernel.OUT + 1)
        need = 2 * (int(words[consolidate_kernel.HELD]) + int(view(int(words[consolidate_kernel.SIZE]), 1)[0]))
        slots = int(words[consolidate_kernel.MASK]) + 1
        while slots < need:
            slots *= 2
        old, new = int(words[consolidate_kernel.TABLE]), self._program.memory.reserve(slots)
        self._program.memory.replace(old, new)
        words[consolidate_kernel.TABLE], words[consolidate_kernel.MASK] = new, slots - 1


class Worker:
    """The only worker of a dataflow."""

    def __init__(self, collection: Collection) -> None:
        self._shard = Shard(compile_plans([collection.node]))
        self._last = -1
        self.schema = collection.schema

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The inputs, and the columns that are read from them."""
        return {name: aim.names for name, aim in self._shard.inputs.items()}

    def feed(self, batches: Mapping[str, Batch]) -> Batch:
        """Apply whole logical times, later than all before; return what changed in the answer, in order of time."""
        rows = self._run(batches, drop=False)
        return answer(self._shard.compiled.roots[0], 0, rows)

    def push(self, batches: Mapping[str, Batch]) -> int:
        """Do as `feed` does, but only count the changes of the answer."""
        return self._run(batches, drop=True)

    def _run(self, batches: Mapping[str, Batch], *, drop: bool) -> int:
        pointers = self._shard.checked(batches, self._last)
        self._last = max([self._last, *(each.last for each in pointers.values())])
        return self._shard.run(pointers, _nobody, drop=drop)

    def state_rows(self) -> int:
        """Count what is kept between feeds: rows, groups and keys."""
        return self._shard.state_rows()

    def explain(self) -> str:
        """Describe the plan as it runs: operators, arrangements and who shares them, rows and bytes."""
        return explain(self._shard.compiled)

    def close(self) -> None:
        self._shard.compiled.program.memory.close()


def answer(root: Root, worker: int, rows: int) -> Batch:
    """Copy what a worker has collected."""
    time, diff, *columns = (view(vector, rows).copy() for vector in root.vectors[worker])
    return Batch(time, diff, dict(zip(root.names, columns, strict=True)))


def _nobody() -> None:
    raise AssertionError("a worker that is alone waits for nobody")


class Aim:
    """Points an input of the program at a batch."""

    def __init__(self, node: Node, block: Input) -> None:
        self.names = block.names
        self.widths = {name: node.schema[name].width for name in block.names}
        self._node = node
        self._words = _words(block.block, vm.POSITION + 1)
        self._bases = _words(block.bases, len(block.names))
        self._alive: list[np.ndarray] = []
        self._live = 0

    def aim(self, pointers: Pointers) -> None:
        words, bases = self._words, self._bases
        words[vm.TIMES], words[vm.DIFFS] = pointers.time, pointers.diff
        words[vm.ROWS], words[vm.POSITION] = pointers.rows, 0
        for index, name in enumerate(self.names):
            bases[index] = pointers.columns[name]

    def nowhere(self) -> None:
        self._words[vm.ROWS] = self._words[vm.POSITION] = 0

    def check(self, batch: Batch, last: int) -> Pointers | None:
        """Check order, types and bounds, and keep the arrays alive until the next batch; None for one without rows."""
        if len(batch.time) == 0:
            return None
        time, diff = _as(batch.time, 8), _as(batch.diff, 8)
        if time[0] <= last or (np.diff(time) < 0).any():
            actual = f"{self._node.params}: {time[0]} after {last}"
            raise DeltamarkError("times out of order", actual, "feed whole times, each later than all before")
        ends = np.append(np.flatnonzero(np.diff(time)), len(time) - 1)
        live = self._live + np.cumsum(diff)[ends]
        most = max(int(live.max()), int(np.abs(diff).max()))
        if most > self._node.schema.rows:
            actual = f"{self._node.params}: {most}, declared {self._node.schema.rows}"
            raise DeltamarkError("more rows than declared", actual, "declare more")
        self._live = int(live[-1])
        columns = {name: self._bounded(name, batch.columns[name]) for name in self.names}
        self._alive = [time, diff, *columns.values()]
        return pointers_to(time, diff, columns)

    def _bounded(self, name: str, values: np.ndarray) -> np.ndarray:
        type_ = self._node.schema[name]
        low, high = values.min(), values.max()
        if not (type_.low <= low and high <= type_.high):
            actual = f"{self._node.params}.{name}: {low}..{high}, declared {type_.low}..{type_.high}"
            raise DeltamarkError("a value outside its bounds", actual, "declare wider bounds")
        return _as(values, type_.width)


def _as(values: np.ndarray, width: int) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=f"i{width}")


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _words(address: int, count: int) -> ctypes.Array[ctypes.c_int64]:
    """Look at words in a way that is quick to write from Python."""
    return (ctypes.c_int64 * count).from_address(address)
