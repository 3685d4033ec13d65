"""When maintaining pays: the time of recomputing relative to that of maintaining, by the size of a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from deltamark.harness.benchmarks.cell import CROSSOVER
from deltamark.harness.console.formatting import brief, counted, listed, ratio
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.charts.marks import (
    EngineThreads,
    LegendEntry,
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
from deltamark.harness.report.findings import engine_name
from deltamark.harness.report.tooltip import Tooltip, tooltip
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup, recorded_capabilities


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
    by_query = {query: lines for query in lookup.queries if (lines := _lines(lookup, query))}
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
        "break-even", "When maintaining pays", _finding(lookup, pairs),
        "The time of DuckDB for running the query again after a batch, relative to the time of maintaining its answer, "
        "with P = 1. Above 1x, maintaining is faster.",
        [legend(entries), panels(_panel(lookup, query, axes, lines) for query, lines in by_query.items())],
    )  # fmt: skip


def _lines(lookup: Lookup, query: str) -> dict[EngineThreads, list[Pair]]:
    found: dict[EngineThreads, list[Pair]] = {}
    for record in sorted(chart_records(lookup), key=lambda record: record.batch_rounds):
        is_maintained = record.is_plain and not recorded_capabilities(record).recomputes
        if record.query == query and is_maintained and (record.logical, record.physical) in CROSSOVER:
            theirs = lookup.recomputed(query, record.batch_rounds)
            if theirs is not None and theirs.has_numbers and record.fully_timed:
                found.setdefault(runner(record), []).append(Pair(record, theirs))
    return found


def _panel(lookup: Lookup, query: str, axes: Axes, lines: dict[EngineThreads, list[Pair]]) -> Markup:
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


def _finding(lookup: Lookup, pairs: Sequence[Pair]) -> str:
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
