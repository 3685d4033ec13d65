"""Grouped rows: the tables of operators that process the changed groups when a time ends."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from deltamark.dataflow.builder.keys import KeyIds, NamedValue
from deltamark.dataflow.builder.program import BlockAddress, Program, VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.sweeps import TextStore
from deltamark.dataflow.builder.texts import prefix, text_store
from deltamark.dataflow.kernels.core.blocks import Array8
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, view
from deltamark.dataflow.kernels.expressions import SUBTRACT_FROM
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.groups.grouped_rows import (
    GROUP_WORDS,
    LONG_TEXT,
    MANY_COPIES,
    NEGATIVE,
    OUT_OF_BOUNDS,
    SEVERAL_ROWS,
    TWO_LIMITS,
    WIDE_WEIGHT,
    GroupedRowsBlock,
    GroupStep,
    RowRecord,
    RowTable,
)
from deltamark.dataflow.kernels.ordered.btree import MAX_DEPTH, BTree
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.operators.errors import negative_multiplicity, wide_weight, wrong_row
from deltamark.dataflow.types import SHORT, Schema, Type
from deltamark.errors import DeltamarkError

TABLE_ENTRIES = 1024
"""Entries of a new table of rows. Not measured."""

COMPLEMENTED, NEGATED = -1, 0
"""Minuends of columns whose order is reversed: the stored value is the minuend less the value."""


@dataclass(frozen=True)
class StoredColumn:
    """A column of grouped rows, whose order may be reversed; one without a name is not part of the row."""

    name: str
    type: Type
    cell: VectorAddress
    minuend: int | None = None

    @property
    def is_text(self) -> bool:
        return self.type.kind == "text"

    def value(self, stored: int) -> int:
        """Return the value of a stored word."""
        return stored if self.minuend is None else self.minuend - stored


@dataclass(frozen=True)
class RowInput:
    """An input of an operator over grouped rows: its stream, the cell of its keys, and its stored columns.

    state_words: the words of the operator behind the values of a record.
    """

    stream: Stream
    key: VectorAddress
    columns: Sequence[StoredColumn]
    state_words: int = 0

    def block(self, *, is_limits: bool) -> BlockAddress:
        """Make the table of the rows."""
        stream, program, count = self.stream, self.stream.program, len(self.columns)
        reserve, unset = program.memory.reserve, program.memory.reserve_unset
        words = RowRecord.size_in_words + count + self.state_words
        records = unset(UNBOUNDED_WORDS)
        view(records, words)[:] = 0
        return program.block(
            RowTable, size=stream.size, time=stream.time, diff=stream.diff, key=self.key, columns=count,
            inputs=program.table([column.cell for column in self.columns]), slice_columns=program.words(count + 1),
            hashes=unset(UNBOUNDED_WORDS), table=reserve(TABLE_ENTRIES), mask=TABLE_ENTRIES - 1,
            records=records, record_words=words, is_limits=int(is_limits),
        )  # fmt: skip

    def row(self, table: RowTable, slot: int) -> list[NamedValue]:
        """Return the row of a slot."""
        values = RowRecord(table.records[table.record_words * slot :].address).values
        row = (NamedValue(each.name, each.type, each.value(values[at])) for at, each in enumerate(self.columns))
        return [each for each in row if each.name]


@dataclass(frozen=True)
class GroupedState:
    """The state of an operator over grouped rows."""

    block: GroupedRowsBlock
    inputs: Sequence[RowInput]

    def rows(self) -> int:
        """Count the records."""
        return sum(table.used for table in (self.block.rows, self.block.limits) if table.address != 0)

    def problem(self) -> DeltamarkError:
        """Return the error that has made the kernel fail."""
        error, time = self.block.error, self.block.open_time
        if error == WIDE_WEIGHT:
            return wide_weight()
        table = self.block.limits if self.block.error_is_limit else self.block.rows
        rows = self.inputs[self.block.error_is_limit]
        program, row = rows.stream.program, rows.row(table, self.block.error_slot)
        if error == NEGATIVE:
            return negative_multiplicity(program, row, time)
        if error == TWO_LIMITS:
            return wrong_row("more than one limit", program, row, time, "give at most one row of limits a key")
        if error == MANY_COPIES:
            remedy = "add a limit, or functions that are equal for equal rows"
            return wrong_row("too many copies of a row to number", program, row, time, remedy)
        if error == SEVERAL_ROWS:
            remedy = "aggregate them, by min(...) for one, or retract the others in the same time"
            return wrong_row("more than one row where one is allowed", program, row, time, remedy)
        if error == LONG_TEXT:
            return wrong_row("the text of a group that is too long", program, row, time, "make groups of fewer rows")
        if error == OUT_OF_BOUNDS:
            remedy = "retract only what was inserted before, and keep to the declared number of rows"
            return wrong_row("a sum or a number of rows is out of bounds", program, row, time, remedy)
        return wrong_row("a denominator that is not positive", program, row, time, "divide by a number of rows")


@dataclass(frozen=True)
class RowOrder:
    """The words of a record by which rows are in order: the first one, their number, and which are numbers of texts.

    sums: the kinds of the sums of a tree, with the words that they read, for each word of the sums of a node;
    copies_word: that of the first weight.
    """

    first_word: int
    words: int
    texts: Sequence[int] = ()
    sums: Sequence[tuple[int, int]] = ()
    copies_word: int = 0

    def block(self, program: Program, rows: RowTable) -> BlockAddress:
        """Make an empty tree, whose root is a leaf."""
        fields: dict[str, int] = {}
        if self.sums:
            kinds, arguments = zip(*self.sums, strict=True)
            fields = {
                "items": len(self.sums), "kinds": program.table(kinds), "arguments": program.table(arguments),
                "copies_word": self.copies_word, "sums": program.memory.reserve_unset(UNBOUNDED_WORDS),
                "pending": program.words(6 * MAX_DEPTH),
            }  # fmt: skip
        return program.block(
            BTree, records=rows.records.address, record_words=rows.record_words, first_word=self.first_word,
            compared_words=self.words, are_texts=program.table([word in self.texts for word in range(self.words)]),
            pool=text_store(program).block if self.texts else 0, nodes=program.memory.reserve(UNBOUNDED_WORDS),
            path=program.words(2 * MAX_DEPTH), **fields,
        )  # fmt: skip


def reverse_order(stream: Stream, cell: VectorAddress, minuend: int | None) -> VectorAddress:
    """Return the cell of a column subtracted from a minuend, or the column itself if there is none."""
    if minuend is None:
        return cell
    result = stream.program.vector()
    stream.program.add(SUBTRACT_FROM, size=stream.size, a=cell, constant=minuend, result=result)
    return result


def stored_columns(
    stream: Stream, names: Iterable[str], schema: Schema, complemented: Container[str] = ()
) -> list[StoredColumn]:
    """Return columns of a stream as they are stored, some of them complemented."""
    minuends = {name: COMPLEMENTED if name in complemented else None for name in names}
    return [
        StoredColumn(name, schema[name], reverse_order(stream, stream.column(name), minuend), minuend)
        for name, minuend in minuends.items()
    ]


def with_prefixes(stream: Stream, columns: Sequence[StoredColumn]) -> tuple[list[StoredColumn], list[int]]:
    """Insert the first bytes of each text before its number; return the columns, and the positions of the numbers."""
    stored: list[StoredColumn] = []
    positions = []
    for column in columns:
        if column.is_text:
            first = prefix(stream.program, stream.size, stream.column(column.name))
            stored.append(StoredColumn("", SHORT, reverse_order(stream, first, column.minuend), column.minuend))
            positions.append(len(stored))
        stored.append(column)
    return stored, positions


def grouped_rows(
    step: GroupStep,
    keys: KeyIds,
    inputs: Sequence[RowInput],
    *,
    order: RowOrder | None = None,
    added: Sequence[str] = (),
    **fields: int,
) -> Stream:
    """Append an operator over grouped rows, given its own fields; return the stream of its first input's columns.

    added: the columns that the operator computes.
    """
    program, columns = inputs[0].stream.program, inputs[0].columns
    tables = [each.block(is_limits=place == 1) for place, each in enumerate(inputs)]
    fields |= dict(zip(("rows", "limits"), tables, strict=False))
    if order is not None:
        fields["order"] = order.block(program, RowTable(tables[0]))
    size, time, diff, *out = (program.cell(), *(program.vector() for _ in range(2 + len(columns) + len(added))))
    memory, address = program.memory, program.read
    block = program.add(
        step, keys=keys.block, ending=step.ending_code(),
        groups=keys.reserve(memory, GROUP_WORDS), frontier=program.frontier,
        touched=memory.reserve_unset(UNBOUNDED_WORDS),
        out_size=size, out_time=address(time), out_diff=address(diff), out=program.table(list(map(address, out))),
        **fields,
    )  # fmt: skip
    program.add_state(GroupedState(GroupedRowsBlock(block), inputs))
    for each, table in zip(inputs, tables, strict=True):
        for column, stored in enumerate(each.columns):
            if stored.is_text:
                program.sweeper.add_marker(program.part, partial(_mark, table, column, int(stored.minuend is not None)))
    cells = {column.name: (cell, column.minuend) for column, cell in zip(columns, out, strict=False)}
    cells |= {name: (cell, None) for name, cell in zip(added, out[len(columns) :], strict=True)}
    stream = Stream(program, size, time, diff, lambda name: reverse_order(stream, *cells[name]))
    return stream


def _mark(table: BlockAddress, column: int, is_complemented: int, texts: TextStore) -> None:
    garbage.mark_rows(TextPool(texts.block), RowTable(table), column, is_complemented, Array8(texts.scratch))
