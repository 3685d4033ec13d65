"""The operators of a loop: its head, what enters, the joins inside, and what closes its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from deltamark.dataflow.codegen.columns import MOST_PACKED, Key, Stream, unpacked
from deltamark.dataflow.codegen.program import LOOSE, Keys, Program, key_range
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core import hash_map
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.loops import iterate as kernel
from deltamark.dataflow.kernels.loops import reduce as close_kernel
from deltamark.dataflow.kernels.loops import trace
from deltamark.dataflow.language.iteration import MOST_ITERATIONS, Closing
from deltamark.dataflow.operators.arrangement import Arrangement, Weights, negative, wide_weight
from deltamark.dataflow.operators.group import row_of
from deltamark.dataflow.operators.rows import COMPLEMENTED, reverse_order
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError

SLOTS = 1024
"""Of a table of what is remembered before it grows."""

MANY_ROWS = 64
"""Rows of a key that are better added up than looked through twice in an epoch."""

LONG_EPOCH = 64
"""Iterations of an epoch before its rows are compared with those of earlier ones."""

AT_ONCE = 512
"""Rows that go round at once: what they meet is many times as much, and should stay in the cache."""

LARGEST_VALUE = close_kernel.NEVER - 1


def enter(stream: Stream, names: Sequence[str], *, begins: int) -> tuple[int, Stream]:
    """Append what lets a stream's rows wait outside; return its block, and the stream of those that enter."""
    program = stream.program
    inputs = [stream.time, stream.diff, *map(stream.column, names)]
    out, size = [program.vector() for _ in inputs], program.cell()
    block = program.op(
        vm.ENTER, stream.size, len(inputs), program.table(inputs),
        program.table([program.memory.reserve(LOOSE) for _ in inputs]), 0, 0, size, program.table(out), begins,
    )  # fmt: skip
    made = dict(zip(names, out[2:], strict=True))
    return block, Stream(program, size, out[0], out[1], made.__getitem__, made)


def key_in_loop(stream: Stream, names: Sequence[str], types: Sequence[Type]) -> Key:
    """Make one number of key columns, which must fit."""
    size = prod(radix for _, radix in key_range(types))
    if size > MOST_PACKED:
        actual = f"{', '.join(names)}: {size} values"
        raise DeltamarkError("a key of a loop does not fit in 62 bits", actual, "declare narrower bounds")
    return stream.key(names, types)


def remember(stream: Stream, key: int, keys: Keys, columns: Sequence[int], width: int, more: int = 0) -> int:  # noqa: PLR0913, PLR0917 (a block's fields)
    """Lay out what a loop remembers of a stream: a list of `width` int32s a key, `more` words a row."""
    program, reserve = stream.program, stream.program.memory.reserve
    return program.words(
        trace.FREE + 1,
        [
            stream.size, stream.time, stream.diff, key, keys.block, len(columns), program.table(columns),
            program.words(max(len(columns), 1)), *(reserve(LOOSE) for _ in range(3)),
            reserve(keys.capacity * width // 2 + 1), width, reserve(LOOSE), SLOTS - 1, 0, reserve(LOOSE),
            trace.VALUES + len(columns) + more, 1, 0,
        ],
    )  # fmt: skip


class Met(Weights):
    """What a join inside a loop remembers."""

    def __init__(self, remembered: int) -> None:
        self._remembered = remembered

    def rows(self) -> int:
        return int(view(self._remembered, trace.USED + 1)[trace.USED])


@dataclass(frozen=True)
class Side:
    """The side of a join inside a loop that changes there: its stream, its key, and the columns that are needed."""

    stream: Stream
    key: Key
    keys: Keys
    names: Sequence[str]


def meet(side: Side, outer: Arrangement, others: Mapping[str, Term], now: int) -> tuple[int, Stream]:
    """Append a join with an arrangement. others: what the columns of its rows are there. now: the cell of the epoch."""
    program, columns = side.stream.program, [side.stream.column(name) for name in side.names]
    remembered = remember(side.stream, side.key.cell, side.keys, columns, 1)
    size, iteration, diff, slot, *out = (program.cell(), *(program.vector() for _ in range(3 + len(columns))))
    block = program.op(
        vm.MEET, side.stream.size, side.stream.time, side.stream.diff, side.key.cell, remembered, outer.block, now,
        0, 0, 0, size, iteration, diff, slot, program.table(out), program.memory.reserve(LOOSE),
    )  # fmt: skip
    program.keep(Met(remembered))
    made = dict(zip(side.names, out, strict=True))
    stream = Stream(
        program, size, iteration, diff, lambda name: stream.take(outer.stored[others[name]], slot), made=made
    )
    return block, stream


Cells = tuple[int, int, int, int, int]
"""Of size, times or iterations, weights, keys and values."""


@dataclass(frozen=True)
class End:
    """What closes a loop: its block, and the cells of what goes round again, and of the answer."""

    program: Program
    block: int
    closing: Closing
    again: Cells
    answer: Cells

    @classmethod
    def of(cls, program: Program, closing: Closing, now: int) -> End:
        reserve = program.memory.reserve
        again, answer = _cells(program), _cells(program)
        agenda = [reserve(MOST_ITERATIONS), reserve(LOOSE), 1, 0, reserve(MOST_ITERATIONS + 2), 0]
        fields = [
            0, program.table(agenda), reserve(LOOSE), reserve(LOOSE), reserve(LOOSE), 0, closing.least,
            MOST_ITERATIONS, now, *again, *answer, 0, 0, 0,
            reserve(LOOSE), close_kernel.FOLDS_FROM, reserve(MOST_ITERATIONS + 2), 0, 0, 0, 0, 0, 0, 0, 0,
            MANY_ROWS, LONG_EPOCH,
        ]  # fmt: skip
        return cls(program, program.words(close_kernel.WORDS, fields), closing, again, answer)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(self.closing.below.schema[name] for name in self.closing.keys)

    @property
    def key(self) -> Key:
        """How keys are to be read."""
        return Key(0, 0, 0, "single" if len(self.types) == 1 and not self.types[0].nullable else "packed")

    @property
    def turned(self) -> int | None:
        return None if self.closing.which == "smallest" else COMPLEMENTED

    def close(self, stream: Stream, rows: int) -> None:
        """Append the end of the body, whose input has about so many rows."""
        key = key_in_loop(stream, self.closing.keys, self.types)
        keys = self.program.keys(key, rows, stream.size)
        remembered = remember(stream, key.cell, keys, [self._value(stream)], close_kernel.KEY_WIDTH, 1)
        view(self.block, 1)[close_kernel.PAST] = remembered
        self.program.op(vm.CLOSE, self.block)
        self.program.keep(self)

    def _value(self, stream: Stream) -> int:
        """Return the cell of the values of which the least is kept."""
        of = self.closing.of
        if of is None:
            return self.program.nothing
        type_ = self.closing.below.schema[of]
        if not -LARGEST_VALUE < type_.low <= type_.high < LARGEST_VALUE:
            actual = f"{of}: {type_.low}..{type_.high}"
            raise DeltamarkError("a value of a loop does not fit in 62 bits", actual, "declare narrower bounds")
        return reverse_order(stream, stream.column(of), self.turned)

    def stream(self, cells: Cells) -> Stream:
        """Read what is handed out."""
        size, time, diff, key, value = cells
        stream = Stream(self.program, size, time, diff, lambda name: makers[name]())
        makers = dict(unpacked(stream, key, self.key, self.closing.keys, self.types) if self.types else {})
        if self.closing.of is not None:
            makers[self.closing.of] = lambda: reverse_order(stream, value, self.turned)
        return stream

    def rows(self) -> int:
        return int(view(self._remembered, trace.USED + 1)[trace.USED])

    @property
    def _remembered(self) -> int:
        return int(view(self.block, 1)[close_kernel.PAST])

    def problem(self) -> DeltamarkError:
        words = view(self.block, close_kernel.WORDS)
        time = int(view(int(words[close_kernel.NOW]), 1)[0])
        match int(words[close_kernel.ERROR]):
            case close_kernel.ENDLESS:
                remedy = "make what it keeps settle, as a least or a greatest value does"
                return DeltamarkError(f"a loop goes on after {MOST_ITERATIONS} iterations", f"time {time}", remedy)
            case close_kernel.CIRCLING:
                remedy = "make what it keeps settle, as a least or a greatest value does"
                period = f"the same rows again after {int(words[close_kernel.ERROR_VALUE])} iterations, time {time}"
                return DeltamarkError("a loop goes round in a circle", period, remedy)
            case close_kernel.NEGATIVE:
                key_id, value = (int(words[each]) for each in (close_kernel.ERROR_KEY, close_kernel.ERROR_VALUE))
                return negative(self._row(key_id, value), time)
        return wide_weight()

    def _row(self, key_id: int, value: int) -> dict[str, int]:
        keys = int(view(self._remembered, trace.KEYS + 1)[trace.KEYS])
        row = row_of(self.key, self.closing.keys, self.types, int(hash_map.key_of(keys, key_id)))
        if self.closing.of is not None:
            row[self.closing.of] = value if self.turned is None else self.turned - value
        return row


def _cells(program: Program) -> Cells:
    return program.cell(), program.vector(), program.vector(), program.vector(), program.vector()


@dataclass(frozen=True)
class Head:
    """The beginning of a loop: its block, and its place among the operators."""

    program: Program
    block: int
    place: int

    @classmethod
    def of(cls, program: Program, sources: Sequence[int], joins: int, end: End, now: int) -> Head:
        """Append it, for so many joins. sources: what enters. now: the cell of the epoch."""
        place = len(program.ops)
        block = program.op(
            vm.ITERATE, program.frontier, now, AT_ONCE, 0, len(sources), program.table(sources), joins,
            program.words(max(joins, 1)), end.block, 0, 0, 0,
        )  # fmt: skip
        program.keep(end)
        return cls(program, block, place)

    def repeat(self, joins: Sequence[int]) -> None:
        """Append the end of the loop. joins: the last one first."""
        words, length = view(self.block, kernel.JOIN_BLOCKS + 1), len(self.program.ops) - self.place
        words[kernel.LENGTH] = length
        view(int(words[kernel.JOIN_BLOCKS]), max(len(joins), 1))[: len(joins)] = joins
        self.program.op(vm.REPEAT, length)
