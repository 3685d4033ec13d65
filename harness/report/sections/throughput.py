"""Throughput by batch size, one panel for each query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from deltamark.harness.console.formatting import rate
from deltamark.harness.report.charts.marks import (
    EngineThreads,
    LegendEntry,
    LineKind,
    Log,
    Markup,
    chart_records,
    in_order,
    keys_of,
    legend,
    look_of,
    runner,
    runner_words,
    short,
)
from deltamark.harness.report.charts.panel import Axes, DataPoint, Line, panel
from deltamark.harness.report.document import Section, panels
from deltamark.harness.report.findings import over, side_by_side
from deltamark.harness.report.tooltip import tooltip
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup, recorded_capabilities

LineName = tuple[EngineThreads, str, LineKind]
"""A line of a panel: a runner, a workload, and the kind of batches."""


def throughput(lookup: Lookup) -> Section | None:
    panel_lines = {query: _lines(lookup, query) for query in lookup.queries}
    everything = [record for lines in panel_lines.values() for records in lines.values() for record in records]
    if not everything:
        return None
    axes = Axes(
        Log.over(float(record.batch_rounds) for record in everything), Log.over(record.rate for record in everything),
        short, short, "rounds per batch", "tuples per second",
    )  # fmt: skip
    charts = [_panel(lookup, query, axes, lines) for query, lines in panel_lines.items() if lines]
    names = {name: records[0] for lines in panel_lines.values() for name, records in lines.items()}
    return Section(
        "throughput", "Throughput against batch size", _finding(lookup, everything),
        "Tuples per second by rounds per batch, over the same logarithmic axes for every query. If the line of "
        "recomputing is above, running the query again is faster than maintaining its answer.",
        [legend(_legend_entry(lookup, name, record) for name, record in names.items()), panels(charts)],
    )  # fmt: skip


def _finding(lookup: Lookup, records: Iterable[Record]) -> str:
    """State the best rate of each engine."""
    best: dict[EngineThreads, dict[str, float]] = defaultdict(dict)
    for record in in_order(lookup, records):
        rates = best[runner(record)]
        rates[record.query] = max(record.rate, rates.get(record.query, 0.0))
    return f"At the best batch size, the rate is {side_by_side(lookup, best, rate)}, {over(best)}."


def _lines(lookup: Lookup, query: str) -> dict[LineName, list[Record]]:
    """Return the records of each line of a query, ordered by batch size."""
    lines = defaultdict(list)
    for record in sorted(chart_records(lookup), key=lambda record: record.batch_rounds):
        kind = _kind(record)
        if kind and record.query == query:
            lines[runner(record), record.workload, kind].append(record)
    return lines


def _kind(record: Record) -> LineKind | None:
    """Return the kind of a record's batches; None if neither L nor P is 1."""
    if not record.is_plain:
        return "dotted"
    if record.logical == 1 or not recorded_capabilities(record).has_stream:
        return "solid"
    return "hollow" if record.physical == 1 else None


def _panel(lookup: Lookup, query: str, axes: Axes, lines: dict[LineName, list[Record]]) -> Markup:
    drawn = [
        Line(look_of(lookup, records[0]), kind, keys_of(records[0]), list(_points(records)))
        for (_, _, kind), records in lines.items()
    ]
    return panel(query, axes, {"query": query}, drawn)


def _points(records: Iterable[Record]) -> Iterable[DataPoint]:
    return (DataPoint(record.batch_rounds, record.rate, tooltip(record)) for record in records)


def _legend_entry(lookup: Lookup, name: LineName, record: Record) -> LegendEntry:
    runner_key, workload, kind = name
    batches = {"solid": "L = 1, so a batch is P", "hollow": "P = 1, so a batch is L", "dotted": workload}[kind]
    words = runner_words(lookup, *runner_key)
    text = f"{words}: {batches}" if recorded_capabilities(record).has_stream else words
    return LegendEntry(look_of(lookup, record), kind, text)
