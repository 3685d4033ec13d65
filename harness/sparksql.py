"""Spark recomputing: what one would do on Spark without any engine. Rows are kept in its memory as they come; after
every physical batch the query is run again over those that have not left, and its answer fetched.

As in DuckDB's case (harness/recompute.py) those rows leave first that came first. Executors read the stored files
themselves, as they do for the engine on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from datagen.dataset import Dataset
from datagen.feed import Delta
from datagen.schema import RELATIONS, Kind, RelationName, relation
from harness.cell import Cell
from harness.distributed import on_master
from harness.duck import reads
from harness.recompute import NUMBER
from harness.typed import Typed
from queries.catalogue import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
class Load:
    """Reads rows in executors."""

    directory: str
    name: RelationName
    columns: tuple[str, ...]
    rows: range
    pieces: int

    def __call__(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in pieces:
            for piece in batch.column(0).to_pylist():
                first, last = (len(self.rows) * at // self.pieces for at in (piece, piece + 1))
                yield self._read(self.rows[first:last])

    def _read(self, rows: range) -> pa.RecordBatch:
        dataset = _opened(self.directory)
        columns = {name: dataset.slice(self.name, name, rows.start, rows.stop) for name in self.columns}
        none = np.empty(0, dtype=np.int64)
        typed = Typed(dataset).batch(Delta(self.name, none, none, rows, columns))
        arrays = [each.cast(pa.string()) if pa.types.is_dictionary(each.type) else each for each in typed.columns]
        numbers = pa.array(np.arange(rows.start, rows.stop))
        return pa.RecordBatch.from_arrays([*arrays, numbers], names=[*typed.schema.names, NUMBER])


@cache
def _opened(directory: str) -> Dataset:
    return Dataset.open(Path(directory))


class SparkRecompute:
    def __init__(self, cell: Cell, dataset: Dataset) -> None:
        self.inputs = reads(cell.sql, query(cell.query).relations)
        self._directory, self._sql, self._tasks = str(dataset.directory.resolve()), cell.sql, cell.workers
        self._spark = on_master(cell.master, cell.workers)
        self._spark.conf.set("spark.sql.shuffle.partitions", str(cell.workers))
        self._came = dict.fromkeys(self.inputs, 0)
        self._left = dict.fromkeys(self.inputs, 0)
        self._parts: dict[str, list[DataFrame]] = {name: [] for name in self.inputs}
        for name in self.inputs:
            self._show(relation(name).name)

    def prepare(self, deltas: list[Delta]) -> list[Step]:
        return [_step(delta) for delta in deltas]

    def push(self, batch: list[Step]) -> int:
        self.advance(batch)
        return len(self.answer())

    def advance(self, batch: list[Step]) -> None:
        """Apply a batch, and compute nothing."""
        for step in batch:
            self._came[step.name] += len(step.arriving)
            self._left[step.name] += step.leaving
            if step.arriving:
                load = Load(self._directory, step.name, self.inputs[step.name], step.arriving, self._tasks)
                pieces = self._spark.range(self._tasks, numPartitions=self._tasks)
                part = pieces.mapInArrow(load, self._schema(step.name)).persist()
                part.count()
                self._parts[step.name].append(part)
            self._show(step.name)

    def answer(self) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._spark.sql(self._sql).collect()]

    def state_rows(self) -> int:
        return sum(self._came.values()) - sum(self._left.values())

    def close(self) -> None:
        for parts in self._parts.values():
            for part in parts:
                part.unpersist()

    def _show(self, name: RelationName) -> None:
        """Let the query see the rows that are live."""
        parts = self._parts[name] or [self._spark.createDataFrame([], self._schema(name))]
        first = self._left[name]
        reduce(type(parts[0]).union, parts).where(f"{NUMBER} >= {first}").createOrReplaceTempView(name)

    def _schema(self, name: RelationName) -> str:
        of = RELATIONS[name]
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
