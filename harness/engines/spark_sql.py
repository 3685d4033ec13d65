"""Spark SQL without incremental maintenance: rows are appended to Parquet files; after every physical batch the query
runs again over the live rows, and its answer is fetched.

The cost of Spark itself is kept low: executors write the files, one job appends a whole batch, and adaptive planning
during the query is off. Rows that leave stay in the files, and are left out by their positions; a row that comes back
is not written again.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.positions import Rows, array_of, index_of
from deltamark.datagen.schema import ColumnKind
from deltamark.datagen.spark.session import ONE_CORE, scratch
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.answers import SqlRows, as_range, named_type, net_rows
from deltamark.harness.engines.base import DOUBLE_TOLERANCE, Capabilities, RecomputingEngine, Row, Sink
from deltamark.harness.engines.duckdb import POSITION
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.engines.spark_feed import on_master, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TYPES: Mapping[ColumnKind, str] = {
    "int": "bigint", "decimal": "decimal({digits},{scale})", "double": "double", "date": "date",
    "timestamp": "timestamp_ntz", "code": "string", "text": "string",
}  # fmt: skip


@dataclass(frozen=True)
class FileDelta:
    """The positions of the rows of a relation that arrive with a batch, and of those that leave."""

    name: str
    arriving: Rows
    leaving: Rows


class StoredRows:
    """The positions of the rows of a relation in the files, and of the live ones among them, as masks."""

    def __init__(self, rows: int) -> None:
        self._written, self._live = np.zeros(rows, bool), np.zeros(rows, bool)

    def add(self, delta: FileDelta) -> Rows:
        """Take the changes of a batch; return the arriving rows that no file has yet."""
        self._live[index_of(delta.leaving)] = False
        self._live[index_of(delta.arriving)] = True
        new = delta.arriving
        if self._written[index_of(new)].any():
            new = as_range(array_of(new)[~self._written[index_of(new)]])
        self._written[index_of(new)] = True
        return new

    def left(self) -> tuple[int, np.ndarray]:
        """Return the position of the first live row, and the later rows in the files that are not live."""
        first = int(self._live.argmax()) if self._live.any() else len(self._live)
        return first, np.flatnonzero(self._written[first:] > self._live[first:]) + first


@dataclass(frozen=True)
class AppendTask:
    """A task of an executor that writes a piece of the arriving rows: one file for each relation."""

    data: str
    workload: str
    target: Path
    rows: Mapping[str, Rows]
    columns: Mapping[str, tuple[str, ...]]
    pieces: int

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for piece in batch.column(0).to_pylist():
                for name, rows in self.rows.items():
                    first, last = (len(rows) * at // self.pieces for at in (piece, piece + 1))
                    if first < last:
                        self._write(name, rows[first:last])
            yield batch

    def _write(self, name: str, rows: Rows) -> None:
        dataset = opened(self.data, self.workload).dataset
        columns = {column: dataset.values(name, column, rows) for column in self.columns[name]}
        none = np.empty(0, dtype=np.int64)
        typed = SqlRows(dataset).batch(Delta(name, none, none, rows, columns))
        arrays = [each.cast(pa.string()) if pa.types.is_dictionary(each.type) else each for each in typed.columns]
        table = pa.table([*arrays, pa.array(array_of(rows))], names=[*typed.schema.names, POSITION])
        pq.write_table(table, self.target / name / f"{rows[0]}.parquet", store_decimal_as_integer=True)


def _in_dialect(text: str) -> str:
    """Return a text in which quotients are doubles, and those of whole numbers are whole numbers, as in DuckDB."""
    return re.sub(r"(?<=[\w)])\s*/\s*(?=[\w(])", " / CAST(1 AS DOUBLE) / ", text).replace(" // ", " DIV ")


class SparkSqlEngine(RecomputingEngine[tuple[FileDelta, ...]]):
    """Spark SQL over Parquet files, with as many tasks as the cell has workers."""

    name = "spark-sql"
    capabilities = Capabilities(
        output="answers", recomputes=True, has_session=True, has_master=True, tolerance=DOUBLE_TOLERANCE
    )

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> None:
        del sink  # an engine with whole answers has no changes
        self._inputs, self._relations = sql_inputs(cell), dataset.relations
        super().__init__(cell, work, self._inputs)
        self._data, self._workload = str(dataset.directory.resolve()), cell.workload
        self._sql, self._tasks = _in_dialect(cell.text), cell.workers
        self._spark = on_master(cell.master, cell.workers, ONE_CORE)
        self._spark.conf.set("spark.sql.shuffle.partitions", str(cell.workers))
        self._spark.conf.set("spark.sql.adaptive.enabled", "false")
        self._files = scratch()
        self._stored: dict[str, StoredRows] = {}
        for name in self._inputs:
            (self._files / name).mkdir()
            self._stored[name] = StoredRows(work.dataset.positions(name))

    def prepare(self, deltas: list[Delta]) -> tuple[FileDelta, ...]:
        return tuple(map(_file_delta, deltas))

    def load(self) -> None:
        new = {each.name: self._stored[each.name].add(each) for each in self.batch}
        append = AppendTask(self._data, self._workload, self._files, new, self._inputs, self._tasks)
        self._spark.range(self._tasks, numPartitions=self._tasks).mapInArrow(append, "id bigint").count()
        self._live += sum(len(each.arriving) - len(each.leaving) for each in self.batch)

    def answer(self) -> list[Row]:
        for name in self._inputs:
            rows = self._spark.read.schema(self._schema(name)).parquet(str(self._files / name))
            self._live_rows(rows, self._stored[name]).createOrReplaceTempView(name)
        return [tuple(row) for row in self._spark.sql(self._sql).collect()]

    def _live_rows(self, rows: DataFrame, stored: StoredRows) -> DataFrame:
        """Leave out the rows before the first live one by a condition, and others by a join."""
        first, left = stored.left()
        live = rows.where(f"{POSITION} >= {first}") if first else rows
        if not len(left):
            return live
        from pyspark.sql.functions import broadcast  # noqa: PLC0415 (most commands need no Spark)

        return live.join(broadcast(self._spark.createDataFrame(pa.table({POSITION: left}))), POSITION, "left_anti")

    def close(self) -> None:
        shutil.rmtree(self._files, ignore_errors=True)

    def _schema(self, name: str) -> str:
        table = self._relations[name]
        typed = [f"`{table.prefix}{column}` {named_type(table.column(column), TYPES)}" for column in self._inputs[name]]
        return ", ".join([*typed, f"{POSITION} bigint"])


def _file_delta(delta: Delta) -> FileDelta:
    net = net_rows(delta)
    if isinstance(delta.rows, range):
        return FileDelta(delta.relation, delta.rows[: len(net.arriving)], net.leaving)
    return FileDelta(delta.relation, as_range(np.sort(delta.rows[net.arriving])), net.leaving)
