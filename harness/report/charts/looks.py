"""Which records charts draw, and how engines and workloads look, in all charts alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltamark.harness.report.charts.marks import LOOKS, Explained, Look, look
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.lookup import DUCKDB, SPARK, SPARK_SQL, Lookup

ON_SPARK = (SPARK, SPARK_SQL)

Runner = tuple[str, int]
"""What charts tell apart: an engine, and its number of workers, which on Spark are shards."""


def drawn(known: Lookup) -> list[QueryRecord]:
    """Return the records that charts draw: right answers of default dataflows, by one runner or several an engine.

    An engine is drawn with one worker, since more have a chart of their own, unless it was only measured with more.
    Spark has no records of one worker to stand for the others: it is drawn with each number of shards.
    """
    records = [record for record in known.records if record.has_numbers and record.is_default]
    alone = {record.engine for record in records if record.workers == 1} - {*ON_SPARK}
    return [record for record in records if record.workers == 1 or record.engine not in alone]


def runner(record: QueryRecord) -> Runner:
    return record.engine, record.workers


def in_order(known: Lookup, records: Iterable[QueryRecord]) -> list[QueryRecord]:
    """Sort records by runner, our engine's first; stable."""
    return sorted(records, key=lambda each: (known.engines.index(each.engine), each.workers))


def look_of(known: Lookup, record: QueryRecord) -> Look:
    """Return the look of a runner: the color of its engine, and another outline for each number of workers."""
    own = look(known.engines.index(record.engine))
    numbers = sorted({each.workers for each in drawn(known) if each.engine == record.engine} | {record.workers})
    outline = (own.outline + numbers.index(record.workers)) % LOOKS
    if record.workload == "insert":
        return Look(own.color, outline)
    leaving = sorted({each.workload for each in known.records} - {"insert"}, reverse=True)
    return Look(own.color, LOOKS - 1 - leaving.index(record.workload) % 2)


def runner_words(engine: str, workers: int) -> str:
    name = {DUCKDB: "DuckDB, recomputing", SPARK_SQL: "spark-sql, recomputing"}.get(engine, engine)
    if engine in ON_SPARK:
        return f"{name}, {workers} shard{'s' if workers > 1 else ''}"
    return f"{name}, {workers} workers" if workers > 1 else name


def runners_explained(known: Lookup, records: Iterable[QueryRecord]) -> Iterator[Explained]:
    """Explain the runners of those records in which rows only arrive."""
    found = {runner(each): each for each in in_order(known, records) if each.workload == "insert"}
    return (Explained(look_of(known, each), "solid", runner_words(*of)) for of, each in found.items())


def leaving_explained(known: Lookup, records: Iterable[QueryRecord]) -> Iterator[Explained]:
    """Explain the workloads in which rows leave."""
    found = {(runner(each), each.workload): each for each in in_order(known, records) if each.workload != "insert"}
    for (of, workload), each in found.items():
        yield Explained(look_of(known, each), "hollow", f"{runner_words(*of)}: {workload}")
