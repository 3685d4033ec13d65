"""Spark recomputing: what one would do on Spark without any engine. Rows are appended to Parquet files as they come;
after every physical batch the query is run again over those that have not left, and its answer fetched.

As in DuckDB's case (harness/engines/duckdb.py) those rows leave first that came first. What could be made cheaper is:
executors write the files themselves, all of a batch in one job, and Spark does not plan again while it runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.schema import Kind, RelationName, relation
from deltamark.datagen.spark.session import ONE_CORE, scratch
from deltamark.harness.engines.duckdb import NUMBER
from deltamark.harness.engines.duckdb_tables import reads
from deltamark.harness.engines.spark import on_master
from deltamark.harness.engines.sql_rows import Typed
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query

SPARK_SQL = "spark-sql"
TYPES: dict[Kind, str] = {
    "int": "bigint", "decimal": "decimal(15,2)", "date": "date", "code": "string", "text": "string",
}  # fmt: skip


DIGITS = 1e-4
"""Spark divides decimals to few places: how far its quotients may lie from DuckDB's, as a share."""


@dataclass(frozen=True)
class Step:
    """What becomes of a relation in a batch: the rows at some positions come, and the oldest leave."""

    name: RelationName
    arriving: range
    leaving: int


@dataclass(frozen=True)
class Append:
    """Writes what arrives in a batch, in executors: a file a relation and piece."""

    directory: str
    kept: Path
    steps: tuple[Step, ...]
    columns: Mapping[str, tuple[str, ...]]
    pieces: int

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            for piece in batch.column(0).to_pylist():
                for step in self.steps:
                    first, last = (len(step.arriving) * at // self.pieces for at in (piece, piece + 1))
                    if first < last:
                        self._write(step.name, step.arriving[first:last])
            yield batch

    def _write(self, name: RelationName, rows: range) -> None:
        dataset = _opened(self.directory)
        columns = {column: dataset.slice(name, column, rows.start, rows.stop) for column in self.columns[name]}
        none = np.empty(0, dtype=np.int64)
        typed = Typed(dataset).batch(Delta(name, none, none, rows, columns))
        arrays = [each.cast(pa.string()) if pa.types.is_dictionary(each.type) else each for each in typed.columns]
        numbers = pa.array(np.arange(rows.start, rows.stop))
        table = pa.table([*arrays, numbers], names=[*typed.schema.names, NUMBER])
        pq.write_table(table, self.kept / name / f"{rows.start}.parquet", store_decimal_as_integer=True)


@cache
def _opened(directory: str) -> Dataset:
    return Dataset.open(Path(directory))


class SparkRecompute:
    def __init__(self, cell: Cell, dataset: Dataset) -> None:
        self.inputs = reads(cell.sql, query(cell.query).relations)
        self._directory, self._sql, self._tasks = str(dataset.directory.resolve()), cell.sql, cell.workers
        self._spark = on_master(cell.master, cell.workers, ONE_CORE)
        self._spark.conf.set("spark.sql.shuffle.partitions", str(cell.workers))
        self._spark.conf.set("spark.sql.adaptive.enabled", "false")
        self._came = dict.fromkeys(self.inputs, 0)
        self._left = dict.fromkeys(self.inputs, 0)
        self._kept = scratch()
        for name in self.inputs:
            (self._kept / name).mkdir()

    def prepare(self, deltas: list[Delta]) -> tuple[Step, ...]:
        return tuple(_step(delta) for delta in deltas)

    def push(self, batch: tuple[Step, ...]) -> int:
        self.advance(batch)
        return len(self.answer())

    def advance(self, batch: tuple[Step, ...]) -> None:
        """Apply a batch, and compute nothing."""
        append = Append(self._directory, self._kept, batch, self.inputs, self._tasks)
        self._spark.range(self._tasks, numPartitions=self._tasks).mapInArrow(append, "id bigint").count()
        for step in batch:
            self._came[step.name] += len(step.arriving)
            self._left[step.name] += step.leaving

    def answer(self) -> list[tuple[Any, ...]]:
        for name in self.inputs:
            rows = self._spark.read.schema(self._schema(name)).parquet(str(self._kept / name))
            live = rows.where(f"{NUMBER} >= {self._left[name]}") if self._left[name] else rows
            live.createOrReplaceTempView(name)
        return [tuple(row) for row in self._spark.sql(self._sql).collect()]

    def state_rows(self) -> int:
        return sum(self._came.values()) - sum(self._left.values())

    def close(self) -> None:
        shutil.rmtree(self._kept, ignore_errors=True)

    def _schema(self, name: str) -> str:
        of = relation(name)
        typed = [f"{of.prefix}{column} {TYPES[of.column(column).kind]}" for column in self.inputs[name]]
        return ", ".join([*typed, f"{NUMBER} bigint"])


def _step(delta: Delta) -> Step:
    came = delta.diff > 0
    rows = np.asarray(delta.rows)[came]
    arriving = range(int(rows.min()), int(rows.max()) + 1) if len(rows) else range(0)
    return Step(delta.relation, arriving, int((~came).sum()))


def like(mine: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Make doubles of Spark's decimals in columns where DuckDB has doubles."""
    doubles = {at for row in wanted for at, value in enumerate(row) if isinstance(value, float)}
    return [tuple(float(v) if v is not None and at in doubles else v for at, v in enumerate(row)) for row in mine]
