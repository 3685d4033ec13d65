"""Input: a relation that is fed from outside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from deltamark.dataflow.batch import BYTES, MISSING
from deltamark.dataflow.builder.keys import RowCount
from deltamark.dataflow.builder.program import NO_VECTOR, CellAddress, Program, VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.texts import InputText, numbers_of
from deltamark.dataflow.kernels.program import TAKE_SLICE, InputBlock
from deltamark.dataflow.operators.distribution import SLICED, Columns, Distribution, OperatorDistribution
from deltamark.dataflow.operators.node import Emission, JoinReads, Keys, Node, Requirement, expected_rows, walk
from deltamark.dataflow.plan.term_sql import listed
from deltamark.dataflow.types import Type

NO_ARRAY = NO_VECTOR, 0


@dataclass(frozen=True, eq=False)
class Input(Node):
    """A relation that is fed from outside.

    key: columns in whose values no two live rows agree; () if unknown. wide: columns of 8 bytes whatever their bounds.
    """

    name: str
    key: Keys = ()
    wide: Keys = ()

    def description(self, required: Collection[str]) -> str:
        names, number = [name for name in self.schema.names if name in required], len(self.schema.names)
        return f"{self.name} ({len(names)} of {number} columns){': ' if names else ''}{listed(names)}"

    def width(self, name: str) -> int:
        """Return the bytes of a value of a column."""
        return 8 if name in self.wide else self.schema[name].width

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return ()

    def determines(self, names: frozenset[str]) -> bool:
        return bool(self.key) and set(self.key) <= names

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return OperatorDistribution((), SLICED)

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        return emission.input(self)


def base_inputs(root: Node) -> list[Input]:
    """List the inputs below a root."""
    return [each for each in walk(root) if isinstance(each, Input)]


def base_rows(root: Node) -> int:
    """Return the row bound of the largest input below a node, by which memory is sized.

    The bound of a join's own schema is a product, and no guide to its size.
    """
    return max(each.schema.rows for each in base_inputs(root))


def row_count(root: Node) -> RowCount:
    """Count the live rows of a node."""
    return RowCount(base_rows(root), expected_rows(root))


class InputReader:
    """The block of an input, and the columns that are read from it, with their arrays."""

    def __init__(self, program: Program, node: Input) -> None:
        self.node = node
        self.names: list[str] = []
        self.arrays: dict[str, tuple[VectorAddress, int]] = {}
        """The cell of each array, and the bytes of its elements."""
        self.bases = 0
        """The address of a table of the arrays' addresses."""
        self._program = program
        self._size, self._time, self._diff = program.cell(), program.alias(), program.alias()
        self.block = program.block(InputBlock, size=self._size, time=self._time, diff=self._diff, skips_unread=1)

    def stream(self, names: Iterable[str]) -> Stream:
        """Return a stream of columns. Their cells point at the slice, so reading them costs nothing."""
        self._read([name for name in names if name not in self.names])
        return self._stream(self._size, self._time, self._diff, self.arrays)

    def slice(self) -> Stream:
        """Append the binding of other cells to this worker's slice; return its stream of the columns read so far."""
        program = self._program
        arrays = {name: (program.alias(), width) for name, (_, width) in self.arrays.items()}
        size, time, diff = program.cell(), program.alias(), program.alias()
        cells = program.table([cell for cell, _ in arrays.values()])
        program.add(TAKE_SLICE, input=self.block, size=size, time=time, diff=diff, columns=len(arrays), cells=cells)
        return self._stream(size, time, diff, arrays)

    def _stream(
        self,
        size: CellAddress,
        time: VectorAddress,
        diff: VectorAddress,
        arrays: Mapping[str, tuple[VectorAddress, int]],
    ) -> Stream:
        texts = {name: _text(arrays, name) for name in self.names if self.node.schema[name].kind == "text"}
        raw = {name: arrays[name] for name in self.names if name not in texts}
        stream = Stream(
            self._program, size, time, diff, lambda name: _column(stream, name), raw=raw, input_text=texts.get,
            input=self.block,
        )  # fmt: skip
        return stream

    def _read(self, names: Sequence[str]) -> None:
        """Read more columns. The input changes once all memory is reserved, so an error before leaves it as it was."""
        program, arrays = self._program, dict(self.arrays)
        for name in names:
            for array, width in _arrays(name, self.node.schema[name], self.node.width(name)):
                arrays[array] = program.alias(), width
        cells, widths = (program.table([array[index] for array in arrays.values()]) for index in (0, 1))
        bases, words = program.words(max(len(arrays), 1)), InputBlock(self.block).as_words
        words.columns, words.bases, words.widths, words.cells = len(arrays), bases, widths, cells
        self.names, self.arrays, self.bases = [*self.names, *names], arrays, bases


def _text(arrays: Mapping[str, tuple[VectorAddress, int]], name: str) -> InputText:
    return InputText(*(arrays.get(f"{name}{suffix}", NO_ARRAY)[0] for suffix in ("", BYTES, MISSING)))


def _arrays(name: str, type_: Type, width: int) -> list[tuple[str, int]]:
    """List the arrays of a column, with the bytes of their elements: 0 for the bytes of texts, which all rows share."""
    arrays = [(name, width)]
    if type_.kind == "text":
        arrays.append((f"{name}{BYTES}", 0))
        if type_.nullable:
            arrays.append((f"{name}{MISSING}", 1))
    return arrays


def _column(stream: Stream, name: str) -> VectorAddress:
    """Return the cell of an input's column as int64."""
    text = stream.input_text(name)
    if text is not None:
        return numbers_of(stream.program, stream.size, text.cells(stream.program, stream.size))
    cell, width = stream.raw[name]
    return cell if width == 8 else stream.take(cell, NO_VECTOR, width)
