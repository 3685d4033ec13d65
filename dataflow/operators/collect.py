"""Collect: the changes of an answer are copied to vectors that the caller reads after a feed."""

from __future__ import annotations

from dataclasses import dataclass

from deltamark.dataflow.batch import BYTES
from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.codegen.memory_layout import UNBOUNDED_WORDS
from deltamark.dataflow.codegen.program import Part
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.program import CollectBlock
from deltamark.dataflow.operators.text import places_of_numbers
from deltamark.dataflow.types import Schema


@dataclass(frozen=True)
class Root:
    """A maintained answer: the block that collects it, and the vectors of each worker for time, diff and the arrays.

    A column of text has two arrays: the starts and the lengths of the texts.
    """

    names: tuple[str, ...]
    arrays: tuple[str, ...]
    texts: tuple[str, ...]
    block: int
    vectors: tuple[tuple[int, ...], ...]
    part: Part


def collect(stream: Stream, schema: Schema) -> Root:
    """Append the operator over all columns of an answer."""
    program, names = stream.program, schema.names
    texts = tuple(name for name in names if schema[name].kind == "text")
    arrays = {}
    for name in names:
        if name in texts:
            places = places_of_numbers(program, stream.size, stream.column(name))
            arrays[name], arrays[f"{name}{BYTES}"] = places.start, places.length
        else:
            arrays[name] = stream.column(name)
    inputs = [stream.time, stream.diff, *arrays.values()]
    vectors = tuple(zip(*(program.for_each_worker(UNBOUNDED_WORDS) for _ in inputs), strict=True))
    table = program.table(list(vectors[0]))
    for place in range(len(inputs)):
        program.differ(table + 8 * place, [mine[place] for mine in vectors])
    block = program.add(
        Opcode.COLLECT, CollectBlock, size=stream.size, columns=len(inputs), inputs=program.table(inputs), out=table
    )
    return Root(names, tuple(arrays), texts, block, vectors, program.part)
