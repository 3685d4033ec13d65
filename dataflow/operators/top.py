"""Top: the first rows in an order of all columns; descending ones are stored complemented."""

from __future__ import annotations

from dataflow.kernels.rows import VALUES
from dataflow.kernels.watch import TOP
from dataflow.operators.rows import Side, columns, watch
from dataflow.plan import Node
from dataflow.stream import Stream


def top(stream: Stream, node: Node) -> Stream:
    places, order = node.params
    turned = [name for name, direction in order if direction == "descending"]
    key = stream.key((), ())
    keys = stream.program.keys(key, 1, stream.size)
    side = Side(stream, key.cell, columns(stream, dict.fromkeys(name for name, _ in order), turned))
    return watch(TOP, keys, [side], (VALUES, len(side.columns)), places)
