"""The present answer of a plan: the sum of its changes, as distinct stored rows with weights, and as values."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.dataflow.arrow_values import arrow_array
from deltamark.dataflow.batch import Batch, Column
from deltamark.dataflow.types import NULL, Schema, Type
from deltamark.errors import DeltamarkError

WEIGHT = "weight of the row"
"""The name of a column that no schema has."""

MAX_UNSUMMED_ROWS = 1 << 20
"""The number of changes that are stored before they are summed. Not tuned."""

RETRACTED_PART = 4
"""Stored changes are summed if a larger part of them than this one, a quarter, retracts rows: then a sum costs a few
steps for each. Rows that only come are not summed. Not tuned."""

ONE_THREAD_ROWS = 1 << 16
"""Rows up to which one thread sums: the changes of a small commit wait for other threads longer than they take. Not
tuned."""

EXACT_DOUBLES = 2**53
"""Integers up to this one are doubles, so the quotient of two of them is rounded once."""


class Answer:
    """The sum of the changes that were added."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._parts: list[pa.Table] = []
        self._added: list[tuple[Mapping[str, Column], np.ndarray, int, int]] = []
        """The columns and weights of changes that are in no part yet, and the places of their first and last rows."""
        self._stored = self._retracted = 0
        """The changes that are stored, and those of them that retract rows."""
        self._is_summed = False

    @classmethod
    def of(cls, schema: Schema, stored: pa.Table) -> Answer:
        """Return the answer that has stored some changes."""
        answer = cls(schema)
        answer._parts, answer._stored = [stored], stored.num_rows
        answer._retracted = pc.sum(pc.less(stored[WEIGHT], 0), min_count=0).as_py()
        return answer

    def stored(self) -> pa.Table:
        """Return all stored changes, whose sum the answer is."""
        table = self._whole()
        self._parts = [table]
        return table

    def add(self, changes: Batch, *, since: int = -1, until: int | None = None) -> None:
        """Add the changes with since < time <= until."""
        first = 0 if since < 0 else int(np.searchsorted(changes.time, since, side="right"))
        last = len(changes.time) if until is None else int(np.searchsorted(changes.time, until, side="right"))
        if first < last:
            self._added.append((changes.columns, changes.diff, first, last))
            self._stored += last - first
            self._retracted += int(np.count_nonzero(changes.diff[first:last] < 0))
            self._is_summed = False
        if self._stored > MAX_UNSUMMED_ROWS and self._retracted > self._stored // RETRACTED_PART:
            self._sum()

    def table(self) -> pa.Table:
        """Return the distinct stored rows with their weights."""
        self._sum()
        return self._parts[0]

    def values(self) -> pa.Table:
        """Return the rows as values, each as often as its weight. A quotient is one column of doubles.

        >>> answer = Answer(source("sales", {"price": integer(0, 9999, scale=2)}).schema)
        >>> answer.add(Batch([0], [2], {"price": [950]}))
        >>> answer.values().to_pylist()
        [{'price': Decimal('9.50')}, {'price': Decimal('9.50')}]
        """
        if self._retracted:
            self._sum()
        table = self._whole()
        weights = table[WEIGHT].to_numpy()
        if (weights < 0).any():
            actual = f"{int((weights < 0).sum())} of them"
            remedy = "retract no row more often than it was inserted"
            raise DeltamarkError("rows of an answer with negative weights", actual, remedy)
        if (weights != 1).any():
            table = table.take(np.repeat(np.arange(len(weights)), weights))
        return _values(self.schema, table)

    def _sum(self) -> None:
        if not self._is_summed:
            self._parts = [summed(self._whole())]
            self._is_summed, self._stored, self._retracted = True, self._parts[0].num_rows, 0

    def _whole(self) -> pa.Table:
        """Return all stored changes as one table."""
        parts = self._parts or [stored_table(self.schema, no_changes(self.schema))]
        self._parts = [*parts, *(_table(self.schema, *each) for each in self._added)]
        self._added = []
        return pa.concat_tables(self._parts)


def summed(table: pa.Table) -> pa.Table:
    """Sum the weights of equal rows; drop rows with a weight of 0."""
    names = [name for name in table.column_names if name != WEIGHT]
    groups = table.group_by(names, use_threads=table.num_rows > ONE_THREAD_ROWS)
    weights = groups.aggregate([(WEIGHT, "sum")])
    weights = weights.rename_columns([*names, WEIGHT])
    return weights.filter(pc.not_equal(weights[WEIGHT], 0))


def net_values(schema: Schema, changes: Batch) -> tuple[pa.Table, np.ndarray]:
    """Return the distinct rows that changes sum up to, as values, and their weights; retracted rows come first.

    >>> schema = source("sales", {"price": integer(0, 9999, scale=2)}).schema
    >>> values, weights = net_values(schema, Batch([0, 0, 0], [2, 1, -2], {"price": [950, 100, 950]}))
    >>> values.to_pylist(), weights.tolist()
    ([{'price': Decimal('1.00')}], [1])
    """
    table = summed(stored_table(schema, changes))
    values = _values(schema, table)
    if values.num_columns < len(schema.fields):  # different quotients may have equal values
        table = summed(values.append_column(WEIGHT, table[WEIGHT]))
        values = table.drop_columns([WEIGHT])
    weights = table[WEIGHT].to_numpy()
    order = np.argsort(weights, kind="stable")
    return values.take(order), weights[order]


def stored_table(schema: Schema, changes: Batch) -> pa.Table:
    """Return changes as a table of stored rows and their weights, without their times."""
    return _table(schema, changes.columns, changes.diff, 0, len(changes.time))


def _table(schema: Schema, columns: Mapping[str, Column], diff: np.ndarray, first: int, last: int) -> pa.Table:
    arrays = {name: stored_array(schema, name, columns[name][first:last]) for name in schema.names}
    return pa.table({**arrays, WEIGHT: pa.array(diff[first:last])})


def stored_array(schema: Schema, name: str, values: np.ndarray) -> pa.Array:
    return pa.array(values, pa.string() if schema[name].kind == "text" else pa.int64())


def no_changes(schema: Schema) -> Batch:
    """Return an empty batch."""
    none = np.empty(0, dtype=np.int64)
    columns = {name: none.astype(object) if schema[name].kind == "text" else none for name in schema.names}
    return Batch(none, none, columns)


def _values(schema: Schema, table: pa.Table) -> pa.Table:
    """Convert stored rows to values."""
    columns: dict[str, pa.Array] = {}
    for field in schema.fields:
        name, dot, part = field.name.rpartition(".")
        stored = table[field.name].combine_chunks()
        if dot and part == "num":
            below = f"{name}.den"
            parts = stored.to_numpy(), table[below].to_numpy()
            columns[name] = quotients(*parts, field.type, schema[below])
        elif not (dot and part == "den"):
            plain = stored if field.type.kind == "text" else stored.to_numpy()
            columns[field.name] = arrow_array(plain, field.type)
    return pa.table(columns)


def quotients(num: np.ndarray, den: np.ndarray, num_type: Type, den_type: Type) -> pa.Array:
    """Return the doubles nearest to exact quotients. A division by zero is infinite, and 0 / 0 is not a number."""
    missing = (num == NULL) | (den == NULL)
    above, below = 10**den_type.scale, 10**num_type.scale
    wide = (np.abs(num) > EXACT_DOUBLES // above) | (np.abs(den) > EXACT_DOUBLES // below)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = (num * above).astype(np.float64) / (den * below).astype(np.float64)
    for at in np.flatnonzero(wide & ~missing):
        found[at] = quotient(int(num[at]) * above, int(den[at]) * below)
    return pa.array(found, mask=missing)


def quotient(num: int, den: int) -> float:
    """Return the double nearest to an exact quotient, as DuckDB divides."""
    if den == 0:
        return math.copysign(math.inf, num) if num else math.nan
    return num / den  # the division of integers is correctly rounded
