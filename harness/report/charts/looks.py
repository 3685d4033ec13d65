"""The records that charts draw, and the colors and outlines of engines and workloads in all charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.duckdb import DuckDBEngine
from deltamark.harness.engines.registry import recorded_capabilities
from deltamark.harness.report.charts.marks import LOOKS, LegendEntry, Look, look
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup

EngineThreads = tuple[str, int]
"""An engine and its number of workers, or of shards on Spark. Each runner has a look of its own."""


def chart_records(lookup: Lookup) -> list[Record]:
    """Return the records that charts draw: right answers of default dataflows.

    An engine is drawn with one worker, because more workers have their own chart, unless it was only measured with
    several. Spark has no records with one worker, so it is drawn with each number of shards.
    """
    records = [record for record in lookup.records if record.has_numbers and record.is_default]
    single = {each.engine for each in records if each.workers == 1 and not recorded_capabilities(each).has_master}
    return [record for record in records if record.workers == 1 or record.engine not in single]


def runner(record: Record) -> EngineThreads:
    return record.engine, record.workers


def in_order(lookup: Lookup, records: Iterable[Record]) -> list[Record]:
    """Sort records by runner, those of our engine first. The sort is stable."""
    return sorted(records, key=lambda record: (lookup.engines.index(record.engine), record.workers))


def look_of(lookup: Lookup, record: Record) -> Look:
    """Return the look of a runner: the color of its engine, and an outline for each number of workers."""
    own = look(lookup.engines.index(record.engine))
    numbers = sorted(
        {other.workers for other in chart_records(lookup) if other.engine == record.engine} | {record.workers}
    )
    outline = (own.outline + numbers.index(record.workers)) % LOOKS
    if record.is_plain:
        return Look(own.color, outline)
    workloads = sorted({other.workload for other in lookup.records if not other.is_plain}, reverse=True)
    return Look(own.color, LOOKS - 1 - workloads.index(record.workload) % 2)


def runner_words(lookup: Lookup, engine: str, workers: int) -> str:
    name, able = "DuckDB" if engine == DuckDBEngine.name else short_name(engine), lookup.capabilities(engine)
    name += ", recomputing" * able.recomputes
    if able.has_master:
        return f"{name}, {workers} shard{'s' if workers > 1 else ''}"
    return f"{name}, {workers} workers" if workers > 1 else name


def runner_legend(lookup: Lookup, records: Iterable[Record]) -> Iterator[LegendEntry]:
    """Return legend entries for the runners of records without retractions."""
    runners = {runner(record): record for record in in_order(lookup, records) if record.is_plain}
    return (
        LegendEntry(look_of(lookup, record), "solid", runner_words(lookup, *key)) for key, record in runners.items()
    )


def retraction_legend(lookup: Lookup, records: Iterable[Record]) -> Iterator[LegendEntry]:
    """Return legend entries for the runners and workloads with retractions."""
    retracting = [record for record in in_order(lookup, records) if not record.is_plain]
    for (key, workload), record in {(runner(record), record.workload): record for record in retracting}.items():
        yield LegendEntry(look_of(lookup, record), "hollow", f"{runner_words(lookup, *key)}: {workload}")
