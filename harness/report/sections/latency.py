"""The latency of single batches: one list for each batch size, one strip for each query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from deltamark.harness.console.formatting import brief, counted
from deltamark.harness.report.charts.marks import (
    EngineThreads,
    Log,
    Markup,
    chart_records,
    in_order,
    keys_of,
    legend,
    look_of,
    runner,
    runner_legend,
    series,
    tag,
    tick,
)
from deltamark.harness.report.charts.panel import Strip, spread, strips
from deltamark.harness.report.document import Section, lists
from deltamark.harness.report.findings import over, side_by_side
from deltamark.harness.report.tooltip import tooltip
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup

SIZES = (1, 1000, 100_000, 1_000_000)


def latency(lookup: Lookup) -> Section | None:
    by_size = {size: [record for record in chart_records(lookup) if _has_size(record, size)] for size in SIZES}
    everything = [record for records in by_size.values() for record in records]
    if not everything:
        return None
    scale = Log.over(value for record in everything for value in _spread(record))
    charts = [_list(lookup, scale, size, records) for size, records in by_size.items() if records]
    return Section(
        "latency", "Latency of a batch", _finding(lookup, by_size),
        "From the median to the slowest batch of the fastest run; the mark and the number are the 99th percentile. One "
        "list for each batch size in rounds, over the same axis.",
        [legend(runner_legend(lookup, everything)), lists(charts)],
    )  # fmt: skip


def _finding(lookup: Lookup, by_size: Mapping[int, Sequence[Record]]) -> str:
    """State the 99th percentile of each engine, for the smallest batches that most engines have."""
    size = max(by_size, key=lambda size: (len({runner(record) for record in by_size[size]}), -size))
    found: dict[EngineThreads, dict[str, float]] = defaultdict(dict)
    for record in _preferred(lookup, by_size[size]):
        found[runner(record)][record.query] = record.latency["p99"]
    batch = f"of {counted(size, 'round')}"
    return f"The 99th percentile of a batch {batch} is {side_by_side(lookup, found, brief)}, {over(found)}."


def _preferred(lookup: Lookup, records: Iterable[Record]) -> list[Record]:
    """Return one record of each query and runner, with L = 1 if possible."""
    ordered = sorted(records, key=lambda record: -record.logical)
    return in_order(lookup, {(record.query, runner(record)): record for record in ordered}.values())


def _has_size(record: Record, size: int) -> bool:
    return record.is_plain and record.batch_rounds == size and 1 in (record.logical, record.physical)


def _list(lookup: Lookup, scale: Log, size: int, records: list[Record]) -> Markup:
    rows = [_strip(lookup, scale, query, records) for query in lookup.queries]
    title = "Batches of one round" if size == 1 else f"Batches of {size:,} rounds"
    return tag(
        "div",
        tag("h3", title),
        strips(scale, tick, filter(None, rows), label="seconds per batch: p50, p99 and the slowest"),
    )


def _strip(lookup: Lookup, scale: Log, query: str, records: list[Record]) -> Strip | None:
    """Draw one record of each runner of a query."""
    ordered = _preferred(lookup, (record for record in records if record.query == query))
    if not ordered:
        return None
    return Strip(
        query,
        [_marks(lookup, scale, record) for record in ordered],
        brief(ordered[0].latency["p99"]).text,
        {"query": query},
    )


def _marks(lookup: Lookup, scale: Log, record: Record) -> Markup:
    look = look_of(lookup, record)
    return series(look, "solid", keys_of(record), spread(look, scale, _spread(record), tooltip(record)))


def _spread(record: Record) -> tuple[float, float, float]:
    return record.latency["p50"], record.latency["p99"], record.latency["max"]
