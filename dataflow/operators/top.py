"""Top: the first rows in an order of all columns; descending columns are stored complemented."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from deltamark.dataflow.builder.keys import RowCount, key_ids, key_of
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.texts import prefix
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups.grouped_rows import RowRecord
from deltamark.dataflow.kernels.groups.top import TOP
from deltamark.dataflow.operators.distribution import Columns, Distribution, OperatorDistribution, two_phases
from deltamark.dataflow.operators.grouped_rows import (
    RowInput,
    RowOrder,
    StoredColumn,
    grouped_rows,
    reverse_order,
    stored_columns,
)
from deltamark.dataflow.operators.node import Emission, JoinReads, Node, Requirement
from deltamark.dataflow.plan.term_sql import identifier
from deltamark.dataflow.types import SHORT

Direction = Literal["ascending", "descending"]


@dataclass(frozen=True, eq=False)
class TopK(Node):
    """The first k rows, counting multiplicity, in an order of all columns."""

    rows: Node
    k: int
    order: tuple[tuple[str, Direction], ...]

    consolidated: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return f"top {self.k}"

    def description(self, required: Collection[str]) -> str:
        places = (identifier(name) + " DESC" * (order == "descending") for name, order in self.order)
        return f"by {', '.join(places)}"

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, self.schema.names)]

    def determines(self, names: frozenset[str]) -> bool:
        return self.k == 1

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return two_phases(self.rows, inputs[0], columns)

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        selected = _top(streams[0], self)
        if emission.distribution(self).second is None:
            return selected
        columns = {name: self.schema[name] for name in self.schema.names}
        return _top(emission.first_worker_selects(selected, columns, self), self)


def _top(stream: Stream, node: TopK) -> Stream:
    """Append the operator; all rows are in one group."""
    descending = [name for name, direction in node.order if direction == "descending"]
    key = key_of(stream, (), ())
    keys = key_ids(stream.program, key, RowCount(1), stream.size)
    compared = stored_columns(stream, dict.fromkeys(name for name, _ in node.order), node.schema, descending)
    stored, texts = _with_prefixes(stream, compared)
    return grouped_rows(
        TOP, keys, [RowInput(stream, key.cell, stored)],
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
