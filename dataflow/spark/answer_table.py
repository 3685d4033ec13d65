"""The present answer as a table of Delta or Iceberg, into which each micro-batch merges its changes.

A micro-batch is one MERGE, which the table commits as a whole. Spark repeats the last micro-batch if the query dies
between this commit and its own. The merge of a repeated micro-batch changes nothing: with a key, because rows are set
and deleted, not added up; without a key, because each row has the number of the micro-batch that changed it last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from deltamark.dataflow.spark.columns import Names, column, listed, quoted, require
from deltamark.dataflow.spark.sink import DIFF, QUERY, TIME
from deltamark.errors import DeltamarkError

COPIES, BATCH = "copies", "batch"
"""The columns that a table without a key has besides the values: the number of equal rows, and the micro-batch that
changed it last."""

COUNT, OTHERS = "number of rows", "columns besides the key"
"""Columns of a frame of changes, which no answer has."""

CHANGES = "changes_of_the_answer"
"""The view of the changes of a micro-batch, in the session of the query."""


def merge_into(table: str, key: Names = (), using: str = "delta") -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that merges the changes of an answer into a table.

    table: a name of Spark SQL, such as "shop.revenue" or "delta.`/lake/revenue`". The first micro-batch creates the
    table if it does not exist, in the format `using`; a query with a new checkpoint needs a new table. key: the columns
    in which no two rows of the answer agree, such as those of GROUP BY. Without a key the table has each row once, with
    the columns `copies` and `batch`.
    """
    keys = listed(key)

    def merge(changes: DataFrame, batch: int) -> None:
        values = [name for name in changes.columns if name not in (TIME, DIFF)]
        require(changes, keys, "the answer")
        if batch == 0:
            _create(changes, table, values, [] if keys else [COPIES, BATCH], using)
        with _cached(changes):
            if changes.count():
                net = changes.groupBy(*map(column, values)).agg(f.sum(DIFF).alias(COUNT)).where(column(COUNT) != 0)
                rows = _by_key(net, values, keys) if keys else _by_row(net, values, batch)
                rows.createOrReplaceTempView(CHANGES)
                changes.sparkSession.sql(_merge_by_key(table, values, keys) if keys else _merge_by_row(table, values))

    return merge


def for_each_query(functions: Mapping[str, Callable[[DataFrame, int], None]]) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that hands the changes of each of several queries to its own function.

    functions: functions for `foreachBatch` by the names of their queries, such as those of `merge_into`. Each gets the
    changes of its query as if the query were alone. Spark computes the changes once for all of them.
    """

    def call_each(changes: DataFrame, batch: int) -> None:
        require(changes, [QUERY], "the changes of several queries")
        require(changes, functions, "the changes of several queries")
        for name in changes.columns:
            if name not in (QUERY, TIME, DIFF, *functions):
                raise DeltamarkError("a query without a function", name, "give for_each_query one of this name")
        with _cached(changes):
            for name, function in functions.items():
                own = changes.where(column(QUERY) == f.lit(name))
                function(own.select(TIME, DIFF, f.col(f"{quoted(name)}.*")), batch)

    return call_each


@contextmanager
def _cached(frame: DataFrame) -> Iterator[None]:
    """Let Spark compute a frame once for all actions of a block, unless the caller does so for more of them."""
    if frame.is_cached:
        yield
        return
    frame.persist()
    try:
        yield
    finally:
        frame.unpersist()


def _create(changes: DataFrame, table: str, values: Sequence[str], more: Sequence[str], using: str) -> None:
    for name in more:
        if name in values:
            raise DeltamarkError("the answer has a column that the table needs", name, "rename it, or give a key")
    columns = [f"{quoted(name)} {changes.schema[name].dataType.simpleString()}" for name in values]
    columns += [f"{name} bigint" for name in more]
    changes.sparkSession.sql(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)}) USING {using}")


def _by_key(net: DataFrame, values: Sequence[str], keys: Sequence[str]) -> DataFrame:
    """Return the row of each changed key after the micro-batch, and a COUNT of 0 if the key has left the answer."""
    others = [name for name in values if name not in keys]
    count, row = f.sum(f.greatest(column(COUNT), f.lit(0))), f.struct(column(COUNT), *map(column, others))
    found = net.groupBy(*map(column, keys)).agg(count.alias(COUNT), f.max_by(row, column(COUNT)).alias(OTHERS))
    error = f"DeltamarkError: not a key of the answer: {', '.join(keys)}; give columns in which no two rows agree"
    checked = f.when(column(COUNT) <= 1, column(COUNT)).otherwise(f.raise_error(f.lit(error)))
    fields = [column(OTHERS).getField(name).alias(name) for name in others]
    return found.select(*map(column, keys), *fields, checked.alias(COUNT))


def _by_row(net: DataFrame, values: Sequence[str], batch: int) -> DataFrame:
    last = f.lit(batch).cast("bigint").alias(BATCH)
    return net.select(*map(column, values), column(COUNT).alias(COPIES), last)


def _merge_by_key(table: str, values: Sequence[str], keys: Sequence[str]) -> str:
    count = f"new.{quoted(COUNT)}"
    others = ", ".join(f"{name} = new.{name}" for name in map(quoted, values) if name not in map(quoted, keys))
    update = f"WHEN MATCHED THEN UPDATE SET {others}" if others else ""
    return f"""
        MERGE INTO {table} AS old USING {CHANGES} AS new ON {_same(keys)}
        WHEN MATCHED AND {count} = 0 THEN DELETE {update}
        WHEN NOT MATCHED AND {count} > 0 THEN {_insert(values)}
    """


def _merge_by_row(table: str, values: Sequence[str]) -> str:
    is_due, copies = f"old.{BATCH} < new.{BATCH}", f"old.{COPIES} + new.{COPIES}"
    return f"""
        MERGE INTO {table} AS old USING {CHANGES} AS new ON {_same(values)}
        WHEN MATCHED AND {is_due} AND {copies} = 0 THEN DELETE
        WHEN MATCHED AND {is_due} THEN UPDATE SET {COPIES} = {copies}, {BATCH} = new.{BATCH}
        WHEN NOT MATCHED AND new.{COPIES} > 0 THEN {_insert([*values, COPIES, BATCH])}
    """


def _same(names: Sequence[str]) -> str:
    return " AND ".join(f"old.{name} <=> new.{name}" for name in map(quoted, names))


def _insert(names: Sequence[str]) -> str:
    columns = [*map(quoted, names)]
    return f"INSERT ({', '.join(columns)}) VALUES ({', '.join(f'new.{name}' for name in columns)})"
