"""The oracle of a star schema: DuckDB over exactly the live rows."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Self

import duckdb
import pyarrow.parquet as pq

from deltamark.harness.engines.base import Row
from deltamark.harness.suites.ssb.star import path_of
from deltamark.harness.suites.ssb.stream import StarQuery, TableChange


class StarOracle:
    """Answers a query over the rows that are live after some changes."""

    def __init__(self, query: StarQuery) -> None:
        self._text = query.text
        self._connection = duckdb.connect(config={"threads": 1})
        self._live = dict.fromkeys(query.columns, (0, 0))
        self._connection.execute("CREATE SCHEMA all_rows")
        for table, columns in query.columns.items():
            self._connection.register("stored", pq.read_table(path_of(query.directory, table), columns=columns))
            self._connection.execute(f"CREATE TABLE all_rows.{table} AS FROM stored")
            self._connection.unregister("stored")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def apply(self, changes: Sequence[TableChange]) -> None:
        for each in changes:
            first, last = self._live[each.table]
            self._live[each.table] = (first, each.stop) if each.diff > 0 else (each.stop, last)

    def answer(self) -> list[Row]:
        for table, (first, last) in self._live.items():
            rows = f"SELECT * FROM all_rows.{table} WHERE rowid >= {first} AND rowid < {last}"  # noqa: S608
            self._connection.execute(f"CREATE OR REPLACE VIEW {table} AS {rows}")
        return self._connection.execute(self._text).fetchall()

    def seconds(self) -> float:
        """Time the query over all rows, with the fetch of its answer."""
        for table in self._live:
            self._connection.execute(f"CREATE OR REPLACE VIEW {table} AS FROM all_rows.{table}")
        started = perf_counter()
        self._connection.execute(self._text).fetchall()
        return perf_counter() - started
