"""Operators that keep whole rows and look at them when a time ends: extreme, top, bound and or_null."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.codegen.program import LOOSE, Keys, Program
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core import btree as order_kernel
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.groups import grouped_rows as kernel
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.operators.arrangement import negative, wide_weight
from deltamark.dataflow.types import Schema
from deltamark.errors import DeltamarkError

SLOTS = 1024
"""Of a table of rows before it grows."""


@dataclass(frozen=True)
class Column:
    """A column that is stored: as it is, or turned around to COMPLEMENTED or NEGATED less its value."""

    name: str
    cell: int
    turned: int | None = None
    is_text: bool = False

    def value(self, stored: int) -> int:
        return stored if self.turned is None else self.turned - stored


COMPLEMENTED, NEGATED = -1, 0


def turn(stream: Stream, cell: int, turned: int | None) -> int:
    """Turn the order of a column's values around, and back."""
    if turned is None:
        return cell
    result = stream.program.vector()
    stream.program.op(vm.NEGATION, stream.size, cell, 0, turned, result)
    return result


def columns(stream: Stream, names: Iterable[str], schema: Schema, turned: Container[str] = ()) -> list[Column]:
    """Store columns of a stream, some of them complemented."""
    how = {name: COMPLEMENTED if name in turned else None for name in names}
    return [
        Column(name, turn(stream, stream.column(name), each), each, schema[name].kind == "text")
        for name, each in how.items()
    ]


@dataclass(frozen=True)
class Side:
    """One input: its cells, its key, and the columns of its rows."""

    stream: Stream
    key: int
    columns: Sequence[Column]

    def block(self, program: Program, chain: int) -> int:
        stream, memory, count = self.stream, program.memory, len(self.columns)
        inputs, resolved = program.table([each.cell for each in self.columns]), program.words(count + 1)
        return program.words(
            kernel.CHAIN + 1,
            [
                stream.size, stream.time, stream.diff, self.key, count, inputs, resolved, memory.reserve(LOOSE),
                memory.reserve(SLOTS), SLOTS - 1, 0, memory.reserve(LOOSE), kernel.VALUES + count, 1, 0, chain,
            ],
        )  # fmt: skip

    def row(self, block: int, slot: int) -> dict[str, int]:
        """Read a row; a column without a name is no part of it."""
        words = view(block, kernel.CHAIN + 1)
        record = int(words[kernel.RECORDS]) + 8 * int(words[kernel.WORDS]) * slot
        values = view(record, int(words[kernel.WORDS]))[kernel.VALUES :].tolist()
        return {each.name: each.value(stored) for each, stored in zip(self.columns, values, strict=True) if each.name}


@dataclass(frozen=True)
class Watched:
    """The block of an operator that watches rows, and its inputs."""

    block: int
    sides: tuple[Side, ...]

    def rows(self) -> int:
        return sum(int(view(block, kernel.CHAIN + 1)[kernel.USED]) for block in self._blocks())

    def problem(self) -> DeltamarkError:
        words = view(self.block, kernel.ERROR_SLOT + 1)
        if int(words[kernel.ERROR]) == kernel.TOO_HEAVY:
            return wide_weight()
        is_limit = int(words[kernel.ERROR_SIDE]) == kernel.LIMITS
        row = self.sides[is_limit].row(self._blocks()[is_limit], int(words[kernel.ERROR_SLOT]))
        error, time = int(words[kernel.ERROR]), int(words[kernel.NOW])
        if error == kernel.NEGATIVE:
            return negative(row, time)
        actual = f"{', '.join(f'{name}={value}' for name, value in row.items())} at time {time}"
        if error == kernel.TWO_LIMITS:
            return DeltamarkError("more than one limit", actual, "give at most one row of limits a key")
        return DeltamarkError("a denominator that is not positive", actual, "divide by a number of rows")

    def _blocks(self) -> list[int]:
        return view(self.block, kernel.LIMITS + 1)[kernel.ROWS :].tolist()[: len(self.sides)]


@dataclass(frozen=True)
class Order:
    """The first field by which rows are in order, and how many; which of them are numbers of texts."""

    field: int
    fields: int
    texts: Sequence[int] = ()


def watch(kind: int, keys: Keys, sides: Sequence[Side], order: Order | None = None, places: int = 0) -> Stream:
    """Append the operator."""
    program, stored = sides[0].stream.program, sides[0].columns
    chains = (kernel.GROUP_CHAIN, kernel.LIMIT_CHAIN)
    rows, *limits = (side.block(program, chain) for side, chain in zip(sides, chains, strict=False))
    size, time, diff, *out = (program.cell(), *(program.vector() for _ in range(2 + len(stored))))
    groups, touched = program.memory.reserve(keys.capacity * kernel.GROUP_WORDS), program.memory.reserve(LOOSE)
    block = program.op(
        vm.WATCH, kind, rows, *(limits or [0]), keys.block, groups, program.frontier, 0, 0, touched,
        size, _address(time), _address(diff), program.table(list(map(_address, out))), 0, 0, 0,
        _ordered(program, rows, order) if order else 0, 0, places, places, program.memory.reserve(LOOSE),
    )  # fmt: skip
    program.keep(Watched(block, tuple(sides)))
    for side, side_block in zip(sides, (rows, *limits), strict=True):
        for column, each in enumerate(side.columns):
            if each.is_text:
                program.holds_texts(partial(_mark, program, side_block, column, each.turned is not None))
    made = {each.name: (cell, each.turned) for each, cell in zip(stored, out, strict=True)}
    stream = Stream(program, size, time, diff, lambda name: turn(stream, *made[name]))
    return stream


def _ordered(program: Program, rows: int, order: Order) -> int:
    """Make an empty order of rows: a root, which is a leaf."""
    texts, pool = sum(1 << each for each in order.texts), program.pool.block if order.texts else 0
    records, words = (int(view(rows, kernel.CHAIN + 1)[each]) for each in (kernel.RECORDS, kernel.WORDS))
    nodes = program.memory.reserve(LOOSE)
    path = program.words(64)
    fields = [records, words, order.field, order.fields, nodes, 1, 0, 2, 0, path, texts, pool]
    return program.words(order_kernel.BLOCK, fields)


def _mark(program: Program, rows: int, column: int, turned: bool, pool: int) -> None:  # noqa: FBT001 (bound by partial)
    garbage.mark_rows(TextPool(pool), rows, column, turned, program.pool.free)


def _address(cell: int) -> int:
    return int(view(cell, 1)[0])
