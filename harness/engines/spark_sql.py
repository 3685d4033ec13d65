"""Spark SQL without incremental maintenance: rows are appended to Parquet files; after every physical batch the query
runs again over the live rows, and its answer is fetched.

The cost of Spark itself is kept low: executors write the files, one job appends a whole batch, and adaptive planning
during the query is off.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.schema import ColumnKind, RelationName, relation
from deltamark.datagen.spark.session import ONE_CORE, scratch
from deltamark.datagen.workload import Workload
from deltamark.harness.engines.base import Capabilities, RecomputingEngine, Row, Sink
from deltamark.harness.engines.duckdb import ROW_NUMBER
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.engines.spark_session import on_master
from deltamark.harness.engines.sql_rows import SqlRows
from deltamark.harness.measure.cell import Cell

TYPES: dict[ColumnKind, str] = {
    "int": "bigint", "decimal": "decimal(15,2)", "date": "date", "code": "string", "text": "string",
}  # fmt: skip

TOLERANCE = 1e-4
"""The relative error of Spark's quotients, whose decimals have few places."""


@dataclass(frozen=True)
class FileDelta:
    """The positions of the rows of a relation that arrive with a batch, and the number of rows that leave."""

    name: RelationName
    arriving: range
    leaving: int


@dataclass(frozen=True)
class AppendTask:
    """A task of an executor that writes a piece of the arriving rows: one file for each relation."""

    data: str
    target: Path
    deltas: tuple[FileDelta, ...]
    columns: Mapping[str, tuple[str, ...]]
    pieces: int

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for piece in batch.column(0).to_pylist():
                for delta in self.deltas:
                    first, last = (len(delta.arriving) * at // self.pieces for at in (piece, piece + 1))
                    if first < last:
                        self._write(delta.name, delta.arriving[first:last])
            yield batch

    def _write(self, name: RelationName, rows: range) -> None:
        dataset = _opened(self.data)
        columns = {column: dataset.slice(name, column, rows.start, rows.stop) for column in self.columns[name]}
        none = np.empty(0, dtype=np.int64)
        typed = SqlRows(dataset).batch(Delta(name, none, none, rows, columns))
        arrays = [each.cast(pa.string()) if pa.types.is_dictionary(each.type) else each for each in typed.columns]
        numbers = pa.array(np.arange(rows.start, rows.stop))
        table = pa.table([*arrays, numbers], names=[*typed.schema.names, ROW_NUMBER])
        pq.write_table(table, self.target / name / f"{rows.start}.parquet", store_decimal_as_integer=True)


@cache
def _opened(directory: str) -> Dataset:
    return Dataset.open(Path(directory))


class SparkSqlEngine(RecomputingEngine[tuple[FileDelta, ...]]):
    """Spark SQL over Parquet files, with as many tasks as the cell has workers."""

    name = "spark-sql"
    capabilities = Capabilities(
        output="answers", recomputes=True, has_session=True, has_master=True, tolerance=TOLERANCE
    )

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> None:
        del sink  # an engine with whole answers has no changes
        self._inputs = sql_inputs(cell)
        super().__init__(cell, dataset, work, self._inputs)
        self._data, self._sql, self._tasks = str(dataset.directory.resolve()), cell.sql, cell.workers
        self._spark = on_master(cell.master, cell.workers, ONE_CORE)
        self._spark.conf.set("spark.sql.shuffle.partitions", str(cell.workers))
        self._spark.conf.set("spark.sql.adaptive.enabled", "false")
        self._files = scratch()
        for name in self._inputs:
            (self._files / name).mkdir()

    def prepare(self, deltas: list[Delta]) -> tuple[FileDelta, ...]:
        return tuple(map(_file_delta, deltas))

    def load(self) -> None:
        append = AppendTask(self._data, self._files, self.batch, self._inputs, self._tasks)
        self._spark.range(self._tasks, numPartitions=self._tasks).mapInArrow(append, "id bigint").count()
        for delta in self.batch:
            self._arrived[delta.name] += len(delta.arriving)
            self._left[delta.name] += delta.leaving

    def answer(self) -> list[Row]:
        for name in self._inputs:
            rows = self._spark.read.schema(self._schema(name)).parquet(str(self._files / name))
            live = rows.where(f"{ROW_NUMBER} >= {self._left[name]}") if self._left[name] else rows
            live.createOrReplaceTempView(name)
        return [tuple(row) for row in self._spark.sql(self._sql).collect()]

    def close(self) -> None:
        shutil.rmtree(self._files, ignore_errors=True)

    def _schema(self, name: str) -> str:
        table = relation(name)
        typed = [f"{table.prefix}{column} {TYPES[table.column(column).kind]}" for column in self._inputs[name]]
        return ", ".join([*typed, f"{ROW_NUMBER} bigint"])


def _file_delta(delta: Delta) -> FileDelta:
    arrives = delta.diff > 0
    rows = np.asarray(delta.rows)[arrives]
    arriving = range(int(rows.min()), int(rows.max()) + 1) if len(rows) else range(0)
    return FileDelta(delta.relation, arriving, int((~arrives).sum()))
