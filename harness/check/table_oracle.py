"""The oracle of a query over tables whose live rows are consecutive: DuckDB over exactly these rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from time import perf_counter
from typing import Self

import duckdb
import pyarrow as pa

from deltamark.harness.engines.base import Row

TIMED_RUNS = 3
"""The number of timed runs of a query, after one that is not timed; the fastest one counts."""

LiveRanges = Mapping[str, range]
"""The numbers of the live rows of each table."""


def named_columns(text: str, schemas: Mapping[str, pa.Schema]) -> dict[str, list[str]]:
    """Return the columns that a text names, of the tables that it names. A column may have the name of a table."""
    words = set(re.findall(r"\w+", text))
    found = {table: [name for name in schema.names if name in words] for table, schema in schemas.items()}
    return {table: columns for table, columns in found.items() if table in words and columns}


class TableOracle:
    """Answers a query over some of the rows of its tables."""

    def __init__(self, text: str, tables: Mapping[str, pa.Table]) -> None:
        self._text = text
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("CREATE SCHEMA all_rows")
        self._rows = {table: rows.num_rows for table, rows in tables.items()}
        for table, rows in tables.items():
            self._connection.register("stored", rows)
            self._connection.execute(f"CREATE TABLE all_rows.{table} AS FROM stored")
            self._connection.unregister("stored")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def answer(self, live: LiveRanges) -> list[Row]:
        self._show(live)
        return self._connection.execute(self._text).fetchall()

    def seconds(self, live: LiveRanges) -> float:
        """Time the query, with the fetch of its answer as columns: rows of Python would take longer than the query."""
        self._show(live)
        seconds = []
        for _ in range(TIMED_RUNS + 1):
            started = perf_counter()
            self._connection.sql(self._text).to_arrow_table()
            seconds.append(perf_counter() - started)
        return min(seconds[1:])

    def _show(self, live: LiveRanges) -> None:
        """Make the live rows of each table a view."""
        for table, rows in live.items():
            is_whole = rows == range(self._rows[table])
            where = "" if is_whole else f" WHERE rowid >= {rows.start} AND rowid < {rows.stop}"
            self._connection.execute(f"CREATE OR REPLACE VIEW {table} AS SELECT * FROM all_rows.{table}{where}")  # noqa: S608
