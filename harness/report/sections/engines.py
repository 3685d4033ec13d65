"""External engines beside the others: mean rates by batch size, with one line for each engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from deltamark.harness.console.formatting import counted, rate
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.charts.marks import (
    EngineThreads,
    LineKind,
    Log,
    Markup,
    chart_records,
    in_order,
    legend,
    look_of,
    runner,
    runner_legend,
    runner_words,
    short,
)
from deltamark.harness.report.charts.panel import Axes, DataPoint, Line, panel
from deltamark.harness.report.document import Section, panels
from deltamark.harness.report.findings import over, side_by_side
from deltamark.harness.report.tooltip import Tooltip
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup


def engines(lookup: Lookup) -> Section | None:
    """Draw the mean rates of all engines, if an external engine has batches that a line shows: L or P is 1."""
    records = [record for record in chart_records(lookup) if record.is_plain and 1 in (record.logical, record.physical)]
    if not any(record.external for record in records):
        return None
    return Section(
        "engines", "Engines side by side", _finding(lookup, records),
        "Tuples per second by rounds per batch: the geometric mean over the queries that an engine answered. The "
        "tables of engines are below.",
        [legend(runner_legend(lookup, records)), panels([_chart(lookup, records)])],
    )  # fmt: skip


def _finding(lookup: Lookup, records: Iterable[Record]) -> str:
    """State the rates of all engines at the largest batch size that most engines have, relative to the first one."""
    by_size: dict[int, dict[EngineThreads, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in in_order(lookup, records):
        rates = by_size[record.batch_rounds][runner(record)]
        rates[record.query] = max(record.rate, rates.get(record.query, 0.0))
    size = max(by_size, key=lambda size: (len(by_size[size]), size))
    found = by_size[size]
    return f"For batches of {counted(size, 'round')}, the rate is {side_by_side(lookup, found, rate)}, {over(found)}."


def _chart(lookup: Lookup, records: list[Record]) -> Markup:
    by_line: dict[tuple[EngineThreads, LineKind], dict[int, list[Record]]] = {}
    for record in sorted(records, key=lambda record: record.batch_rounds):
        line = by_line.setdefault((runner(record), "solid" if record.logical == 1 else "hollow"), defaultdict(list))
        line[record.batch_rounds].append(record)
    lines = [_line(lookup, kind, by_size) for (_, kind), by_size in by_line.items()]
    points = [point for line in lines for point in line.points]
    axes = Axes(
        Log.over(point.x for point in points), Log.over(point.y for point in points), short, short,
        "rounds per batch", "tuples per second",
    )  # fmt: skip
    return panel("geometric mean", axes, {}, lines)


def _line(lookup: Lookup, kind: LineKind, by_size: dict[int, list[Record]]) -> Line:
    first = next(iter(by_size.values()))[0]
    name = runner_words(lookup, *runner(first))
    points = [_point(name, size, records) for size, records in by_size.items()]
    return Line(look_of(lookup, first), kind, {"engine": first.engine}, points)


def _point(name: str, size: int, records: list[Record]) -> DataPoint:
    mean = geomean([record.rate for record in records])
    text = f"{rate(mean).text}, the geometric mean of {len(records)} queries"
    return DataPoint(size, mean, Tooltip(f"{name}, batches of {size:,} rounds", (text,), "make tables TABLE=engines"))
