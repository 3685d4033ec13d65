"""DuckDB without incremental maintenance: the workload's rows are appended and deleted, and after every physical
batch the query runs again as a prepared statement, and its answer is fetched. Rows are deleted by their positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.positions import Rows, array_of
from deltamark.datagen.schema import Relation
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.answers import DUCKDB_TYPES, SqlRows, named_type, net_rows
from deltamark.harness.engines.base import Capabilities, RecomputingEngine, Row, Sink
from deltamark.harness.engines.plans import sql_inputs

POSITION = "position_"
"""The column with the position of a row in the data."""


@dataclass(frozen=True)
class TableDelta:
    """The rows that arrive in a table with a batch, and the positions of the rows that leave it."""

    name: str
    arrivals: pa.Table
    leaving: Rows


class DuckDBEngine(RecomputingEngine[list[TableDelta]]):
    """DuckDB in this process, with as many threads as the cell has workers."""

    name = "duckdb"
    capabilities = Capabilities(output="answers", recomputes=True)

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> None:
        del sink  # an engine with whole answers has no changes
        inputs = sql_inputs(cell)
        super().__init__(cell, work, inputs)
        self._rows = SqlRows(dataset)
        self._connection = duckdb.connect(config={"threads": cell.workers})
        for name, columns in inputs.items():
            self._connection.execute(_create(dataset.relations[name], columns))
        self._connection.execute(f"PREPARE maintained AS {cell.text}")

    def prepare(self, deltas: list[Delta]) -> list[TableDelta]:
        return [self._table_delta(delta) for delta in deltas]

    def _table_delta(self, delta: Delta) -> TableDelta:
        net = net_rows(delta)
        table = pa.Table.from_batches([self._rows.batch(delta)]).append_column(POSITION, pa.array(array_of(delta.rows)))
        arrivals = table if len(net.arriving) == table.num_rows else table.take(array_of(net.arriving))
        return TableDelta(delta.relation, arrivals, net.leaving)

    def load(self) -> None:
        for delta in self.batch:
            if len(delta.leaving):
                self._delete(delta)
            if delta.arrivals.num_rows:
                self._append(delta)
            self._live += delta.arrivals.num_rows - len(delta.leaving)

    def _append(self, delta: TableDelta) -> None:
        self._connection.register("arrivals", delta.arrivals)
        self._connection.execute(f"INSERT INTO {delta.name} SELECT * FROM arrivals")  # noqa: S608
        self._connection.unregister("arrivals")

    def _delete(self, delta: TableDelta) -> None:
        if isinstance(rows := delta.leaving, range):
            between = f"DELETE FROM {delta.name} WHERE {POSITION} >= ? AND {POSITION} < ?"  # noqa: S608
            self._connection.execute(between, [rows.start, rows.stop])
            return
        self._connection.register("leaving", pa.table({POSITION: rows}))
        listed = f"DELETE FROM {delta.name} WHERE {POSITION} IN (SELECT {POSITION} FROM leaving)"  # noqa: S608
        self._connection.execute(listed)
        self._connection.unregister("leaving")

    def answer(self) -> list[Row]:
        return self._connection.execute("EXECUTE maintained").fetchall()

    def close(self) -> None:
        self._connection.close()


def _create(table: Relation, columns: tuple[str, ...]) -> str:
    typed = ", ".join(f"{table.prefix}{name} {named_type(table.column(name), DUCKDB_TYPES)}" for name in columns)
    return f"CREATE TABLE {table.name} ({typed}, {POSITION} BIGINT)"
