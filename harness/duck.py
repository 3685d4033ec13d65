"""DuckDB beside the engine: the relations as tables of the specification's types and names, one thread."""

from __future__ import annotations

import time
from collections.abc import Iterable

import duckdb

from datagen.dataset import Dataset
from datagen.schema import RELATIONS, Relation, RelationName

SPELLED = {
    "int": "{0}",
    "decimal": "({0} / 100)::DECIMAL(15, 2)",
    "date": "DATE '1970-01-01' + {0}",
    "code": "{0}::VARCHAR",
    "text": "{0}",
}


def load(
    dataset: Dataset, names: Iterable[RelationName], *, threads: int = 1, schema: str = "main"
) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB in memory that holds these relations."""
    connection = duckdb.connect(config={"threads": threads})
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name in names:
        relation = RELATIONS[name]
        connection.register("stored", dataset.table(name))
        connection.execute(f"CREATE TABLE {schema}.{name} AS SELECT {_columns(relation)} FROM stored")  # noqa: S608
        connection.unregister("stored")
    return connection


def _columns(relation: Relation) -> str:
    spelled = (f"{SPELLED[each.kind].format(each.name)} AS {relation.prefix}{each.name}" for each in relation.columns)
    return ", ".join(spelled)


def best_seconds(connection: duckdb.DuckDBPyConnection, sql: str, runs: int) -> float:
    """Time a query, its answer fetched; return the fastest of some runs after one to warm up."""
    seconds = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        connection.execute(sql).fetchall()
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])
