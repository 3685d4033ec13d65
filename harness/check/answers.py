"""Snapshots: the sum of all changes up to a time, as a table of stored rows and their weights.

Comparison of two answers row by row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, time
from decimal import Decimal
from math import isnan

import pyarrow as pa

from deltamark.dataflow.answer import WEIGHT, Answer
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.types import Schema
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.answers import decoded, in_order
from deltamark.harness.engines.base import TOLERANCE, Row, Value

FEWEST_PLACES = 4
"""The places of a decimal from which it may stand for a double. A decimal of fewer places has to be exact."""


class WrongAnswerError(DeltamarkError):
    """Two algorithms disagree about an answer."""


def difference(mine: Sequence[Row], theirs: Sequence[Row], tolerance: float = TOLERANCE) -> str:
    """Describe the first row that differs from the oracle's; return nothing if the answers are equal.

    tolerance: the relative error allowed between doubles.
    """
    for at in range(max(len(mine), len(theirs))):
        one, other = (rows[at] if at < len(rows) else None for rows in (mine, theirs))
        if one is None or other is None or not _equal_rows(one, other, tolerance):
            return f"  row {at + 1}\n  ours    {row_text(one)}\n  DuckDB  {row_text(other)}"
    return ""


def unordered_difference(mine: Sequence[Row], theirs: Sequence[Row], tolerance: float) -> str:
    """Describe the first difference between two answers whose rows are in any order.

    Rows are sorted by the columns in which the oracle has doubles last, since their last digits may differ. Equal
    answers are only counted: sorting them takes many times as long.
    """
    if Counter(mine) == Counter(theirs):
        return ""
    doubles = {at for row in (*mine, *theirs) for at, value in enumerate(row) if isinstance(value, float)}

    def key(row: Row) -> list[tuple[bool, Value]]:
        order = sorted(range(len(row)), key=lambda at: at in doubles)
        return [(row[at] is None, 0 if row[at] is None else row[at]) for at in order]

    return difference(sorted(mine, key=key), sorted(theirs, key=key), tolerance)


def row_text(row: Row | None) -> str:
    return "has no such row" if row is None else ", ".join("NULL" if value is None else str(value) for value in row)


def _equal_rows(mine: Row, theirs: Row, tolerance: float) -> bool:
    return len(mine) == len(theirs) and all(_equal(*pair, tolerance) for pair in zip(mine, theirs, strict=True))


def dated(value: Value) -> Value:
    """Return the date of a timestamp at midnight, which is a date in our answers, and any other value as it is."""
    return value.date() if isinstance(value, datetime) and value.time() == time() else value


def _equal(mine: Value, theirs: Value, tolerance: float) -> bool:
    if isinstance(theirs, float) and isinstance(mine, (float, Decimal)):
        error = max(tolerance * abs(theirs), _unit(mine))
        return mine == theirs or abs(float(mine) - theirs) <= error or (isnan(mine) and isnan(theirs))
    return dated(mine) == dated(theirs)


def _unit(value: float | Decimal) -> float:
    """Return the error allowed to a decimal that stands for a double: one unit of its last place."""
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else None
    return float(Decimal(1).scaleb(exponent)) if isinstance(exponent, int) and exponent <= -FEWEST_PLACES else 0.0


class Snapshot(Answer):
    """The sum of the changes that were added, as rows of values."""

    def answer(self, order: tuple[str, ...]) -> list[Row]:
        """Return the rows of the answer as values, in order, each repeated by its weight."""
        return in_order(self.schema, order, self.rows())

    def rows(self) -> list[Row]:
        """Return the rows of the answer as values, in any order, each repeated by its weight."""
        return rows_of(self.schema, self.table())


class Summed:
    """The answer to which the changes of a query sum up. schema: that of a stream; None: changes are tables."""

    def __init__(self, schema: Schema | None = None) -> None:
        self.schema = schema
        self._snapshot: Snapshot | None = None
        self._weights: Counter[Row] = Counter()

    def add(self, changes: Batch | pa.Table) -> None:
        if isinstance(changes, Batch):
            assert self.schema
            self._snapshot = self._snapshot or Snapshot(self.schema)
            self._snapshot.add(changes)
            return
        for _, diff, *row in zip(*(column.to_pylist() for column in changes.columns), strict=True):
            self._weights[tuple(row)] += diff

    def rows(self) -> list[Row]:
        """Return the rows of the answer as values, in any order, each repeated by its weight."""
        return self._snapshot.rows() if self._snapshot else list(self._weights.elements())


def rows_of(schema: Schema, table: pa.Table) -> list[Row]:
    """Return distinct stored rows as values, in any order, each repeated by its weight."""
    weighted = zip(table.drop_columns([WEIGHT]).to_pylist(), table[WEIGHT].to_pylist(), strict=True)
    return decoded(schema, [row for row, times in weighted for _ in range(times)])
