"""The table of Spark beside one worker on the same machine, and beside recomputing on Spark."""

from __future__ import annotations

import math

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, ratio, words
from deltamark.harness.console.table import Row, Table, mean_foot
from deltamark.harness.measure.batch_sizes import ON_SPARK
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.against import a_batch
from deltamark.harness.tables.entry import of
from deltamark.harness.tables.lookup import SPARK, SPARK_SQL, Lookup

HEADERS = ("embedded", "Spark", "recomputed", "price", "gain", "wins from")


def distributed(known: Lookup) -> Table:
    """Make the table of batch times: embedded, on Spark, and recomputed on Spark."""
    rows: list[Row] = []
    workers = max((record.workers for record in known.records if record.engine == SPARK), default=0)
    for query in known.queries:
        row, measured = [words(query)], False
        for column in ON_SPARK:
            own = known.find(query, *column)
            spark = known.find(query, *column, workers=workers, engine=SPARK)
            again = known.find(query, *column, workers=workers, engine=SPARK_SQL)
            row += [of(each, lambda record: brief(record.latency["p50"])) for each in (own, spark, again)]
            row += [_ratio(spark, own), _ratio(again, spark), _winning(spark, again)]
            measured |= spark is not None or again is not None
        if workers and measured:
            rows.append(row)
    return Table(
        "distributed", f"On Spark, {workers} shards: median seconds of a batch, P = 1, L = batch size",
        ["query", *(f"{name} {size:,}" for size, _ in ON_SPARK for name in HEADERS)], rows,
        [
            "embedded: one worker; recomputed: the batch appended to Parquet files, the query's SQL over the live rows",
            "price: Spark / embedded, gain: recomputed / Spark, both by the mean of all timed batches",
            "wins from: the number of rows after which recomputing always takes longer than Spark's median batch",
        ],
        mean_foot(rows, [brief, brief, brief, ratio, ratio, None] * len(ON_SPARK)),
    )  # fmt: skip


def _ratio(one: QueryRecord | None, other: QueryRecord | None) -> TableEntry:
    if one is None or other is None or not (one.has_numbers and other.has_numbers):
        return NOTHING
    return ratio(a_batch(one) / a_batch(other))


def _winning(spark: QueryRecord | None, again: QueryRecord | None) -> TableEntry:
    """Return the number of rows after which recomputing always takes longer than Spark's median batch."""
    if spark is None or again is None or not (spark.has_numbers and again.has_numbers and again.trace):
        return NOTHING
    lost = max((at for at, (_, took) in enumerate(again.trace) if took <= spark.latency["p50"]), default=-1)
    return count(again.trace[lost + 1][0]) if lost + 1 < len(again.trace) else TableEntry("never", math.inf)
