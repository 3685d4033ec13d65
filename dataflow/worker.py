"""A dataflow in one process: feed it changes, get the answer's changes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from dataflow.collection import Collection
from dataflow.compile import Compiled, compile_plans
from dataflow.explain import explain
from dataflow.kernels import run as vm
from dataflow.kernels.memory import view
from dataflow.operators.linear import BYTES, Input
from dataflow.operators.text import texts_at
from dataflow.plan import Node
from deltamark import DeltamarkError, unknown

Column: TypeAlias = "np.ndarray | pa.StringArray"


class Batch:
    """Changes of a collection: times are non-decreasing; columns are int64, those of dates and codes int32.

    Text is an Arrow array (or a sequence of str) going in, and an array of str and None coming out.
    """

    __slots__ = ("columns", "diff", "pointers", "time")

    def __init__(self, time: np.ndarray, diff: np.ndarray, columns: Mapping[str, Column]) -> None:
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


def pointers_to(time: np.ndarray, diff: np.ndarray, columns: Mapping[str, Column]) -> Pointers:
    places = {}
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            places[name] = _address(values)
        else:
            places[name], places[f"{name}{BYTES}"] = _text_addresses(values)
    return Pointers(len(time), int(time[-1]), _address(time), _address(diff), places)


def trusted(time: np.ndarray, diff: np.ndarray, columns: Mapping[str, Column]) -> Batch:
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
        self._collected = [_words(root.block, vm.DROP + 1) for root in compiled.roots]

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

    def run(self, pointers: Mapping[str, Pointers], wait: Callable[[], None], *, drop: bool) -> list[int]:
        """Run the program over batches; return how many changes of each answer it has collected, or only counted."""
        for collected in self._collected:
            collected[vm.DROP] = drop
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
                self._program.grow(self._program.ops[at])
            stopped = vm.run(self.compiled.block, at)
        for name in pointers:
            self.inputs[name].nowhere()
        changes = [collected[vm.COLLECTED] for collected in self._collected]
        for collected in self._collected:
            collected[vm.COLLECTED] = 0
        return changes

    def state_rows(self) -> int:
        """Count what is kept between feeds: rows, groups and keys."""
        return sum(state.rows() for state in {id(each): each for each in self._program.states.values()}.values())

    def answer(self, worker: int, rows: int, place: int = 0) -> Batch:
        """Copy what a worker has collected of an answer; its texts can be read until the next feed."""
        root = self.compiled.roots[place]
        time, diff, *columns = (view(vector, rows).copy() for vector in root.vectors[worker])
        named = dict(zip(root.arrays, columns, strict=True))
        for name in root.texts:
            named[name] = texts_at(named[name], named.pop(f"{name}{BYTES}"))
        return Batch(time, diff, {name: named[name] for name in root.names})


class Together:
    """Several dataflows maintained as one: what their plans have in common is computed once, and kept once."""

    def __init__(self, collections: Mapping[str, Collection]) -> None:
        self._shard = Shard(compile_plans([each.node for each in collections.values()]))
        self._last = -1
        self.schemas = {name: each.schema for name, each in collections.items()}

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The inputs, and the columns that are read from them."""
        return {name: aim.names for name, aim in self._shard.inputs.items()}

    def feed_all(self, batches: Mapping[str, Batch]) -> dict[str, Batch]:
        """Apply whole logical times, later than all before; return what changed in each answer, in order of time."""
        changes = self._run(batches, drop=False)
        return {name: self._shard.answer(0, changes[place], place) for place, name in enumerate(self.schemas)}

    def push_all(self, batches: Mapping[str, Batch]) -> dict[str, int]:
        """Do as `feed_all` does, but only count the changes of the answers."""
        return dict(zip(self.schemas, self._run(batches, drop=True), strict=True))

    def _run(self, batches: Mapping[str, Batch], *, drop: bool) -> list[int]:
        pointers = self._shard.checked(batches, self._last)
        self._last = max([self._last, *(each.last for each in pointers.values())])
        return self._shard.run(pointers, _nobody, drop=drop)

    def state_rows(self) -> int:
        """Count what is kept between feeds: rows, groups and keys."""
        return self._shard.state_rows()

    def state_bytes(self) -> int:
        """Count the memory of what is kept between feeds."""
        program = self._shard.compiled.program
        kept = [each for each in program.memory.reservations() if each not in program.scratch()]
        return sum(map(program.memory.resident, kept))

    def explain(self) -> str:
        """Describe the plans as they run: operators, arrangements and who shares them, rows and bytes."""
        return explain(self._shard.compiled)

    def close(self) -> None:
        self._shard.compiled.program.memory.close()


class Worker(Together):
    """The only worker of one dataflow."""

    def __init__(self, collection: Collection) -> None:
        super().__init__({"answer": collection})
        self.schema = collection.schema

    def feed(self, batches: Mapping[str, Batch]) -> Batch:
        """Apply whole logical times, later than all before; return what changed in the answer, in order of time."""
        return self._shard.answer(0, self._run(batches, drop=False)[0])

    def push(self, batches: Mapping[str, Batch]) -> int:
        """Do as `feed` does, but only count the changes of the answer."""
        return self._run(batches, drop=True)[0]


def _nobody() -> None:
    raise AssertionError("a worker that is alone waits for nobody")


class Aim:
    """Points an input of the program at a batch."""

    def __init__(self, node: Node, block: Input) -> None:
        self.names = block.names
        self.texts = [name for name in block.names if node.schema[name].kind == "text"]
        self.widths = {name: node.schema[name].width for name in block.names if name not in self.texts}
        self._node = node
        self._arrays = block.arrays
        self._words = _words(block.block, vm.POSITION + 1)
        self._bases = _words(block.bases, len(block.arrays))
        self._alive: list[Column] = []
        self._live = 0

    def aim(self, pointers: Pointers) -> None:
        words, bases = self._words, self._bases
        words[vm.TIMES], words[vm.DIFFS] = pointers.time, pointers.diff
        words[vm.ROWS], words[vm.POSITION] = pointers.rows, 0
        for index, name in enumerate(self._arrays):
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

    def _bounded(self, name: str, values: Column) -> Column:
        type_ = self._node.schema[name]
        if type_.kind == "text":
            return self._texts(name, values)
        low, high = values.min(), values.max()
        if not (type_.low <= low and high <= type_.high):
            actual = f"{self._node.params}.{name}: {low}..{high}, declared {type_.low}..{type_.high}"
            raise DeltamarkError("a value outside its bounds", actual, "declare wider bounds")
        return _as(values, type_.width)

    def _texts(self, name: str, values: Column) -> pa.StringArray:
        texts = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
        if texts.type != pa.string() or texts.null_count:
            actual = f"{self._node.params}.{name}: {texts.type}, {texts.null_count} of them missing"
            raise DeltamarkError("not a column of text", actual, "feed Arrow's strings, none missing")
        return texts


def _text_addresses(values: pa.StringArray) -> tuple[int, int]:
    """Return where the offsets of texts lie, and their bytes."""
    _, offsets, data = values.buffers()
    return offsets.address + 4 * values.offset, data.address if data else offsets.address


def _as(values: np.ndarray, width: int) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=f"i{width}")


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _words(address: int, count: int) -> ctypes.Array[ctypes.c_int64]:
    """Look at words in a way that is quick to write from Python."""
    return (ctypes.c_int64 * count).from_address(address)
