"""Spark beside one worker on the same machine, and beside Spark recomputing: the price of distribution, plainly."""

from __future__ import annotations

from harness.record import Record
from harness.tables.against import a_batch
from harness.tables.entry import NOTHING, Entry, Row, Table, brief, mean_foot, of, ratio, words
from harness.tables.lookup import Lookup

SPARK, SPARK_SQL = "spark", "spark-sql"
SIZES = (100_000, 1_000_000)


def distributed(known: Lookup) -> Table:
    """Make the table of what a batch takes: embedded, on Spark, and recomputed on Spark."""
    rows: list[Row] = []
    workers = max((record.workers for record in known.records if record.engine == SPARK), default=0)
    for query in known.queries:
        row = [words(query)]
        for size in SIZES:
            own = known.find(query, size, 1)
            spark = known.find(query, size, 1, workers=workers, engine=SPARK)
            again = known.find(query, size, 1, workers=workers, engine=SPARK_SQL)
            row += [of(each, lambda record: brief(record.latency["p50"])) for each in (own, spark, again)]
            row += [_ratio(spark, own), _ratio(again, spark)]
        if workers and any(row[at] is not NOTHING for at in (2, 3, 7, 8)):
            rows.append(row)
    headers = ["embedded", "Spark", "recomputed", "price", "gain"]
    return Table(
        "distributed", f"On Spark, {workers} shards: median seconds of a batch, P = 1, L = batch size",
        ["query", *(f"{name} {size:,}" for size in SIZES for name in headers)], rows,
        [
            "embedded: one worker; recomputed: the same SQL by Spark SQL over the live rows, cached in its memory",
            "price: Spark to embedded, gain: recomputed to Spark, both of whole streams",
        ],
        mean_foot(rows, [brief, brief, brief, ratio, ratio] * len(SIZES)),
    )  # fmt: skip


def _ratio(one: Record | None, other: Record | None) -> Entry:
    if one is None or other is None or not (one.shown and other.shown):
        return NOTHING
    return ratio(a_batch(one) / a_batch(other))
