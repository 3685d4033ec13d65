"""Sections of rates: by batch size, by batching of one size, by engine, and relative to recomputing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from deltamark.harness.benchmarks.cell import COARSE, CROSSOVER, FINE, PRODUCT, Batching
from deltamark.harness.console.table import brief, counted, listed, rate, ratio
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.document import Section, lists, panels
from deltamark.harness.report.marks import (
    EngineThreads,
    LegendEntry,
    Linear,
    LineKind,
    Log,
    Look,
    Markup,
    Tooltip,
    chart_records,
    engine_name,
    in_order,
    keys_of,
    legend,
    look,
    look_of,
    over,
    runner,
    runner_legend,
    runner_words,
    short,
    side_by_side,
    tag,
    tooltip,
)
from deltamark.harness.report.panel import Axes, DataPoint, Line, Strip, panel, single, strips
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup, recorded_capabilities

LineName = tuple[EngineThreads, str, LineKind]
"""A line of a panel: a runner, a workload, and the kind of batches."""


def throughput(lookup: Lookup) -> Section | None:
    panel_lines = {query: _throughput_lines(lookup, query) for query in lookup.queries}
    everything = [record for lines in panel_lines.values() for records in lines.values() for record in records]
    if not everything:
        return None
    axes = Axes(
        Log.over(float(record.batch_rounds) for record in everything), Log.over(record.rate for record in everything),
        short, short, "rounds per batch", "tuples per second",
    )  # fmt: skip
    charts = [_throughput_panel(lookup, query, axes, lines) for query, lines in panel_lines.items() if lines]
    names = {name: records[0] for lines in panel_lines.values() for name, records in lines.items()}
    return Section(
        "throughput", "Throughput against batch size", _throughput_finding(lookup, everything),
        "Tuples per second by rounds per batch, over the same logarithmic axes for every query. If the line of "
        "recomputing is above, running the query again is faster than maintaining its answer.",
        [legend(_legend_entry(lookup, name, record) for name, record in names.items()), panels(charts)],
    )  # fmt: skip


def _throughput_finding(lookup: Lookup, records: Iterable[Record]) -> str:
    """State the best rate of each engine."""
    best: dict[EngineThreads, dict[str, float]] = defaultdict(dict)
    for record in in_order(lookup, records):
        rates = best[runner(record)]
        rates[record.query] = max(record.rate, rates.get(record.query, 0.0))
    return f"At the best batch size, the rate is {side_by_side(lookup, best, rate)}, {over(best)}."


def _throughput_lines(lookup: Lookup, query: str) -> dict[LineName, list[Record]]:
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


def _throughput_panel(lookup: Lookup, query: str, axes: Axes, lines: dict[LineName, list[Record]]) -> Markup:
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


Records = dict[Batching, Record]
ByEngine = Mapping[str, Mapping[str, Records]]
"""The records of each query, by engine."""

MEANINGS = {FINE: " (an answer in every round)", COARSE: " (one answer for the whole batch)"}

SCALE = Linear(0, 0.25, 4)


def batching(lookup: Lookup) -> Section | None:
    """Draw a strip for each query with several batchings of 100,000 rounds, and a list of strips for each engine."""
    streaming = [engine for engine in lookup.engines if lookup.capabilities(engine).has_stream]
    by_engine = {engine: found for engine in streaming if (found := _by_query(lookup, engine))}
    if not by_engine:
        return None
    of_queries = [records for by_query in by_engine.values() for records in by_query.values()]
    measured = [each for each in PRODUCT if any(each in records for records in of_queries)]
    entries = [LegendEntry(_look(each), "solid", _name(each)) for each in measured]
    return Section(
        "batching", "Logical against physical batches", _batching_finding(lookup, by_engine, measured),
        "A batch of 100,000 rounds, cut as L x P: the more rounds share a logical time (L), the fewer answers are due. "
        "Rates are relative to the best batching of a query, whose name ends its line.",
        [legend(entries), lists(_list(lookup, engine, by_query) for engine, by_query in by_engine.items())],
    )  # fmt: skip


def _by_query(lookup: Lookup, engine: str) -> dict[str, Records]:
    return {query: found for query in lookup.queries if len(found := _records(lookup, query, engine)) > 1}


def _records(lookup: Lookup, query: str, engine: str) -> Records:
    found = {each: lookup.find(query, *each, engine=engine) for each in PRODUCT}
    return {each: record for each, record in found.items() if record is not None and record.has_numbers}


def _list(lookup: Lookup, engine: str, by_query: Mapping[str, Records]) -> Markup:
    rows = [_strip(query, records) for query, records in by_query.items()]
    label = "rate relative to the query's best batching"
    chart = strips(SCALE, lambda value: f"{value:g}x", rows, label=label)
    return tag("div", tag("h3", runner_words(lookup, engine, 1)), chart)


def _strip(query: str, records: Records) -> Strip:
    best = max(records, key=lambda each: records[each].rate)
    marks = [
        single(_look(each), keys_of(record), record.rate / records[best].rate, tooltip(record))
        for each, record in records.items()
    ]
    return Strip(query, marks, _name(best), {"query": query})


def _look(each: Batching) -> Look:
    return look(PRODUCT.index(each))


def _name(each: Batching) -> str:
    return f"{each[0]} x {each[1]}"


def _batching_finding(lookup: Lookup, by_engine: ByEngine, measured: Sequence[Batching]) -> str:
    """State the cost of the most answers, and the gain of the fewest."""
    parts, queries = [], ""
    for each in (measured[0], measured[-1]):
        found = {(engine, 1): shares for engine, by_query in by_engine.items() if (shares := _shares(by_query, each))}
        parts.append(f"{side_by_side(lookup, found, ratio)} for {_name(each)}{MEANINGS.get(each, '')}")
        queries = queries or over(found)
    return f"Relative to the best batching, the rate is {', and '.join(parts)}, {queries}."


def _shares(by_query: Mapping[str, Records], each: Batching) -> dict[str, float]:
    """Return the rate of a batching relative to the best one of each query."""
    return {
        query: records[each].rate / max(record.rate for record in records.values())
        for query, records in by_query.items()
        if each in records
    }


def engines(lookup: Lookup) -> Section | None:
    """Draw the mean rates of all engines, if an external engine has batches that a line shows: L or P is 1."""
    records = [record for record in chart_records(lookup) if record.is_plain and 1 in (record.logical, record.physical)]
    if not any(record.external for record in records):
        return None
    return Section(
        "engines", "Engines side by side", _engines_finding(lookup, records),
        "Tuples per second by rounds per batch: the geometric mean over the queries that an engine answered. The "
        "tables of engines are below.",
        [legend(runner_legend(lookup, records)), panels([_chart(lookup, records)])],
    )  # fmt: skip


def _engines_finding(lookup: Lookup, records: Iterable[Record]) -> str:
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


class Pair:
    """A record of an engine that maintains, and DuckDB's of recomputing after batches of the same size."""

    def __init__(self, ours: Record, theirs: Record) -> None:
        self.record = ours
        self.share = 1 / ours.batches
        """The size of a batch relative to the stream."""
        self._maintained, self._recomputed = (each.best / each.batches for each in (ours, theirs))

    @property
    def gain(self) -> float:
        """The time of recomputing, as a multiple of that of maintaining."""
        return self._recomputed / self._maintained

    @property
    def tooltip(self) -> Tooltip:
        usual = tooltip(self.record)
        text = (
            f"a batch of {self.share:.2g} of the stream: maintained in {brief(self._maintained).text}, "
            f"recomputed by DuckDB in {brief(self._recomputed).text}, {ratio(self.gain).text} as long"
        )
        return Tooltip(usual.title, (text, *usual.lines), usual.command)


def break_even(lookup: Lookup) -> Section | None:
    """Draw a panel for each query, with a line for each engine that maintains answers."""
    by_query = {query: lines for query in lookup.queries if (lines := _break_even_lines(lookup, query))}
    pairs = [pair for lines in by_query.values() for line in lines.values() for pair in line]
    if not pairs:
        return None
    gains = [pair.gain for pair in pairs]
    axes = Axes(
        Log.over(pair.share for pair in pairs), Log.over([*gains, 1.0]), _percent, lambda value: f"{short(value)}x",
        "size of a batch relative to the stream", "time of recomputing / time of maintaining",
    )  # fmt: skip
    runners = {key: line[0].record for lines in by_query.values() for key, line in lines.items()}
    entries = [LegendEntry(look_of(lookup, each), "solid", runner_words(lookup, *key)) for key, each in runners.items()]
    return Section(
        "break-even", "When maintaining pays", _break_even_finding(lookup, pairs),
        "The time of DuckDB for running the query again after a batch, relative to the time of maintaining its answer, "
        "with P = 1. Above 1x, maintaining is faster.",
        [legend(entries), panels(_break_even_panel(lookup, query, axes, lines) for query, lines in by_query.items())],
    )  # fmt: skip


def _break_even_lines(lookup: Lookup, query: str) -> dict[EngineThreads, list[Pair]]:
    found: dict[EngineThreads, list[Pair]] = {}
    for record in sorted(chart_records(lookup), key=lambda record: record.batch_rounds):
        is_maintained = record.is_plain and not recorded_capabilities(record).recomputes
        if record.query == query and is_maintained and (record.logical, record.physical) in CROSSOVER:
            theirs = lookup.recomputed(query, record.batch_rounds)
            if theirs is not None and theirs.has_numbers and record.fully_timed:
                found.setdefault(runner(record), []).append(Pair(record, theirs))
    return found


def _break_even_panel(lookup: Lookup, query: str, axes: Axes, lines: dict[EngineThreads, list[Pair]]) -> Markup:
    drawn = [
        Line(
            look_of(lookup, line[0].record), "solid", keys_of(line[0].record),
            [DataPoint(pair.share, pair.gain, pair.tooltip) for pair in line],
        )
        for line in lines.values()
    ]  # fmt: skip
    return panel(query, axes, {"query": query}, drawn)


def _percent(share: float) -> str:
    return f"{100 * share:g}%"


def _break_even_finding(lookup: Lookup, pairs: Sequence[Pair]) -> str:
    """State the mean gain of the first engine at its smallest and at its largest batch, and the queries that lose."""
    first = runner(in_order(lookup, [pair.record for pair in pairs])[0])
    by_size: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if runner(pair.record) == first:
            by_size[pair.record.batch_rounds].append(pair)
    largest = max(by_size)
    means = [
        f"{ratio(geomean(pair.gain for pair in by_size[size])).text} for batches of {counted(size, 'round')}"
        for size in sorted({min(by_size), largest})
    ]
    slower = sorted({pair.record.query for pair in by_size[largest] if pair.gain < 1})
    lost = f"recomputing is faster for {listed(slower)}" if slower else "maintaining is faster for every query"
    return (
        f"The time of recomputing relative to maintaining with {engine_name(lookup, *first)} is {listed(means)} in the "
        f"geometric mean; {'at the larger size ' * (len(by_size) > 1)}{lost}."
    )
