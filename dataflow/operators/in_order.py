"""Rows in order: the base of operators that add functions of a row and other rows of its group, in an order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from deltamark.dataflow.builder.keys import KeyIds, key_ids, key_of
from deltamark.dataflow.builder.program import VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups.grouped_rows import RowRecord
from deltamark.dataflow.operators.by_key import Grouped
from deltamark.dataflow.operators.grouped_rows import RowOrder, StoredColumn, stored_columns, with_prefixes
from deltamark.dataflow.operators.input import row_count
from deltamark.dataflow.operators.interning import PlanValue
from deltamark.dataflow.operators.node import Emission, JoinReads, Requirement, is_unique
from deltamark.dataflow.operators.top import Direction
from deltamark.dataflow.plan.term_sql import identifier


@dataclass(frozen=True)
class RowFunction(PlanValue):
    """A column that is computed from rows in order."""

    name: str

    @property
    @abstractmethod
    def reads(self) -> str:
        """The column that it reads, or an empty text."""

    @property
    @abstractmethod
    def orders_ties(self) -> bool:
        """Whether the order of rows that are equal in the given columns shows in its values."""


@dataclass(frozen=True, eq=False)
class InOrder(Grouped):
    """The rows with functions over the rows of their group. Ties are ordered by the other columns."""

    order: tuple[tuple[str, Direction], ...]
    functions: tuple[RowFunction, ...]

    def description(self, required: Collection[str]) -> str:
        places = ", ".join(identifier(name) + " DESC" * (order == "descending") for name, order in self.order)
        groups = f"by {', '.join(map(identifier, self.keys))}" if self.keys else ""
        functions = ", ".join(map(str, self.functions))
        return "; ".join(filter(None, [f"{groups} in order of {places}".strip(), functions]))

    @property
    def consolidated(self) -> bool:
        """Whether no two copies of a row pass a value on to each other."""
        return not any(each.orders_ties for each in self.functions) or is_unique(self.rows, self.rows.schema.names)

    @property
    def orders_ties(self) -> bool:
        """Whether the order of rows that are equal in the given columns shows."""
        names = {*self.keys, *(name for name, _ in self.order)}
        return any(each.orders_ties for each in self.functions) and not is_unique(self.rows, names)

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, self.stored(columns))]

    def stored(self, columns: Sequence[str]) -> Sequence[str]:
        """Return the columns of the rows that the operator keeps, those that give the order first."""
        ordered = [name for name, _ in self.order]
        if self.orders_ties:
            return list(dict.fromkeys([*ordered, *self.rows.schema.names]))
        of = [each.reads for each in self.functions if each.reads]
        own = {each.name for each in self.functions}
        return list(dict.fromkeys([*ordered, *self.keys, *of, *(name for name in columns if name not in own)]))

    def determines(self, names: frozenset[str]) -> bool:
        return is_unique(self.rows, names - {each.name for each in self.functions})

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        return self.append(StoredOrder.of(streams[0], self, self.stored(emission.columns(self))))

    @abstractmethod
    def append(self, stored: StoredOrder) -> Stream:
        """Append the operator over its stored columns."""


@dataclass(frozen=True)
class StoredOrder:
    """The columns that an operator keeps in the order of their comparison, and its groups."""

    stream: Stream
    key: VectorAddress
    keys: KeyIds
    columns: list[StoredColumn]
    order: RowOrder
    peer_words: int
    """The number of columns in which peers are equal."""

    @classmethod
    def of(cls, stream: Stream, node: InOrder, names: Sequence[str]) -> StoredOrder:
        """Return the stored columns of a stream. names: those that the operator keeps."""
        program, schema = stream.program, node.rows.schema
        key = key_of(stream, node.keys, [schema[name] for name in node.keys])
        keys = key_ids(program, key, row_count(node), stream.size)
        descending = [name for name, direction in node.order if direction == "descending"]
        ordered = stored_columns(stream, dict.fromkeys(name for name, _ in node.order), schema, descending)
        peers, texts = with_prefixes(stream, ordered)
        others = stored_columns(stream, [name for name in names if name not in dict(node.order)], schema)
        compared = len(peers)
        if node.orders_ties:
            others, more = with_prefixes(stream, others)
            texts += [compared + at for at in more]
            compared += len(others)
        order = RowOrder(RowRecord.size_in_words - 1, 1 + compared, [1 + at for at in texts])
        return cls(stream, key.cell, keys, [*peers, *others], order, len(peers))

    def argument(self, node: InOrder, of: str) -> int:
        """Return the place of a column among the stored ones; a descending column is stored a second time."""
        if not of:
            return 0
        for at, each in enumerate(self.columns):
            if each.name == of and each.minuend is None:
                return at
        (column,) = stored_columns(self.stream, [of], node.rows.schema)
        self.columns.append(StoredColumn("", column.type, column.cell))
        return len(self.columns) - 1

    def fields(self, node: InOrder) -> dict[str, int]:
        """Return the fields that the blocks of all operators share."""
        program, functions = self.stream.program, len(node.functions)
        bounds = [(node.schema[each.name].low, node.schema[each.name].high) for each in node.functions]
        return {
            "functions": functions, "bounds": program.table([bound for pair in bounds for bound in pair]),
            "peer_words": self.peer_words, "changed": program.memory.reserve_unset(UNBOUNDED_WORDS),
            "old_out": program.words(functions), "new_out": program.words(functions),
        }  # fmt: skip
