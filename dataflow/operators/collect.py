"""Collect: copies the changes of an answer to vectors, from which they are read after a feed."""

from __future__ import annotations

from dataclasses import dataclass

from deltamark.dataflow.batch import BYTES
from deltamark.dataflow.builder.program import BlockAddress, ProgramPart
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.texts import texts_of_numbers
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.program import COLLECT
from deltamark.dataflow.types import Schema


@dataclass(frozen=True)
class Root:
    """The block that collects an answer, and its vectors: time, diff, and the arrays of the columns.

    A column of text has two arrays: the addresses and the lengths of the texts.
    """

    names: tuple[str, ...]
    arrays: tuple[str, ...]
    texts: tuple[str, ...]
    block: BlockAddress
    vectors: tuple[int, ...]
    part: ProgramPart


def collect(stream: Stream, schema: Schema) -> Root:
    """Append the collection of all columns of an answer."""
    program, names = stream.program, schema.names
    texts = tuple(name for name in names if schema[name].kind == "text")
    arrays = {}
    for name in names:
        if name in texts:
            cells = texts_of_numbers(program, stream.size, stream.column(name))
            arrays[name], arrays[f"{name}{BYTES}"] = cells.start, cells.length
        else:
            arrays[name] = stream.column(name)
    inputs = [stream.time, stream.diff, *arrays.values()]
    vectors = tuple(program.memory.reserve(UNBOUNDED_WORDS) for _ in inputs)
    block = program.add(
        COLLECT, size=stream.size, columns=len(inputs), inputs=program.table(inputs), out=program.table(vectors)
    )
    return Root(names, tuple(arrays), texts, block, vectors, program.part)
