"""Inputs of a running program: fed batches are checked, and the arrays of a batch are bound while it runs.

A mistake in a batch is one error, raised before anything changes. Kernels trust their inputs, so every batch that does
not come from verified data is checked in full: the names, lengths and types of its columns, their bounds, the order of
its times, and the resulting number of live rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from deltamark.dataflow.arrow_values import ARROW_TYPES, numbers
from deltamark.dataflow.batch import Batch, Column, Pointers, pointers_to
from deltamark.dataflow.builder.program import SLICE_ROWS, BlockAddress
from deltamark.dataflow.kernels.core.guard import REGISTRY, Range
from deltamark.dataflow.kernels.core.memory import view, words
from deltamark.dataflow.kernels.program import InputBlock
from deltamark.dataflow.operators.input import Input, InputReader
from deltamark.dataflow.plan.term_sql import literal
from deltamark.dataflow.types import LAST_TIME, NULL, TIMESTAMPS, Type, nullable_texts
from deltamark.errors import DeltamarkError

SUMMED_ROWS = 1 << 16
"""The number of weights that are summed at once, which bounds the memory of a check. Not tuned."""

TEMPORAL = (*TIMESTAMPS, "time")
"""The kinds of columns that count microseconds."""

NUMBERS, CONDITIONS = "iu", "iub"
"""The kinds of numpy's types that columns of numbers and columns of conditions may have."""


@dataclass(frozen=True)
class Accepted:
    """A batch that passed all checks, and the number of live rows of its input after it."""

    pointers: Pointers
    live: int


def accept(node: Input, names: tuple[str, ...], batch: object, last: int, live: int) -> Accepted | None:
    """Check the columns `names` of a batch of an input; return None if it has no rows.

    last: a time that all times must exceed; live: the number of live rows of the input before the batch.
    """
    if not isinstance(batch, Batch) or not isinstance(batch.columns, Mapping):
        raise DeltamarkError("not a batch", f"{node.name}: {type(batch).__name__}", "feed Batch(time, diff, columns)")
    for name in names:
        if name not in batch.columns:
            actual = f"{node.name}.{name}; the batch has {', '.join(map(str, batch.columns)) or 'no columns'}"
            raise DeltamarkError("a column is missing", actual, "feed every column that is read: see `inputs`")
    rows = _length(f"{node.name}.time", batch.time)
    for name, values in {"diff": batch.diff, **{name: batch.columns[name] for name in names}}.items():
        if _length(f"{node.name}.{name}", values) != rows:
            actual = f"{node.name}.{name}: {len(values)} values, time: {rows}"
            raise DeltamarkError("columns of different lengths", actual, "give each row a time, a diff and all values")
    if rows == 0:
        return None
    time, diff = (_integers(f"{node.name}.{what}", each) for what, each in (("time", batch.time), ("diff", batch.diff)))
    time = _times(node.name, time, last)
    diff, live = _live(node, diff, time, live)
    columns = {name: checked_column(f"{node.name}.{name}", node.schema[name], batch.columns[name]) for name in names}
    return Accepted(
        pointers_to(time, diff, columns, nullable=set(names).intersection(nullable_texts(node.schema.fields))), live
    )


def accept_ends(ends: object, last: int) -> np.ndarray:
    """Check the last times of batches, which must be later than `last` and increase."""
    if _length("ends", ends) == 0:
        raise DeltamarkError("no batches", "ends is empty", "give the last time of each batch")
    times = _times("ends", _integers("ends", ends), last)
    if not (times[1:] > times[:-1]).all():
        at = int(np.flatnonzero(times[1:] <= times[:-1])[0])
        actual = f"ends: {times[at]} twice, at {at} and {at + 1}"
        raise DeltamarkError("ends that do not increase", actual, "let each batch end later than the one before")
    return times


def checked_column(where: str, type_: Type, values: object) -> Column:
    """Convert a column to the form that kernels read; refuse values of another type or outside its bounds.

    where: names the input and the column.
    """
    if type_.kind == "text":
        return _texts(where, type_, values)
    if type_.kind == "double":
        return _bounded(where, type_, _doubles(where, type_, values))
    if type_.kind in TEMPORAL and isinstance(values, pa.Array | pa.ChunkedArray):
        return _bounded(where, type_, _moments(where, type_, values))
    kinds = CONDITIONS if type_.kind == "bool" else NUMBERS
    return _bounded(where, type_, _integers(where, values, kinds, nullable=type_.nullable))


def _doubles(where: str, type_: Type, values: object) -> np.ndarray:
    """Convert doubles to the integers that store them, which an array of integers of 64 bits has already."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        return values
    remedy = "feed an array of floats"
    try:
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError):
        raise DeltamarkError("not a column of doubles", f"{where}: {values!r:.60}", remedy) from None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not (pa.types.is_floating(array.type) or pa.types.is_integer(array.type) or pa.types.is_null(array.type)):
        raise DeltamarkError("not a column of doubles", f"{where}: {array.type}", remedy)
    if array.null_count:
        _refuse_missing(where, array.null_count, nullable=type_.nullable)
    return numbers(array.cast(pa.float64()), type_)


def _moments(where: str, type_: Type, values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Convert timestamps or times to microseconds."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if array.null_count:
        _refuse_missing(where, array.null_count, nullable=type_.nullable)
    try:
        return numbers(array if pa.types.is_integer(array.type) else array.cast(ARROW_TYPES[type_.kind]), type_)
    except pa.ArrowException as error:
        raise DeltamarkError("not a column of times", f"{where}: {error}", "feed microseconds") from None


def _length(where: str, values: object) -> int:
    try:
        return len(values)  # type: ignore[arg-type]
    except TypeError:
        actual = f"{where}: {values!r:.60}"
        raise DeltamarkError("not a column", actual, "feed an array, or a sequence of values") from None


def _integers(where: str, values: object, kinds: str = NUMBERS, *, nullable: bool = False) -> np.ndarray:
    """Convert integers to an array of some integer type; refuse values that would have to be rounded.

    kinds: the kinds of numpy's types that are accepted.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        values = _from_arrow(where, values, kinds, nullable=nullable)
    if isinstance(values, np.ma.MaskedArray):
        values = _from_arrow(where, pa.array(values), kinds, nullable=nullable)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise DeltamarkError("not whole numbers", f"{where}: {values!r:.60}", "feed an array of integers") from None
    if array.dtype.kind not in kinds or array.ndim != 1:
        shape = "" if array.ndim == 1 else f" in {array.ndim} dimensions"
        raise DeltamarkError("not whole numbers", f"{where}: {array.dtype}{shape}", "feed one array of integers")
    return array


def _from_arrow(where: str, values: pa.Array, kinds: str, *, nullable: bool) -> object:
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    if pa.types.is_boolean(values.type) and kinds == CONDITIONS:
        values = values.cast(pa.int64())
    if not pa.types.is_integer(values.type):
        raise DeltamarkError("not whole numbers", f"{where}: {values.type}", "feed an array of integers")
    if values.null_count:
        _refuse_missing(where, values.null_count, nullable=nullable)
        try:
            values = values.cast(pa.int64()).fill_null(NULL)
        except pa.ArrowInvalid:
            actual = f"{where}: {values.type}"
            raise DeltamarkError("a value outside its bounds", actual, "feed integers of 64 bits") from None
    return values.to_numpy(zero_copy_only=False)


def _refuse_missing(where: str, count: int, *, nullable: bool) -> None:
    if not nullable:
        raise DeltamarkError("missing values", f"{where}: {count} of them", "declare the column with .or_null()")


def _bounded(where: str, type_: Type, values: np.ndarray) -> np.ndarray:
    """Check the bounds of a column, and convert it to the width that kernels read."""
    present = values
    if type_.nullable:
        present = values[values != NULL]
    if len(present):
        low, high = int(present.min()), int(present.max())
        if not type_.low <= low <= high <= type_.high:
            found, declared = (_span(type_, *each) for each in ((low, high), (type_.low, type_.high)))
            actual = f"{where}: {found}, declared {declared}"
            raise DeltamarkError("a value outside its bounds", actual, "declare wider bounds")
    width, given = type_.width, values.dtype
    if given.kind != "i" and given.isnative and given.itemsize == width:
        values = values.view(f"i{width}")  # of unsigned numbers, whose bounds are checked, or of conditions
    return np.ascontiguousarray(values, dtype=f"i{width}")


def _span(type_: Type, low: int, high: int) -> str:
    """Write the ends of a range. Only numbers, doubles and dates have values outside of their bounds."""
    shown = partial(literal, type_) if type_.kind in ("int", "date", "double", *TIMESTAMPS) else str
    return f"{shown(low)}..{shown(high)}"


def _times(name: str, time: np.ndarray, last: int) -> np.ndarray:
    low, high = int(time.min()), int(time.max())
    if low < 0 or high > LAST_TIME:
        actual = f"{name}: {low}..{high}"
        raise DeltamarkError("a time outside its range", actual, f"give times from 0 to {LAST_TIME}")
    time = np.ascontiguousarray(time, dtype=np.int64)
    if time[0] <= last:
        actual = f"{name}: {time[0]} after {last}"
        raise DeltamarkError("times out of order", actual, "feed whole times, each later than all before")
    falls = np.flatnonzero(time[1:] < time[:-1])
    if len(falls):
        actual = f"{name}: {time[falls[0] + 1]} after {time[falls[0]]}, at row {falls[0] + 1}"
        raise DeltamarkError("times out of order", actual, "sort the rows of a batch by time")
    return time


def _live(node: Input, diff: np.ndarray, time: np.ndarray, live: int) -> tuple[np.ndarray, int]:
    """Refuse more live rows, at the end of any time, than the input declares; return the weights and the live rows."""
    most = max(int(diff.max()), -int(diff.min()))
    if most <= node.schema.rows:
        diff = np.ascontiguousarray(diff, dtype=np.int64)
        most, live = _most_live(diff, time, live, most)
    _refuse_more(node, most)
    return diff, live


def _refuse_more(node: Input, rows: int) -> None:
    if rows > node.schema.rows:
        actual = f"{node.name}: {rows}, declared {node.schema.rows}"
        raise DeltamarkError("more rows than declared", actual, "declare more")


def _most_live(diff: np.ndarray, time: np.ndarray, live: int, largest: int) -> tuple[int, int]:
    """Return the most live rows at the end of any time, and those at the end. largest: bounds each weight."""
    most = -1
    for start in range(0, len(diff), SUMMED_ROWS):
        chunk, times = diff[start : start + SUMMED_ROWS], time[start : start + SUMMED_ROWS + 1]
        wide = largest * len(chunk) + abs(live) < 1 << 62
        sums = live + np.cumsum(chunk if wide else chunk.astype(object))
        ends = times[1:] != times[:-1]
        if start + len(chunk) == len(diff):
            ends = np.append(ends, True)
        if ends.any():
            most = max(most, int(sums[ends].max()))
        live = int(sums[-1])
    return most, live


def _texts(where: str, type_: Type, values: object) -> pa.StringArray:
    """Convert texts to an Arrow array of strings."""
    remedy = "feed Arrow's strings, or a sequence of str"
    try:
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        if not is_text and array.null_count < len(array):
            raise DeltamarkError("not a column of text", f"{where}: {array.type}", remedy)
        found = array.cast(pa.string())
        found.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError, UnicodeError) as error:
        actual = f"{where}: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        raise DeltamarkError("not a column of text", actual, remedy) from None
    if found.null_count:
        _refuse_missing(where, found.null_count, nullable=type_.nullable)
    return found


class InputBinding:
    """Binds one input block of the program to the arrays of a batch while it is fed."""

    def __init__(self, reader: InputReader) -> None:
        self._reader, self._node = reader, reader.node
        self._words = InputBlock(reader.block).as_words
        self._bound: Pointers | None = None
        """The bound batch; keeping it keeps its arrays alive while kernels may read them."""
        self._lent: list[Range] = []
        self.live = 0
        """The number of live rows of the input."""

    def refresh(self) -> None:
        """Update the columns that are read, because plans were attached or retired."""
        self.names, schema = tuple(self._reader.names), self._node.schema
        self.texts = [name for name in self.names if schema[name].kind == "text"]
        self.nullable = [name for name in self.texts if schema[name].nullable]
        self.widths = {name: width for name, (_, width) in self._reader.arrays.items()}
        """Bytes of an element of each array; 0 for the array of the bytes of texts."""
        self._bases = words(self._reader.bases, len(self.widths))

    @property
    def block(self) -> BlockAddress:
        return self._reader.block

    def check(self, batch: object, last: int) -> Accepted | None:
        """Check a batch whose times must be later than `last`, without changing anything; None if it has no rows."""
        return accept(self._node, self.names, batch, last, self.live)

    def counted(self, pointers: Pointers, added: int) -> Accepted:
        """Check the number of live rows after a batch of one time whose rows were checked. added: its weight."""
        live = self.live + added
        _refuse_more(self._node, live)
        return Accepted(pointers, live)

    def commit(self, accepted: Accepted) -> None:
        """Record the number of live rows after a checked batch."""
        self.live = accepted.live

    def bind(self, pointers: Pointers) -> None:
        """Let the input read a whole batch."""
        self._point(pointers)
        for index, name in enumerate(self.widths):
            self._bases[index] = pointers.columns[name]

    @contextmanager
    def replay(self, pointers: Pointers, names: Sequence[str], after: int) -> Iterator[None]:
        """Let the input read some columns of a batch that was fed before, from the first row after a time."""
        lost = [name for name in names if name not in pointers.columns]
        if lost:
            actual = f"{self._node.name}: {', '.join(lost)}"
            raise DeltamarkError("columns that were not fed", actual, "feed them, or attach without since=")
        self._point(pointers)
        self._words.position = int(np.searchsorted(view(pointers.time, pointers.rows), after, "right"))
        for index, name in enumerate(self.widths):
            self._bases[index] = pointers.columns.get(name, 0)
        try:
            yield
        finally:
            self.unbind()

    def _point(self, pointers: Pointers) -> None:
        self._lend(pointers)
        block = self._words
        block.times, block.diffs, block.inserts = pointers.time, pointers.diff, int(pointers.inserts)
        block.rows, block.position = pointers.rows, 0

    def unbind(self) -> None:
        """Let the input read no rows."""
        self._words.rows = self._words.position = 0
        self.unbind_slice()

    def _lend(self, pointers: Pointers) -> None:
        """Keep the arrays of a batch alive, and register them with checked kernels, until they are taken back."""
        self._take_back()
        self._bound = pointers
        if REGISTRY is not None:
            sizes = {name: width * (pointers.rows + (name in self.texts)) for name, width in self.widths.items()}
            arrays = {name: sizes[name] or pointers.sizes.get(name, 0) for name in pointers.columns if name in sizes}
            places = [(pointers.time, 8 * pointers.rows), (pointers.diff, 8 * pointers.rows)]
            places += [(pointers.columns[name], size) for name, size in arrays.items()]
            self._lent = [Range(at, at + size, f"the batch of {self._node.name}") for at, size in places]
            REGISTRY.lend(self._lent)

    def _take_back(self) -> None:
        self._bound = None
        if REGISTRY is not None:
            REGISTRY.take_back(self._lent)
            self._lent = []

    def count(self, rows: int) -> None:
        """Count more live rows of the input."""
        self.live += rows

    def accept_history(self, batch: object, names: Sequence[str], time: int, live: int) -> Accepted | None:
        """Check some columns of a batch of history, as if all rows had one time; None if it has no rows.

        live: the number of rows of history before it.
        """
        return accept(self._node, tuple(names), _at(batch, time), -1, live)

    def bind_slice(self, pointers: Pointers, rows: range, share: range) -> None:
        """Let the input read some rows of a batch. share: those of this worker, if it takes its slice."""
        self._lend(pointers)  # a feed since the last slice has bound another batch
        block = self._words
        block.times, block.diffs = pointers.time, pointers.diff
        block.first, block.own, block.own_size = rows.start, share.start, len(share)
        block.inserts = int(pointers.inserts)
        size, time, diff = (words(cell, 1) for cell in (block.size, block.time, block.diff))
        size[0], time[0], diff[0] = len(rows), pointers.time + 8 * rows.start, pointers.diff + 8 * rows.start
        for index, (name, (cell, width)) in enumerate(self._reader.arrays.items()):
            self._bases[index] = address = pointers.columns.get(name, 0)
            words(cell, 1)[0] = address and address + width * rows.start

    def unbind_slice(self) -> None:
        """Let the input read no rows of a slice."""
        words(self._words.size, 1)[0] = self._words.own_size = 0
        self._take_back()


def slices(
    bindings: Sequence[InputBinding], batches: Iterable[Batch], names: Sequence[str], time: int, *, counted: bool
) -> Generator[None]:
    """Bind columns of an input to one slice of batches after another, at all workers, as if all rows had one time.

    bindings: the input at each worker; counted: the rows are already counted as live.
    """
    live, workers = 0, len(bindings)
    for batch in batches:
        accepted = bindings[0].accept_history(batch, names, time, live)
        if accepted is None:
            yield  # the reader of an arrangement has done a piece of work without finding a row
            continue
        if not counted:
            bindings[0].count(accepted.live - live)
        live, rows = accepted.live, accepted.pointers.rows
        for start in range(0, rows, SLICE_ROWS):
            size = min(SLICE_ROWS, rows - start)
            ends = [start + size * number // workers for number in range(workers + 1)]
            try:
                for number, each in enumerate(bindings):
                    share = range(ends[number], ends[number + 1])
                    each.bind_slice(accepted.pointers, range(start, start + size), share)
                yield
            finally:
                for each in bindings:
                    each.unbind_slice()


def _at(batch: object, time: int) -> object:
    """Return a batch with one time for all rows."""
    if not isinstance(batch, Batch):
        return batch
    return Batch(np.full(len(batch.diff), time, dtype=np.int64), batch.diff, batch.columns)
