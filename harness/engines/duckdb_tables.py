"""The relations as DuckDB tables in the names and types of the TPC-H specification, queried with one thread."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping

import duckdb

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import Relation, relation

SQL_VALUES = {
    "int": "{0}",
    "decimal": "({0} / 100)::DECIMAL(15, 2)",
    "date": "DATE '1970-01-01' + {0}",
    "code": "{0}::VARCHAR",
    "text": "{0}",
}
"""The SQL that converts a stored column, for each kind of column."""

Reads = Mapping[str, tuple[str, ...]]
"""Relations, each with the columns that a query reads."""


def reads(sql: str, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns of some relations that a query names: at least the first, and all if it selects `*`."""
    words = set(re.findall(r"\w+", sql))
    selects = re.sub(r"EXISTS\s*\(\s*SELECT\s+\*", "", sql, flags=re.IGNORECASE)
    everything = re.search(r"SELECT\s+\*", selects, re.IGNORECASE)
    columns_of: dict[str, tuple[str, ...]] = {}
    for each in map(relation, names):
        columns = tuple(column.name for column in each.columns)
        named = tuple(column for column in columns if everything or each.prefix + column in words)
        columns_of[each.name] = named or columns[:1]
    return columns_of


def load(dataset: Dataset, wanted: Reads, *, schema: str = "main") -> duckdb.DuckDBPyConnection:
    """Open a DuckDB in memory with these relations."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name, columns in wanted.items():
        rows = relation(name)
        connection.register("stored", dataset.table(rows.name))
        connection.execute(f"CREATE TABLE {schema}.{name} AS SELECT {_values(rows, columns)} FROM stored")  # noqa: S608
        connection.unregister("stored")
    return connection


def _values(rows: Relation, columns: Iterable[str]) -> str:
    return ", ".join(f"{SQL_VALUES[rows.column(name).kind].format(name)} AS {rows.prefix}{name}" for name in columns)


def best_seconds(connection: duckdb.DuckDBPyConnection, sql: str, runs: int) -> float:
    """Time a query with the fetch of its answer; return the fastest of some runs after one warm-up run."""
    seconds = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        connection.execute(sql).fetchall()
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])
