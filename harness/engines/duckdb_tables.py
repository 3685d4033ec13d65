"""DuckDB beside the engine: the relations as tables of the specification's types and names, one thread."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping

import duckdb

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import Relation, relation

SPELLED = {
    "int": "{0}",
    "decimal": "({0} / 100)::DECIMAL(15, 2)",
    "date": "DATE '1970-01-01' + {0}",
    "code": "{0}::VARCHAR",
    "text": "{0}",
}

Reads = Mapping[str, tuple[str, ...]]
"""Relations, and which of their columns are read."""


def reads(sql: str, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns of some relations that a query names: at least the first, and all where it selects `*`."""
    words = set(re.findall(r"\w+", sql))
    selects = re.sub(r"EXISTS\s*\(\s*SELECT\s+\*", "", sql, flags=re.IGNORECASE)
    everything = re.search(r"SELECT\s+\*", selects, re.IGNORECASE)
    found: dict[str, tuple[str, ...]] = {}
    for each in map(relation, names):
        columns = tuple(column.name for column in each.columns)
        named = tuple(column for column in columns if everything or each.prefix + column in words)
        found[each.name] = named or columns[:1]
    return found


def load(dataset: Dataset, wanted: Reads, *, schema: str = "main") -> duckdb.DuckDBPyConnection:
    """Open a DuckDB in memory that holds these relations."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name, columns in wanted.items():
        of = relation(name)
        connection.register("stored", dataset.table(of.name))
        connection.execute(f"CREATE TABLE {schema}.{name} AS SELECT {_spelled(of, columns)} FROM stored")  # noqa: S608
        connection.unregister("stored")
    return connection


def _spelled(of: Relation, columns: Iterable[str]) -> str:
    return ", ".join(f"{SPELLED[of.column(name).kind].format(name)} AS {of.prefix}{name}" for name in columns)


def best_seconds(connection: duckdb.DuckDBPyConnection, sql: str, runs: int) -> float:
    """Time a query, its answer fetched; return the fastest of some runs after one to warm up."""
    seconds = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        connection.execute(sql).fetchall()
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])
