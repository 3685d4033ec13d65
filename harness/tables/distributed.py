"""The table of Spark beside one worker on the same machine, and beside recomputing on Spark."""

from __future__ import annotations

import math

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, megabytes, ratio, words
from deltamark.harness.console.table import Entries, Table, mean_foot
from deltamark.harness.engines.spark import SparkEngine
from deltamark.harness.engines.spark_sql import SparkSqlEngine
from deltamark.harness.measure.batch_sizes import ON_SPARK, Batching
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.against import batch_seconds
from deltamark.harness.tables.entry import entries, entry_of
from deltamark.harness.tables.lookup import Lookup

HEADERS = ("embedded", "Spark", "recomputed", "price", "gain", "wins from", "p99 / median", "state rows", "state MB")


def distributed(lookup: Lookup) -> Table:
    """Make the table of batch times: embedded, on Spark, and recomputed on Spark."""
    workers = max((record.workers for record in lookup.records if record.engine == SparkEngine.name), default=0)
    rows: list[Entries] = []
    for query in lookup.queries if workers else ():
        columns = [_records(lookup, query, column, workers) for column in ON_SPARK]
        if any(record is not None for _, *on_spark in columns for record in on_spark):
            rows.append([words(query), *(entry for records in columns for entry in _entries(*records))])
    return Table(
        "distributed", f"On Spark, {workers} shards: median seconds of a batch, P = 1, L = batch size",
        ["query", *(f"{name} {size:,}" for size, _ in ON_SPARK for name in HEADERS)], rows,
        [
            "embedded: one worker; recomputed: the batch appended to Parquet files, the query's SQL over the live rows",
            "price: Spark / embedded, gain: recomputed / Spark, both by the mean of all timed batches",
            "wins from: the number of rows after which recomputing always takes longer than Spark's median batch",
            "p99 / median: of Spark's batches; state: in the logs of all shards, after the last batch",
        ],
        mean_foot(rows, [brief, brief, brief, ratio, ratio, None, ratio, None, None] * len(ON_SPARK)),
    )  # fmt: skip


def _records(lookup: Lookup, query: str, column: Batching, workers: int) -> list[QueryRecord | None]:
    """Find the records of the embedded engine, of Spark, and of recomputing on Spark, if possible of one commit."""
    spark, recomputed = (
        lookup.find(query, *column, workers=workers, engine=name) for name in (SparkEngine.name, SparkSqlEngine.name)
    )
    return [lookup.beside(lookup.find(query, *column), spark), spark, lookup.beside(recomputed, spark)]


def _entries(own: QueryRecord | None, spark: QueryRecord | None, recomputed: QueryRecord | None) -> Entries:
    times = entries((own, spark, recomputed), lambda record: brief(record.latency["p50"]))
    spread = entry_of(spark, lambda record: ratio(record.latency["p99"] / record.latency["p50"]))
    rows = entry_of(spark, lambda record: count(record.state_rows) if record.state_rows else NOTHING)
    size = entry_of(spark, lambda record: megabytes(record.state_bytes) if record.state_rows else NOTHING)
    return [*times, _ratio(spark, own), _ratio(recomputed, spark), _winning(spark, recomputed), spread, rows, size]


def _ratio(one: QueryRecord | None, other: QueryRecord | None) -> TableEntry:
    if one is None or other is None or not (one.has_numbers and other.has_numbers):
        return NOTHING
    return ratio(batch_seconds(one) / batch_seconds(other))


def _winning(spark: QueryRecord | None, recomputed: QueryRecord | None) -> TableEntry:
    """Return the number of rows after which recomputing always takes longer than Spark's median batch."""
    if not (spark and recomputed and spark.has_numbers and recomputed.has_numbers and recomputed.trace):
        return NOTHING
    trace, median = recomputed.trace, spark.latency["p50"]
    lost = max((at for at, (_, seconds) in enumerate(trace) if seconds <= median), default=-1)
    return count(trace[lost + 1][0]) if lost + 1 < len(trace) else TableEntry("never", math.inf)
