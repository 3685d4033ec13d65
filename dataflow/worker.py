"""A dataflow in one process: feed it changes, get the answer's changes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from dataflow.collection import Collection
from dataflow.compile import compile_plans
from dataflow.compiled import Compiled
from dataflow.explain import explain
from dataflow.kernels import run as vm
from dataflow.kernels.memory import view
from dataflow.operators.extend import Extend
from dataflow.operators.linear import BYTES, Input
from dataflow.operators.text import texts_at
from dataflow.plan import Node
from dataflow.program import SLICE_ROWS, Op, nobody
from deltamark import DeltamarkError, unknown

Column: TypeAlias = "np.ndarray | pa.StringArray"

LOOK = 1 << 10
"""Rows of an answer that are looked at, at least."""

WHOLE = 1 << 40
"""Rows of a slice that is a whole feed."""

ANSWER = "answer"
"""The name of the only dataflow of a worker."""


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


def joined(batches: Sequence[Batch]) -> Batch:
    """Append batches of the same columns to one another."""
    time, diff = (np.concatenate(each) for each in ([each.time for each in batches], [each.diff for each in batches]))
    names = batches[0].columns
    return Batch(time, diff, {name: np.concatenate([each.columns[name] for each in batches]) for name in names})


def pointers_to(
    time: np.ndarray, diff: np.ndarray, columns: Mapping[str, Column], known: Mapping[str, int] = MappingProxyType({})
) -> Pointers:
    places = dict(known)
    for name, values in columns.items():
        if name in known:
            continue
        if isinstance(values, np.ndarray):
            places[name] = _address(values)
        else:
            places[name], places[f"{name}{BYTES}"] = _text_addresses(values)
    return Pointers(len(time), int(time[-1]), _address(time), _address(diff), places)


def trusted(
    time: np.ndarray, diff: np.ndarray, columns: Mapping[str, Column], known: Mapping[str, int] = MappingProxyType({})
) -> Batch:
    """Make a batch whose order and bounds are known to hold, of contiguous arrays of the right types; not empty.

    known: the addresses of some of the columns.
    """
    batch = Batch(time, diff, columns)
    batch.pointers = pointers_to(time, diff, columns, known)
    return batch


class Shard:
    """What one process runs of a compiled plan."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._program = compiled.program
        self.inputs: dict[str, Aim] = {}
        self._seen: dict[tuple[str, int], list[np.ndarray]] = {}
        self._loop = compiled.loop()
        self.refresh()

    def refresh(self, behind: Mapping[str, Sequence[Op]] = MappingProxyType({})) -> None:
        """Run what is compiled by now, but for the operators of answers that are behind."""
        compiled, without = self.compiled, {each for ops in behind.values() for each in ops}
        self.inputs = {name: self.inputs.get(name) or Aim(block) for name, block in compiled.inputs.items()}
        for each in self.inputs.values():
            each.refresh()
        self._all = {name: _words(root.block, vm.DROP + 1) for name, root in compiled.roots.items()}
        self._collected = {name: each for name, each in self._all.items() if name not in behind}
        self._seen = {}
        self._program.memory.release(self._loop.block)
        self._loop = compiled.loop(without)

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

    def run(self, pointers: Mapping[str, Pointers], wait: Callable[[], None], *, drop: bool) -> dict[str, int]:
        """Run the program over batches; return how many changes of each answer it has collected, or only counted."""
        for collected in self._collected.values():
            collected[vm.DROP] = drop
        for name, each in pointers.items():
            self.inputs[name].aim(each)
        self._program.run(self._loop, -1, wait)
        for name in pointers:
            self.inputs[name].nowhere()
        return {answer: self._counted(collected) for answer, collected in self._collected.items()}

    def _counted(self, collected: ctypes.Array[ctypes.c_int64]) -> int:
        changes, collected[vm.COLLECTED] = collected[vm.COLLECTED], 0
        return changes

    def state_rows(self) -> int:
        """Count what is kept between feeds: rows, groups and keys."""
        return sum(state.rows() for state in {id(each): each for each in self._program.states.values()}.values())

    def proposals(self) -> int:
        """Count the values that have been proposed as extensions of rows."""
        return sum(each.proposals() for each in self._extends())

    def extended(self) -> int:
        """Count the rows that have been made by extending others."""
        return sum(each.made() for each in self._extends())

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
        self._last = -1

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The inputs, and the columns that are read from them."""
        return {name: aim.names for name, aim in self._shard.inputs.items()}

    def _checked(self, batches: Mapping[str, Batch]) -> dict[str, Pointers]:
        """Find where the next batches lie, and take note of their last time."""
        pointers = self._shard.checked(batches, self._last)
        self._last = max([self._last, *(each.last for each in pointers.values())])
        return pointers

    def _run(self, batches: Mapping[str, Batch], *, drop: bool) -> dict[str, int]:
        return self._shard.run(self._checked(batches), nobody, drop=drop)

    def state_rows(self) -> int:
        """Count what is kept between feeds: rows, groups and keys."""
        return self._shard.state_rows()

    def state_bytes(self) -> int:
        """Count the memory of what is kept between feeds."""
        program = self._shard.compiled.program
        return sum(map(program.memory.resident, program.state_memory()))

    def take_whole(self) -> None:
        """Take each feed as one slice from now on."""
        self._shard.compiled.program.slice_rows = WHOLE
        self._shard.refresh()

    def proposals(self) -> int:
        """Count the values that have been proposed as extensions of rows: see dataflow.motif."""
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


class Aim:
    """Points an input of the program at a batch."""

    def __init__(self, block: Input) -> None:
        self._block, self._node = block, block.node
        self._words = _words(block.block, vm.CELLS + 1)
        self._alive: list[Column] = []
        self._live = 0

    def refresh(self) -> None:
        """Look again which columns are read."""
        self.names, schema = tuple(self._block.names), self._node.schema
        self.texts = [name for name in self.names if schema[name].kind == "text"]
        self.widths = {name: schema[name].width for name in self.names if name not in self.texts}
        self._arrays = tuple(self._block.arrays)
        self._bases = _words(self._block.bases, len(self._arrays))

    def aim(self, pointers: Pointers) -> None:
        words, bases = self._words, self._bases
        words[vm.TIMES], words[vm.DIFFS] = pointers.time, pointers.diff
        words[vm.ROWS], words[vm.POSITION] = pointers.rows, 0
        for index, name in enumerate(self._arrays):
            bases[index] = pointers.columns[name]

    @contextmanager
    def again(self, pointers: Pointers, names: Sequence[str], after: int) -> Iterator[None]:
        """Aim columns at a batch that was fed before, from what came after a time on."""
        lost = [name for name in names if name not in pointers.columns]
        if lost:
            actual = f"{self._node.params}: {', '.join(lost)}"
            raise DeltamarkError("columns that were not fed", actual, "feed them, or attach as of now")
        words = self._words
        words[vm.TIMES], words[vm.DIFFS], words[vm.ROWS] = pointers.time, pointers.diff, pointers.rows
        words[vm.POSITION] = int(np.searchsorted(view(pointers.time, pointers.rows), after, "right"))
        for index, name in enumerate(self._arrays):
            self._bases[index] = pointers.columns.get(name, 0)
        yield
        self.nowhere()

    @property
    def block(self) -> int:
        return self._block.block

    @property
    def alive(self) -> object:
        """What the batch that was checked last leads to."""
        return self._alive

    def nowhere(self) -> None:
        self._words[vm.ROWS] = self._words[vm.POSITION] = _words(self._words[vm.SIZE], 1)[0] = 0

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

    def begin(self, rows: int) -> None:
        """Say how many more rows are live before the first feed."""
        self._live += rows

    def slices(self, batches: Iterable[Batch], names: Sequence[str], time: int) -> Iterator[None]:
        """Aim the input's cells, of columns `names`, at slices of batches, as if all of it came at one time."""
        size, times, diffs = (_words(cell, 1) for cell in self._words[vm.SIZE : vm.COLUMNS])
        cells = {name: _words(cell, 1) for name, (cell, _) in self._block.arrays.items()}
        for batch in batches:
            for start in range(0, len(batch.diff), SLICE_ROWS):
                piece = slice(start, start + SLICE_ROWS)
                diff = _as(batch.diff[piece], 8)
                columns = {name: self._bounded(name, batch.columns[name][piece]) for name in names}
                pointers = pointers_to(np.full(len(diff), time), diff, columns)
                size[0], times[0], diffs[0] = pointers.rows, pointers.time, pointers.diff
                for name, address in pointers.columns.items():
                    cells[name][0] = address
                yield
                size[0] = 0

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
