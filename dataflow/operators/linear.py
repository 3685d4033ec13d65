"""Operators without state: input, filter, projection, negation and concatenation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from deltamark.dataflow.batch import BYTES, MISSING
from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.stream import Selection, Stream
from deltamark.dataflow.builder.terms import evaluate
from deltamark.dataflow.builder.texts import InputText, numbers_of
from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.arrangements.merge import MergeBlock, MergedStream
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.program import InputBlock, SliceBlock
from deltamark.dataflow.plan import nodes
from deltamark.dataflow.plan.ranges import column_ranges, other_conditions
from deltamark.dataflow.plan.terms import Term, conjuncts
from deltamark.dataflow.types import Type

NO_ARRAY = 0, 0


class InputReader:
    """The block of an input, and the columns that are read from it, with their arrays."""

    def __init__(self, program: Program, node: nodes.Input) -> None:
        self.node = node
        self.names: list[str] = []
        self.arrays: dict[str, tuple[int, int]] = {}
        """The cell of each array, and the bytes of its elements."""
        self.bases = 0
        """The address of a table of the arrays' addresses."""
        self._program = program
        self._size, self._time, self._diff = program.cell(), program.cell(), program.cell()
        self.block = program.block(InputBlock, size=self._size, time=self._time, diff=self._diff, skips_unread=1)

    def stream(self, names: Iterable[str]) -> Stream:
        """Return a stream of columns. Their cells point at the slice, so reading them costs nothing."""
        self._read([name for name in names if name not in self.names])
        return self._stream(self._size, self._time, self._diff, self.arrays)

    def slice(self) -> Stream:
        """Append the binding of other cells to this worker's slice; return its stream of the columns read so far."""
        program = self._program
        arrays = {name: (program.cell(), width) for name, (_, width) in self.arrays.items()}
        size, time, diff = program.cell(), program.cell(), program.cell()
        cells = program.table([cell for cell, _ in arrays.values()])
        program.add(Opcode.TAKE_SLICE, SliceBlock, input=self.block, size=size, time=time, diff=diff, cells=cells)
        return self._stream(size, time, diff, arrays)

    def _stream(self, size: int, time: int, diff: int, arrays: Mapping[str, tuple[int, int]]) -> Stream:
        texts = {name: _text(arrays, name) for name in self.names if self.node.schema[name].kind == "text"}
        raw = {name: arrays[name] for name in self.names if name not in texts}
        stream = Stream(
            self._program, size, time, diff, lambda name: _column(stream, name), raw=raw, input_text=texts.get
        )
        return stream

    def _read(self, names: Sequence[str]) -> None:
        """Read more columns. The input changes once all memory is reserved, so an error before leaves it as it was."""
        program, arrays = self._program, dict(self.arrays)
        for name in names:
            for array, width in _arrays(name, self.node.schema[name]):
                arrays[array] = program.cell(), width
        cells, widths = (program.table([array[index] for array in arrays.values()]) for index in (0, 1))
        bases, words = program.words(max(len(arrays), 1)), InputBlock(self.block).as_words
        words.columns, words.bases, words.widths, words.cells = len(arrays), bases, widths, cells
        self.names, self.arrays, self.bases = [*self.names, *names], arrays, bases


def _text(arrays: Mapping[str, tuple[int, int]], name: str) -> InputText:
    return InputText(*(arrays.get(f"{name}{suffix}", NO_ARRAY)[0] for suffix in ("", BYTES, MISSING)))


def _arrays(name: str, type_: Type) -> list[tuple[str, int]]:
    """List the arrays of a column, with the bytes of their elements: 0 for the bytes of texts, which all rows share."""
    arrays = [(name, type_.width)]
    if type_.kind == "text":
        arrays.append((f"{name}{BYTES}", 0))
        if type_.nullable:
            arrays.append((f"{name}{MISSING}", 1))
    return arrays


def _column(stream: Stream, name: str) -> int:
    """Return the cell of an input's column as int64."""
    text = stream.input_text(name)
    if text is not None:
        return numbers_of(stream.program, stream.size, text.cells(stream.program, stream.size))
    cell, width = stream.raw[name]
    return cell if width == 8 else stream.take(cell, 0, width)


def where(stream: Stream, node: nodes.Filter) -> Stream:
    """Append the selection of the rows that satisfy a condition; columns are taken when they are first read."""
    return selected_rows(_narrowed(Selection.of(stream), node.condition))


def filter_bits(stream: Stream, conditions: Sequence[Term]) -> int:
    """Append the evaluation of conditions; return the cell of numbers, each bit of which stands for a condition."""
    program, result = stream.program, stream.program.vector()
    program.add(Opcode.FILL, expressions.FillBlock, size=stream.size, value=0, result=result)
    for bit, condition in enumerate(conditions):
        narrowed = _narrowed(Selection(stream, 0, stream.size), condition)
        selected, size = narrowed.selected, narrowed.size
        program.add(Opcode.SET_BIT, expressions.SetBitBlock, size=size, selected=selected, bit=bit, result=result)
    return result


def _narrowed(rows: Selection, condition: Term) -> Selection:
    """Append the narrowing of a selection, one conjunct after another."""
    program, stream = rows.stream.program, rows.stream
    for column, low, high in column_ranges(conjuncts(condition)):
        (values, width), out, out_size = stream.stored(column), program.vector(), program.cell()
        program.add(
            Opcode.FILTER_RANGE, expressions.FilterRangeBlock, size=rows.size, values=values, width=width, low=low,
            high=high, selected=rows.selected, out=out, out_size=out_size,
        )  # fmt: skip
        rows = Selection(stream, out, out_size)
    for term in other_conditions(conjuncts(condition)):
        satisfied = evaluate(selected_rows(rows) if rows.selected else stream, term)
        out, out_size = program.vector(), program.cell()
        program.add(
            Opcode.FILTER_TRUE, expressions.FilterTrueBlock, size=rows.size, condition=satisfied,
            selected=rows.selected, out=out, out_size=out_size,
        )  # fmt: skip
        rows = Selection(stream, out, out_size)
    return rows


def selected_rows(rows: Selection) -> Stream:
    """Return the stream of the rows at a selection."""
    stream, selected = rows.stream, rows.selected
    narrowed = Stream(
        stream.program, rows.size, lambda: narrowed.take(stream.time, selected),
        lambda: narrowed.take(stream.diff, selected), lambda name: _take(stream, narrowed, selected, name),
    )  # fmt: skip
    narrowed.input_text = lambda name: _selected_text(stream, narrowed, selected, name)
    return narrowed


def _take(stream: Stream, narrowed: Stream, selected: int, name: str) -> int:
    """Take a column at a selection. Only the selected texts are numbered."""
    text = _selected_text(stream, narrowed, selected, name)
    if text is not None:
        return numbers_of(stream.program, narrowed.size, text.cells(stream.program, narrowed.size))
    if name in stream.late and name not in stream.computed:
        return stream.late[name](narrowed, selected)
    cell, width = stream.stored(name)
    return narrowed.take(cell, selected, width)


def _selected_text(stream: Stream, narrowed: Stream, selected: int, name: str) -> InputText | None:
    text = None if name in stream.computed else stream.input_text(name)
    if text is None:
        return None
    return replace(text, rows=narrowed.take(text.rows, selected) if text.rows else selected)


def select(stream: Stream, node: nodes.Project) -> Stream:
    """Return the stream of a projection, whose columns are computed when they are first read."""
    terms, copied = node.terms, node.copied
    raw = {name: stream.raw[source] for name, source in copied.items() if source in stream.raw}

    def input_text(name: str) -> InputText | None:
        source = copied.get(name)
        return None if source is None or source in stream.computed else stream.input_text(source)

    return Stream(
        stream.program, stream.size, stream.time, stream.diff, lambda name: evaluate(stream, terms[name]), raw=raw,
        input_text=input_text,
    )  # fmt: skip


def negate(stream: Stream) -> Stream:
    """Append the negation of all weights."""
    diff = stream.program.vector()
    stream.program.add(
        Opcode.SUBTRACT_FROM, expressions.BinaryBlock, size=stream.size, a=stream.diff, constant=0, result=diff
    )
    return Stream(stream.program, stream.size, stream.time, diff, stream.column)


def concat(program: Program, streams: Sequence[Stream], names: Sequence[str]) -> Stream:
    """Append the merge of several streams in order of time."""
    inputs = [_merged(program, stream, names) for stream in streams]
    out, size = [program.vector() for _ in range(len(names) + 2)], program.cell()
    program.add(
        Opcode.MERGE, MergeBlock, streams=len(streams), inputs=program.table(inputs), columns=len(out), out_size=size,
        out=program.table(out),
    )  # fmt: skip
    columns = dict(zip(names, out[2:], strict=True))
    return Stream(program, size, out[0], out[1], columns.__getitem__, columns)


def _merged(program: Program, stream: Stream, names: Sequence[str]) -> int:
    """Make the block of one of the merged streams."""
    columns = program.table([stream.time, stream.diff, *map(stream.column, names)])
    return program.block(MergedStream, size=stream.size, time=stream.time, columns=columns)
