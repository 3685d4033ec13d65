"""Tables of DuckDB with the rows of a test."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from deltamark.dataflow.types import NULL


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[int]]) -> None:
    """Insert rows of integers in one statement. `executemany` runs one for each: 200 rows take 0.15 CPU seconds."""
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        values = ", ".join([f"nullif(unnest(?::BIGINT[]), {NULL})"] * len(columns))
        connection.execute(f"INSERT INTO {table} SELECT {values}", columns)
