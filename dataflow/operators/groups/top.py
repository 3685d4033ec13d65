"""Top: the first rows in an order of all columns; descending columns are stored complemented."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.builder.key_ids import key_ids
from deltamark.dataflow.builder.keys import key_of
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.texts import prefix
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups.group_changes import TOP
from deltamark.dataflow.kernels.groups.grouped_rows import RowRecord
from deltamark.dataflow.kernels.groups.top import TopBlock
from deltamark.dataflow.operators.groups.grouped_rows import (
    RowInput,
    RowOrder,
    StoredColumn,
    grouped_rows,
    reverse_order,
    stored_columns,
)
from deltamark.dataflow.plan.cardinality import RowCount
from deltamark.dataflow.plan.nodes import TopK
from deltamark.dataflow.types import SHORT


def top(stream: Stream, node: TopK) -> Stream:
    """Append the operator; all rows are in one group."""
    descending = [name for name, direction in node.order if direction == "descending"]
    key = key_of(stream, (), ())
    keys = key_ids(stream.program, key, RowCount(1), stream.size)
    compared = stored_columns(stream, dict.fromkeys(name for name, _ in node.order), node.schema, descending)
    stored, texts = _with_prefixes(stream, compared)
    return grouped_rows(
        TOP, TopBlock, keys, [RowInput(stream, key.cell, stored)],
        order=RowOrder(RowRecord.size_in_words, len(stored), texts), places=node.k, free_places=node.k,
        placed=stream.program.memory.reserve(UNBOUNDED_WORDS),
    )  # fmt: skip


def _with_prefixes(stream: Stream, columns: Sequence[StoredColumn]) -> tuple[list[StoredColumn], list[int]]:
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
