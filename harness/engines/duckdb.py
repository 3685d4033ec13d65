"""DuckDB without incremental maintenance: the workload's rows are appended and deleted, and after every physical
batch the query runs again as a prepared statement, and its answer is fetched. Rows are numbered in the order of
arrival, and deleted by number.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.schema import Relation, RelationName, relation
from deltamark.datagen.workload import Workload
from deltamark.harness.engines.base import Capabilities, RecomputingEngine, Row, Sink
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.engines.sql_rows import SqlRows
from deltamark.harness.measure.cell import Cell

ROW_NUMBER = "row_number_"
TYPES = {"int": "BIGINT", "decimal": "DECIMAL(15, 2)", "date": "DATE", "code": "VARCHAR", "text": "VARCHAR"}


@dataclass(frozen=True)
class TableDelta:
    """The rows that arrive in a table with a batch, and the number of rows that leave it."""

    name: RelationName
    arrivals: pa.Table
    leaving: int


class DuckDBEngine(RecomputingEngine[list[TableDelta]]):
    """DuckDB in this process, with as many threads as the cell has workers."""

    name = "duckdb"
    capabilities = Capabilities(output="answers", recomputes=True)

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> None:
        del sink  # an engine with whole answers has no changes
        inputs = sql_inputs(cell)
        super().__init__(cell, dataset, work, inputs)
        self._rows = SqlRows(dataset)
        self._connection = duckdb.connect(config={"threads": cell.workers})
        for name, columns in inputs.items():
            self._connection.execute(_create(relation(name), columns))
        self._connection.execute(f"PREPARE maintained AS {cell.sql}")

    def prepare(self, deltas: list[Delta]) -> list[TableDelta]:
        return [self._table_delta(delta) for delta in deltas]

    def _table_delta(self, delta: Delta) -> TableDelta:
        arrives = delta.diff > 0
        arriving = int(arrives.sum())
        rows = self._rows.batch(delta)
        table = pa.Table.from_batches([rows if arriving == rows.num_rows else rows.filter(pa.array(arrives))])
        first = self._arrived[delta.relation]
        self._arrived[delta.relation] = stop = first + arriving
        numbered = table.append_column(ROW_NUMBER, pa.array(np.arange(first, stop)))
        return TableDelta(delta.relation, numbered, len(arrives) - arriving)

    def load(self) -> None:
        for delta in self.batch:
            if delta.arrivals.num_rows:
                self._append(delta)
            if delta.leaving:
                first, self._left[delta.name] = self._left[delta.name], self._left[delta.name] + delta.leaving
                self._connection.execute(
                    f"DELETE FROM {delta.name} WHERE {ROW_NUMBER} >= ? AND {ROW_NUMBER} < ?",  # noqa: S608
                    [first, self._left[delta.name]],
                )

    def _append(self, delta: TableDelta) -> None:
        self._connection.register("arrivals", delta.arrivals)
        self._connection.execute(f"INSERT INTO {delta.name} SELECT * FROM arrivals")  # noqa: S608
        self._connection.unregister("arrivals")

    def answer(self) -> list[Row]:
        return self._connection.execute("EXECUTE maintained").fetchall()

    def close(self) -> None:
        self._connection.close()


def _create(table: Relation, columns: tuple[str, ...]) -> str:
    typed = ", ".join(f"{table.prefix}{name} {TYPES[table.column(name).kind]}" for name in columns)
    return f"CREATE TABLE {table.name} ({typed}, {ROW_NUMBER} BIGINT)"
