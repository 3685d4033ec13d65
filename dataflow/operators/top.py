"""Top: the first rows in an order of all columns; descending ones are stored complemented."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.kernels.groups.group_changes import TOP
from deltamark.dataflow.kernels.groups.grouped_rows import VALUES
from deltamark.dataflow.operators.rows import Column, Order, Side, columns, turn, watch
from deltamark.dataflow.operators.text import prefix
from deltamark.dataflow.plan.nodes import TopK


def top(stream: Stream, node: TopK) -> Stream:
    places, order = node.k, node.order
    turned = [name for name, direction in order if direction == "descending"]
    key = stream.key((), ())
    keys = stream.program.keys(key, 1, stream.size)
    stored = columns(stream, dict.fromkeys(name for name, _ in order), node.schema, turned)
    stored, texts = _with_prefixes(
        stream, stored, [each.name for each in stored if node.schema[each.name].kind == "text"]
    )
    return watch(TOP, keys, [Side(stream, key.cell, stored)], Order(VALUES, len(stored), texts), places)


def _with_prefixes(stream: Stream, stored: Sequence[Column], texts: Sequence[str]) -> tuple[list[Column], list[int]]:
    """Put the first bytes of each text before its number; return the columns, and the places of the numbers."""
    found: list[Column] = []
    places = []
    for each in stored:
        if each.name in texts:
            first = prefix(stream.program, stream.size, stream.column(each.name))
            found.append(Column("", turn(stream, first, each.turned), each.turned))
            places.append(len(found))
        found.append(each)
    return found, places
