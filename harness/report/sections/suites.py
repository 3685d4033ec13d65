"""Sections of the suites other than throughput: growth, recovery, rates (a panel for each stream), memory, sharing,
attachments, loops and graphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE
from deltamark.harness.console.table import Table, brief, counted, listed, megabytes, rate, ratio
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.chart import Axes, Axis, Frame, Kind, Log, Row, Tooltip, chart, legend, look, short, tick
from deltamark.harness.report.document import Keys, Markup, Section, folded, lists, panels
from deltamark.harness.results.record import Record, latest
from deltamark.harness.suites.rate import ON
from deltamark.harness.suites.registry import (
    AttachSuite,
    GraphSuite,
    GrowthSuite,
    LoopSuite,
    MemorySuite,
    RateSuite,
    RecoverySuite,
    SharingSuite,
)
from deltamark.harness.suites.suite import Suite
from deltamark.harness.tables.growth import recorded_grades
from deltamark.harness.tables.lives import OUTCOMES
from deltamark.harness.tables.suites import SIDES, consistent_figures, paired

MEGABYTE = 1e6


def loops(records: Sequence[Record]) -> Section | None:
    def finding(rows: Sequence[Record]) -> str:
        times = [
            f"{brief(row.least('attached')).text} if they are attached to an index, and "
            f"{brief(row.least('scratch')).text} from scratch"
            for row in rows
        ]
        return f"The distances take {listed(times)}."

    text = "Distances over a random graph. The tables that make tables SUITE=loops prints."
    names = "distances", ("attached", "scratch")
    return _with_tables(records, LoopSuite, names, finding, Section("loops", "Loops", "", text, []))


def graphs(records: Sequence[Record]) -> Section | None:
    def finding(rows: Sequence[Record]) -> str:
        ratios = [f"{ratio(row.least('seconds_w1') / row.least('by_hand')).text} for the {row.row}" for row in rows]
        return f"The time of BiGJoin relative to that of a hand-written thread is {listed(ratios)}."

    text = "Motifs in graphs that do not change, and in graphs that do. The tables that make tables SUITE=graph prints."
    names = "static", ("seconds_w1", "by_hand")
    return _with_tables(records, GraphSuite, names, finding, Section("graphs", "Graphs", "", text, []))


def memory(records: Sequence[Record]) -> Section | None:
    def finding(rows: Sequence[Record]) -> str:
        sizes = [row.least("least_bytes") for row in rows]
        least, most = megabytes(min(sizes)).text, megabytes(max(sizes)).text
        return f"The least memory of {counted(len(sizes), 'cell')} is {least} MB to {most} MB."

    text = "The least limit of memory under which a cell passes. The table that make tables SUITE=memory prints."
    names = "least", ("least_bytes",)
    return _with_tables(records, MemorySuite, names, finding, Section("memory", "Least memory", "", text, []))


def growth(records: Sequence[Record]) -> Section | None:
    def finding(_: Sequence[Record]) -> str:
        grades = Counter(recorded_grades(records).values())
        parts = [f"{number} {'says' if number == 1 else 'say'} {grade}" for grade, number in grades.most_common()]
        return (
            f"Of {counted(grades.total(), 'certificate')}, {listed(parts)}." if parts else "There are 0 certificates."
        )

    text = (
        "The time of a change by the size of the base: an answer is maintained if the time hardly grows. The table "
        "that make tables SUITE=growth prints."
    )
    names = "certificates", ("rows",)
    return _with_tables(records, GrowthSuite, names, finding, Section("growth", "Growth", "", text, []))


def recovery(records: Sequence[Record]) -> Section | None:
    def finding(rows: Sequence[Record]) -> str:
        right = sum(row.least("outcome") >= OUTCOMES.index("right") for row in rows)
        return f"In {right} of {counted(len(rows), 'row')} of the table no change was lost or came twice."

    text = (
        "An engine is killed at random moments of a stream, and continues from its last snapshot. The table that make "
        "tables SUITE=recovery prints."
    )
    names = "kills", ("outcome",)
    return _with_tables(records, RecoverySuite, names, finding, Section("recovery", "Recovery", "", text, []))


def attachments(records: Sequence[Record]) -> Section | None:
    def finding(rows: Sequence[Record]) -> str:
        seconds = [row.least("seconds") for row in rows]
        fastest, slowest = (brief(end).text for end in (min(seconds), max(seconds)))
        return f"The first answers of {counted(len(rows), 'second query')} take {fastest} to {slowest}."

    text = (
        "A second query is opened beside the first one, over rows that are loaded. The table that make tables "
        "SUITE=attach prints."
    )
    names = "attached", ("seconds",)
    return _with_tables(records, AttachSuite, names, finding, Section("attach", "Attachment", "", text, []))


def _with_tables(
    records: Sequence[Record], suite: type[Suite], names: tuple[str, Collection[str]],
    finding: Callable[[Sequence[Record]], str], section: Section,
) -> Section | None:  # fmt: skip
    """Fill a section with the tables of a suite. names: a table and its figures, whose rows the finding is about."""
    tables = suite.tables(records)
    if not tables:
        return None
    rows = _measured(records, suite.NAME, *names)
    return replace(section, finding=finding(rows) if rows else _number_of(tables), body=_folded(tables))


def sharing(records: Sequence[Record]) -> Section | None:
    """Draw the cost of all queries in one engine, and the sum of their costs alone."""
    tables = SharingSuite.tables(records)
    if not tables:
        return None
    measured = _measured(records, SharingSuite.NAME, "loads", ())
    loads = list({row.cell: row for row in measured}.values())  # the last row of a cell has all queries
    text = (
        "All queries in one engine, and the sum over each of them alone: seconds for the whole stream, and megabytes "
        "of state at its end. The number is together / alone. The tables are those of make tables SUITE=shared."
    )
    with consistent_figures(SharingSuite.NAME):
        charts = list(_charts(loads))
        finding = _shared(loads) if loads else _number_of(tables)
    return Section("sharing", "Shared against unshared", finding, text, [*charts, *_folded(tables)])


def _shared(loads: Sequence[Record]) -> str:
    engines = dict.fromkeys(_batching_and_engine(row)[1] for row in loads)
    of_engine = {name: [row for row in loads if _batching_and_engine(row)[1] == name] for name in engines}
    parts = []
    for name, rows in of_engine.items():
        time, size = (ratio(geomean(map(number, rows))).text for number in (time_ratio, bytes_ratio))
        parts.append(f"{time} of the time and {size} of the state" + (f" with {name}" if len(engines) > 1 else ""))
    most = max(map(len, of_engine.values()))
    mean = f", in the geometric mean of {counted(most, 'load')}" if most > 1 else ""
    return f"All queries together take {listed(parts)} of each alone{mean}."


def _measured(records: Iterable[Record], suite: str, table: str, figures: Collection[str]) -> list[Record]:
    """Return the rows of a table of a suite that have some figures."""
    rows = latest(record for record in records if record.suite == suite)
    return [row for row in rows if row.table == table and row.status == "ok" and {*figures} <= row.figures.keys()]


def _number_of(tables: Sequence[Table]) -> str:
    return f"The suite has {counted(len(tables), 'table')}, without the numbers that are compared here."


def time_ratio(row: Record) -> float:
    """Return the ratio of the time of one dataflow to that of separate ones."""
    return paired(row.figures["together_seconds"], row.figures["alone_seconds"])


def bytes_ratio(row: Record) -> float:
    """Return the ratio of the state of one dataflow to the sum of separate ones."""
    together, alone = (max(row.least(f"{side}_bytes"), 1) for _, side in SIDES)  # a process may not have grown
    return together / alone


def _charts(loads: Sequence[Record]) -> list[Markup]:
    """Draw the time and the state of both sides."""
    if not loads:
        return []
    seconds = _sides(loads, "seconds", 1.0, time_ratio)
    size = _sides(loads, "bytes", MEGABYTE, bytes_ratio)
    axes = (
        Axis("seconds of the stream", Log.over(row.value for row in seconds), tick),
        Axis("state at its end", Log.over(row.value for row in size), lambda value: f"{value:g} MB"),
    )
    charts = [chart(rows, Axes(axis)) for rows, axis in zip((seconds, size), axes, strict=True)]
    return [legend(seconds), lists(charts)]


def _sides(loads: Iterable[Record], figure: str, unit: float, number: Callable[[Record], float]) -> list[Row]:
    return [
        Row(
            Frame(f"{load.dataset}, {load.row}", {}, ratio(number(load)).text), look(at), "solid", words, {},
            load.least(f"{side}_{figure}") / unit, _tooltip(load, side),
        )
        for load in loads for at, (words, side) in enumerate(SIDES)
    ]  # fmt: skip


def _tooltip(row: Record, side: str) -> Tooltip:
    seconds, size = row.least(f"{side}_seconds"), row.least(f"{side}_bytes")
    lines = (
        f"{brief(seconds).text} for the whole stream, the fastest of {len(row.figures[f'{side}_seconds'])} runs",
        f"state {megabytes(size).text} MB",
        "answers equal DuckDB's",
    )
    return Tooltip(f"{row.dataset}, {row.row}, {side}", lines, command(row))


def command(row: Record) -> str:
    """Return the command that measures a load again, in another directory: in the same one the load is done."""
    _, sf, *queries = row.dataset.split()
    (logical, physical), engine = _batching_and_engine(row)
    setting = f" QUERIES={','.join(queries)}" if queries else ""
    setting += f" ENGINES={engine}" if engine != DEFAULT_ENGINE else ""
    return f"make bench SUITE=shared SF={sf}{setting} LOGICAL={logical} PHYSICAL={physical} RESULTS=again"


def _batching_and_engine(row: Record) -> tuple[tuple[str, str], str]:
    """Return L and P of a load, and its engine. A row of older code has its batching alone."""
    logical, _, physical, *engine = row.row.split()
    return (logical, physical), " ".join(engine[:-1]) or DEFAULT_ENGINE


def _folded(tables: Iterable[Table]) -> list[Markup]:
    return [folded(table, lambda _: {}, unfolded=True) for table in tables]


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
        charts = _rates_charts(found) if found else []
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


def _rates_charts(found: Sequence[Curve]) -> list[Markup]:
    engines = list(dict.fromkeys(curve.engine for curve in found))
    rows = [row for curve in found for row in _rows(curve, engines.index(curve.engine))]
    axes = Axes(
        Axis("99th percentile of the latency", Log.over(row.value for row in rows), tick),
        Axis("rounds per second", Log.over(row.x for row in rows), short),
    )
    return [legend(replace(row, kind="solid") for row in rows), panels(chart(rows, axes))]


def _rows(curve: Curve, number: int) -> list[Row]:
    """Return the points of the sustained rates, and then those of the others."""
    kinds: tuple[Kind, ...] = ("solid", "hollow")
    return [
        Row(
            Frame(curve.title, {"query": curve.keys["query"]}), look(number), kind, curve.engine, curve.keys,
            trial.least("p99"), _rates_tooltip(curve, trial), trial.least("rate"), order=(number,),
        )
        for kind in kinds for trial in curve.trials if (kind == "solid") == bool(trial.least("sustained"))
    ]  # fmt: skip


def _rates_tooltip(curve: Curve, trial: Record) -> Tooltip:
    p50, p99, slowest = (brief(trial.least(name)).text for name in ("p50", "p99", "max"))
    lines = [
        f"{rate(trial.least('rate')).text} rounds: {trial.note or 'sustained'}",
        f"a round p50 {p50}, p99 {p99}, at most {slowest}",
        f"batches: {trial.least('batches'):,.0f} in {brief(trial.least('seconds')).text}",
    ]
    if "recovery" in trial.figures:
        lines.append(f"recovery from the largest burst in {brief(trial.least('recovery')).text}")
    return Tooltip(f"{curve.title}, {curve.engine}", tuple(lines), rates_command(curve))


def rates_command(curve: Curve) -> str:
    """Return the command that measures a curve again, in another directory: in the same one the cell is done."""
    query, *others = curve.stream.split()
    arrivals = [f"ARRIVALS={word}" for word in others if word.startswith("burst:")]
    works = [f"WORKLOAD={word}" for word in others if not word.startswith("burst:")]
    settings = [f"QUERY={query}", f"SF={curve.dataset.split()[1]}", *works, *arrivals, f"ENGINES={curve.engine}"]
    return " ".join(["make rate", *settings, "RESULTS=again"])
