"""Polars without incremental maintenance: the query runs again after each batch, over Arrow tables in memory."""

from __future__ import annotations

import os
from importlib.metadata import version

import pyarrow as pa
from recompute import ArrowEngine
from serve import serve


class Polars(ArrowEngine):
    name = f"Polars {version('polars')}"

    def begin(self) -> None:
        os.environ["POLARS_MAX_THREADS"] = str(self.workers)
        import polars as pl  # noqa: PLC0415 (it reads the number of threads when it is loaded)

        self.polars = pl

    def prepare(self, sql: str) -> None:
        self.sql = sql

    def run(self) -> pa.Table:
        frames = {name: self.polars.from_arrow(rows, rechunk=False).lazy() for name, rows in self.relations.items()}
        return self.polars.SQLContext(frames).execute(self.sql, eager=True).to_arrow()


if __name__ == "__main__":
    serve(Polars())
