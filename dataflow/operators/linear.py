"""Operators without state: input, where, select, negate, concat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from deltamark.dataflow.batch import BYTES, MISSING
from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.codegen.program import Program
from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.arrangements.merge import MergeBlock, MergedStream
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.program import InputBlock
from deltamark.dataflow.operators.text import Fed
from deltamark.dataflow.plan import nodes
from deltamark.dataflow.plan.ranges import column_ranges, other_conditions
from deltamark.dataflow.plan.terms import Term, conjuncts
from deltamark.dataflow.types import Type

NO_ARRAY = 0, 0


class InputReader:
    """The block of an input, the columns that are read from it, and the arrays that they lie in."""

    def __init__(self, program: Program, node: nodes.Input) -> None:
        self.node = node
        self.names: list[str] = []
        self.arrays: dict[str, tuple[int, int]] = {}
        """The cell of each array, and how wide its elements are."""
        self.bases = 0
        self._program = program
        self._size, self._time, self._diff = program.cell(), program.cell(), program.cell()
        self.block = program.block(InputBlock, size=self._size, time=self._time, diff=self._diff)

    def stream(self, names: Iterable[str]) -> Stream:
        """Read columns: their cells are aimed at each slice, so they cost nothing."""
        self._read([name for name in names if name not in self.names])
        texts = {
            name: Fed(*(self.arrays.get(array, NO_ARRAY)[0] for array in (name, f"{name}{BYTES}", f"{name}{MISSING}")))
            for name in self.names
            if _is_text(self.node, name)
        }
        raw = {name: self.arrays[name] for name in self.names if name not in texts}
        stream = Stream(
            self._program, self._size, self._time, self._diff, lambda name: _read(stream, name), raw=raw, fed=texts.get
        )
        return stream

    def _read(self, names: Sequence[str]) -> None:
        """Read more columns."""
        program = self._program
        self.names += names
        for name in names:
            for array, width in _arrays(name, self.node.schema[name]):
                self.arrays[array] = program.cell(), width
        cells, widths = ([each[place] for each in self.arrays.values()] for place in (0, 1))
        self.bases = program.words(max(len(self.arrays), 1))
        words = InputBlock(self.block).as_words
        words.columns, words.bases = len(self.arrays), self.bases
        words.widths, words.cells = program.table(widths), program.table(cells)


def _is_text(node: nodes.Input, name: str) -> bool:
    return node.schema[name].kind == "text"


def _arrays(name: str, type_: Type) -> list[tuple[str, int]]:
    """List the arrays of a column, and how far apart their elements are: all texts share one array of bytes."""
    found = [(name, type_.width)]
    if type_.kind == "text":
        found.append((f"{name}{BYTES}", 0))
        if type_.nullable:
            found.append((f"{name}{MISSING}", 1))
    return found


def _read(stream: Stream, name: str) -> int:
    fed = stream.fed(name)
    return _widened(stream, *stream.raw[name]) if fed is None else stream.numbered(fed)


def _widened(stream: Stream, cell: int, width: int) -> int:
    return cell if width == 8 else stream.take(cell, 0, width)


def where(stream: Stream, node: nodes.Filter) -> Stream:
    """Append the selection of the rows that satisfy a condition; columns are taken when they are first read."""
    selected, size = _selection(stream, node.condition)
    return _selected(stream, size, selected)


def passing(stream: Stream, conditions: Sequence[Term]) -> int:
    """Return the cell of numbers whose bits say which conditions a row meets."""
    program, result = stream.program, stream.program.vector()
    program.add(Opcode.FILL, expressions.FillBlock, size=stream.size, value=0, result=result)
    for bit, condition in enumerate(conditions):
        selected, size = _selection(stream, condition)
        program.add(Opcode.MARK, expressions.SetBitBlock, size=size, selected=selected, bit=bit, result=result)
    return result


def _selection(stream: Stream, condition: Term) -> tuple[int, int]:
    """Narrow a selection conjunct by conjunct; return its cell, and that of its size."""
    program, selected, size = stream.program, 0, stream.size
    for column, low, high in column_ranges(conjuncts(condition)):
        (values, width), out, out_size = stream.stored(column), program.vector(), program.cell()
        program.add(
            Opcode.FILTER_RANGE, expressions.FilterRangeBlock, size=size, values=values, width=width, low=low,
            high=high,
            selected=selected, out=out, out_size=out_size,
        )  # fmt: skip
        selected, size = out, out_size
    for term in other_conditions(conjuncts(condition)):
        narrowed = _selected(stream, size, selected) if selected else stream
        met, out, out_size = narrowed.evaluate(term), program.vector(), program.cell()
        program.add(
            Opcode.FILTER_TRUE, expressions.FilterTrueBlock, size=size, condition=met, selected=selected, out=out,
            out_size=out_size,
        )  # fmt: skip
        selected, size = out, out_size
    return selected, size


def _selected(stream: Stream, size: int, selected: int) -> Stream:
    narrowed = Stream(stream.program, size, 0, 0, lambda name: _narrow(stream, narrowed, selected, name))
    narrowed.fed = lambda name: _narrowed(stream, narrowed, selected, name)
    narrowed.time = narrowed.take(stream.time, selected)
    narrowed.diff = narrowed.take(stream.diff, selected)
    return narrowed


def _narrow(stream: Stream, narrowed: Stream, selected: int, name: str) -> int:
    """Take a column at a selection; number a text only now, and only once."""
    fed = _narrowed(stream, narrowed, selected, name)
    if fed is not None:
        return narrowed.numbered(fed)
    cell, width = stream.stored(name)
    return narrowed.take(cell, selected, width)


def _narrowed(stream: Stream, narrowed: Stream, selected: int, name: str) -> Fed | None:
    fed = None if name in stream.made else stream.fed(name)
    if fed is None:
        return None
    return replace(fed, rows=narrowed.take(fed.rows, selected) if fed.rows else selected)


def select(stream: Stream, node: nodes.Project) -> Stream:
    """Return the stream of a projection, whose columns are computed when they are first read."""
    terms, same = node.terms, node.copied
    raw = {name: stream.raw[theirs] for name, theirs in same.items() if theirs in stream.raw}
    made = Stream(
        stream.program, stream.size, stream.time, stream.diff, lambda name: stream.evaluate(terms[name]), raw=raw
    )
    made.fed = lambda name: stream.fed(same[name]) if name in same and same[name] not in stream.made else None
    return made


def negate(stream: Stream) -> Stream:
    diff = stream.program.vector()
    stream.program.add(
        Opcode.NEGATION, expressions.BinaryBlock, size=stream.size, a=stream.diff, constant=0, result=diff
    )
    return Stream(stream.program, stream.size, stream.time, diff, stream.column)


def concat(program: Program, streams: Sequence[Stream], names: Sequence[str]) -> Stream:
    """Merge by time."""
    inputs = [_merged(program, each, names) for each in streams]
    out, size = [program.vector() for _ in range(len(names) + 2)], program.cell()
    program.add(
        Opcode.MERGE, MergeBlock, streams=len(streams), inputs=program.table(inputs), columns=len(out), out_size=size,
        out=program.table(out),
    )  # fmt: skip
    made = dict(zip(names, out[2:], strict=True))
    return Stream(program, size, out[0], out[1], made.__getitem__, made)


def _merged(program: Program, stream: Stream, names: Sequence[str]) -> int:
    """Make the block of a stream that is merged with others."""
    columns = program.table([stream.time, stream.diff, *map(stream.column, names)])
    return program.block(MergedStream, size=stream.size, time=stream.time, columns=columns)
