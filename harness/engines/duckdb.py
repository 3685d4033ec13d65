"""DuckDB as an engine: what one would do without any. Rows are appended and deleted as they come and go, and after
every physical batch the query is run again, as a prepared statement, and its answer fetched.

In every workload those rows leave first that came first: rows are numbered as they come, and deleted by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.schema import Relation, RelationName, relation
from deltamark.harness.engines.duckdb_tables import reads
from deltamark.harness.engines.sql_rows import Typed
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query

NUMBER = "row_number_"


@dataclass
class _Step:
    """What becomes of a relation in a batch."""

    name: RelationName
    arrivals: pa.Table
    leaving: int


class Recompute:
    def __init__(self, cell: Cell, dataset: Dataset) -> None:
        self.inputs = reads(cell.sql, query(cell.query).relations)
        self._typed = Typed(dataset)
        self._came = dict.fromkeys(self.inputs, 0)
        self._left = dict.fromkeys(self.inputs, 0)
        self._connection = duckdb.connect(config={"threads": cell.workers})
        for name, columns in self.inputs.items():
            self._connection.execute(_create(relation(name), columns))
        self._connection.execute(f"PREPARE maintained AS {cell.sql}")

    def prepare(self, deltas: list[Delta]) -> list[_Step]:
        return [self._step(delta) for delta in deltas]

    def _step(self, delta: Delta) -> _Step:
        came = delta.diff > 0
        arriving = int(came.sum())
        rows = self._typed.batch(delta)
        table = pa.Table.from_batches([rows if arriving == rows.num_rows else rows.filter(pa.array(came))])
        first = self._came[delta.relation]
        self._came[delta.relation] = stop = first + arriving
        numbered = table.append_column(NUMBER, pa.array(np.arange(first, stop)))
        return _Step(delta.relation, numbered, len(came) - arriving)

    def push(self, batch: list[_Step]) -> int:
        self.advance(batch)
        return len(self.answer())

    def advance(self, batch: list[_Step]) -> None:
        """Apply a batch, and compute nothing."""
        for step in batch:
            if step.arrivals.num_rows:
                self._append(step)
            if step.leaving:
                first, self._left[step.name] = self._left[step.name], self._left[step.name] + step.leaving
                self._connection.execute(
                    f"DELETE FROM {step.name} WHERE {NUMBER} >= ? AND {NUMBER} < ?",  # noqa: S608
                    [first, self._left[step.name]],
                )

    def _append(self, step: _Step) -> None:
        self._connection.register("arrivals", step.arrivals)
        self._connection.execute(f"INSERT INTO {step.name} SELECT * FROM arrivals")  # noqa: S608
        self._connection.unregister("arrivals")

    def answer(self) -> list[tuple[Any, ...]]:
        return self._connection.execute("EXECUTE maintained").fetchall()

    def state_rows(self) -> int:
        return sum(self._came.values()) - sum(self._left.values())

    def close(self) -> None:
        self._connection.close()


TYPES = {"int": "BIGINT", "decimal": "DECIMAL(15, 2)", "date": "DATE", "code": "VARCHAR", "text": "VARCHAR"}


def _create(of: Relation, columns: tuple[str, ...]) -> str:
    typed = ", ".join(f"{of.prefix}{name} {TYPES[of.column(name).kind]}" for name in columns)
    return f"CREATE TABLE {of.name} ({typed}, {NUMBER} BIGINT)"
