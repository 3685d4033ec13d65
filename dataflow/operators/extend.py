"""Extend: adds a column to rows, with each value that all of several indexes have under the row's key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from deltamark.dataflow.builder.program import NO_VECTOR, BlockAddress, VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.motifs import extend as kernel
from deltamark.dataflow.kernels.motifs.extend import DeltaExtender
from deltamark.dataflow.operators.distribution import (
    WHOLE,
    Columns,
    Distribution,
    OperatorDistribution,
    together,
    with_whole_indexes,
)
from deltamark.dataflow.operators.errors import wide_weight
from deltamark.dataflow.operators.index import Index, index_key
from deltamark.dataflow.operators.interning import PlanValue
from deltamark.dataflow.operators.node import Emission, JoinReads, Keys, Node, Placing, Requirement, spanned_types
from deltamark.dataflow.plan.term_sql import identifier
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class IndexRead(PlanValue):
    """An index, and how rows look it up.

    rows: the indexed collection; keys, value: its columns, from whose values the index leads to those of `value`;
    row_keys: the columns of the extended rows that are looked up;
    version: whether a row sees the index with (new) or without (old) the changes of the row's own time.
    """

    rows: Node
    row_keys: Keys
    keys: Keys
    value: str
    version: Literal["old", "new"]

    def key_types(self, extended: Node) -> tuple[Type, ...]:
        """Return the types of the keys, each spanning those of the index and of the extended rows."""
        return spanned_types(extended, self.row_keys, self.rows, self.keys)

    def __str__(self) -> str:
        return f"{', '.join(self.row_keys) or 'nothing'} to {self.value} ({self.version})"


@dataclass(frozen=True, eq=False)
class Extension(Node):
    """The base of operators that extend rows by the values of indexes as a new column."""

    rows: Node
    column: str

    @property
    @abstractmethod
    def reads(self) -> tuple[IndexRead, ...]:
        """The indexes."""

    def is_counted(self, names: Iterable[str]) -> bool:
        """Return whether only the number of values is required. names: the required columns."""
        return self.column not in names and self.column not in self.rows.schema

    def mode(self, names: Iterable[str]) -> int:
        """Return the mode of an extension; see the kernel."""
        return kernel.SUMMED if self.is_counted(names) else kernel.LISTED

    @property
    def proposes(self) -> int:
        """The number of the index that proposes values."""
        return kernel.FEWEST

    def description(self, required: Collection[str]) -> str:
        return f"{identifier(self.column)} from {'; '.join(map(str, self.reads))}"

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterator[Requirement]:
        for index in self.reads:
            yield index.rows, [*index.keys, index.value]
        names = [self.column, *columns, *(name for index in self.reads for name in index.row_keys)]
        yield self.rows, [name for name in dict.fromkeys(names) if name in self.rows.schema]

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return with_whole_indexes(inputs)

    def wishes(self, placing: Placing) -> list[Distribution]:
        return [placing.default(self.rows), *[WHOLE] * (len(self.inputs) - 1)]

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        names = emission.columns(self)
        if self.is_counted(names):
            emission.remark(f"values of {self.column} are counted, not listed")
        return _extend(streams[0], self, emission.indexes(self), names)


@dataclass(frozen=True, eq=False)
class Extend(Extension):
    """The changes of rows, extended by the values of a column that all indexes have: see dataflow.language.motif.

    proposer: the index that proposes values; None is the one with the fewest values for the row.
    """

    indexes: tuple[IndexRead, ...]
    proposer: int | None

    @property
    def reads(self) -> tuple[IndexRead, ...]:
        return self.indexes

    @property
    def proposes(self) -> int:
        return super().proposes if self.proposer is None else self.proposer

    def description(self, required: Collection[str]) -> str:
        proposed = "" if self.proposer is None else f", proposed by index {self.proposer}"
        return super().description(required) + proposed


@dataclass(frozen=True, eq=False)
class _IndexStep(Extension):
    """A part of an extension: rows are sent to the worker that owns their keys in one index."""

    index: IndexRead

    @property
    def reads(self) -> tuple[IndexRead, ...]:
        return (self.index,)

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        if not self.index.row_keys:
            return super().distributed(inputs, columns)
        return together(self._keys, self.index.key_types(self.rows), inputs, self.schema.names)

    def wishes(self, placing: Placing) -> list[Distribution]:
        if not self.index.row_keys:
            return super().wishes(placing)
        return placing.together(self.inputs, self._keys, self.index.key_types(self.rows))

    @property
    def _keys(self) -> tuple[Keys, Keys]:
        return self.index.row_keys, self.index.keys


@dataclass(frozen=True, eq=False)
class Seek(_IndexStep):
    """The rows, extended by the values of one index; rows that have the new column already are only looked up."""


@dataclass(frozen=True, eq=False)
class Measure(_IndexStep):
    """The rows that have values in an index, with an upper bound on their number as the new column."""

    def mode(self, names: Iterable[str]) -> int:
        return kernel.MEASURED


@dataclass(frozen=True)
class ExtendCounts:
    """The state of an extension, which keeps no rows: the numbers of values that it proposed and accepted."""

    block: BlockAddress

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        return wide_weight()

    def proposals(self) -> int:
        return kernel.ExtendBlock(self.block).proposals

    def extended(self) -> int:
        return kernel.ExtendBlock(self.block).extended


def _extend(stream: Stream, node: Extension, indexes: Sequence[Index], names: Iterable[str]) -> Stream:
    """Append the operator. indexes: those that the node reads; names: the required columns."""
    program, new = stream.program, node.column
    table: list[int] = []
    for read, index in zip(node.reads, indexes, strict=True):
        key = index_key(stream, read.row_keys, index.of.types).cell
        table += DeltaExtender.words(index=index.block, key=key, sees_old=read.version == "old")
    is_bound = new in node.rows.schema
    bound = stream.column(new) if is_bound else NO_VECTOR
    size, time, diff, rows, values = program.cell(), *(program.vector() for _ in range(4))
    block = program.add(
        kernel.EXTEND, size=stream.size, time=stream.time, diff=stream.diff,
        extender_count=len(indexes), extenders=program.table(table), is_bound=is_bound, bound=bound,
        proposer=node.proposes, mode=node.mode(names), out_size=size,
        out_time=time, out_diff=diff, out_row=rows, out_value=values, fan_out=program.fan_out,
    )  # fmt: skip
    program.add_state(ExtendCounts(block))

    def column(name: str) -> VectorAddress:
        return values if name == new else extended.take(stream.column(name), rows)

    extended = Stream(program, size, time, diff, column)
    return extended
