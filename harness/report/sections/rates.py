"""Latency by rate: one panel for each stream, with a line for each engine, from the trials of the suite of rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from deltamark.harness.console.formatting import brief, counted, listed, rate
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.charts.marks import Keys, LegendEntry, Log, Look, Markup, legend, look, short, tick
from deltamark.harness.report.charts.panel import Axes, DataPoint, Line, panel
from deltamark.harness.report.document import Section, panels
from deltamark.harness.report.sections.grids import folded
from deltamark.harness.report.tooltip import Tooltip
from deltamark.harness.results.record import Record, latest
from deltamark.harness.suites.rate import ON
from deltamark.harness.suites.registry import RateSuite
from deltamark.harness.tables.suites import consistent_figures


@dataclass(frozen=True)
class Curve:
    """The trials of an engine with a stream, in the order of their rates."""

    dataset: str
    stream: str
    """The query with the workload and the arrivals."""
    engine: str
    trials: Sequence[Record]

    @cached_property
    def highest(self) -> float | None:
        """The highest sustained rate."""
        return max((trial.least("rate") for trial in self.trials if trial.least("sustained")), default=None)

    @property
    def title(self) -> str:
        return f"{self.stream}, {self.dataset}"

    @property
    def keys(self) -> Keys:
        return {"query": self.stream.split()[0], "engine": self.engine}


def rates(records: Sequence[Record]) -> Section | None:
    """Draw the 99th percentile of the latency by the rate of rounds."""
    tables = RateSuite.tables(records)
    if not tables:
        return None
    with consistent_figures(RateSuite.NAME):
        found = curves(records)
        charts = _charts(found) if found else []
        finding = _finding(found)
    text = (
        "The 99th percentile of the latency of a round, from the time at which it is due, by the rate at which rounds "
        "become due. Hollow marks are rates that the engine does not sustain. The tables are those of make tables "
        "SUITE=rate."
    )
    shown = [folded(table, lambda _: {}, unfolded=table.name.startswith("rate")) for table in tables]
    return Section("rates", "Latency by rate", finding, text, [*charts, *shown])


def curves(records: Iterable[Record]) -> list[Curve]:
    """Return the curves of all streams and engines; of several trials at a rate, a curve has the best one."""
    best: dict[tuple[str, str], dict[float, Record]] = {}
    for row in latest(record for record in records if record.suite == RateSuite.NAME):
        if row.status == "ok" and row.figures:
            at_rate = best.setdefault((row.dataset, row.row), {})
            rounds = row.least("rate")
            at_rate[rounds] = min(at_rate.get(rounds, row), row, key=_rank)
    return [
        Curve(dataset, *_stream_and_engine(name), [trial for _, trial in sorted(trials.items())])
        for (dataset, name), trials in best.items()
    ]


def _rank(trial: Record) -> tuple[bool, float]:
    return not trial.least("sustained"), trial.least("p99")


def _stream_and_engine(name: str) -> tuple[str, str]:
    stream, _, engine = name.partition(ON)
    return stream, engine


def _finding(found: Sequence[Curve]) -> str:
    by_engine: dict[str, list[float]] = {}
    for curve in found:
        if curve.highest is not None:
            by_engine.setdefault(curve.engine, []).append(curve.highest)
    if not by_engine:
        return "No engine sustains a rate."
    most = max(map(len, by_engine.values()))
    parts = [
        f"{rate(geomean(highest)).text} with {engine}" + (f" (over {len(highest)})" if len(highest) < most else "")
        for engine, highest in by_engine.items()
    ]
    mean = f", in the geometric mean of {counted(most, 'stream')}" if most > 1 else ""
    return f"The highest sustained rate of rounds is {listed(parts)}{mean}."


def _charts(found: Sequence[Curve]) -> list[Markup]:
    trials = [trial for curve in found for trial in curve.trials]
    axes = Axes(
        Log.over(trial.least("rate") for trial in trials), Log.over(trial.least("p99") for trial in trials), short,
        tick, "rounds per second", "99th percentile of the latency",
    )  # fmt: skip
    looks = {engine: look(number) for number, engine in enumerate(dict.fromkeys(curve.engine for curve in found))}
    by_title: dict[str, list[Curve]] = {}
    for curve in found:
        by_title.setdefault(curve.title, []).append(curve)
    entries = [LegendEntry(style, "solid", engine) for engine, style in looks.items()]
    return [legend(entries), panels(_panel(title, axes, looks, each) for title, each in by_title.items())]


def _panel(title: str, axes: Axes, looks: Mapping[str, Look], of_panel: Sequence[Curve]) -> Markup:
    lines = [line for curve in of_panel for line in _lines(curve, looks[curve.engine])]
    return panel(title, axes, {"query": of_panel[0].keys["query"]}, lines)


def _lines(curve: Curve, style: Look) -> list[Line]:
    """Return the line of the sustained rates, and that of the others."""
    points = [(DataPoint(each.least("rate"), each.least("p99"), _tooltip(curve, each)), each) for each in curve.trials]
    sustained = [point for point, trial in points if trial.least("sustained")]
    others = [point for point, trial in points if not trial.least("sustained")]
    lines = (Line(style, "solid", curve.keys, sustained), Line(style, "hollow", curve.keys, others))
    return [line for line in lines if line.points]


def _tooltip(curve: Curve, trial: Record) -> Tooltip:
    p50, p99, slowest = (brief(trial.least(name)).text for name in ("p50", "p99", "max"))
    lines = [
        f"{rate(trial.least('rate')).text} rounds: {trial.note or 'sustained'}",
        f"a round p50 {p50}, p99 {p99}, at most {slowest}",
        f"batches: {trial.least('batches'):,.0f} in {brief(trial.least('seconds')).text}",
    ]
    if "recovery" in trial.figures:
        lines.append(f"recovery from the largest burst in {brief(trial.least('recovery')).text}")
    return Tooltip(f"{curve.title}, {curve.engine}", tuple(lines), command(curve))


def command(curve: Curve) -> str:
    """Return the command that measures a curve again, in another directory: in the same one the cell is done."""
    query, *others = curve.stream.split()
    arrivals = [f"ARRIVALS={word}" for word in others if word.startswith("burst:")]
    works = [f"WORKLOAD={word}" for word in others if not word.startswith("burst:")]
    settings = [f"QUERY={query}", f"SF={curve.dataset.split()[1]}", *works, *arrivals, f"ENGINES={curve.engine}"]
    return " ".join(["make rate", *settings, "RESULTS=again"])
