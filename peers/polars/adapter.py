"""Polars without incremental maintenance: the query runs again after each batch, over frames in memory."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

import pyarrow as pa
from recompute import MAX_CHUNKS, Columns, Query, RecomputingEngine, schema
from serve import Message, serve

if TYPE_CHECKING:
    from polars import DataFrame


class Polars(RecomputingEngine):
    name = f"Polars {version('polars')}"

    def __init__(self) -> None:
        self.frames: dict[str, DataFrame] = {}

    def begin(self) -> None:
        os.environ["POLARS_MAX_THREADS"] = str(self.workers)
        import polars as pl  # noqa: PLC0415 (it reads the number of threads when it is loaded)

        self.polars = pl

    def create(self, name: str, columns: Columns, nullable: frozenset[str]) -> None:
        del nullable  # any column of a frame may have NULL
        self.frames[name] = self.polars.DataFrame(schema(columns).empty_table())

    def converted(self, name: str, arriving: pa.Table, leaving: pa.Table) -> tuple[DataFrame, DataFrame]:
        del name
        return self.polars.DataFrame(arriving), self.polars.DataFrame(leaving)

    def change(self, name: str, arriving: DataFrame, leaving: DataFrame) -> None:
        rows = self.without(self.frames[name].vstack(arriving), leaving)
        self.frames[name] = rows.rechunk() if rows.n_chunks() > MAX_CHUNKS else rows

    def without(self, rows: DataFrame, leaving: DataFrame) -> DataFrame:
        """Remove rows by value: the oldest copies of each. Mostly the oldest of all leave: this is compared first."""
        count = leaving.height
        if rows.head(count).equals(leaving):
            return rows.slice(count)
        numbered, columns = rows.with_row_index("arrival"), rows.columns
        copies = leaving.group_by(columns).len("copies")
        found = numbered.join(copies, on=columns, nulls_equal=True, maintain_order="left")
        copy = self.polars.int_range(self.polars.len()).over(columns)
        return numbered.join(found.filter(copy < self.polars.col("copies")), on="arrival", how="anti").drop("arrival")

    def run(self, query: Query) -> pa.Table:
        return self.polars.SQLContext(self.frames).execute(query.reading, eager=True).to_arrow()

    def end(self, _: Message) -> Message:
        self.frames = {}
        return {}


if __name__ == "__main__":
    serve(Polars())
